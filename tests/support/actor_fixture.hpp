// Actors under CAF's deterministic coordinator: one thread, virtual time, no sleeps. The store is a
// real SQLite file in a temporary folder; relays only record what they are told. A test sends
// requests as a session would and looks at the frames that the session's client would see.
#pragma once
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/send.hpp>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sodium.h>

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "actors/accounts.hpp"
#include "actors/context.hpp"
#include "actors/directory.hpp"
#include "actors/gateway.hpp"
#include "actors/people.hpp"
#include "actors/session.hpp"

namespace parley::test {

using nlohmann::json;

/// The texts of the frames in a shared buffer of one or more whole frames.
inline std::vector<json> frames_of(const frame_ptr& bytes) {
  std::vector<json> out;
  if (!bytes) return out;
  const auto& b = *bytes;
  std::size_t at = 0;
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(b.at(i)); };
  while (at < b.size()) {
    std::size_t length = byte(at + 1) & 0x7f, head = 2;
    if (length == 126) {
      length = (byte(at + 2) << 8) | byte(at + 3);
      head = 4;
    } else if (length == 127) {
      length = 0;
      for (int i = 0; i < 8; ++i)
        length = (length << 8) | byte(at + 2 + static_cast<std::size_t>(i));
      head = 10;
    }
    out.push_back(json::parse(b.substr(at + head, length)));
    at += head + length;
  }
  return out;
}

/// Plays the relay's part of the contract (actors/ports.hpp) for every connection: what its client
/// receives, in order.
class recording_relay final : public relay {
 public:
  struct client {
    std::vector<json> got;  // every frame in order
    bool greeted = false;
    std::vector<json> held;                   // before the greeting
    std::map<std::string, std::string> mode;  // room -> passive, entering, active
    std::map<std::string, numbers> base;
    int closed = 0;
    std::int64_t answered = 0;
    user_key user{};
  };
  std::map<std::uint32_t, client> clients;  // by slot
  std::vector<std::function<void()>> drained;
  bool drain_at_once = true;
  std::size_t published = 0;

  void post(relay_op what) override {
    std::visit([this](auto& o) { on(o); }, what);
  }

 private:
  client& of(const connection_id& c) { return clients[c.slot]; }
  void give(client& c, const frame_ptr& f) {
    if (c.closed != 0) return;
    for (auto& x : frames_of(f))
      (c.greeted ? c.got : c.held).push_back(std::move(x));
  }
  void on(deliver& o) {
    auto& c = of(o.to);
    if (o.answers) ++c.answered;
    give(c, o.frame);
  }
  void on(greet& o) {
    auto& c = of(o.to);
    c.greeted = true;
    for (auto& x : frames_of(o.frame))
      c.got.push_back(std::move(x));
    for (auto& x : c.held)
      c.got.push_back(std::move(x));
    c.held.clear();
    ++c.answered;
  }
  void on(close_connection& o) {
    of(o.to).closed = o.code;
    if (o.done) o.done();
  }
  void on(watch& o) {
    auto& c = of(o.conn);
    c.user = o.user;
    c.mode[*o.room.id] = "passive";
    c.base[*o.room.id] = o.base;
  }
  void on(begin_enter& o) {
    auto& c = of(o.conn);
    c.mode[*o.room.id] = "entering";
    if (o.answer) ++c.answered;
    give(c, o.answer);
  }
  void on(replay_page& o) {
    give(of(o.conn), o.frames);
    if (drain_at_once)
      o.drained();
    else
      drained.push_back(std::move(o.drained));
  }
  void on(go_live& o) {
    auto& c = of(o.conn);
    c.user = o.user;
    c.mode[*o.room.id] = "active";
    give(c, o.tail);
  }
  void on(exit_room& o) {
    auto& c = of(o.conn);
    ++c.answered;
    give(c, o.answer);
    c.mode[*o.room.id] = "passive";
    c.base[*o.room.id] = o.base;
  }
  void on(leave_room& o) {
    auto& c = of(o.conn);
    for (auto& [id, key] : keys)
      if (key == o.room) c.mode.erase(id);
  }
  void on(publish& o) {
    ++published;
    const auto& p = *o.what;
    keys[*p.room.id] = p.room.key;
    for (auto& [slot, c] : clients) {
      auto m = c.mode.find(*p.room.id);
      if (m == c.mode.end()) continue;
      if (m->second == "active" && p.active && c.user != p.skip) {
        auto f = p.active;
        for (const auto& [user, frame] : p.variants)
          if (user == c.user) f = frame;
        give(c, f);
      } else if (m->second == "passive") {
        if (p.passive) give(c, p.passive);
        if (p.counts && c.user != p.sender) {
          ++c.base[*p.room.id].unread;
          c.base[*p.room.id].last_seq = p.seq;
        }
      }
    }
  }
  void on(set_numbers& o) {
    for (auto& [slot, c] : clients) {
      if (c.user != o.user) continue;
      for (auto& [id, key] : keys)
        if (key == o.room && c.mode[id] == "passive") c.base[id] = o.now;
    }
  }
  void on(drop_room& o) {
    for (auto& [id, key] : keys)
      if (key == o.room)
        for (auto& [slot, c] : clients)
          c.mode.erase(id);
  }

 public:
  std::map<std::string, room_key> keys;
};

/// Knows the tokens that a test gives it.
struct actors_test_checker final : token_checker {
  std::map<std::string, claims> known;
  result<claims> check(std::string_view token) const override {
    auto at = known.find(std::string(token));
    if (at == known.end()) return fail(errc::unauthenticated, "token: unknown");
    return at->second;
  }
};

class actors_test : public ::testing::Test {
 protected:
  struct system_config : caf::actor_system_config {
    system_config() {
      set("scheduler.policy", caf::atom("testing"));
      set("logger.verbosity", caf::atom("quiet"));
    }
  };

  void SetUp() override {
    ASSERT_GE(sodium_init(), 0);
    data_ = std::filesystem::temp_directory_path() / ("parley-actors-" + make_id("t_"));
    std::filesystem::create_directories(data_);
    settings_ = std::make_shared<config>();
    settings_->storage.data = data_.string();
    settings_->storage.durability = "relaxed";
    settings_->limits.messages_per_s = 1'000'000;
    settings_->limits.messages_burst = 1'000'000;
    settings_->accounts.hash_memory_kib = 8192;
    settings_->accounts.hash_passes = 1;
    configure(*settings_);
    start();
  }
  /// A test's own settings, before anything starts.
  virtual void configure(config&) {}

  void start() {
    system_ = std::make_unique<caf::actor_system>(cfg_);
    sched_ = dynamic_cast<caf::scheduler::test_coordinator*>(&system_->scheduler());
    ctx_ = std::make_shared<context>(metrics_);
    ctx_->relays = {&relay_};
    ctx_->tokens = &tokens_;
    ctx_->now = [this] { return wall_; };
    ctx_->set_settings(settings_);
    ctx_->gate->bound = settings_->limits.writer_queue;
    auto opened = storage::open_writer(*settings_, metrics_);
    ASSERT_TRUE(opened) << opened.error().message;
    ctx_->epoch = opened->epoch;
    lock_ = opened->lock;
    ctx_->writer = spawn_writer(*system_, ctx_->meters, std::move(opened->writer), ctx_->gate,
                                metrics_, false);
    auto settings = settings_;
    auto open = [settings, this] { return storage::open_reader(*settings, metrics_); };
    std::vector<reader_actor> readers{spawn_reader(*system_, ctx_->meters, open, 0, false)};
    ctx_->readers =
        std::make_unique<reader_pool>(std::move(readers), settings_->limits.reader_queue,
                                      std::chrono::milliseconds(5000), metrics_);
    ctx_->hashers.push_back(spawn_hasher(*system_, ctx_, 0, false));
    ctx_->people.push_back(spawn_people(*system_, ctx_, 0));
    ctx_->accounts = spawn_accounts(*system_, ctx_);
    ctx_->directory = spawn_directory(*system_, ctx_);
    gateway_ = spawn_gateway(*system_, ctx_, 0);
    run();
  }

  /// Ends everything without a word, as a crash would, and starts anew on the same store.
  void restart() {
    stop();
    relay_.clients.clear();
    relay_.keys.clear();
    sessions_.clear();
    start();
  }

  void stop() {
    if (!system_) return;
    for (auto& s : ctx_->sessions.all())
      caf::anon_send_exit(s->actor, caf::exit_reason::kill);
    sessions_.clear();
    caf::anon_send_exit(gateway_, caf::exit_reason::kill);
    caf::anon_send_exit(ctx_->directory, caf::exit_reason::kill);
    for (auto& p : ctx_->people)
      caf::anon_send_exit(p, caf::exit_reason::kill);
    caf::anon_send_exit(ctx_->accounts, caf::exit_reason::kill);
    for (auto& h : ctx_->hashers)
      caf::anon_send_exit(h, caf::exit_reason::kill);
    for (auto& s : ctx_->readers->slots())
      caf::anon_send_exit(s->actor, caf::exit_reason::kill);
    caf::anon_send_exit(ctx_->writer, caf::exit_reason::kill);
    run();
    gateway_ = nullptr;
    ctx_->people.clear();
    ctx_->hashers.clear();
    ctx_->directory = nullptr;
    ctx_->accounts = nullptr;
    ctx_->writer = nullptr;
    ctx_->readers.reset();
    sched_->clock().cancel_all();
    run();
    system_.reset();
    ctx_.reset();
    lock_.reset();
  }

  void TearDown() override {
    stop();
    std::filesystem::remove_all(data_);
  }

  // ---- time
  void run() {
    while (sched_->try_run_once()) {
    }
  }
  /// One message of one actor; false where nothing is left to do.
  bool step() { return sched_->try_run_once(); }
  void advance(std::chrono::milliseconds by) {
    constexpr std::chrono::milliseconds slice{10};
    for (auto left = by; left.count() > 0; left -= slice) {
      auto now = std::min(left, slice);
      wall_ += now.count();
      sched_->advance_time(now);
      run();
    }
  }

  // ---- people and sessions
  struct person {
    std::string id;
    std::uint32_t slot = 0;
  };

  void add_user(const std::string& id) {
    account_answer got;
    bool done = false;
    account(admin_add_user{id, id, id, ""},
            [&](result<account_answer> a) { done = static_cast<bool>(a); });
    ASSERT_TRUE(done) << id;
  }
  void account(account_request r, account_fn then) {
    caf::anon_send(ctx_->accounts, account_op{std::make_shared<account_request>(std::move(r)),
                                              std::make_shared<account_fn>(std::move(then))});
    run();
  }
  claims token(const std::string& user, const std::string& jti = "j") {
    claims c;
    c.user = user;
    c.jti = jti;
    c.generation = 1;
    c.expires_at = wall_ + 3'600'000;
    return c;
  }
  /// A connection that says hello; its client's frames are in client(slot).
  person connect(const std::string& user, wire::hello hello = {}, std::optional<claims> c = {}) {
    auto slot = next_slot_++;
    auto card = std::make_shared<session_card>();
    card->session = "s_" + std::to_string(slot);
    auto handle = spawn_session(*system_, ctx_, connection_id{0, slot, 1}, card);
    sessions_[slot] = handle;
    caf::anon_send(handle->actor,
                   begin_session{"0", std::make_shared<wire::hello>(std::move(hello)),
                                 c.value_or(token(user))});
    run();
    return {user, slot};
  }
  void disconnect(const person& p) {
    caf::anon_send(sessions_.at(p.slot)->actor, socket_gone{});
    sessions_.erase(p.slot);
    relay_.clients[p.slot].mode.clear();
    run();
  }
  recording_relay::client& client(const person& p) { return relay_.clients[p.slot]; }

  /// Posts a request without letting anybody run; the id of its answer.
  int post(const person& p, wire::request r) {
    auto id = ++last_id_;
    caf::anon_send(sessions_.at(p.slot)->actor,
                   session_op{std::to_string(id), std::make_shared<wire::request>(std::move(r)),
                              steady_ns(), steady_ns()});
    return id;
  }
  /// The answer to a request, once everybody has run.
  json ask(const person& p, wire::request r) {
    auto id = post(p, std::move(r));
    run();
    return answer(p, id);
  }
  json answer(const person& p, int id) {
    for (auto& f : client(p).got)
      if (f.contains("re") && f["re"] == id) return f;
    return nullptr;
  }
  json send_text(const person& p, const std::string& room, const std::string& text,
                 std::string nonce = "") {
    return ask(p, message(room, text, std::move(nonce)));
  }
  wire::message_send message(const std::string& room, const std::string& text,
                             std::string nonce = "") {
    wire::message_send m;
    m.room = room;
    m.text = text;
    m.nonce = nonce.empty() ? "n" + std::to_string(++last_nonce_) : nonce;
    return m;
  }
  std::string make_room(const person& p, std::vector<std::string> members = {},
                        room_kind kind = room_kind::public_room) {
    wire::room_create c;
    c.name = "room";
    c.kind = kind;
    c.members = std::move(members);
    auto a = ask(p, c);
    EXPECT_TRUE(a.value("ok", false)) << a.dump();
    return a.value("room", "");
  }
  json enter(const person& p, const std::string& room, std::optional<seq_no> after = {},
             std::optional<std::string> epoch = {}) {
    wire::room_enter e;
    e.room = room;
    e.after_seq = after;
    e.epoch = std::move(epoch);
    return ask(p, e);
  }
  std::vector<json> events(const person& p, const std::string& ev) {
    std::vector<json> out;
    for (auto& f : client(p).got)
      if (f.value("ev", "") == ev) out.push_back(f);
    return out;
  }
  /// The seqs of a room's events as the client got them, in order.
  std::vector<seq_no> seqs(const person& p, const std::string& room, std::size_t from = 0) {
    std::vector<seq_no> out;
    auto& got = client(p).got;
    for (std::size_t i = from; i < got.size(); ++i)
      if (got[i].contains("ev") && got[i].value("room", "") == room && got[i].contains("seq"))
        out.push_back(got[i]["seq"].get<seq_no>());
    return out;
  }
  bool passivate(const std::string& room) {
    bool yes = false;
    caf::anon_send(ctx_->directory, admin_passivate{room, std::make_shared<reply_fn>([&](reply r) {
                                                      yes = r.what.fields == "\"passivated\":true";
                                                    })});
    run();
    advance(std::chrono::milliseconds(500));
    return yes;
  }

  metrics metrics_;
  recording_relay relay_;
  actors_test_checker tokens_;
  std::shared_ptr<config> settings_;
  std::filesystem::path data_;
  system_config cfg_;
  std::unique_ptr<caf::actor_system> system_;
  caf::scheduler::test_coordinator* sched_ = nullptr;
  context_ptr ctx_;
  gateway_actor gateway_;
  std::shared_ptr<void> lock_;
  std::map<std::uint32_t, session_ref> sessions_;
  unix_ms wall_ = system_now_ms();  // the store forgets what has expired by its own clock
  std::uint32_t next_slot_ = 1;
  int last_id_ = 0, last_nonce_ = 0;
};

}  // namespace parley::test
