#include "net/relay.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <random>

#include "net/io_thread.hpp"
#include "schemas/wire/json_encode.hpp"

namespace parley::net {

namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t second_ns = 1'000'000'000;

template <class... F> struct overloaded : F... { using F::operator()...; };
template <class... F> overloaded(F...) -> overloaded<F...>;

/// The room that an operation concerns, null where none.
const room_key* concerns(const relay_op& op) {
  return std::visit(overloaded{
                        [](const deliver&) -> const room_key* { return nullptr; },
                        [](const greet&) -> const room_key* { return nullptr; },
                        [](const close_connection&) -> const room_key* { return nullptr; },
                        [](const publish& o) -> const room_key* { return &o.what->room.key; },
                        [](const replay_page& o) -> const room_key* { return &o.room; },
                        [](const leave_room& o) -> const room_key* { return &o.room; },
                        [](const set_numbers& o) -> const room_key* { return &o.room; },
                        [](const drop_room& o) -> const room_key* { return &o.room; },
                        [](const auto& o) -> const room_key* { return &o.room.key; },
                    },
                    op);
}

}  // namespace

/// A room as this thread knows it: its connections here.
struct room_entry {
  struct active_slot {
    connection* who;  // null: gone during the fan-out under way
    user_key user;
  };
  struct passive_slot {
    connection* who;
    user_key user;
    bool dirty;  // its numbers changed since they were told
    numbers now;
  };

  room_ref ref;
  std::vector<active_slot> active;
  std::vector<passive_slot> passive;
  std::size_t members = 0;  // connections that name it, entering ones included

  // The fan-out under way: these publications to the connections from `cursor` on, active ones
  // first.
  struct part {
    std::shared_ptr<const publication> what;
    std::int64_t posted;
  };
  std::vector<part> fan;
  std::size_t cursor = 0;
  bool begun = false, dead_slots = false;
  bool pinned = false;  // somebody up the stack holds it: it stays although empty
  std::deque<std::pair<relay_op, std::int64_t>> waiting;  // what concerns the room meanwhile

  bool busy() const { return !fan.empty() || !waiting.empty(); }
  std::size_t audience() const { return active.size() + passive.size(); }
};

relay_loop::relay_loop(io_thread& io) : io_(io), tell_timer_(io.context()) { refresh_clock(); }
relay_loop::~relay_loop() = default;

void relay_loop::refresh_clock() { clock_ = io_.now(); }

// ---------------------------------------------------------------- inbox

void relay_loop::post(relay_op op) {
  std::int64_t at = 0;
  if (const auto* p = std::get_if<publish>(&op); p && p->what->committed_ns > 0) at = steady_ns();
  bool wake_up = false;
  {
    std::lock_guard hold(lock_);
    inbox_.push_back({std::move(op), at});
    wake_up = !std::exchange(woken_, true);
  }
  if (wake_up) boost::asio::post(io_.context(), [this] { turn(); });
}

std::size_t relay_loop::inbox_length() const {
  std::lock_guard hold(lock_);
  return inbox_.size();
}

void relay_loop::wake() {
  {
    std::lock_guard hold(lock_);
    if (std::exchange(woken_, true)) return;
  }
  boost::asio::post(io_.context(), [this] { turn(); });
}

void relay_loop::turn() {
  refresh_clock();
  if (ops_.empty()) {
    std::lock_guard hold(lock_);
    ops_.swap(inbox_);
  }
  std::size_t done = 0;
  while (next_op_ < ops_.size() && done < turn_budget)
    done += 1 + handle(ops_[next_op_++]);
  if (next_op_ == ops_.size()) {
    ops_.clear();
    next_op_ = 0;
    // A burst's memory is not kept for ever.
    if (ops_.capacity() > 4096) std::vector<posted>().swap(ops_);
  }
  // One slice of every fan-out, so that no large room holds up another.
  const std::size_t n = busy_.size();
  for (std::size_t i = 0; i < n; ++i)
    advance(*busy_[i]);
  std::erase_if(busy_, [this](room_entry* r) {
    if (r->busy()) return false;
    release_if_empty(*r);
    return true;
  });
  end_turn();
  {
    std::lock_guard hold(lock_);
    if (inbox_.empty() && ops_.empty() && busy_.empty()) {
      woken_ = false;
      return;
    }
  }
  boost::asio::post(io_.context(), [this] { turn(); });
}

void relay_loop::end_turn() {
  // By index: telling may find a queue over its bound, closing may leave frames to flush.
  for (std::size_t i = 0; i < tell_now_.size(); ++i)
    tell_unread(*tell_now_[i]);
  tell_now_.clear();
  for (std::size_t i = 0; i < over_.size(); ++i) {
    const auto c = over_[i]->shared_from_this();
    c->over_ = false;
    c->close(4008, "reads too slowly", std::nullopt);
  }
  over_.clear();
  flush_all();
  auto leaving = std::exchange(leaving_, {});
  for (const auto& c : leaving)
    c->leave();
  publish_counters();
}

void relay_loop::flush_all() {
  metrics& m = io_.server().counters;
  std::int64_t at = to_flush_.empty() ? 0 : steady_ns();
  for (std::size_t i = 0; i < to_flush_.size(); ++i) {
    connection& c = *to_flush_[i];
    c.flushing_ = false;
    c.out().flush();
    const std::int64_t now = steady_ns();
    m.ws_send.observe_ns(now - at);
    at = now;
  }
  to_flush_.clear();
  if (measured_.empty()) return;
  const std::int64_t written = steady_ns();
  for (const measured& x : measured_) {
    m.broadcast_room.observe_ns(written - x.committed);
    if (x.posted > 0)
      m.stages[static_cast<std::size_t>(stage::fanout)].observe_ns(written - x.posted);
  }
  measured_.clear();
}

void relay_loop::publish_counters() {
  metrics& m = io_.server().counters;
  const auto tell = [](metric_cell& cell, std::int64_t now, std::int64_t& told) {
    if (now == told) return;
    cell.add(now - told);
    told = now;
  };
  tell(m.frames_in, totals_.frames_in, told_.frames_in);
  tell(m.frames_out, totals_.frames_out, told_.frames_out);
  tell(m.bytes_in, totals_.bytes_in, told_.bytes_in);
  tell(m.bytes_out, totals_.bytes_out, told_.bytes_out);
  if (totals_.peak_bytes > told_.peak_bytes) {
    told_.peak_bytes = totals_.peak_bytes;
    m.outgoing_peak_bytes.peak(totals_.peak_bytes);
  }
}

// ---------------------------------------------------------------- operations

std::size_t relay_loop::handle(posted& p) {
  if (const room_key* key = concerns(p.op)) {
    if (room_entry* room = find_room(*key); room && room->busy()) {
      // A fan-out that has not begun takes further publications along, so that each socket gets one
      // write.
      if (auto* pub = std::get_if<publish>(&p.op);
          pub && !room->begun && room->waiting.empty() && room->fan.size() < batch_max)
        room->fan.push_back({std::move(pub->what), p.at});
      else
        room->waiting.emplace_back(std::move(p.op), p.at);
      return 0;
    }
  }
  return run(p.op, p.at);
}

std::size_t relay_loop::run(relay_op& op, std::int64_t at) {
  return std::visit(overloaded{
                        [&](deliver& o) -> std::size_t {
                          connection* c = find(o.to);
                          if (!c) return 0;
                          if (o.frame) give(*c, o.frame, out_queue::kind::counted);
                          if (o.answers) c->answered();
                          return 1;
                        },
                        [&](greet& o) -> std::size_t {
                          connection* c = find(o.to);
                          if (!c || c->greeted_) return 0;
                          c->greeted_ = true;
                          give(*c, o.frame, out_queue::kind::counted);
                          if (c->extras_) {
                            auto held = std::exchange(c->extras_->held, {});
                            c->extras_->held_bytes = 0;
                            for (auto& h : held)
                              give(*c, h.frame, h.kind, std::move(h.drained));
                          }
                          c->answered();
                          return 1;
                        },
                        [&](close_connection& o) -> std::size_t {
                          if (connection* c = find(o.to)) {
                            // What was given before goes first, where the socket takes it.
                            if (c->greeted_) c->out().flush();
                            c->close(o.code, o.reason, o.retry_after_ms);
                          }
                          if (o.done) o.done();
                          return 1;
                        },
                        [&](watch& o) -> std::size_t {
                          if (connection* c = find(o.conn); c && !c->left_) {
                            know_user(*c, o.user);
                            place_in(*c, room_of(o.room), place::passive, o.base);
                          }
                          return 0;
                        },
                        [&](begin_enter& o) -> std::size_t {
                          connection* c = find(o.conn);
                          if (!c || c->left_) return 0;
                          place_in(*c, room_of(o.room), place::entering);
                          if (o.answer) {
                            give(*c, o.answer, out_queue::kind::counted);
                            c->answered();
                          }
                          return 1;
                        },
                        [&](replay_page& o) -> std::size_t {
                          connection* c = find(o.conn);
                          if (!c || c->left_) return 0;
                          give(*c, o.frames, out_queue::kind::replay, std::move(o.drained));
                          return 1;
                        },
                        [&](go_live& o) -> std::size_t {
                          connection* c = find(o.conn);
                          if (!c || c->left_) return 0;
                          know_user(*c, o.user);
                          place_in(*c, room_of(o.room), place::active);
                          if (o.tail) give(*c, o.tail, out_queue::kind::replay);
                          return 1;
                        },
                        [&](exit_room& o) -> std::size_t {
                          connection* c = find(o.conn);
                          if (!c || c->left_) return 0;
                          know_user(*c, o.user);
                          place_in(*c, room_of(o.room), place::passive, o.base);
                          if (o.answer) {
                            give(*c, o.answer, out_queue::kind::counted);
                            c->answered();
                          }
                          return 1;
                        },
                        [&](leave_room& o) -> std::size_t {
                          connection* c = find(o.conn);
                          if (room_entry* room = find_room(o.room); c && room) forget(*c, *room);
                          return 0;
                        },
                        [&](publish& o) -> std::size_t {
                          room_entry* room = find_room(o.what->room.key);
                          if (!room || room->audience() == 0) return 0;
                          const std::size_t n = room->audience();
                          if (n > slice) {
                            room->fan.push_back({std::move(o.what), at});
                            room->cursor = 0;
                            room->begun = false;
                            busy_.push_back(room);
                            return 0;
                          }
                          publish_to(*room, *o.what, 0, n);
                          if (o.what->committed_ns > 0)
                            measured_.push_back({o.what->committed_ns, at});
                          return n;
                        },
                        [&](set_numbers& o) -> std::size_t {
                          if (room_entry* room = find_room(o.room)) set_numbers_of(o, *room);
                          return 1;
                        },
                        [&](drop_room& o) -> std::size_t {
                          room_entry* room = find_room(o.room);
                          if (!room) return 0;
                          const bool before = std::exchange(room->pinned, true);
                          while (!room->active.empty())
                            forget(*room->active.back().who, *room);
                          while (!room->passive.empty())
                            forget(*room->passive.back().who, *room);
                          room->pinned = before;
                          release_if_empty(*room);
                          return 1;
                        },
                    },
                    op);
}

void relay_loop::advance(room_entry& room) {
  if (!room.fan.empty()) {
    room.begun = true;
    const std::size_t to = std::min(room.cursor + slice, room.audience());
    for (const auto& part : room.fan)
      publish_to(room, *part.what, room.cursor, to);
    room.cursor = to;
    if (to < room.audience()) return;
    finish_fan(room);
  }
  // What waited, up to the next fan-out.
  std::size_t done = 0;
  while (room.fan.empty() && !room.waiting.empty() && done < turn_budget) {
    auto [op, at] = std::move(room.waiting.front());
    room.waiting.pop_front();
    auto* pub = std::get_if<publish>(&op);
    if (!pub || room.audience() <= slice) {
      room.pinned = true;  // the operation may empty the room; turn() looks at that
      done += 1 + run(op, at);
      room.pinned = false;
      continue;
    }
    room.fan.push_back({std::move(pub->what), at});
    room.cursor = 0;
    room.begun = false;
    while (!room.waiting.empty() && room.fan.size() < batch_max) {
      auto* next = std::get_if<publish>(&room.waiting.front().first);
      if (!next) break;
      room.fan.push_back({std::move(next->what), room.waiting.front().second});
      room.waiting.pop_front();
    }
  }
}

void relay_loop::finish_fan(room_entry& room) {
  for (const auto& part : room.fan)
    if (part.what->committed_ns > 0) measured_.push_back({part.what->committed_ns, part.posted});
  room.fan.clear();
  room.begun = false;
  if (!std::exchange(room.dead_slots, false)) return;
  std::erase_if(room.active, [](const auto& s) { return !s.who; });
  std::erase_if(room.passive, [](const auto& s) { return !s.who; });
  for (std::size_t i = 0; i < room.active.size(); ++i)
    find_membership(*room.active[i].who, room)->position = static_cast<std::uint32_t>(i);
  for (std::size_t i = 0; i < room.passive.size(); ++i)
    find_membership(*room.passive[i].who, room)->position = static_cast<std::uint32_t>(i);
}

void relay_loop::publish_to(room_entry& room, const publication& p, std::size_t from,
                            std::size_t to) {
  // Few as a rule, and then looked through; of many (all of a room are mentioned, many block the
  // sender) an index is made once a slice.
  constexpr std::size_t few = 8;
  std::vector<user_key> mentioned;
  if (p.mentioned.size() > few) {
    mentioned = p.mentioned;
    std::sort(mentioned.begin(), mentioned.end());
  }
  const auto is_mentioned = [&](user_key user) {
    return mentioned.empty()
               ? std::find(p.mentioned.begin(), p.mentioned.end(), user) != p.mentioned.end()
               : std::binary_search(mentioned.begin(), mentioned.end(), user);
  };
  std::unordered_map<std::int64_t, const frame_ptr*> variants;
  if (p.variants.size() > few)
    for (const auto& [user, own] : p.variants)
      variants.emplace(raw(user), &own);
  const auto frame_for = [&](user_key user) -> const frame_ptr& {
    if (!variants.empty()) {
      const auto it = variants.find(raw(user));
      return it == variants.end() ? p.active : *it->second;
    }
    for (const auto& [who, own] : p.variants)
      if (who == user) return own;
    return p.active;
  };

  const std::size_t n_active = room.active.size();
  for (std::size_t i = from; i < to && i < n_active; ++i) {
    auto& s = room.active[i];
    if (!s.who || (raw(p.skip) != 0 && s.user == p.skip)) continue;
    give(*s.who, frame_for(s.user), out_queue::kind::counted);
  }
  if (!p.passive && !p.counts) return;
  for (std::size_t i = std::max(from, n_active); i < to; ++i) {
    auto& s = room.passive[i - n_active];
    if (!s.who) continue;
    if (p.passive) give(*s.who, p.passive, out_queue::kind::counted);
    if (!p.counts || p.seq <= s.now.last_seq) continue;
    s.now.last_seq = p.seq;
    if (s.user == p.sender) continue;  // its mark moves with it: set_numbers tells
    ++s.now.unread;
    if (is_mentioned(s.user)) ++s.now.mentions;
    if (!std::exchange(s.dirty, true)) changed(*s.who, room);
  }
}

void relay_loop::set_numbers_of(const set_numbers& op, room_entry& room) {
  const auto known = users_.find(raw(op.user));
  if (known == users_.end()) return;
  for (connection* c : known->second) {
    auto* m = find_membership(*c, room);
    if (!m || m->where == place::entering) continue;
    const bool silent = op.except.generation != 0 && c->id_ == op.except;
    if (m->where == place::passive) {
      auto& s = room.passive[m->position];
      const bool same = s.now == op.now;
      s.now = op.now;
      if (!same && !silent && !std::exchange(s.dirty, true)) changed(*c, room);
    } else if (op.tell_active && !silent) {
      const wire::unread_view view{*room.ref.id, op.now.unread, op.now.mentions, op.now.last_seq,
                                   op.now.read_seq};
      give(*c, wire::make_frame(wire::unread_frame({&view, 1})), out_queue::kind::counted);
    }
  }
}

// ---------------------------------------------------------------- frames

void relay_loop::give(connection& c, frame_ptr frame) {
  give(c, frame, out_queue::kind::counted);
  wake();
}

void relay_loop::give(connection& c, const frame_ptr& frame, out_queue::kind kind,
                      std::function<void()> drained) {
  if (c.left_ || c.over_ || !frame) return;
  if (!c.greeted_) {
    auto& x = c.more();
    const auto& l = io_.settings().limits;
    if (kind == out_queue::kind::counted) {
      x.held_bytes += frame->size();
      if (!x.held.empty() && (static_cast<std::int64_t>(x.held_bytes) > l.outgoing_bytes ||
                              static_cast<std::int64_t>(x.held.size()) >= l.outgoing_frames)) {
        c.over_ = true;
        over_.push_back(&c);
        return;
      }
    }
    x.held.push_back({frame, kind, std::move(drained)});
    return;
  }
  switch (c.out().push(frame, kind)) {
  case out_queue::sent::ok:
    if (drained) c.more().drained.push_back(std::move(drained));
    flush_later(c);
    break;
  case out_queue::sent::overflow:
    c.over_ = true;
    over_.push_back(&c);
    break;
  case out_queue::sent::stopped:
    break;
  }
}

void relay_loop::flush_later(connection& c) {
  if (std::exchange(c.flushing_, true)) return;
  to_flush_.push_back(&c);
}

void relay_loop::ran_empty(connection& c) {
  if (!c.extras_ || c.extras_->drained.empty()) return;
  auto calls = std::exchange(c.extras_->drained, {});
  for (auto& call : calls)
    boost::asio::post(io_.context(), std::move(call));
}

// ---------------------------------------------------------------- unread

std::int64_t relay_loop::unread_interval() const {
  return second_ns / std::max<std::int64_t>(1, io_.settings().timers.unread_per_s);
}

void relay_loop::changed(connection& c, room_entry& room) {
  c.more().unread.push_back(&room);
  if (std::exchange(c.telling_, true)) return;
  const std::int64_t at = c.unread_at_ + unread_interval();
  if (at <= clock_) {
    tell_now_.push_back(&c);
    return;
  }
  // All wait equally long, so the list stays sorted; a reload that changes the interval only blurs
  // it once.
  tell_later_.emplace_back(at, c.id_);
  arm_tell();
}

void relay_loop::tell_due(std::int64_t now) {
  while (!tell_later_.empty() && tell_later_.front().first <= now) {
    connection* c = find(tell_later_.front().second);
    tell_later_.pop_front();
    if (c && c->telling_) tell_now_.push_back(c);
  }
  arm_tell();
}

void relay_loop::arm_tell() {
  if (tell_later_.empty() || std::exchange(tell_armed_, true)) return;
  // Those that come close together are told together.
  const std::int64_t in = std::max<std::int64_t>(tell_later_.front().first - clock_, 10'000'000);
  tell_timer_.expires_after(std::chrono::nanoseconds(in));
  tell_timer_.async_wait([this](boost::system::error_code ec) {
    if (ec) return;
    tell_armed_ = false;
    refresh_clock();
    tell_due(clock_);
    end_turn();
  });
}

void relay_loop::tell_unread(connection& c) {
  c.telling_ = false;
  if (!c.extras_ || c.extras_->unread.empty()) return;
  auto rooms = std::exchange(c.extras_->unread, {});
  std::vector<wire::unread_view> views;
  views.reserve(rooms.size());
  for (room_entry* room : rooms) {
    auto& s = room->passive[find_membership(c, *room)->position];
    s.dirty = false;
    views.push_back({*room->ref.id, s.now.unread, s.now.mentions, s.now.last_seq, s.now.read_seq});
  }
  c.unread_at_ = clock_;
  // No frame over 128 KiB: rooms are told in lots, which a user of thousands of rooms alone ever
  // sees.
  constexpr std::size_t lot = 500;
  for (std::size_t i = 0; i < views.size(); i += lot)
    give(c,
         wire::make_frame(
             wire::unread_frame(std::span(views).subspan(i, std::min(lot, views.size() - i)))),
         out_queue::kind::counted);
}

// ---------------------------------------------------------------- rooms and connections

connection* relay_loop::find(const connection_id& id) {
  if (id.io != io_.index() || id.slot >= slots_.size()) return nullptr;
  const slot& s = slots_[id.slot];
  return s.generation == id.generation ? s.who.get() : nullptr;
}

room_entry* relay_loop::find_room(room_key key) {
  const auto it = rooms_.find(raw(key));
  return it == rooms_.end() ? nullptr : it->second.get();
}

room_entry& relay_loop::room_of(const room_ref& ref) {
  auto& entry = rooms_[raw(ref.key)];
  if (!entry) {
    entry = std::make_unique<room_entry>();
    entry->ref = ref;
  }
  return *entry;
}

connection::membership* relay_loop::find_membership(connection& c, const room_entry& room) {
  for (auto& m : c.rooms_)
    if (m.room == &room) return &m;
  return nullptr;
}

void relay_loop::place_in(connection& c, room_entry& room, place where, const numbers& base) {
  auto* m = find_membership(c, room);
  if (m) {
    unplace(c, *m);
  } else {
    c.rooms_.push_back({&room, 0, where});
    m = &c.rooms_.back();
    ++room.members;
  }
  m->where = where;
  if (where == place::active) {
    m->position = static_cast<std::uint32_t>(room.active.size());
    room.active.push_back({&c, c.user_});
    if (c.entered_) c.entered_->fetch_add(1, std::memory_order_relaxed);
  } else if (where == place::passive) {
    m->position = static_cast<std::uint32_t>(room.passive.size());
    room.passive.push_back({&c, c.user_, false, base});
  }
}

void relay_loop::unplace(connection& c, connection::membership& m) {
  room_entry& room = *m.room;
  // During a fan-out positions must not move: an element moved below the cursor would be passed
  // over.
  const bool fixed = !room.fan.empty();
  if (fixed && m.where != place::entering) room.dead_slots = true;
  if (m.where == place::active) {
    if (c.entered_) c.entered_->fetch_sub(1, std::memory_order_relaxed);
    if (fixed) {
      room.active[m.position].who = nullptr;
    } else {
      if (m.position + 1 != room.active.size()) {
        room.active[m.position] = room.active.back();
        find_membership(*room.active[m.position].who, room)->position = m.position;
      }
      room.active.pop_back();
    }
  } else if (m.where == place::passive) {
    if (room.passive[m.position].dirty) std::erase(c.extras_->unread, &room);
    if (fixed) {
      room.passive[m.position].who = nullptr;
    } else {
      if (m.position + 1 != room.passive.size()) {
        room.passive[m.position] = room.passive.back();
        find_membership(*room.passive[m.position].who, room)->position = m.position;
      }
      room.passive.pop_back();
    }
  }
}

void relay_loop::forget(connection& c, room_entry& room) {
  auto* m = find_membership(c, room);
  if (!m) return;
  unplace(c, *m);
  if (m != &c.rooms_.back()) *m = c.rooms_.back();
  c.rooms_.pop_back();
  --room.members;
  release_if_empty(room);
}

void relay_loop::release_if_empty(room_entry& room) {
  if (room.members == 0 && !room.pinned && !room.busy()) rooms_.erase(raw(room.ref.key));
}

void relay_loop::know_user(connection& c, user_key user) {
  if (raw(user) == 0 || c.user_ == user) return;
  c.user_ = user;
  users_[raw(user)].push_back(&c);
}

void relay_loop::add(std::shared_ptr<connection> c) {
  std::uint32_t at = 0;
  if (free_.empty()) {
    at = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    at = free_.back();
    free_.pop_back();
  }
  slot& s = slots_[at];
  if (++s.generation == 0) s.generation = 1;  // 0 names nobody
  c->id_ = {io_.index(), at, s.generation};
  s.who = std::move(c);
  ++connections_;
}

void relay_loop::detach(connection& c) {
  if (std::exchange(c.left_, true)) return;
  while (!c.rooms_.empty())
    forget(c, *c.rooms_.back().room);
  if (const auto known = users_.find(raw(c.user_)); raw(c.user_) != 0 && known != users_.end()) {
    std::erase(known->second, &c);
    if (known->second.empty()) users_.erase(known);
  }
  if (c.telling_) std::erase(tell_now_, &c);
  c.telling_ = false;
  c.extras_.reset();
}

void relay_loop::remove(connection& c) {
  if (find(c.id_) != &c) return;
  detach(c);
  if (c.flushing_) std::erase(to_flush_, &c);
  if (c.over_) std::erase(over_, &c);
  c.flushing_ = c.over_ = false;
  const std::uint32_t at = c.id_.slot;
  free_.push_back(at);
  --connections_;
  const auto last = std::move(slots_[at].who);  // c may end here
}

void relay_loop::settings_changed() {
  for (const slot& s : slots_)
    if (s.who) s.who->settings_changed();
}

void relay_loop::leave_later(connection& c) {
  leaving_.push_back(c.shared_from_this());
  wake();
}

// ---------------------------------------------------------------- time

void relay_loop::schedule(connection& c, std::int64_t at) {
  if (at >= c.due_) return;
  c.due_ = at;
  due_.push_back({at, c.id_.slot, c.id_.generation});
  std::push_heap(due_.begin(), due_.end());
}

void relay_loop::tick(std::int64_t now) {
  clock_ = now;
  if (last_tick_ != 0 && now - last_tick_ > second_ns) late_at_ = now;
  last_tick_ = now;
  while (!due_.empty() && due_.front().at <= now) {
    const due_entry e = due_.front();
    std::pop_heap(due_.begin(), due_.end());
    due_.pop_back();
    if (slots_[e.slot].generation != e.generation) continue;
    const auto c = slots_[e.slot].who;
    if (!c || c->due_ != e.at) continue;  // an earlier one was set after it
    c->due_ = never;
    // Not before the next tick, whatever it says: the loop must end.
    if (const std::int64_t next = c->on_due(now); next != never)
      schedule(*c, std::max(next, now + 1));
  }
  tell_due(now);
  if (closing_all_) advance_shutdown(now);
  end_turn();
}

void relay_loop::close_all(int code, std::string reason, std::int64_t spread_ns,
                           std::function<void()> done) {
  refresh_clock();
  closing_all_ = std::make_unique<shutdown>();
  auto& s = *closing_all_;
  s.code = code;
  s.reason = std::move(reason);
  s.begun = clock_;
  s.spread = spread_ns;
  s.done = std::move(done);
  for (const slot& each : slots_)
    if (each.who) s.left.push_back(each.who->id_);
  // Slots are given out by age; a shuffle keeps any group of clients from being the last one.
  std::shuffle(s.left.begin(), s.left.end(), std::minstd_rand(static_cast<std::uint32_t>(clock_)));
  advance_shutdown(clock_);
  end_turn();
}

void relay_loop::advance_shutdown(std::int64_t now) {
  auto& s = *closing_all_;
  const std::size_t n = s.left.size();
  while (s.next < n) {
    const std::int64_t at =
        s.begun + static_cast<std::int64_t>(static_cast<double>(s.spread) *
                                            static_cast<double>(s.next) / static_cast<double>(n));
    if (at > now) break;
    const connection_id id = s.left[s.next++];
    if (connection* c = find(id)) {
      // One of its own for each, over as long a time as the closes take, for clients with a fixed
      // reconnect time.
      const auto retry = 500 + static_cast<std::int64_t>((s.next * 2654435761u) % 1000) *
                                   (s.spread / 1'000'000) / 1000;
      c->out().flush();
      c->close(s.code, s.reason, retry);
    }
  }
  if (s.done && (connections_ == 0 || now - s.begun >= s.spread + 6 * second_ns))
    std::exchange(s.done, {})();
}

void relay_loop::drop_all() {
  to_flush_.clear();
  over_.clear();
  tell_now_.clear();
  leaving_.clear();
  for (auto& s : slots_) {
    const auto c = std::move(s.who);
    if (!c) continue;
    detach(*c);
    c->out().abandon();
  }
  connections_ = 0;
}

}  // namespace parley::net
