// What the writer decided: the committed state moves on, clients are told. Nothing is told before.
#include <caf/send.hpp>

#include <algorithm>

#include "actors/room_actor.hpp"

namespace parley {
namespace {

constexpr std::size_t ring_entries = 256, ring_bytes_most = 128 * 1024;
constexpr std::int64_t retry_ms = 1000;

// A refusal that the request itself brought about, not the store's state.
bool is_decision(errc code) {
  switch (code) {
  case errc::not_found:
  case errc::forbidden:
  case errc::conflict:
  case errc::out_of_range:
  case errc::bad_request:
    return true;
  default:
    return false;
  }
}

}  // namespace

void room::run_barriers() {
  while (!line_.empty() && line_.front().changes == 0) {
    auto p = std::move(line_.front());
    line_.pop_front();
    p.done({});
  }
}

void room::on_commit(const commit_done& c) {
  if (c.generation != generation_) return;  // of a line that was thrown away
  ctx_->counters.stages[static_cast<std::size_t>(stage::committed)].observe_ns(steady_ns() -
                                                                               c.committed_ns);
  use();
  const auto& all = *c.results;
  std::size_t at = 0;
  while (at < all.size()) {
    run_barriers();
    if (line_.empty()) break;
    auto p = std::move(line_.front());
    line_.pop_front();
    in_line_changes_ -= p.changes;
    structural_ -= p.structural ? 1 : 0;
    results mine(all.data() + at, p.changes);
    at += p.changes;
    auto bad = std::find_if(mine.begin(), mine.end(),
                            [](const auto& r) { return r.what != storage::outcome::committed; });
    if (bad == mine.end()) {
      p.done(mine);
      continue;
    }
    switch (bad->what) {
    case storage::outcome::duplicate: {
      bool reload = p.structural || structural_ > 0;
      if (p.duplicate)
        p.duplicate(*bad);
      else
        refuse(p.what, fail(errc::internal, "an unexpected duplicate"));
      if (life_ == life::awake) redo(reload);
      break;
    }
    case storage::outcome::superseded: {
      bool reload = p.structural || structural_ > 0;
      line_.push_front(std::move(p));
      redo(reload);
      break;
    }
    case storage::outcome::refused: {
      refuse(p.what, bad->why);
      if (create_ && life_ == life::loading) {
        create_ = nullptr;
        life_ = life::missing;
        fail_waiting(fail(errc::not_found, "no such room"));
        arm(room_timer::idle, std::chrono::milliseconds(500));
        break;
      }
      if (!is_decision(bad->why.code)) {
        // The store refused: what was decided on top of it falls with it.
        auto rest = std::move(line_);
        line_.clear();
        for (auto& x : rest)
          refuse(x.what, bad->why);
      }
      redo(true);
      break;
    }
    case storage::outcome::unknown: {
      line_.push_front(std::move(p));
      unknown_outcome();
      break;
    }
    case storage::outcome::committed:
      break;
    }
    update_card();
    return;
  }
  run_barriers();
  update_card();
}

/// Judges everything in the line anew, in its order, on the committed state.
void room::redo(bool reload) {
  ++generation_;
  auto rest = std::move(line_);
  line_.clear();
  in_line_changes_ = structural_ = 0;
  if (reload) {
    for (auto p = rest.rbegin(); p != rest.rend(); ++p)
      waiting_.push_front(std::move(p->what));
    start_loading();
    return;
  }
  state_.rewind();
  for (auto& p : rest)
    decide(std::move(p.what));
}

void room::unknown_outcome() {
  log::error("room", "a commit's outcome stays unknown; its sessions are closed", {{"room", id_}});
  ++generation_;
  auto rest = std::move(line_);
  line_.clear();
  in_line_changes_ = structural_ = 0;
  for (auto& p : rest) {
    p.what->to.abandon();
    if (p.what->conn)
      post(*p.what->conn,
           close_connection{*p.what->conn, 1011, "the database does not answer", retry_ms, {}});
  }
  start_loading();
}

void room::post_all(const relay_op& what) {
  for (std::size_t io = 0; io < conns_per_io_.size(); ++io)
    if (conns_per_io_[io] > 0) ctx_->relays[io]->post(what);
}

void room::publish_to_active(frame_ptr frame, user_key skip) {
  if (active_ == 0) return;
  auto p = std::make_shared<publication>();
  p->room = ref_;
  p->active = std::move(frame);
  p->skip = skip;
  post_all(publish{std::move(p)});
}

void room::publish_event(const event& e, std::function<void(publication&)> more) {
  auto started = steady_ns();
  last_event_ = clock().now();
  bool members = e.kind == event_kind::member_joined || e.kind == event_kind::member_left;
  bool gathered = members && !names_people();
  if (!gathered) flush_members_changed();
  auto p = std::make_shared<publication>();
  p->room = ref_;
  p->seq = e.seq;
  p->committed_ns = started;
  ring_entry entry;
  entry.seq = e.seq;
  entry.sender = e.sender;
  entry.all = wire::make_frame(wire::event_frame(id_, e, user_key{}));
  if (!e.msg.nonce.empty()) entry.own = wire::make_frame(wire::event_frame(id_, e, e.sender));
  ctx_->counters.stages[static_cast<std::size_t>(stage::encode)].observe_ns(steady_ns() - started);
  if (gathered) {
    if (members_from_ == 0) members_from_ = e.seq;
    members_to_ = e.seq;
    (e.kind == event_kind::member_joined ? members_joined_ : members_left_) += 1;
    arm(room_timer::members, std::chrono::milliseconds(1000));
  } else {
    p->active = entry.all;
    if (entry.own) p->variants.emplace_back(e.sender, entry.own);
  }
  if (more) more(*p);
  ring_bytes_ += entry.all->size() + (entry.own ? entry.own->size() : 0);
  ring_.push_back(std::move(entry));
  while (ring_.size() > ring_entries || (ring_bytes_ > ring_bytes_most && ring_.size() > 1)) {
    ring_bytes_ -= ring_.front().all->size() + (ring_.front().own ? ring_.front().own->size() : 0);
    ring_.pop_front();
  }
  if (p->active || p->counts) post_all(publish{std::move(p)});
}

void room::flush_members_changed() {
  if (members_from_ == 0) return;
  publish_to_active(wire::make_frame(
      wire::members_changed(id_, members_from_, members_to_, members_joined_, members_left_)));
  members_from_ = members_to_ = 0;
  members_joined_ = members_left_ = 0;
}

void room::changed() {
  update_card();
  if (auto after = updated_.change(clock().now())) arm(room_timer::updated, *after);
}

void room::flush_updated() {
  if (static_cast<std::int64_t>(conns_.size()) <= active_ + entering_) return;  // nobody is passive
  auto p = std::make_shared<publication>();
  p->room = ref_;
  p->passive = wire::make_frame(wire::room_updated(state_.summary()));
  post_all(publish{std::move(p)});
}

void room::tell_numbers(const room_state::member& m, bool tell_active, connection_id except) {
  if (m.conns.empty()) return;
  if (m.conns.size() == 1 && m.conns.front() == except) {
    // The relay counts for a passive connection: its base moves too, though its client knows
    // already.
    auto at = conns_.find(except);
    if (at != conns_.end() && at->second.how != mode::passive) return;
  }
  post_all(set_numbers{ref_.key, m.who.key, state_.numbers_of(m), tell_active, except});
}

void room::flush_marks() {
  auto users = std::move(marks_);
  marks_.clear();
  if (!names_people() || active_ == 0) return;
  std::vector<std::pair<std::string, seq_no>> marks;
  for (auto user : users)
    if (const auto* m = state_.joined(user)) marks.emplace_back(m->who.id, m->read_seq);
  if (!marks.empty()) publish_to_active(wire::make_frame(wire::read_marks(id_, marks)));
}

void room::note_presence(user_key user) {
  if (!names_people()) return;
  presence_.insert(user);
  arm(room_timer::presence, std::chrono::milliseconds(settings().timers.presence_ms));
}

void room::flush_presence() {
  auto users = std::move(presence_);
  presence_.clear();
  if (!names_people() || active_ == 0) return;
  std::vector<wire::presence_view> views;
  for (auto user : users)
    if (const auto* m = state_.joined(user)) views.push_back({m->who.id, m->online, m->last_seen});
  if (!views.empty()) publish_to_active(wire::make_frame(wire::presence_frame(id_, views)));
}

void room::flush_users() {
  auto users = std::move(users_);
  users_.clear();
  if (active_ == 0) return;
  std::vector<profile> who;
  for (auto& [key, p] : users)
    who.push_back(std::move(p));
  if (!who.empty()) publish_to_active(wire::make_frame(wire::user_updated(who)));
}

void room::end_typing(user_key user, bool tell) {
  if (typing_.erase(user) == 0 || !tell) return;
  if (const auto* m = state_.find(user))
    publish_to_active(wire::make_frame(wire::typing_frame(id_, m->who.id, false)), user);
}

}  // namespace parley
