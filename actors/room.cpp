// The room's life: loading, waking, timers, being put away.
#include "actors/room.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include "actors/room_actor.hpp"

namespace parley {
namespace {

using std::chrono::milliseconds;
// A room that does not exist answers what came for it and goes; one that the administrator puts
// away tries this often.
constexpr milliseconds missing_stays{500}, retry_passivate{50};
constexpr int passivate_tries = 40;
const caf::duration people_deadline{std::chrono::seconds(10)};

}  // namespace

room::room(caf::actor_config& cfg, context_ptr ctx, std::string id, op_ptr create)
    : metered(cfg, ctx->meters, "room", id), ctx_(std::move(ctx)), id_(std::move(id)),
      create_(std::move(create)), card_(std::make_shared<room_card>()),
      conns_per_io_(ctx_->relays.size(), 0) {
  ref_.id = std::make_shared<const std::string>(id_);
  card_->room = id_;
  card_->load = own_meter();
  ctx_->rooms.add(card_);
  ctx_->counters.rooms_awake.add(1);
  const auto& t = settings().timers;
  updated_ =
      debounce(milliseconds(t.room_updated_quiet_ms), milliseconds(t.room_updated_latest_ms));
}

void room::on_exit() {
  // Sessions that still hold the handle (this room ended by an error) ask the directory again.
  for (const auto& [conn, session] : attached_)
    caf::anon_send(session->actor, please_detach{id_});
  attached_.clear();
  line_.clear();
  waiting_.clear();
  ctx_->rooms.remove(card_);
  ctx_->counters.rooms_awake.add(-1);
}

room_link_ptr room::link() {
  return std::make_shared<const room_link>(
      room_link{caf::actor_cast<room_actor>(this), own_meter()});
}

room::behavior_type room::make_behavior() {
  last_use_ = last_event_ = clock().now();
  if (create_)
    propose_create(create_);
  else
    start_loading();
  return {
      [this](const room_op& r) { accept(r); },
      [this](const let_go& d) {
        attached_.erase(d.conn);
        if (d.gone) drop_connection(d.conn, false);
        if (passivating_) ask_to_go();
      },
      [this](const commit_done& c) { on_commit(c); },
      [this](const came_online& c) { on_came_online(c.who); },
      [this](const connection_closed& c) { drop_connection(c.who.conn, true); },
      [this](const went_offline& w) {
        auto* m = state_.find(w.user);
        if (m == nullptr || !m->conns.empty()) return;
        state_.set_online(*m, false);
        m->last_seen = w.last_seen;
        note_presence(w.user);
        changed();
      },
      [this](const user_changed& u) {
        auto* m = state_.find(u.who.key);
        if (m == nullptr) return;
        m->who = u.who;
        users_[u.who.key] = u.who;
        views_at_ = {};
        arm(room_timer::users, milliseconds(1000));
      },
      [this](const member_sessions& s) { on_member_sessions(s); },
      [this](const room_tick& t) {
        armed_[static_cast<std::size_t>(t.what)] = false;
        on_tick(t.what);
      },
      [this](const may_go& g) { on_may_go(g.yes); },
      [this](const passivate_now& p) { on_passivate(p); },
      [this](const replay_drained& d) {
        auto at = conns_.find(d.conn);
        if (at != conns_.end() && at->second.how == mode::entering && at->second.turn == d.turn)
          continue_replay(d.conn, at->second);
      },
  };
}

void room::on_member_sessions(const member_sessions& s) {
  auto* m = state_.find(s.user);
  if (m == nullptr || m->state != membership::joined || life_ != life::awake) return;
  auto mine = wire::make_frame(wire::room_mine(state_.summary_for(*m)));
  if (!s.conns.empty() || !s.enter.empty()) {
    state_.set_online(*m, true);
    note_presence(s.user);
  }
  for (const auto& conn : s.conns) {
    attach_connection(s.user, conn, true);
    post(conn, deliver{conn, mine, false});
  }
  for (const auto& conn : s.enter) {
    post(conn, deliver{conn, mine, false});
    auto& c = attach_connection(s.user, conn, false);
    if (c.how != mode::passive) continue;  // it has entered by itself meanwhile
    ++entering_;
    c.how = mode::entering;
    c.next = m->joined_seq;
    ++c.turn;
    post(conn, begin_enter{ref_, conn, nullptr});
    continue_replay(conn, c);
  }
  changed();
}

void room::start_loading() {
  life_ = life::loading;
  card_->state = 0;
  ++reads_;
  ctx_->counters.members_cache_misses.add();
  ctx_->readers->read<storage::room_load>(
      this, [id = id_](storage::reader_store& s) { return s.load_room(id); },
      [this](result<storage::room_load> r) {
        --reads_;
        on_loaded(std::move(r));
      });
}

void room::on_loaded(result<storage::room_load> r) {
  if (!r) {
    bool missing = r.error().code == errc::not_found;
    life_ = missing ? life::missing : life::failed;
    card_->state = 3;
    fail_waiting(missing ? fail(errc::not_found, "no such room") : r.error());
    arm(room_timer::idle, missing_stays);
    return;
  }
  bool first = ref_.key == room_key{};
  ref_.key = r->room.key;
  ctx_->counters.rooms_loaded.add();
  state_.load(std::move(*r));
  if (!first) return on_awake();
  // Registered with all shards of people before anything is decided: who is online comes back, and
  // what changes from then on comes by itself.
  auto left = std::make_shared<std::size_t>(ctx_->people.size());
  auto next = [this, left] {
    if (--*left == 0) on_awake();
  };
  auto self = link();
  for (auto& shard : ctx_->people)
    request(shard, people_deadline, room_awake{ref_.key, self})
        .then(
            [this, next](const online_now& n) {
              on_came_online(n.who);
              next();
            },
            [this, next](const caf::error&) {
              log::error("room", "people did not answer a waking room", {{"room", id_}});
              next();
            });
}

void room::on_awake() {
  life_ = life::awake;
  card_->state = 1;
  if (create_) {
    create_ = nullptr;
    for (const auto& [key, m] : state_.members())
      if (m.state == membership::joined)
        send(ctx_->people_of(m.who.id), member_joined{ref_.key, m.who.id});
  }
  update_card();
  auto ops = std::move(waiting_);
  waiting_.clear();
  for (auto& o : ops)
    decide(std::move(o));
  auto idle = std::chrono::seconds(std::max<std::int64_t>(1, settings().storage.room_idle_s));
  arm(room_timer::idle, std::min<std::chrono::nanoseconds>(idle, std::chrono::seconds(10)));
  arm(room_timer::sync, milliseconds(settings().timers.sync_ms));
}

void room::fail_waiting(const failure& why) {
  auto ops = std::move(waiting_);
  waiting_.clear();
  for (auto& o : ops)
    refuse(o, why);
}

void room::arm(room_timer what, std::chrono::nanoseconds after) {
  auto& armed = armed_[static_cast<std::size_t>(what)];
  if (armed) return;
  armed = true;
  delayed_send(this, after, room_tick{what});
}

void room::on_tick(room_timer what) {
  switch (what) {
  case room_timer::updated: {
    bool emit = false;
    if (auto again = updated_.fired(clock().now(), emit)) arm(room_timer::updated, *again);
    if (emit) flush_updated();
    break;
  }
  case room_timer::marks:
    flush_marks();
    break;
  case room_timer::presence:
    flush_presence();
    break;
  case room_timer::members:
    flush_members_changed();
    break;
  case room_timer::users:
    flush_users();
    break;
  case room_timer::typing: {
    auto now = clock().now();
    std::vector<user_key> over;
    for (const auto& [user, until] : typing_)
      if (until <= now) over.push_back(user);
    for (auto user : over)
      end_typing(user, true);
    if (!typing_.empty()) arm(room_timer::typing, milliseconds(500));
    break;
  }
  case room_timer::sync: {
    if (life_ != life::awake) break;
    auto quiet = clock().now() - last_event_;
    auto every = std::chrono::nanoseconds(milliseconds(settings().timers.sync_ms));
    if (quiet >= every) {
      if (active_ > 0) {
        std::vector<std::pair<std::string, seq_no>> rooms{{id_, state_.head()}};
        publish_to_active(wire::make_frame(wire::sync_frame(rooms)));
      }
      last_event_ = clock().now();
      quiet = {};
    }
    arm(room_timer::sync, every - quiet);
    break;
  }
  case room_timer::idle:
    on_idle_tick();
    break;
  case room_timer::passivate:
    if (!passivating_) break;
    ask_to_go();
    if (passivating_ && ++passivate_tries_ >= passivate_tries) finish_passivate(false);
    if (passivating_) arm(room_timer::passivate, retry_passivate);
    break;
  case room_timer::count_:
    break;
  }
}

bool room::may_sleep() const {
  return active_ == 0 && entering_ == 0 && line_.empty() && waiting_.empty() && reads_ == 0 &&
         replay_reads_ == 0 && life_ != life::loading;
}

void room::on_idle_tick() {
  auto idle = std::chrono::seconds(std::max<std::int64_t>(1, settings().storage.room_idle_s));
  bool gone = life_ == life::missing || life_ == life::failed;
  if (may_sleep() && (gone || clock().now() - last_use_ >= idle)) ask_to_go();
  arm(room_timer::idle, gone ? std::chrono::nanoseconds(missing_stays)
                             : std::min<std::chrono::nanoseconds>(idle, std::chrono::seconds(10)));
}

void room::ask_to_go() {
  if (asked_to_go_ || !may_sleep()) return;
  if (!attached_.empty()) {
    for (const auto& [conn, session] : attached_)
      send(session->actor, please_detach{id_});
    return;
  }
  asked_to_go_ = true;
  card_->state = 2;
  send(ctx_->directory, let_me_go{id_, received_});
}

void room::on_may_go(bool yes) {
  asked_to_go_ = false;
  card_->state = life_ == life::awake ? 1 : 3;
  if (!yes) return;
  // Nothing more can come: the directory has forgotten this room, and no session holds it.
  finish_passivate(true);
  if (ref_.key != room_key{}) {
    post_all(drop_room{ref_.key});
    for (auto& shard : ctx_->people)
      send(shard, room_asleep{ref_.key, link()});
    ctx_->counters.rooms_passivated.add();
  }
  quit();
}

void room::on_passivate(const passivate_now& p) {
  if (active_ > 0 || entering_ > 0 || passivating_) {
    (*p.then)(reply{parley::answer{"\"passivated\":false", {}}, false});
    return;
  }
  passivating_ = p.then;
  passivate_tries_ = 0;
  ask_to_go();
  if (passivating_) arm(room_timer::passivate, retry_passivate);
}

void room::finish_passivate(bool yes) {
  if (!passivating_) return;
  (*passivating_)(
      reply{parley::answer{yes ? "\"passivated\":true" : "\"passivated\":false", {}}, false});
  passivating_ = nullptr;
}

void room::update_card() {
  card_->members.store(state_.joined_count(), std::memory_order_relaxed);
  card_->online.store(state_.online_count(), std::memory_order_relaxed);
  card_->active.store(active_, std::memory_order_relaxed);
  card_->passive.store(static_cast<std::int64_t>(conns_.size()) - active_ - entering_,
                       std::memory_order_relaxed);
  card_->last_seq.store(state_.head(), std::memory_order_relaxed);
  auto queued = static_cast<std::int64_t>(line_.size() + waiting_.size());
  card_->queued.store(queued, std::memory_order_relaxed);
  ctx_->counters.room_queue_peak.peak(queued);
}

room_link_ptr spawn_room(caf::actor_system& system, const context_ptr& ctx, std::string id,
                         op_ptr create) {
  auto made = std::make_shared<room_link>();
  // The meter is the actor's own; the link carries it to those who look before they send.
  auto handle = system.spawn<room>(ctx, std::move(id), std::move(create));
  made->actor = handle;
  if (auto* r = dynamic_cast<room*>(caf::actor_cast<caf::abstract_actor*>(handle)))
    made->load = r->own_meter();
  return made;
}

}  // namespace parley
