// See room_writer.hpp.
#include "storage/room_writer.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "storage/statements.hpp"

namespace parley::storage {
namespace {

using integer = long long;  // SOCI knows no std::int64_t where that is `long`

struct event_row {
  integer seq = 0, kind = 0, sender = 0, target = 0, at = 0;
  nullable<std::string> body;
};

/// A sender's mark, written once per share.
struct pending_mark {
  user_key user{};
  std::int64_t before = 0, own = 0, n = 0;
  seq_no seq = 0;
};

failure internal(std::string text) { return fail(errc::internal, std::move(text)); }

}  // namespace

using soci::into;
using soci::use;

struct room_writer::statements {
  connection& c;
  metrics& m;

  // Bound variables. A name stands for the same thing in every statement that uses it.
  integer room = 0, user = 0, seq = 0, n = 0, own = 0, before = 0, at = 0, state = 0, role = 0;
  integer kind = 0, history = 0, creator = 0, term = 0, expected = 0, first_n = 0, messages = 0,
          joined = 0, last_at = 0;
  integer out_seq = 0, out_n = 0, out_own = 0, out_at = 0, out_deleted = 0, out_state = 0,
          out_room = 0;
  nullable<integer> reply;
  std::string nonce, hash, text, id, name, topic, out_hash, out_id, body;
  nullable<std::string> pair, role_name, reason, new_name, new_topic, new_history_name;
  nullable<integer> slow, retention, new_history;
  event_row e;

  statement message, event, sender_mark, head, guard, first_message, read_forward, read_backward,
      read_mark, op_nonce, first_op, member_state, member_joined, member_changed, member_body,
      change_body, room_change, known_create, known_pair, make_room, room_create, head_of,
      room_by_id;

  // The share under way.
  const room_share* share = nullptr;
  std::size_t index = 0;
  seq_no running = 0;       // last seq so far
  std::int64_t last_n = 0;  // of the last message so far; 0: none yet
  bool moved_mark = false;
  std::vector<pending_mark> marks;

  statements(connection& c, metrics& m)
      : c(c), m(m),
        message(c, sql::message, use(room), use(seq), use(n), use(own), use(at), use(user),
                use(nonce), use(hash), use(text), use(reply.value, reply.is)),
        event(c, sql::event, use(room), use(e.seq), use(e.kind), use(e.sender), use(e.target),
              use(e.at), use(e.body.value, e.body.is)),
        sender_mark(c, sql::sender_mark, use(own), use(seq), use(n), use(room), use(user),
                    use(before)),
        head(c, sql::head, use(seq), use(messages), use(last_at), use(joined), use(room), use(term),
             use(expected), use(first_n)),
        guard(c, sql::guard, use(room), use(term), use(expected), into(out_seq)),
        first_message(c, sql::first_message, use(room), use(user), use(nonce), into(out_seq),
                      into(out_at), into(out_hash), into(out_deleted)),
        read_forward(c, sql::read_forward, use(seq), use(room), use(user), into(out_seq),
                     into(out_n), into(out_own)),
        read_backward(c, sql::read_backward, use(seq), use(room), use(user), into(out_seq),
                      into(out_n), into(out_own)),
        read_mark(c, sql::read_mark, use(room), use(user), into(out_seq), into(out_n),
                  into(out_own)),
        op_nonce(c, sql::op_nonce, use(room), use(user), use(nonce), use(hash), use(seq), use(at)),
        first_op(c, sql::first_op, use(room), use(user), use(nonce), into(out_seq), into(out_at),
                 into(out_hash)),
        member_state(c, sql::member_state, use(room), use(user), into(out_state)),
        member_joined(c, sql::member_joined, use(room), use(user), use(role), use(seq), use(at),
                      use(n)),
        member_changed(c, sql::member_changed, use(room), use(user), use(state), use(role)),
        member_body(c, sql::member_body, use(role_name.value, role_name.is),
                    use(reason.value, reason.is), into(body)),
        change_body(c, sql::change_body, use(new_name.value, new_name.is),
                    use(new_topic.value, new_topic.is), use(slow.value, slow.is),
                    use(retention.value, retention.is),
                    use(new_history_name.value, new_history_name.is), into(body)),
        room_change(c, sql::room_change, use(new_name.value, new_name.is),
                    use(new_topic.value, new_topic.is), use(slow.value, slow.is),
                    use(retention.value, retention.is), use(new_history.value, new_history.is),
                    use(room)),
        known_create(c, sql::known_create, use(user), use(nonce), into(out_room), into(out_id),
                     into(out_seq), into(out_at), into(out_hash)),
        known_pair(c, sql::known_pair, use(pair.value, pair.is), into(out_room), into(out_id),
                   into(out_seq), into(out_at)),
        make_room(c, sql::room, use(id), use(name), use(topic), use(kind), use(history),
                  use(pair.value, pair.is), use(creator), use(at), use(seq), into(out_room)),
        room_create(c, sql::room_create, use(user), use(nonce), use(hash), use(room)),
        head_of(c, sql::head_of, use(room), into(out_seq)),
        room_by_id(c, sql::room_by_id, use(id), into(out_room)) {}

  std::int64_t written(std::int64_t rows) {
    m.rows_written.add(rows);
    return rows;
  }

  [[noreturn]] void refuse(failure why) { throw change_failed{index, std::move(why)}; }

  void check_seq(seq_no next) {
    if (next != running + 1)
      refuse(
          internal("seq " + std::to_string(next) + " does not follow " + std::to_string(running)));
  }

  void add_event(seq_no at_seq, event_kind what, user_key sender, std::int64_t target, unix_ms when,
                 std::optional<std::string> json) {
    e.seq = at_seq;
    e.kind = static_cast<integer>(what);
    e.sender = raw(sender);
    e.target = target;
    e.at = when;
    e.body = json;
    written(event.change());
    running = at_seq;
    last_at = when;
  }

  // ---- one function per kind of change; false: it is a duplicate, and what stands behind it is
  // superseded

  bool known_message(user_key sender, const std::string& its_nonce, change_result& r) {
    user = raw(sender);
    nonce = its_nonce;
    if (!first_message.first()) return false;
    r.seq = out_seq;
    r.at = out_at;
    r.request_hash = out_hash;
    r.deleted = out_deleted != 0;
    return true;
  }

  bool apply(const append_message& a, change_result& r) {
    check_seq(a.seq);
    if (last_n != 0 && a.n != last_n + 1)
      refuse(internal("message " + std::to_string(a.n) + " does not follow " +
                      std::to_string(last_n)));
    seq = a.seq;
    n = a.n;
    own = a.own_n;
    at = a.at;
    user = raw(a.sender);
    nonce = a.nonce;
    hash = a.request_hash;
    text = a.text;
    reply = a.reply_to ? std::optional<integer>(*a.reply_to) : std::nullopt;
    if (written(message.change()) == 0) {
      if (known_message(a.sender, a.nonce, r)) {
        r.what = outcome::duplicate;
        return false;
      }
      if (!a.reply_to) refuse(internal("a nonce is known and not found"));
      // What was decided behind it stands on a number that it does not take: it is proposed anew.
      r.what = outcome::refused;
      r.why = fail(errc::not_found, "reply_to: no such message");
      return false;
    }
    add_event(a.seq, event_kind::message_created, a.sender, 0, a.at, std::nullopt);
    if (last_n == 0) first_n = a.n;
    last_n = a.n;
    ++messages;
    auto mark =
        std::find_if(marks.begin(), marks.end(), [&](auto& x) { return x.user == a.sender; });
    if (mark == marks.end())
      mark = marks.insert(marks.end(), {a.sender, a.own_n - 1, a.own_n - 1, 0, 0});
    if (a.own_n != mark->own + 1)
      refuse(internal("own message " + std::to_string(a.own_n) + " does not follow " +
                      std::to_string(mark->own)));
    mark->own = a.own_n;
    mark->n = a.n;
    mark->seq = a.seq;
    r.seq = a.seq;
    r.at = a.at;
    return true;
  }

  bool apply(const append_member& a, change_result& r) {
    check_seq(a.seq);
    flush(a.user);
    room = raw(share->room);
    user = raw(a.user);
    out_state = 0;
    const bool was = member_state.first() && out_state == static_cast<integer>(membership::joined);
    const bool is = a.state == membership::joined;
    role = static_cast<integer>(a.r);
    state = static_cast<integer>(a.state);
    seq = a.seq;
    at = a.at;
    n = a.head_n;
    written(a.kind == event_kind::member_joined ? member_joined.change() : member_changed.change());
    joined += (is ? 1 : 0) - (was ? 1 : 0);
    add_event(a.seq, a.kind, a.by, raw(a.user), a.at, body_of(a.role_name, a.reason));
    r.seq = a.seq;
    r.at = a.at;
    return true;
  }

  std::optional<std::string> body_of(const std::string& its_role, const std::string& why) {
    if (its_role.empty() && why.empty()) return std::nullopt;
    role_name = its_role.empty() ? std::nullopt : std::optional(its_role);
    reason = why.empty() ? std::nullopt : std::optional(why);
    member_body.first();
    return body;
  }

  bool apply(const append_room_change& a, change_result& r) {
    check_seq(a.seq);
    new_name = a.settings.name;
    new_topic = a.settings.topic;
    slow = a.settings.slow_mode_s ? std::optional<integer>(*a.settings.slow_mode_s) : std::nullopt;
    retention = a.settings.retention_days ? std::optional<integer>(*a.settings.retention_days)
                                          : std::nullopt;
    new_history = a.settings.history
                      ? std::optional<integer>(static_cast<integer>(*a.settings.history))
                      : std::nullopt;
    new_history_name = a.settings.history
                           ? std::optional(std::string(
                                 *a.settings.history == history_policy::all ? "all" : "joined"))
                           : std::nullopt;
    change_body.first();
    if (written(room_change.change()) != 1) refuse(fail(errc::not_found, "no such room"));
    add_event(a.seq, event_kind::room_changed, a.by, 0, a.at, body);
    r.seq = a.seq;
    r.at = a.at;
    return true;
  }

  bool apply(const set_read& a, change_result& r) {
    flush(a.user);
    user = raw(a.user);
    moved_mark = true;
    bool moved;
    if (a.backward) {
      seq = a.seq - 1;
      moved = read_backward.first();
    } else {
      seq = std::min(a.seq, running);
      moved = read_forward.first();
    }
    if (moved) {
      written(1);
    } else {
      const bool member = read_mark.first();
      if (!member || a.backward) {
        // It gave no number, so that what stands behind it must not fail with it: it is proposed
        // anew.
        r.what = outcome::refused;
        r.why = fail(errc::not_found, member ? "seq is no message" : "not a member");
        return false;
      }
    }
    r.read_seq = out_seq;
    r.read_n = out_n;
    r.read_own = out_own;
    return true;
  }

  bool apply(const find_nonce& a, change_result& r) {
    r.found = known_message(a.sender, a.nonce, r);
    return true;
  }

  bool apply(const create_room& a, change_result& r, const std::optional<storage::op_nonce>& op) {
    const auto known = [&] {
      r.what = outcome::duplicate;
      r.room = room_key{out_room};
      r.room_id = out_id;
      r.seq = out_seq;
      r.at = out_at;
    };
    user = raw(a.creator);
    nonce = a.nonce;
    if (!a.nonce.empty() && known_create.first()) {
      known();
      r.request_hash = out_hash;
      return false;
    }
    if (a.members.empty() || a.members.front() != a.creator)
      refuse(internal("the creator is not the first member"));
    pair = std::nullopt;
    if (a.kind == room_kind::direct) {
      // The list form returns values; the other one references to temporaries.
      const auto [low, high] = std::minmax({raw(a.members.front()), raw(a.members.back())});
      pair = std::to_string(low) + ":" + std::to_string(high);
      if (known_pair.first()) {
        known();
        return false;
      }
    }
    id = a.id;
    name = a.name;
    topic = a.topic;
    kind = static_cast<integer>(a.kind);
    history = static_cast<integer>(a.history);
    creator = raw(a.creator);
    at = a.at;
    seq = static_cast<integer>(a.members.size());
    if (!make_room.first()) refuse(fail(errc::conflict, "a room of this id exists"));
    written(1);
    const integer key = out_room;
    room = key;
    n = 0;
    for (std::size_t i = 0; i < a.members.size(); ++i) {
      user = raw(a.members[i]);
      const bool owner = i == 0;
      role = static_cast<integer>(owner ? parley::role::owner : parley::role::member);
      seq = static_cast<integer>(i) + 1;
      at = a.at;
      written(member_joined.change());
      add_event(seq, event_kind::member_joined, a.creator, user, a.at,
                body_of(owner ? "owner" : "member", ""));
    }
    if (!a.nonce.empty()) {
      user = raw(a.creator);
      nonce = a.nonce;
      hash = op ? op->request_hash : "";
      written(room_create.change());
    }
    r.room = room_key{key};
    r.room_id = a.id;
    r.seq = static_cast<seq_no>(a.members.size());
    r.at = a.at;
    return true;
  }

  /// The nonce of a change that is no message: false where it is known.
  bool remember(const storage::op_nonce& o, const change& ch, change_result& r) {
    user = raw(o.user);
    nonce = o.nonce;
    hash = o.request_hash;
    std::visit(
        [&](const auto& a) {
          if constexpr (requires {
                          a.at;
                          a.seq;
                        }) {
            seq = a.seq;
            at = a.at;
          }
        },
        ch.what);
    if (written(op_nonce.change()) == 1) return true;
    if (!first_op.first()) refuse(internal("a nonce is known and not found"));
    r.what = outcome::duplicate;
    r.seq = out_seq;
    r.at = out_at;
    r.request_hash = out_hash;
    return false;
  }

  /// Whether an op that is no message was made under this nonce.
  void find_op(const storage::op_nonce& o, change_result& r) {
    user = raw(o.user);
    nonce = o.nonce;
    r.found = first_op.first();
    if (!r.found) return;
    r.seq = out_seq;
    r.at = out_at;
    r.request_hash = out_hash;
  }

  bool apply(const change& ch, change_result& r) {
    room = raw(share->room);
    if (ch.nonce && std::holds_alternative<find_nonce>(ch.what)) {
      find_op(*ch.nonce, r);
      return true;
    }
    if (const auto* make = std::get_if<create_room>(&ch.what)) return apply(*make, r, ch.nonce);
    const bool numbered = std::holds_alternative<append_member>(ch.what) ||
                          std::holds_alternative<append_room_change>(ch.what);
    if (ch.nonce && numbered && !remember(*ch.nonce, ch, r)) return false;
    return std::visit(
        [&](const auto& a) {
          if constexpr (std::is_same_v<std::decay_t<decltype(a)>, create_room>)
            return true;  // above
          else
            return apply(a, r);
        },
        ch.what);
  }

  // ---- what is written once per share

  void write_mark(const pending_mark& p) {
    room = raw(share->room);
    user = raw(p.user);
    before = p.before;
    own = p.own;
    n = p.n;
    seq = p.seq;
    if (written(sender_mark.change()) != 1)
      refuse(internal("the sender is no member, or the own count differs"));
  }

  /// Writes one user's mark now, where something that reads or sets it follows.
  void flush(user_key who) {
    const auto mark =
        std::find_if(marks.begin(), marks.end(), [&](auto& x) { return x.user == who; });
    if (mark == marks.end()) return;
    write_mark(*mark);
    marks.erase(mark);
  }

  void finish() {
    index = 0;  // what fails here fails the whole share
    for (const auto& mark : marks)
      write_mark(mark);
    marks.clear();
    if (share->room == room_key{}) return;
    room = raw(share->room);
    term = share->term;
    expected = share->expected_head;
    bool mine = true;
    if (running != share->expected_head) {
      seq = running;
      mine = written(head.change()) == 1;
    } else if (moved_mark) {
      mine = guard.first();
    }
    if (!mine) refuse(internal("stale owner: another one wrote to this room"));
  }
};

room_writer::room_writer(connection& c, metrics& m) : st_(std::make_unique<statements>(c, m)) {}
room_writer::~room_writer() = default;
std::size_t room_writer::at() const { return st_->index; }

void room_writer::apply(const room_share& share, std::size_t limit, share_result& out) {
  auto& st = *st_;
  st.share = &share;
  st.index = 0;
  st.running = share.expected_head;
  st.last_n = st.first_n = st.messages = st.joined = 0;
  st.moved_mark = false;
  st.marks.clear();
  for (std::size_t i = 0; i < limit; ++i) {
    st.index = i;
    out.results[i] = {};
    if (st.apply(share.changes[i], out.results[i])) continue;
    for (std::size_t rest = i + 1; rest < share.changes.size(); ++rest) {
      out.results[rest] = {};
      out.results[rest].what = outcome::superseded;
    }
    break;
  }
  st.finish();
}

std::optional<bool> room_writer::happened(const room_share& share, const share_result& out) {
  auto& st = *st_;
  st.room = raw(share.room);
  seq_no last = 0;
  std::optional<bool> marks;
  for (std::size_t i = 0; i < share.changes.size(); ++i) {
    const auto& r = out.results[i];
    if (r.what != outcome::committed) continue;
    const auto& what = share.changes[i].what;
    if (const auto* make = std::get_if<create_room>(&what)) {
      st.id = make->id;
      return st.room_by_id.first();
    }
    if (const auto* read = std::get_if<set_read>(&what)) {
      st.user = raw(read->user);
      marks = st.read_mark.first() && st.out_seq == r.read_seq && st.out_n == r.read_n &&
              st.out_own == r.read_own;
    } else if (r.seq != 0 && !std::holds_alternative<find_nonce>(what)) {
      last = r.seq;
    }
  }
  if (last == 0) return marks;
  return st.head_of.first() && st.out_seq >= last;
}

}  // namespace parley::storage
