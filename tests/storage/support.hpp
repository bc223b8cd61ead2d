// What the storage tests share: a temporary folder, a store in it, people, and a room that decides
// numbers as the room actor does. Knows the store only by store.hpp; raw SQL is for looking from
// outside and for doing damage.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "storage/store.hpp"

namespace parley::storage::test {

class temp_folder {
 public:
  temp_folder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "parley-storage-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path = pattern;
  }
  ~temp_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  temp_folder(const temp_folder&) = delete;
  temp_folder& operator=(const temp_folder&) = delete;
  std::string path;
};

/// Executes SQL from outside the store; the first column of each row.
inline std::vector<std::string> sql(const std::string& path, const std::string& text) {
  sqlite3* db = nullptr;
  std::vector<std::string> out;
  char* error = nullptr;
  int rc = sqlite3_open(path.c_str(), &db);
  if (rc == SQLITE_OK) sqlite3_busy_timeout(db, 5000);
  if (rc == SQLITE_OK)
    rc = sqlite3_exec(
        db, text.c_str(),
        [](void* to, int n, char** values, char**) {
          static_cast<std::vector<std::string>*>(to)->emplace_back(
              n > 0 && values[0] != nullptr ? values[0] : "");
          return 0;
        },
        &out, &error);
  const std::string why = error != nullptr ? error : "";
  sqlite3_free(error);
  sqlite3_close(db);
  if (rc != SQLITE_OK) throw std::runtime_error(text + ": " + why);
  return out;
}
inline std::int64_t number(const std::string& path, const std::string& text) {
  const auto rows = sql(path, text);
  return rows.empty() || rows[0].empty() ? 0 : std::stoll(rows[0]);
}

/// A value, or the test's end with the failure's text.
template <class T> T must(result<T> r) {
  if (!r) throw std::runtime_error("unexpected failure: " + r.error().message);
  return std::move(*r);
}

struct sqlite_backend {
  temp_folder folder;
  config c;
  sqlite_backend() { c.storage.data = folder.path; }
  std::string path() const { return folder.path + "/parley.db"; }
  std::vector<std::string> query(const std::string& text) const { return sql(path(), text); }
};

/// A room's numbers, as the room actor decides them.
struct model_room {
  room_key key{};
  std::string id;
  std::int64_t term = 1;
  seq_no head = 0;
  std::int64_t n = 0;
  std::map<user_key, std::int64_t> own;
  unix_ms now = 1'700'000'000'000;

  room_share share() const { return {key, term, head, {}}; }

  change message(user_key who, const std::string& nonce, const std::string& text = "text") {
    append_message a;
    a.seq = ++head;
    a.n = ++n;
    a.own_n = ++own[who];
    a.at = ++now;
    a.sender = who;
    a.nonce = nonce;
    a.request_hash = "hash of " + text;
    a.text = text;
    return {a, {}};
  }
  change member(event_kind kind, user_key who, user_key by, membership after, role r = role::member,
                const std::string& role_name = "", const std::string& reason = "") {
    append_member a;
    a.seq = ++head;
    a.at = ++now;
    a.kind = kind;
    a.user = who;
    a.by = by;
    a.state = after;
    a.r = r;
    a.role_name = role_name;
    a.reason = reason;
    a.head_n = n;
    return {a, {}};
  }
  change join(user_key who) {
    return member(event_kind::member_joined, who, who, membership::joined);
  }
  change leave(user_key who) { return member(event_kind::member_left, who, who, membership::left); }
  change rename(user_key by, const std::string& name) {
    append_room_change a;
    a.seq = ++head;
    a.at = ++now;
    a.by = by;
    a.settings.name = name;
    return {a, {}};
  }
};

inline change read(user_key who, seq_no seq, bool backward = false) {
  return {set_read{who, seq, backward}, {}};
}
inline change find(user_key who, const std::string& nonce) { return {find_nonce{who, nonce}, {}}; }
inline change with_nonce(change c, user_key who, const std::string& nonce,
                         const std::string& hash = "h") {
  c.nonce = op_nonce{who, nonce, hash};
  return c;
}

/// The suite's fixture: a store of one backend, its writer and a reader.
template <class Backend> class store_fixture : public ::testing::Test {
 public:
  void SetUp() override { open(); }

  void open() {
    o = must(open_writer(b.c, m));
    r = must(open_reader(b.c, m));
  }
  void close() {
    r = nullptr;
    o = {};
  }
  void reopen() {
    close();
    open();
  }

  user_key user(const std::string& name, const std::string& hash = "") {
    new_user u;
    u.id = "u_" + name;
    u.name = u.folded_name = u.display_name = name;
    u.password_hash = hash;
    u.at = 1;
    return must(o.writer->apply(u)).who.key;
  }

  change creation(const std::string& id, std::vector<user_key> members,
                  room_kind kind = room_kind::public_room, const std::string& nonce = "") {
    create_room a;
    a.id = id;
    a.name = kind == room_kind::direct ? "" : "Room " + id;
    a.kind = kind;
    a.creator = members.front();
    a.members = std::move(members);
    a.at = 1'700'000'000'000;
    a.nonce = nonce;
    return {a, {}};
  }
  change_result create(const change& c) { return commit({room_key{}, 1, 0, {c}}).at(0); }
  model_room room(const std::string& id, std::vector<user_key> members,
                  room_kind kind = room_kind::public_room) {
    model_room out;
    out.head = static_cast<seq_no>(members.size());
    const auto made = create(creation(id, std::move(members), kind));
    EXPECT_EQ(made.what, outcome::committed) << made.why.message;
    out.key = made.room;
    out.id = id;
    return out;
  }

  std::vector<change_result> commit(const room_share& share) {
    return o.writer->commit({share}).at(0).results;
  }
  /// Builds a share of the room's next changes: `make` appends to it.
  template <class F> std::vector<change_result> propose(model_room& room, F&& make) {
    auto share = room.share();
    make(share.changes);
    return commit(share);
  }
  void say(model_room& room, user_key who, const std::string& nonce,
           const std::string& text = "text") {
    auto share = room.share();
    share.changes.push_back(room.message(who, nonce, text));
    const auto done = commit(share);
    ASSERT_EQ(done.at(0).what, outcome::committed) << done[0].why.message;
  }
  room_summary summary(user_key who, room_key room) {
    for (const auto& s : must(r->room_list(who, "", 1000)).rooms)
      if (s.key == room) return s;
    throw std::runtime_error("the room is not in the list");
  }
  std::vector<std::string> findings() { return must(check_store(b.c)); }

  Backend b;
  metrics m;
  opened o;
  std::unique_ptr<reader_store> r;
};

inline std::vector<outcome> outcomes(const std::vector<change_result>& results) {
  std::vector<outcome> out;
  for (const auto& r : results)
    out.push_back(r.what);
  return out;
}

}  // namespace parley::storage::test
