// See accounts.hpp.
#include "storage/accounts.hpp"

#include <algorithm>

#include "schemas/time.hpp"

namespace parley::storage {
namespace {

using integer = long long;
using soci::into;
using soci::use;

// One row per account; the lists come as lines of text, so that no account costs statements of its
// own.
constexpr auto columns =
    "select u.user_key, u.id, u.name, u.display_name, u.picture, u.generation, u.last_seen, "
    "u.deleted_at,"
    " s.user is not null, s.until, s.reason,"
    " (select group_concat(r.jti, char(10)) from revocations r where r.user = u.user_key"
    "  and r.expires_at > :now)";
constexpr auto tables = " from users u left join user_suspensions s on s.user = u.user_key";

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t from = 0; from < text.size();) {
    const auto end = std::min(text.find('\n', from), text.size());
    out.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return out;
}

/// A JSON array of strings, as json_each wants it.
std::string json_array(const std::vector<std::string>& items) {
  std::string out = "[";
  for (const auto& item : items)
    out += (out.size() > 1 ? "," : "") + wire::quoted(item);
  return out + "]";
}

std::int64_t written(metrics& m, std::int64_t rows) {
  m.rows_written.add(rows);
  return rows;
}

}  // namespace

struct account_reader::statements {
  integer now = 0, key = 0, limit = 0;
  std::string text, id;

  integer generation = 0, suspended = 0;
  std::string name, display_name, picture;
  nullable<integer> last_seen, deleted_at, until;
  nullable<std::string> reason, revoked, hash, devices;
  std::string out_id;
  integer out_key = 0;

  statement one_by_key, one_by_id, one_by_name, many, some_profiles;

  explicit statements(connection& c)
      : one_by_key(c, std::string(columns) + tables + " where u.user_key = :key", use(now),
                   use(key), into(out_key), into(out_id), into(name), into(display_name),
                   into(picture), into(generation), into(last_seen.value, last_seen.is),
                   into(deleted_at.value, deleted_at.is), into(suspended),
                   into(until.value, until.is), into(reason.value, reason.is),
                   into(revoked.value, revoked.is)),
        one_by_id(c, std::string(columns) + tables + " where u.id = :id", use(now), use(id),
                  into(out_key), into(out_id), into(name), into(display_name), into(picture),
                  into(generation), into(last_seen.value, last_seen.is),
                  into(deleted_at.value, deleted_at.is), into(suspended),
                  into(until.value, until.is), into(reason.value, reason.is),
                  into(revoked.value, revoked.is)),
        one_by_name(c,
                    std::string(columns) +
                        ", c.password_hash, (select group_concat(d.device_hash, char(10))"
                        " from login_devices d where d.user = u.user_key)" +
                        tables + " left join credentials c on c.user = u.user_key" +
                        " where u.folded_name = :text and u.deleted_at is null",
                    use(now), use(text), into(out_key), into(out_id), into(name),
                    into(display_name), into(picture), into(generation),
                    into(last_seen.value, last_seen.is), into(deleted_at.value, deleted_at.is),
                    into(suspended), into(until.value, until.is), into(reason.value, reason.is),
                    into(revoked.value, revoked.is), into(hash.value, hash.is),
                    into(devices.value, devices.is)),
        many(c,
             std::string(columns) + tables +
                 " where :text = '' or instr(u.folded_name, :text) > 0 or u.id = :id"
                 " order by u.folded_name limit :limit",
             use(now), use(text), use(id), use(limit), into(out_key), into(out_id), into(name),
             into(display_name), into(picture), into(generation),
             into(last_seen.value, last_seen.is), into(deleted_at.value, deleted_at.is),
             into(suspended), into(until.value, until.is), into(reason.value, reason.is),
             into(revoked.value, revoked.is)),
        some_profiles(c,
                      "select u.user_key, u.id, u.name, u.display_name, u.picture, u.deleted_at"
                      " from json_each(:ids) i join users u on u.id = i.value order by i.key",
                      use(text), into(out_key), into(out_id), into(name), into(display_name),
                      into(picture), into(deleted_at.value, deleted_at.is)) {}

  profile who() const {
    return {user_key{out_key}, out_id, name, display_name, picture, deleted_at.get().has_value()};
  }
  account get() const {
    account a;
    a.who = who();
    a.generation = generation;
    a.suspended = suspended != 0 && until.get().value_or(now + 1) > now;
    if (a.suspended) {
      if (until.get()) a.suspended_until = *until.get();
      a.suspended_reason = reason.get().value_or("");
    }
    a.revoked = lines(revoked.get().value_or(""));
    if (last_seen.get()) a.last_seen = *last_seen.get();
    return a;
  }
};

account_reader::account_reader(connection& c) : st_(std::make_unique<statements>(c)) {}
account_reader::~account_reader() = default;

std::optional<account> account_reader::by_key(user_key key) {
  st_->now = system_now_ms();
  st_->key = raw(key);
  if (!st_->one_by_key.first()) return std::nullopt;
  return st_->get();
}

std::optional<account> account_reader::by_id(std::string_view id) {
  st_->now = system_now_ms();
  st_->id = id;
  if (!st_->one_by_id.first()) return std::nullopt;
  return st_->get();
}

std::optional<credentials> account_reader::by_name(std::string_view folded_name) {
  st_->now = system_now_ms();
  st_->text = folded_name;
  if (!st_->one_by_name.first()) return std::nullopt;
  return credentials{st_->get(), st_->hash.get().value_or(""),
                     lines(st_->devices.get().value_or(""))};
}

std::vector<account> account_reader::find(std::string_view folded, std::string_view id,
                                          std::int64_t limit) {
  st_->now = system_now_ms();
  st_->text = folded;
  st_->id = id;
  st_->limit = limit;
  std::vector<account> out;
  for (bool row = st_->many.execute(); row; row = st_->many.fetch())
    out.push_back(st_->get());
  return out;
}

std::vector<profile> account_reader::profiles(const std::vector<std::string>& ids) {
  st_->text = json_array(ids);
  std::vector<profile> out;
  for (bool row = st_->some_profiles.execute(); row; row = st_->some_profiles.fetch())
    out.push_back(st_->who());
  return out;
}

namespace {

/// One function per kind of change.
struct applier {
  connection& c;
  account_reader& accounts;
  metrics& m;

  result<account> present(user_key key) {
    if (auto a = accounts.by_key(key)) return std::move(*a);
    return fail(errc::not_found, "no such user");
  }

  result<account> operator()(const new_user& u) {
    std::string id = u.id, name = u.name, folded = u.folded_name, display = u.display_name,
                hash = u.password_hash, code = u.invitation;
    integer at = u.at, key = 0;
    statement insert(c,
                     "insert into users (id, name, folded_name, display_name, created_at)"
                     " values (:id, :name, :folded, :display, :at) on conflict do nothing"
                     " returning user_key",
                     use(id), use(name), use(folded), use(display), use(at), into(key));
    if (!insert.first()) {
      const bool same_id = accounts.by_id(u.id).has_value();
      return fail(errc::conflict, same_id ? "a user of this id exists" : "name is taken");
    }
    written(m, 1);
    if (!hash.empty()) {
      statement add(
          c, "insert into credentials (user, password_hash, changed_at) values (:k, :h, :at)",
          use(key), use(hash), use(at));
      written(m, add.change());
    }
    if (!code.empty()) {
      statement take(c,
                     "update invitations set used_by = :key, used_at = :at where code = :code"
                     " and room = 0 and used_by is null and expires_at > :at",
                     use(key), use(at), use(code));
      if (written(m, take.change()) != 1)
        return fail(errc::forbidden, "invitation is unknown, used or expired");
    }
    return present(user_key{key});
  }

  result<account> operator()(const update_profile& u) {
    nullable<std::string> display, picture;
    display = u.display_name;
    picture = u.picture;
    integer key = raw(u.user);
    statement st(
        c,
        "update users set display_name = ifnull(:d, display_name), picture = ifnull(:p, picture)"
        " where user_key = :key and deleted_at is null",
        use(display.value, display.is), use(picture.value, picture.is), use(key));
    if (written(m, st.change()) != 1) return fail(errc::not_found, "no such user");
    return present(u.user);
  }

  result<account> operator()(const set_password& p) {
    integer key = raw(p.user), more = p.end_sessions ? 1 : 0, at = system_now_ms();
    std::string hash = p.password_hash;
    statement user(c, "update users set generation = generation + :more where user_key = :key",
                   use(more), use(key));
    if (written(m, user.change()) != 1) return fail(errc::not_found, "no such user");
    statement st(
        c,
        "insert into credentials (user, password_hash, changed_at) values (:key, :hash, :at)"
        " on conflict (user) do update set password_hash = excluded.password_hash,"
        " changed_at = excluded.changed_at",
        use(key), use(hash), use(at));
    written(m, st.change());
    return present(p.user);
  }

  result<account> operator()(const revoke_token& t) {
    integer key = raw(t.user), until = t.expires_at;
    std::string jti = t.jti;
    statement st(
        c,
        "insert into revocations (user, jti, expires_at) values (:key, :jti, :until)"
        " on conflict (user, jti) do update set expires_at = max(expires_at, excluded.expires_at)",
        use(key), use(jti), use(until));
    written(m, st.change());
    return present(t.user);
  }

  result<account> operator()(const suspend_user& s) {
    integer key = raw(s.user), at = s.at;
    std::string reason = s.reason;
    nullable<integer> until;
    if (s.until) until = std::optional<integer>(*s.until);
    if (s.on) {
      statement st(
          c,
          "insert into user_suspensions (user, until, reason, at) values (:key, :until, :why, :at)"
          " on conflict (user) do update set until = excluded.until, reason = excluded.reason,"
          " at = excluded.at",
          use(key), use(until.value, until.is), use(reason), use(at));
      written(m, st.change());
    } else {
      statement st(c, "delete from user_suspensions where user = :key", use(key));
      written(m, st.change());
    }
    return present(s.user);
  }

  result<account> operator()(const touch_seen& t) {
    integer key = 0, at = 0;
    statement st(
        c, "update users set last_seen = :at where user_key = :key and ifnull(last_seen, 0) < :at",
        use(at), use(key));
    for (const auto& [user, when] : t.last_seen) {
      key = raw(user);
      at = when;
      written(m, st.change());
    }
    return account{};
  }

  result<account> operator()(const make_invitation& i) {
    std::string code = i.code;
    integer at = i.at, until = i.expires_at;
    statement st(c,
                 "insert into invitations (code, at, expires_at) values (:code, :at, :until)"
                 " on conflict (code) do nothing",
                 use(code), use(at), use(until));
    if (written(m, st.change()) != 1)
      return fail(errc::conflict, "an invitation of this code exists");
    return account{};
  }

  result<account> operator()(const remember_device& d) {
    integer key = raw(d.user), at = d.at;
    std::string hash = d.device_hash;
    statement st(c,
                 "insert into login_devices (user, device_hash, at) values (:key, :hash, :at)"
                 " on conflict (user, device_hash) do update set at = excluded.at",
                 use(key), use(hash), use(at));
    written(m, st.change());
    // The newest are enough: a device that was not seen for 50 others logs in as a new one.
    statement trim(c,
                   "delete from login_devices where user = :key and device_hash not in (select"
                   " device_hash from login_devices where user = :key order by at desc limit 50)",
                   use(key));
    written(m, trim.change());
    return present(d.user);
  }
};

}  // namespace

result<account> apply_account_change(connection& c, account_reader& accounts, metrics& m,
                                     const account_change& change) {
  return std::visit(applier{c, accounts, m}, change);
}

}  // namespace parley::storage
