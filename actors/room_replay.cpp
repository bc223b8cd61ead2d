// A room's connections: passive, entering (a replay runs) or active. A replay is read in pages as
// the socket drains; live events meanwhile become part of it, and when the rest fits one page the
// connection goes live in one step.
#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <algorithm>

#include "actors/room_actor.hpp"

namespace parley {
namespace {

constexpr std::size_t members_shown = 100;
constexpr std::size_t replay_reads_most = 8;  // under way at once in one room

}  // namespace

room::connection& room::attach_connection(user_key user, const connection_id& conn,
                                          bool tell_relay) {
  auto [at, fresh] = conns_.try_emplace(conn);
  if (!fresh) return at->second;
  at->second.user = user;
  ++conns_per_io_[conn.io];
  if (auto* m = state_.find(user)) {
    m->conns.push_back(conn);
    if (tell_relay) post(conn, watch{ref_, conn, user, state_.numbers_of(*m)});
  }
  return at->second;
}

void room::drop_connection(const connection_id& conn, bool tell_relay) {
  auto at = conns_.find(conn);
  if (at == conns_.end()) return;
  auto user = at->second.user;
  if (at->second.how == mode::active) --active_;
  if (at->second.how == mode::entering) --entering_;
  conns_.erase(at);
  --conns_per_io_[conn.io];
  if (auto* m = state_.find(user)) {
    std::erase(m->conns, conn);
    if (m->conns.empty()) end_typing(user, true);
  }
  if (tell_relay) post(conn, leave_room{ref_.key, conn});
  update_card();
}

void room::on_came_online(const std::vector<presence_entry>& who) {
  bool any = false;
  for (const auto& entry : who) {
    auto* m = state_.find(entry.user);
    if (m == nullptr || m->state != membership::joined) continue;
    attach_connection(entry.user, entry.conn, true);
    if (!m->online) {
      state_.set_online(*m, true);
      note_presence(entry.user);
    }
    any = true;
  }
  if (any && life_ == life::awake) changed();
}

void room::enter(const op_ptr& o, std::optional<seq_no> after,
                 const std::optional<std::string>& epoch) {
  auto* m = state_.find(o->who.key);
  if (m == nullptr || m->state != membership::joined) return refuse(o, state_.outsider());
  if (!o->conn) return refuse(o, fail(errc::bad_request, "only a session enters or exits"));
  flush_members_changed();
  auto head = state_.head();
  bool reset = (epoch && *epoch != ctx_->epoch) || (after && *after > head);
  std::vector<wire::gap> gaps;
  seq_no from = head + 1;
  if (after && !reset) {
    from = *after + 1;
    auto first = std::min(state_.first_visible(*m), head + 1);
    if (from < first) {
      gaps.push_back({from, first - 1, "not_yours"});
      from = first;
    }
    if (auto cut = head - settings().limits.replay_events + 1; from < cut) {
      gaps.push_back({from, cut - 1, "far"});
      from = cut;
    }
  }
  if (after)
    (reset          ? ctx_->counters.resumes_reset
     : gaps.empty() ? ctx_->counters.resumes_full
                    : ctx_->counters.resumes_gap)
        .add();

  auto& c = attach_connection(o->who.key, *o->conn, false);
  if (c.how == mode::active) --active_;
  if (c.how != mode::entering) ++entering_;
  c.how = mode::entering;
  c.next = from;
  ++c.turn;
  if (!m->online) {
    state_.set_online(*m, true);
    note_presence(o->who.key);
  }
  frame_ptr frame;
  if (!o->entered) {
    auto now = clock().now();
    if (views_.empty() || now - views_at_ > std::chrono::seconds(1)) {
      ctx_->counters.members_cache_misses.add();
      views_ = member_views(members_shown, false);
      views_at_ = now;
    } else {
      ctx_->counters.members_cache_hits.add();
    }
    frame = o->to.take_frame(wire::enter_fields(head, m->read_seq, views_, gaps, reset));
  }
  post(*o->conn, begin_enter{ref_, *o->conn, std::move(frame)});
  if (o->entered) {
    wire::entered e;
    e.room = id_;
    e.last_seq = head;
    e.gaps = gaps;
    e.reset = reset;
    o->entered(std::move(e));
    o->entered = nullptr;
  }
  continue_replay(*o->conn, c);
  update_card();
}

void room::make_active(const connection_id& id, connection& c, frame_ptr tail) {
  if (c.how == mode::entering) --entering_;
  if (c.how != mode::active) ++active_;
  c.how = mode::active;
  post(id, go_live{ref_, id, c.user, std::move(tail)});
}

std::string room::ring_frames(seq_no from, user_key reader) const {
  std::string out;
  for (const auto& e : ring_)
    if (e.seq >= from) out += *(e.own && e.sender == reader ? e.own : e.all);
  return out;
}

void room::continue_replay(const connection_id& id, connection& c) {
  if (c.next > state_.head()) return make_active(id, c, nullptr);
  if (in_ring(c.next)) {
    auto rest = ring_frames(c.next, c.user);
    if (static_cast<std::int64_t>(rest.size()) <= settings().limits.replay_page_bytes)
      return make_active(id, c, std::make_shared<const std::string>(std::move(rest)));
  }
  replays_waiting_.emplace_back(id, c.turn);
  read_replays();
}

void room::read_replays() {
  while (replay_reads_ < replay_reads_most && !replays_waiting_.empty()) {
    auto [id, turn] = replays_waiting_.front();
    replays_waiting_.pop_front();
    auto at = conns_.find(id);
    if (at == conns_.end() || at->second.turn != turn || at->second.how != mode::entering) continue;
    ++replay_reads_;
    ctx_->readers->read<wire::events_page>(
        this,
        [key = ref_.key, after = at->second.next - 1, limit = settings().limits.replay_events,
         bytes = settings().limits.replay_page_bytes](storage::reader_store& s) {
          return s.events(key, after, limit, bytes);
        },
        [this, id = id, turn = turn](result<wire::events_page> page) {
          --replay_reads_;
          on_replay_page(id, turn, std::move(page));
          read_replays();
        });
  }
}

void room::on_replay_page(const connection_id& id, std::uint64_t turn,
                          result<wire::events_page> page) {
  auto at = conns_.find(id);
  if (at == conns_.end() || at->second.turn != turn || at->second.how != mode::entering) return;
  auto& c = at->second;
  if (!page) {
    post(id, close_connection{id, 1013, "the replay could not be read", 1000, {}});
    return;
  }
  auto head = state_.head();
  std::string frames;
  for (const auto& e : page->events) {
    // What the writer has committed and this room has not told yet comes live.
    if (e.seq > head) break;
    frames += *wire::make_frame(wire::event_frame(id_, e, c.user));
    c.next = e.seq + 1;
  }
  if (page->events.empty()) c.next = head + 1;
  if (c.next > head)
    return make_active(
        id, c, frames.empty() ? nullptr : std::make_shared<const std::string>(std::move(frames)));
  if (in_ring(c.next)) {
    auto rest = ring_frames(c.next, c.user);
    if (static_cast<std::int64_t>(rest.size()) <= settings().limits.replay_page_bytes / 2) {
      frames += rest;
      return make_active(id, c, std::make_shared<const std::string>(std::move(frames)));
    }
  }
  auto self = caf::actor_cast<room_actor>(this);
  post(id, replay_page{ref_.key, id, std::make_shared<const std::string>(std::move(frames)),
                       [self, id, turn] {
                         caf::anon_send(self, replay_drained{id, turn});
                       }});
}

}  // namespace parley
