#include "actors/room_state.hpp"

#include <algorithm>

#include "schemas/text.hpp"

namespace parley {

void room_state::load(storage::room_load&& from) {
  // Who is online is not the database's to say: it is kept over a reload.
  auto before = std::move(members_);
  members_.clear();
  row_ = std::move(from.room);
  joined_ = online_ = 0;
  for (auto& r : from.members) {
    member m;
    m.who = std::move(r.who);
    m.r = r.r;
    m.state = r.state;
    m.joined_seq = r.joined_seq;
    m.joined_at = r.joined_at;
    m.read_seq = r.read_seq;
    m.read_n = r.read_n;
    m.read_own = r.read_own;
    m.own_n = m.own_next = r.own_n;
    m.muted_until = r.muted_until;
    m.level = r.level;
    m.pinned = r.pinned;
    m.order = r.order;
    if (auto was = before.find(m.who.key); was != before.end()) {
      m.online = was->second.online;
      m.last_seen = was->second.last_seen;
      m.conns = std::move(was->second.conns);
    }
    if (m.state == membership::joined) {
      ++joined_;
      if (m.online) ++online_;
    }
    auto key = m.who.key;
    members_.emplace(key, std::move(m));
  }
  next_seq_ = row_.head_seq;
  next_n_ = row_.head_n;
  last_at_ = row_.last_at;
  std::erase_if(nonces_, [](const auto& entry) { return entry.second.seq == 0; });
}

const room_state::member* room_state::find(user_key user) const {
  auto at = members_.find(user);
  return at == members_.end() ? nullptr : &at->second;
}
room_state::member* room_state::find(user_key user) {
  auto at = members_.find(user);
  return at == members_.end() ? nullptr : &at->second;
}
const room_state::member* room_state::joined(user_key user) const {
  const auto* m = find(user);
  return m != nullptr && m->state == membership::joined ? m : nullptr;
}

numbers room_state::numbers_of(const member& m) const {
  numbers n;
  n.last_seq = row_.head_seq;
  n.read_seq = m.read_seq;
  n.unread = std::max<std::int64_t>(0, (row_.head_n - m.read_n) - (m.own_n - m.read_own));
  return n;
}

failure room_state::outsider() const {
  if (row_.kind == room_kind::public_room) return fail(errc::forbidden, "only members may do this");
  return fail(errc::not_found, "no such room");
}

seq_no room_state::first_visible(const member& m) const {
  return row_.history == history_policy::joined ? m.joined_seq : 1;
}

room_summary room_state::summary() const {
  room_summary s;
  s.key = row_.key;
  s.id = row_.id;
  s.name = row_.name;
  s.topic = row_.topic;
  s.kind = row_.kind;
  s.history = row_.history;
  s.last_seq = row_.head_seq;
  s.members = joined_;
  s.online = online_;
  s.last = row_.last;
  s.last_at = row_.last_at;
  return s;
}

room_summary room_state::summary_for(const member& m) const {
  auto s = summary();
  auto n = numbers_of(m);
  s.unread = n.unread;
  s.mentions = n.mentions;
  s.read_seq = m.read_seq;
  s.my_role = m.r;
  s.my_membership = m.state;
  s.muted_until = m.muted_until;
  s.level = m.level;
  s.pinned = m.pinned;
  s.order = m.order;
  return s;
}

const room_state::known* room_state::nonce(user_key user, const std::string& nonce) const {
  auto at = nonces_.find(nonce_key(user, nonce));
  return at == nonces_.end() ? nullptr : &at->second;
}
void room_state::remember(user_key user, const std::string& nonce, known what) {
  auto key = nonce_key(user, nonce);
  auto [at, fresh] = nonces_.insert_or_assign(key, std::move(what));
  if (!fresh) return;
  nonce_order_.push_back(std::move(key));
  while (nonce_order_.size() > nonces_kept) {
    auto oldest = nonces_.find(nonce_order_.front());
    if (oldest != nonces_.end() && oldest->second.seq == 0) break;  // still in flight
    if (oldest != nonces_.end()) nonces_.erase(oldest);
    nonce_order_.pop_front();
  }
}
void room_state::forget(user_key user, const std::string& nonce) {
  nonces_.erase(nonce_key(user, nonce));
}

storage::append_message room_state::send(user_key user, std::string nonce, std::string hash,
                                         std::string text, std::optional<seq_no> reply_to,
                                         unix_ms now) {
  auto& m = members_.at(user);
  remember(user, nonce, known{0, 0, hash});
  storage::append_message out;
  out.seq = ++next_seq_;
  out.n = ++next_n_;
  out.own_n = ++m.own_next;
  out.at = stamp(now);
  out.sender = user;
  out.nonce = std::move(nonce);
  out.request_hash = std::move(hash);
  out.text = std::move(text);
  out.reply_to = reply_to;
  return out;
}

void room_state::set_state(member& m, membership to) {
  if (m.state == to) return;
  if (m.state == membership::joined) {
    --joined_;
    if (m.online) --online_;
  }
  m.state = to;
  if (to == membership::joined) {
    ++joined_;
    if (m.online) ++online_;
  }
}

storage::append_member room_state::join(const profile& who, unix_ms now) {
  auto [at, fresh] = members_.try_emplace(who.key);
  auto& m = at->second;
  if (fresh) m.state = membership::left;
  m.who = who;
  m.r = role::member;
  set_state(m, membership::joined);
  storage::append_member out;
  out.seq = ++next_seq_;
  out.at = stamp(now);
  out.kind = event_kind::member_joined;
  out.user = out.by = who.key;
  out.state = membership::joined;
  out.r = m.r;
  out.role_name = std::string(to_string(m.r));
  out.head_n = next_n_;
  m.joined_seq = out.seq;
  m.joined_at = out.at;
  return out;
}

std::vector<storage::append_member> room_state::leave(user_key user, unix_ms now) {
  auto& m = members_.at(user);
  auto was = m.r;
  m.r = role::member;
  set_state(m, membership::left);
  std::vector<storage::append_member> out(1);
  out[0].seq = ++next_seq_;
  out[0].at = stamp(now);
  out[0].kind = event_kind::member_left;
  out[0].user = out[0].by = user;
  out[0].state = membership::left;
  out[0].r = role::member;
  out[0].head_n = next_n_;
  if (was != role::owner) return out;
  // The longest-serving moderator, else member, becomes owner where no other owner is left.
  member* heir = nullptr;
  for (auto& [key, other] : members_) {
    if (other.state != membership::joined) continue;
    if (other.r == role::owner) return out;
    if (heir == nullptr || other.r > heir->r ||
        (other.r == heir->r && other.joined_seq < heir->joined_seq))
      heir = &other;
  }
  if (heir == nullptr) return out;
  heir->r = role::owner;
  storage::append_member up;
  up.seq = ++next_seq_;
  up.at = out[0].at;
  up.kind = event_kind::member_changed;
  up.user = heir->who.key;
  up.by = user;
  up.state = membership::joined;
  up.r = role::owner;
  up.role_name = "owner";
  up.head_n = next_n_;
  out.push_back(std::move(up));
  return out;
}

storage::append_member room_state::invite(const profile& who, user_key by, unix_ms now) {
  auto [at, fresh] = members_.try_emplace(who.key);
  auto& m = at->second;
  if (fresh) m.state = membership::left;
  m.who = who;
  m.r = role::member;
  set_state(m, membership::invited);
  storage::append_member out;
  out.seq = ++next_seq_;
  out.at = stamp(now);
  out.kind = event_kind::member_changed;
  out.user = who.key;
  out.by = by;
  out.state = membership::invited;
  out.r = role::member;
  out.role_name = "invited";
  out.head_n = next_n_;
  m.joined_seq = out.seq;
  return out;
}

storage::append_room_change room_state::change(user_key by, const room_settings& what,
                                               unix_ms now) {
  storage::append_room_change out;
  out.seq = ++next_seq_;
  out.at = stamp(now);
  out.by = by;
  out.settings = what;
  if (what.name) row_.name = *what.name;
  if (what.topic) row_.topic = *what.topic;
  if (what.slow_mode_s) row_.slow_mode_s = *what.slow_mode_s;
  if (what.retention_days) row_.retention_days = *what.retention_days;
  if (what.history) row_.history = *what.history;
  return out;
}

void room_state::committed(const storage::append_message& m) {
  row_.head_seq = m.seq;
  row_.head_n = m.n;
  row_.last_at = m.at;
  auto at = members_.find(m.sender);
  if (at != members_.end()) {
    auto& who = at->second;
    who.own_n = m.own_n;
    who.read_seq = m.seq;
    who.read_n = m.n;
    who.read_own = m.own_n;
    last_message last;
    last.seq = m.seq;
    last.sender = m.sender;
    last.sender_id = who.who.id;
    last.text = std::string(first_code_points(m.text, 100));
    last.at = m.at;
    row_.last = std::move(last);
  }
  remember(m.sender, m.nonce, known{m.seq, m.at, m.request_hash});
}

void room_state::committed_member(const storage::append_member& c) {
  row_.head_seq = c.seq;
  row_.last_at = c.at;
  if (c.kind != event_kind::member_joined) return;
  auto at = members_.find(c.user);
  if (at == members_.end()) return;
  auto& m = at->second;
  m.read_seq = c.seq;
  m.read_n = c.head_n;
  m.read_own = m.own_n;
}

void room_state::committed_settings(const storage::append_room_change& c) {
  row_.head_seq = c.seq;
  row_.last_at = c.at;
}

void room_state::mark(user_key user, seq_no read_seq, std::int64_t read_n, std::int64_t read_own) {
  if (auto* m = find(user)) {
    m->read_seq = read_seq;
    m->read_n = read_n;
    m->read_own = read_own;
  }
}

void room_state::set_online(member& m, bool on) {
  if (m.online == on) return;
  m.online = on;
  if (m.state == membership::joined) online_ += on ? 1 : -1;
}

void room_state::rewind() {
  next_seq_ = row_.head_seq;
  next_n_ = row_.head_n;
  for (auto& [key, m] : members_)
    m.own_next = m.own_n;
  std::erase_if(nonces_, [](const auto& entry) { return entry.second.seq == 0; });
}

}  // namespace parley
