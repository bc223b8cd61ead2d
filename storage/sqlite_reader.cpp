// See sqlite_reader.hpp. Every function is one snapshot: where it needs several statements they
// stand in one read transaction, which is closed again before the function returns, so that no
// reader holds the WAL.
#include "storage/sqlite_reader.hpp"

#include <algorithm>
#include <charconv>

#include "schemas/text.hpp"
#include "schemas/time.hpp"
#include "storage/accounts.hpp"
#include "storage/sql.hpp"

namespace parley::storage {
namespace {

using integer = long long;
using soci::into;
using soci::use;

// Answers stay below 128 KiB (protocol.md 3): pages end before this much JSON.
constexpr std::int64_t page_bytes = 120 * 1024;

/// About what a message takes in JSON: its text with escapes, and ids, numbers and names around it.
std::int64_t json_size(const std::string& text) {
  std::int64_t size = 400;
  for (const unsigned char c : text)
    size += c < 0x20 ? 6 : (c == '"' || c == '\\') ? 2 : 1;
  return size;
}

// ---- statements

constexpr auto room_sql =
    "select r.room_key, r.id, r.name, r.topic, r.kind, r.history, r.slow_mode_s, r.retention_days,"
    " r.head_seq, r.head_n, r.term, r.last_at, l.seq, l.sender, u.id, substr(l.text, 1, 100), l.at"
    " from rooms r left join messages l on l.room = r.room_key and l.seq = (select x.seq from "
    "messages x"
    "  where x.room = r.room_key and x.deleted = 0 order by x.seq desc limit 1)"
    " left join users u on u.user_key = l.sender where r.id = :id and r.deleted_at is null";

// Those who left are loaded where they have written: should they come back, their own count goes
// on.
constexpr auto members_sql =
    "select m.user, u.id, u.name, u.display_name, u.picture, u.deleted_at, m.role, m.state, "
    "m.joined_seq,"
    " m.joined_at, m.read_seq, m.read_n, m.read_own, m.own_n, m.muted_until, m.level, m.pinned, "
    "m.position"
    " from room_members m join users u on u.user_key = m.user where m.room = :room"
    " and (m.state <> 0 or m.own_n > 0) order by m.joined_at, m.joined_seq, m.user";

constexpr auto head_sql = "select head_seq from rooms where room_key = :room";

constexpr auto message_columns =
    "select m.seq, m.n, m.at, m.sender, u.id, m.text, m.edited_at, m.deleted, m.reply_to, m.nonce"
    " from messages m left join users u on u.user_key = m.sender where m.room = :room";

constexpr auto events_sql =
    "select e.seq, e.kind, e.sender, su.id, e.target, e.at,"
    " json_extract(e.body, '$.role'), json_extract(e.body, '$.reason'),"
    " json_extract(e.body, '$.name'), json_extract(e.body, '$.topic'), json_extract(e.body, "
    "'$.slow_mode_s'),"
    " json_extract(e.body, '$.retention_days'), json_extract(e.body, '$.history'),"
    " tu.user_key, tu.id, tu.name, tu.display_name, tu.picture, tu.deleted_at,"
    " m.seq, m.n, m.at, m.sender, mu.id, m.text, m.edited_at, m.deleted, m.reply_to, m.nonce"
    " from events e"
    " left join users su on su.user_key = e.sender"
    " left join users tu on tu.user_key = case when e.kind between 10 and 12 then e.target end"
    " left join messages m on m.room = e.room"
    "  and m.seq = case when e.kind = 1 then e.seq when e.kind between 2 and 7 then e.target end"
    " left join users mu on mu.user_key = m.sender"
    " where e.room = :room and e.seq > :after order by e.seq limit :limit";

// The page is chosen first, so that the counters are computed for its rooms alone. Unread is what
// design.md 2 says: ordinals after the mark, less deleted ones of others, less the member's own. A
// preview from before a join stays hidden where the room's history begins with it.
constexpr auto list_sql =
    "select p.room_key, p.id, p.name, p.topic, p.kind, p.history, p.head_seq, p.members, p.last_at,"
    " p.role, p.state, p.read_seq, p.muted_until, p.level, p.pinned, p.position,"
    " p.head_n - p.read_n - (p.own_n - p.read_own) - (select count(*) from messages d"
    "  where d.room = p.room_key and d.n > p.read_n and d.deleted = 1 and d.sender <> p.user),"
    " (select count(*) from message_mentions mm where mm.room = p.room_key and mm.user = p.user"
    "  and mm.seq > p.read_seq),"
    " l.seq, l.sender, u.id, substr(l.text, 1, 100), l.at"
    " from (select r.*, m.user, m.role, m.state, m.joined_seq, m.read_seq, m.read_n, m.read_own, "
    "m.own_n,"
    "  m.muted_until, m.level, m.pinned, m.position"
    "  from room_members m join rooms r on r.room_key = m.room"
    "  where m.user = :user and m.state = 2 and r.deleted_at is null"
    "  and (r.last_at < :at or (r.last_at = :at and r.room_key < :key))"
    "  order by r.last_at desc, r.room_key desc limit :limit) p"
    " left join messages l on l.room = p.room_key and l.seq = (select x.seq from messages x"
    "  where x.room = p.room_key and x.deleted = 0 and (p.history = 1 or x.seq >= p.joined_seq)"
    "  order by x.seq desc limit 1)"
    " left join users u on u.user_key = l.sender order by p.last_at desc, p.room_key desc";

constexpr auto rooms_of_sql =
    "select m.room, r.id from room_members m join rooms r on r.room_key = m.room"
    " where m.user = :user and m.state = 2 and r.deleted_at is null order by r.last_at desc, "
    "m.room desc";

// ---- rows

/// A message's columns, of a plain read or of an event that concerns one.
struct message_vars {
  nullable<integer> seq, n, at, sender, edited_at, deleted, reply_to;
  nullable<std::string> sender_id, text, nonce;

  message get() const {
    message m;
    m.seq = seq.get().value_or(0);
    m.n = n.get().value_or(0);
    m.at = at.get().value_or(0);
    m.sender = user_key{sender.get().value_or(0)};
    m.sender_id = sender_id.get().value_or("");
    m.deleted = deleted.get().value_or(0) != 0;
    if (!m.deleted) m.text = text.get().value_or("");
    if (edited_at.get()) m.edited_at = *edited_at.get();
    if (reply_to.get()) m.reply_to = *reply_to.get();
    m.nonce = nonce.get().value_or("");
    return m;
  }
};

struct last_vars {
  nullable<integer> seq, sender, at;
  nullable<std::string> sender_id, text;

  std::optional<last_message> get() const {
    if (!seq.get()) return std::nullopt;
    return last_message{*seq.get(), user_key{sender.get().value_or(0)},
                        sender_id.get().value_or(""), text.get().value_or(""),
                        at.get().value_or(0)};
  }
};

/// A cursor is the last row's place in the order, in hexadecimal, so that nobody takes it for
/// something to compute with.
std::string make_cursor(unix_ms at, room_key key) {
  std::string out;
  for (const char c : std::to_string(at) + ":" + std::to_string(raw(key))) {
    constexpr auto digits = "0123456789abcdef";
    out.push_back(digits[static_cast<unsigned char>(c) >> 4]);
    out.push_back(digits[static_cast<unsigned char>(c) & 15]);
  }
  return out;
}

bool read_cursor(std::string_view text, integer& at, integer& key) {
  std::string plain;
  if (text.size() % 2 != 0 || text.size() > 128) return false;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    unsigned value = 0;
    const auto* end = text.data() + i + 2;
    if (std::from_chars(text.data() + i, end, value, 16).ptr != end) return false;
    plain.push_back(static_cast<char>(value));
  }
  const auto colon = plain.find(':');
  if (colon == plain.npos) return false;
  const auto whole = [](const char* from, const char* to, integer& value) {
    const auto [end, error] = std::from_chars(from, to, value);
    return error == std::errc{} && end == to;
  };
  return whole(plain.data(), plain.data() + colon, at) &&
         whole(plain.data() + colon + 1, plain.data() + plain.size(), key);
}

struct session {
  connection c;
  // Inputs.
  integer room = 0, user = 0, seq = 0, after = 0, before = 0, first = 0, limit = 0, at = 0, key = 0;
  std::string id;
  // Outputs.
  integer head = 0;
  message_vars msg;
  last_vars last;
  room_row r;
  integer r_key = 0, r_kind = 0, r_history = 0, r_slow = 0, r_retention = 0, r_head = 0,
          r_head_n = 0, r_term = 0, r_last_at = 0;
  integer m_user = 0, m_role = 0, m_state = 0, m_joined_seq = 0, m_joined_at = 0, m_read_seq = 0,
          m_read_n = 0, m_read_own = 0, m_own_n = 0, m_level = 0, m_pinned = 0, m_position = 0;
  integer s_members = 0, s_unread = 0, s_mentions = 0;
  nullable<integer> m_muted, m_deleted;
  std::string m_id, m_name, m_display, m_picture;
  integer e_seq = 0, e_kind = 0, e_sender = 0, e_target = 0, e_at = 0;
  nullable<std::string> e_sender_id, e_role, e_reason, e_name, e_topic, e_history;
  nullable<integer> e_slow, e_retention, t_key, t_deleted;
  nullable<std::string> t_id, t_name, t_display, t_picture;

  statement begin, end, room_by_id, members, head_of, newest, older, newer, events, list, rooms_of;
  account_reader accounts;

  session(const std::string& path, metrics& m)
      : c(path, connection::mode::query_only, &m), begin(c, "begin"), end(c, "commit"),
        room_by_id(c, room_sql, use(id), into(r_key), into(r.id), into(r.name), into(r.topic),
                   into(r_kind), into(r_history), into(r_slow), into(r_retention), into(r_head),
                   into(r_head_n), into(r_term), into(r_last_at), into(last.seq.value, last.seq.is),
                   into(last.sender.value, last.sender.is),
                   into(last.sender_id.value, last.sender_id.is),
                   into(last.text.value, last.text.is), into(last.at.value, last.at.is)),
        members(c, members_sql, use(room), into(m_user), into(m_id), into(m_name), into(m_display),
                into(m_picture), into(m_deleted.value, m_deleted.is), into(m_role), into(m_state),
                into(m_joined_seq), into(m_joined_at), into(m_read_seq), into(m_read_n),
                into(m_read_own), into(m_own_n), into(m_muted.value, m_muted.is), into(m_level),
                into(m_pinned), into(m_position)),
        head_of(c, head_sql, use(room), into(head)),
        newest(c,
               std::string(message_columns) +
                   " and m.seq >= :first order by m.seq desc limit :limit",
               use(room), use(first), use(limit), into(msg.seq.value, msg.seq.is),
               into(msg.n.value, msg.n.is), into(msg.at.value, msg.at.is),
               into(msg.sender.value, msg.sender.is), into(msg.sender_id.value, msg.sender_id.is),
               into(msg.text.value, msg.text.is), into(msg.edited_at.value, msg.edited_at.is),
               into(msg.deleted.value, msg.deleted.is), into(msg.reply_to.value, msg.reply_to.is),
               into(msg.nonce.value, msg.nonce.is)),
        older(c,
              std::string(message_columns) +
                  " and m.seq >= :first and m.seq < :before order by m.seq desc limit :limit",
              use(room), use(first), use(before), use(limit), into(msg.seq.value, msg.seq.is),
              into(msg.n.value, msg.n.is), into(msg.at.value, msg.at.is),
              into(msg.sender.value, msg.sender.is), into(msg.sender_id.value, msg.sender_id.is),
              into(msg.text.value, msg.text.is), into(msg.edited_at.value, msg.edited_at.is),
              into(msg.deleted.value, msg.deleted.is), into(msg.reply_to.value, msg.reply_to.is),
              into(msg.nonce.value, msg.nonce.is)),
        newer(c,
              std::string(message_columns) +
                  " and m.seq >= :first and m.seq > :after order by m.seq limit :limit",
              use(room), use(first), use(after), use(limit), into(msg.seq.value, msg.seq.is),
              into(msg.n.value, msg.n.is), into(msg.at.value, msg.at.is),
              into(msg.sender.value, msg.sender.is), into(msg.sender_id.value, msg.sender_id.is),
              into(msg.text.value, msg.text.is), into(msg.edited_at.value, msg.edited_at.is),
              into(msg.deleted.value, msg.deleted.is), into(msg.reply_to.value, msg.reply_to.is),
              into(msg.nonce.value, msg.nonce.is)),
        events(c, events_sql, use(room), use(after), use(limit), into(e_seq), into(e_kind),
               into(e_sender), into(e_sender_id.value, e_sender_id.is), into(e_target), into(e_at),
               into(e_role.value, e_role.is), into(e_reason.value, e_reason.is),
               into(e_name.value, e_name.is), into(e_topic.value, e_topic.is),
               into(e_slow.value, e_slow.is), into(e_retention.value, e_retention.is),
               into(e_history.value, e_history.is), into(t_key.value, t_key.is),
               into(t_id.value, t_id.is), into(t_name.value, t_name.is),
               into(t_display.value, t_display.is), into(t_picture.value, t_picture.is),
               into(t_deleted.value, t_deleted.is), into(msg.seq.value, msg.seq.is),
               into(msg.n.value, msg.n.is), into(msg.at.value, msg.at.is),
               into(msg.sender.value, msg.sender.is), into(msg.sender_id.value, msg.sender_id.is),
               into(msg.text.value, msg.text.is), into(msg.edited_at.value, msg.edited_at.is),
               into(msg.deleted.value, msg.deleted.is), into(msg.reply_to.value, msg.reply_to.is),
               into(msg.nonce.value, msg.nonce.is)),
        list(c, list_sql, use(user), use(at), use(key), use(limit), into(r_key), into(r.id),
             into(r.name), into(r.topic), into(r_kind), into(r_history), into(r_head),
             into(s_members), into(r_last_at), into(m_role), into(m_state), into(m_read_seq),
             into(m_muted.value, m_muted.is), into(m_level), into(m_pinned), into(m_position),
             into(s_unread), into(s_mentions), into(last.seq.value, last.seq.is),
             into(last.sender.value, last.sender.is), into(last.sender_id.value, last.sender_id.is),
             into(last.text.value, last.text.is), into(last.at.value, last.at.is)),
        rooms_of(c, rooms_of_sql, use(user), into(r_key), into(r.id)), accounts(c) {}

  member_row member() const {
    member_row m;
    m.who = {user_key{m_user}, m_id, m_name, m_display, m_picture, m_deleted.get().has_value()};
    m.r = static_cast<role>(m_role);
    m.state = static_cast<membership>(m_state);
    m.joined_seq = m_joined_seq;
    m.joined_at = m_joined_at;
    m.read_seq = m_read_seq;
    m.read_n = m_read_n;
    m.read_own = m_read_own;
    m.own_n = m_own_n;
    if (m_muted.get()) m.muted_until = *m_muted.get();
    m.level = static_cast<notify_level>(m_level);
    m.pinned = m_pinned != 0;
    m.order = m_position;
    return m;
  }

  room_row room_out() const {
    room_row out = r;
    out.key = room_key{r_key};
    out.kind = static_cast<room_kind>(r_kind);
    out.history = static_cast<history_policy>(r_history);
    out.slow_mode_s = r_slow;
    out.retention_days = r_retention;
    out.head_seq = r_head;
    out.head_n = r_head_n;
    out.term = r_term;
    out.last_at = r_last_at;
    out.last = last.get();
    return out;
  }

  room_summary summary() const {
    room_summary s;
    s.key = room_key{r_key};
    s.id = r.id;
    s.name = r.name;
    s.topic = r.topic;
    s.kind = static_cast<room_kind>(r_kind);
    s.history = static_cast<history_policy>(r_history);
    s.last_seq = r_head;
    s.members = s_members;
    s.last = last.get();
    s.unread = s_unread;
    s.mentions = s_mentions;
    s.read_seq = m_read_seq;
    s.my_role = static_cast<role>(m_role);
    s.my_membership = static_cast<membership>(m_state);
    if (m_muted.get()) s.muted_until = *m_muted.get();
    s.level = static_cast<notify_level>(m_level);
    s.pinned = m_pinned != 0;
    s.order = m_position;
    s.last_at = r_last_at;
    return s;
  }

  event event_out() const {
    event e;
    e.seq = e_seq;
    e.kind = static_cast<event_kind>(e_kind);
    e.at = e_at;
    e.sender = user_key{e_sender};
    e.sender_id = e_sender_id.get().value_or("");
    if (msg.seq.get()) e.msg = msg.get();
    if (t_key.get()) {
      e.user = {user_key{*t_key.get()},       t_id.get().value_or(""),
                t_name.get().value_or(""),    t_display.get().value_or(""),
                t_picture.get().value_or(""), t_deleted.get().has_value()};
      e.role_name = e_role.get().value_or("");
      e.reason = e_reason.get().value_or("");
      if (e_sender != *t_key.get()) e.by_id = e.sender_id;
    } else {
      e.target = e_target;
    }
    if (e.kind == event_kind::room_changed) {
      e.settings.name = e_name.get();
      e.settings.topic = e_topic.get();
      if (e_slow.get()) e.settings.slow_mode_s = *e_slow.get();
      if (e_retention.get()) e.settings.retention_days = *e_retention.get();
      if (e_history.get())
        e.settings.history =
            *e_history.get() == "joined" ? history_policy::joined : history_policy::all;
    }
    return e;
  }
};

class sqlite_reader final : public reader_store {
 public:
  sqlite_reader(std::string path, metrics& m) : path_(std::move(path)), m_(m) {
    s_ = std::make_unique<session>(path_, m_);
  }

  result<room_load> load_room(std::string_view room_id) override {
    return read<room_load>("load_room", true, [&](session& s) -> result<room_load> {
      s.id = room_id;
      if (!s.room_by_id.first()) return fail(errc::not_found, "no such room");
      room_load out;
      out.room = s.room_out();
      s.room = s.r_key;
      for (bool row = s.members.execute(); row; row = s.members.fetch())
        out.members.push_back(s.member());
      rows(1 + out.members.size());
      return out;
    });
  }

  result<wire::history_page> history(room_key room, std::optional<seq_no> before,
                                     std::optional<seq_no> after, std::int64_t limit,
                                     seq_no first_visible) override {
    return read<wire::history_page>("history", true, [&](session& s) -> result<wire::history_page> {
      wire::history_page out;
      s.room = raw(room);
      if (!s.head_of.first()) return fail(errc::not_found, "no such room");
      out.as_of = s.head;
      s.first = first_visible;
      s.limit = limit + 1;  // one more tells whether there are more
      s.before = before.value_or(0);
      s.after = after.value_or(0);
      auto& st = after ? s.newer : before ? s.older : s.newest;
      std::int64_t bytes = 0;
      for (bool row = st.execute(); row; row = st.fetch()) {
        auto m = s.msg.get();
        bytes += json_size(m.text);
        if (static_cast<std::int64_t>(out.messages.size()) == limit ||
            (bytes > page_bytes && !out.messages.empty())) {
          out.more = true;
          break;
        }
        out.messages.push_back(std::move(m));
      }
      st.reset();
      if (!after) std::reverse(out.messages.begin(), out.messages.end());
      rows(out.messages.size());
      return out;
    });
  }

  result<wire::events_page> events(room_key room, seq_no after, std::int64_t limit,
                                   std::int64_t max_bytes) override {
    return read<wire::events_page>("events", false, [&](session& s) -> result<wire::events_page> {
      wire::events_page out;
      s.room = raw(room);
      s.after = after;
      s.limit = limit + 1;
      std::int64_t bytes = 0;
      for (bool row = s.events.execute(); row; row = s.events.fetch()) {
        auto e = s.event_out();
        bytes += json_size(e.msg.text);
        if (static_cast<std::int64_t>(out.events.size()) == limit ||
            (bytes > max_bytes && !out.events.empty())) {
          out.more = true;
          break;
        }
        out.events.push_back(std::move(e));
      }
      s.events.reset();
      rows(out.events.size());
      return out;
    });
  }

  result<room_page> room_list(user_key user, std::string_view cursor, std::int64_t limit) override {
    return read<room_page>("room_list", true, [&](session& s) -> result<room_page> {
      s.at = s.key = std::numeric_limits<integer>::max();
      if (!cursor.empty() && !read_cursor(cursor, s.at, s.key))
        return fail(errc::bad_request, "cursor is none that was given out");
      room_page out;
      s.user = raw(user);
      s.limit = limit + 1;
      bool more = false;
      for (bool row = s.list.execute(); row; row = s.list.fetch()) {
        if (static_cast<std::int64_t>(out.rooms.size()) == limit) {
          more = true;
          break;
        }
        out.rooms.push_back(s.summary());
      }
      s.list.reset();
      if (more && !out.rooms.empty())
        out.next = make_cursor(out.rooms.back().last_at, out.rooms.back().key);
      for (bool row = s.rooms_of.execute(); row; row = s.rooms_of.fetch())
        out.all.push_back(room_key{s.r_key});
      rows(out.rooms.size() + out.all.size());
      return out;
    });
  }

  result<std::vector<std::pair<room_key, std::string>>> rooms_of(user_key user) override {
    using list = std::vector<std::pair<room_key, std::string>>;
    return read<list>("rooms_of", false, [&](session& s) -> result<list> {
      list out;
      s.user = raw(user);
      for (bool row = s.rooms_of.execute(); row; row = s.rooms_of.fetch())
        out.emplace_back(room_key{s.r_key}, s.r.id);
      rows(out.size());
      return out;
    });
  }

  result<std::vector<profile>> users_by_id(const std::vector<std::string>& ids) override {
    return read<std::vector<profile>>("users_by_id", false,
                                      [&](session& s) -> result<std::vector<profile>> {
                                        auto out = s.accounts.profiles(ids);
                                        rows(out.size());
                                        return out;
                                      });
  }

  result<account> account_by_id(std::string_view id) override {
    return read<account>("account_by_id", false, [&](session& s) -> result<account> {
      if (auto a = s.accounts.by_id(id)) return rows(1), std::move(*a);
      return fail(errc::not_found, "no such user");
    });
  }

  result<credentials> credentials_by_name(std::string_view folded_name) override {
    return read<credentials>("credentials_by_name", false, [&](session& s) -> result<credentials> {
      if (auto a = s.accounts.by_name(folded_name)) return rows(1), std::move(*a);
      return fail(errc::not_found, "no such user");
    });
  }

  result<std::vector<account>> list_users(std::string_view query, std::int64_t limit) override {
    return read<std::vector<account>>(
        "list_users", false, [&](session& s) -> result<std::vector<account>> {
          auto out = s.accounts.find(query.empty() ? "" : fold_name(query), query, limit);
          rows(out.size());
          return out;
        });
  }

 private:
  /// Runs a read, in a transaction where it is of several statements. After an error the next one
  /// opens anew.
  template <class T, class F> result<T> read(std::string_view what, bool transaction, F&& body) {
    const auto started = steady_ns();
    auto out = [&]() -> result<T> {
      try {
        if (!s_) s_ = std::make_unique<session>(path_, m_);
        if (transaction) s_->begin.execute();
        auto done = body(*s_);
        if (transaction) s_->end.execute();
        return done;
      } catch (const sql_error& e) {
        log_error(what, e);
        s_ = nullptr;
        return to_failure(e);
      }
    }();
    m_.read_seconds.observe_ns(steady_ns() - started);
    return out;
  }

  void rows(std::size_t n) { m_.rows_read.add(static_cast<std::int64_t>(n)); }

  std::string path_;
  metrics& m_;
  std::unique_ptr<session> s_;
};

}  // namespace

std::unique_ptr<reader_store> make_sqlite_reader(const std::string& path, metrics& m) {
  return std::make_unique<sqlite_reader>(path, m);
}

}  // namespace parley::storage
