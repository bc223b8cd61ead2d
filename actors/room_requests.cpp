// Requests to a room: each is judged by the decided state, and answered in the order in which it
// came.
#include <caf/send.hpp>

#include <algorithm>
#include <thread>

#include "actors/room_actor.hpp"
#include "schemas/text.hpp"
#include "storage/faults.hpp"

namespace parley {
namespace {

constexpr std::int64_t retry_ms = 1000;
constexpr std::size_t answer_bytes = 120 * 1024;  // of 128 KiB, the rest for what stands around
constexpr std::size_t members_shown = 100;
constexpr std::int64_t events_most = 200;

}  // namespace

void room::accept(const room_op& r) {
  use();
  if (r.counted) ++received_;
  if (r.attaches) attached_[r.attaches->conn] = r.attaches;
  if (life_ == life::awake) return decide(r.what);
  if (life_ == life::missing) return refuse(r.what, fail(errc::not_found, "no such room"));
  if (static_cast<std::int64_t>(waiting_.size()) >= settings().limits.room_queue)
    return refuse(r.what,
                  failure{errc::overloaded, "too many requests wait for the room", retry_ms});
  waiting_.push_back(r.what);
  if (life_ == life::failed) start_loading();
}

void room::decide(op_ptr o) {
  std::visit([&](const auto& r) { on(r, o); }, o->what);
}

void room::refuse(const op_ptr& o, const failure& why) {
  if (o->entered) {
    wire::entered e;
    e.room = id_;
    e.error = why;
    o->entered(std::move(e));
    o->entered = nullptr;
    return;
  }
  if (std::holds_alternative<wire::message_send>(o->what))
    ctx_->counters.message_send_failed.observe_ns(steady_ns() - o->started_ns);
  o->to.fail(why);
}

void room::answer(const op_ptr& o, std::string_view fields) { o->to.ok(fields); }

void room::at_turn(op_ptr o, std::function<void()> fn) {
  if (line_.empty()) return fn();
  pending p;
  p.what = std::move(o);
  p.done = [fn = std::move(fn)](results) { fn(); };
  line_.push_back(std::move(p));
}

bool room::propose(op_ptr o, std::vector<storage::change> changes, bool structural,
                   std::function<void(results)> done,
                   std::function<void(const storage::change_result&)> duplicate) {
  pending p;
  p.what = std::move(o);
  p.changes = changes.size();
  p.structural = structural;
  p.done = std::move(done);
  p.duplicate = std::move(duplicate);
  auto share = std::make_shared<storage::room_share>();
  share->room = ref_.key;
  share->term = state_.row().term;
  share->changes = std::move(changes);
  // What the first numbered change of the share builds on; one without a number, on all that was
  // decided.
  share->expected_head = state_.decided_head();
  for (const auto& c : share->changes) {
    seq_no first = 0;
    std::visit(
        [&](const auto& x) {
          if constexpr (requires {
                          x.seq;
                          x.at;
                        })
            first = x.seq;
        },
        c.what);
    if (first != 0) {
      share->expected_head = first - 1;
      break;
    }
  }
  auto now = steady_ns();
  ctx_->counters.stages[static_cast<std::size_t>(stage::room)].observe_ns(now - p.what->parsed_ns);
  in_line_changes_ += p.changes;
  structural_ += structural ? 1 : 0;
  auto depth = ctx_->gate->depth.fetch_add(static_cast<std::int64_t>(p.changes)) +
               static_cast<std::int64_t>(p.changes);
  ctx_->counters.writer_queue.set(depth);
  ctx_->counters.writer_queue_peak.peak(depth);
  line_.push_back(std::move(p));
  send(ctx_->writer, proposal{ref_.key, generation_, std::move(share), now}, link());
  update_card();
  return true;
}

std::optional<storage::op_nonce> room::nonce_of(const op_ptr& o, const std::string& nonce) const {
  if (nonce.empty()) return std::nullopt;
  return storage::op_nonce{o->who.key, nonce, o->hash};
}

// Full is told before anything is accepted or numbered.
#define PARLEY_REFUSE_WHEN_FULL(o)                                                                 \
  if (ctx_->gate->full() ||                                                                        \
      static_cast<std::int64_t>(line_.size()) >= settings().limits.room_queue) {                   \
    ctx_->counters.rejected_overloaded.add();                                                      \
    return refuse(o, failure{errc::overloaded, "too many changes wait to be stored", retry_ms});   \
  }

void room::settle_nonce(const op_ptr& o, const std::string& hash, const room_state::known& k,
                        bool deleted) {
  ctx_->counters.nonce_hits.add();
  if (k.hash != hash)
    return refuse(o, fail(errc::conflict, "another message was sent under this nonce"));
  answer(o, wire::sent_fields(k.seq, k.at, true, deleted));
}

void room::answer_duplicate(const op_ptr& o, const storage::change_result& d) {
  ctx_->counters.nonce_hits.add();
  if (d.request_hash != o->hash)
    return refuse(o, fail(errc::conflict, "another request was made under this nonce"));
  answer(o, wire::seq_fields(d.seq, true));
}

void room::unless_known(const op_ptr& o, const std::string& nonce, std::function<void()> decided) {
  auto key = nonce_of(o, nonce);
  if (!key) return at_turn(o, std::move(decided));
  PARLEY_REFUSE_WHEN_FULL(o)
  ctx_->counters.nonce_lookups.add();
  storage::change c;
  c.what = storage::find_nonce{o->who.key, nonce};
  c.nonce = std::move(key);
  std::vector<storage::change> changes;
  changes.push_back(std::move(c));
  propose(o, std::move(changes), false, [this, o, decided = std::move(decided)](results found) {
    if (!found.front().found) return decided();
    answer_duplicate(o, found.front());
  });
}

void room::look_up_nonce(const op_ptr& o, const failure& otherwise) {
  const auto& r = std::get<wire::message_send>(o->what);
  PARLEY_REFUSE_WHEN_FULL(o)
  ctx_->counters.nonce_lookups.add();
  storage::change c;
  c.what = storage::find_nonce{o->who.key, r.nonce};
  std::vector<storage::change> changes;
  changes.push_back(std::move(c));
  propose(o, std::move(changes), false, [this, o, otherwise](results found) {
    const auto& f = found.front();
    if (!f.found) return refuse(o, otherwise);
    settle_nonce(o, o->hash, room_state::known{f.seq, f.at, f.request_hash}, f.deleted);
  });
}

void room::on(const wire::message_send& r, const op_ptr& o) {
  if constexpr (storage::faults_built_in)
    if (static const auto stuck = storage::read_faults().stuck_room_ms;
        stuck > 0 && r.text == "!stuck")
      std::this_thread::sleep_for(std::chrono::milliseconds(stuck));
  // A known nonce is answered before every other check.
  if (const auto* k = state_.nonce(o->who.key, r.nonce)) {
    if (k->seq != 0)
      return at_turn(o, [this, o, known = *k] { settle_nonce(o, o->hash, known, false); });
    return at_turn(o, [this, o, nonce = r.nonce] {
      const auto* now = state_.nonce(o->who.key, nonce);
      if (now == nullptr || now->seq == 0)
        return refuse(
            o, failure{errc::unavailable, "the first request under this nonce failed", retry_ms});
      settle_nonce(o, o->hash, *now, false);
    });
  }
  const auto* m = state_.joined(o->who.key);
  if (m == nullptr) return look_up_nonce(o, state_.outsider());
  if (o->refuse) return look_up_nonce(o, *o->refuse);
  if (!r.media.empty()) return look_up_nonce(o, fail(errc::not_found, "media: no such media"));
  PARLEY_REFUSE_WHEN_FULL(o)
  auto msg = std::make_shared<storage::append_message>(
      state_.send(o->who.key, r.nonce, o->hash, r.text, r.reply_to, ctx_->now()));
  storage::change c;
  c.what = *msg;
  std::vector<storage::change> changes;
  changes.push_back(std::move(c));
  propose(
      o, std::move(changes), false,
      [this, o, msg](results) {
        auto* who = state_.find(msg->sender);
        if (who == nullptr) return refuse(o, fail(errc::internal, "the sender is no longer known"));
        auto before = state_.numbers_of(*who);
        state_.committed(*msg);
        event e;
        e.seq = msg->seq;
        e.at = msg->at;
        e.kind = event_kind::message_created;
        e.sender = msg->sender;
        e.sender_id = who->who.id;
        e.msg.seq = msg->seq;
        e.msg.n = msg->n;
        e.msg.at = msg->at;
        e.msg.sender = msg->sender;
        e.msg.sender_id = who->who.id;
        e.msg.text = std::move(msg->text);
        e.msg.reply_to = msg->reply_to;
        e.msg.nonce = msg->nonce;
        end_typing(msg->sender, true);
        if (o->conn) {
          // A send enters the room, its own event being the first.
          auto& c = attach_connection(o->who.key, *o->conn, false);
          if (c.how == mode::passive) {
            ++c.turn;
            make_active(*o->conn, c, nullptr);
          }
        }
        auto started = steady_ns();
        publish_event(e, [&](publication& p) {
          p.counts = true;
          p.sender = msg->sender;
        });
        ctx_->counters.event_message_sent.observe_ns(steady_ns() - started);
        answer(o, wire::sent_fields(msg->seq, msg->at, false));
        ctx_->counters.message_send_ok.observe_ns(steady_ns() - o->started_ns);
        if (before.unread != 0 || before.mentions != 0)
          tell_numbers(*who, true, o->conn.value_or(connection_id{}));
        changed();
      },
      [this, o](const storage::change_result& d) {
        state_.forget(o->who.key, std::get<wire::message_send>(o->what).nonce);
        room_state::known k{d.seq, d.at, d.request_hash};
        state_.remember(o->who.key, std::get<wire::message_send>(o->what).nonce, k);
        settle_nonce(o, o->hash, k, d.deleted);
      });
}

void room::on(const wire::room_join& r, const op_ptr& o) {
  const auto* m = state_.find(o->who.key);
  auto nonce = nonce_of(o, r.nonce);
  if (m != nullptr && m->state == membership::joined)
    return unless_known(o, r.nonce, [this, o] {
      const auto* now = state_.find(o->who.key);
      answer(o, wire::seq_fields(now != nullptr ? now->joined_seq : state_.head()));
    });
  if (m != nullptr && m->state == membership::banned)
    return unless_known(o, r.nonce, [this, o] {
      refuse(o, state_.row().kind == room_kind::public_room
                    ? fail(errc::forbidden, "you are banned from this room")
                    : fail(errc::not_found, "no such room"));
    });
  bool invited = m != nullptr && m->state == membership::invited;
  if (state_.row().kind != room_kind::public_room && !invited)
    return unless_known(o, r.nonce,
                        [this, o] { refuse(o, fail(errc::not_found, "no such room")); });
  PARLEY_REFUSE_WHEN_FULL(o)
  auto change = state_.join(o->who, ctx_->now());
  storage::change c;
  c.what = change;
  c.nonce = nonce;
  std::vector<storage::change> changes;
  changes.push_back(std::move(c));
  propose(
      o, std::move(changes), true,
      [this, o, change](results) {
        state_.committed_member(change);
        auto* who = state_.find(change.user);
        event e;
        e.seq = change.seq;
        e.at = change.at;
        e.kind = change.kind;
        e.sender = change.by;
        e.sender_id = o->who.id;
        e.user = who != nullptr ? who->who : o->who;
        e.role_name = change.role_name;
        publish_event(e);
        send(ctx_->people_of(o->who.id), member_joined{ref_.key, o->who.id});
        answer(o, wire::seq_fields(change.seq));
        changed();
      },
      [this, o](const storage::change_result& d) { answer_duplicate(o, d); });
}

void room::on(const wire::room_leave& r, const op_ptr& o) {
  const auto* m = state_.joined(o->who.key);
  // A retry of the leave that made the caller an outsider is answered with its seq.
  if (m == nullptr) return unless_known(o, r.nonce, [this, o] { refuse(o, state_.outsider()); });
  auto nonce = nonce_of(o, r.nonce);
  PARLEY_REFUSE_WHEN_FULL(o)
  auto steps = state_.leave(o->who.key, ctx_->now());
  std::vector<storage::change> changes;
  for (const auto& s : steps) {
    storage::change c;
    c.what = s;
    if (changes.empty()) c.nonce = nonce;
    changes.push_back(std::move(c));
  }
  propose(
      o, std::move(changes), true,
      [this, o, steps](results) {
        for (const auto& s : steps) {
          state_.committed_member(s);
          auto* who = state_.find(s.user);
          event e;
          e.seq = s.seq;
          e.at = s.at;
          e.kind = s.kind;
          e.sender = s.by;
          e.sender_id = o->who.id;
          if (who != nullptr) e.user = who->who;
          e.role_name = s.role_name;
          if (s.by != s.user) e.by_id = o->who.id;
          end_typing(s.user, false);
          if (s.kind == event_kind::member_left) flush_members_changed();
          publish_event(e);
          if (s.kind == event_kind::member_left && who != nullptr) {
            // The leaver's last event is their own leave: told above, then all its connections go.
            flush_members_changed();
            auto gone = wire::make_frame(wire::room_gone(id_));
            auto conns = who->conns;
            for (const auto& conn : conns) {
              drop_connection(conn, true);
              post(conn, deliver{conn, gone, false});
            }
            send(ctx_->people_of(who->who.id), member_left{ref_.key, who->who.id});
          } else if (who != nullptr) {
            auto mine = wire::make_frame(wire::room_mine(state_.summary_for(*who)));
            for (const auto& conn : who->conns)
              post(conn, deliver{conn, mine, false});
          }
        }
        answer(o, wire::seq_fields(steps.front().seq));
        changed();
      },
      [this, o](const storage::change_result& d) { answer_duplicate(o, d); });
}

void room::on(const wire::room_invite& r, const op_ptr& o) {
  const auto* m = state_.joined(o->who.key);
  if (m == nullptr) return unless_known(o, r.nonce, [this, o] { refuse(o, state_.outsider()); });
  if (o->refuse) return unless_known(o, r.nonce, [this, o] { refuse(o, *o->refuse); });
  if (state_.row().kind == room_kind::direct)
    return unless_known(o, r.nonce, [this, o] {
      refuse(o, fail(errc::forbidden, "a direct room has two members"));
    });
  if (state_.row().kind == room_kind::private_room && m->r < role::moderator)
    return unless_known(o, r.nonce, [this, o] {
      refuse(o, fail(errc::forbidden, "moderators invite to a private room"));
    });
  if (o->resolved.empty())
    return unless_known(o, r.nonce,
                        [this, o] { refuse(o, fail(errc::not_found, "user: no such user")); });
  const auto& who = o->resolved.front();
  const auto* target = state_.find(who.key);
  if (target != nullptr && target->state == membership::banned)
    return unless_known(o, r.nonce, [this, o] {
      refuse(o, fail(errc::conflict, "user is banned from this room"));
    });
  auto nonce = nonce_of(o, r.nonce);
  if (target != nullptr && target->state != membership::left)
    return unless_known(o, r.nonce, [this, o, key = who.key] {
      const auto* now = state_.find(key);
      answer(o, wire::seq_fields(now != nullptr ? now->joined_seq : state_.head()));
    });
  PARLEY_REFUSE_WHEN_FULL(o)
  auto change = state_.invite(who, o->who.key, ctx_->now());
  storage::change c;
  c.what = change;
  c.nonce = nonce;
  std::vector<storage::change> changes;
  changes.push_back(std::move(c));
  propose(
      o, std::move(changes), true,
      [this, o, change, who](results) {
        state_.committed_member(change);
        event e;
        e.seq = change.seq;
        e.at = change.at;
        e.kind = change.kind;
        e.sender = change.by;
        e.sender_id = o->who.id;
        e.user = who;
        e.role_name = change.role_name;
        e.by_id = o->who.id;
        publish_event(e);
        answer(o, wire::seq_fields(change.seq));
      },
      [this, o](const storage::change_result& d) { answer_duplicate(o, d); });
}

void room::on(const wire::room_change& r, const op_ptr& o) {
  const auto* m = state_.joined(o->who.key);
  if (m == nullptr) return unless_known(o, r.nonce, [this, o] { refuse(o, state_.outsider()); });
  if (m->r != role::owner)
    return unless_known(o, r.nonce,
                        [this, o] { refuse(o, fail(errc::forbidden, "owners change the room")); });
  if (o->refuse) return unless_known(o, r.nonce, [this, o] { refuse(o, *o->refuse); });
  room_settings what = r.settings;
  const auto& now = state_.row();
  if (what.name && *what.name == now.name) what.name.reset();
  if (what.topic && *what.topic == now.topic) what.topic.reset();
  if (what.slow_mode_s && *what.slow_mode_s == now.slow_mode_s) what.slow_mode_s.reset();
  if (what.retention_days && *what.retention_days == now.retention_days)
    what.retention_days.reset();
  if (what.history && *what.history == now.history) what.history.reset();
  if (!what.name && !what.topic && !what.slow_mode_s && !what.retention_days && !what.history)
    return unless_known(o, r.nonce, [this, o] { answer(o, wire::seq_fields(state_.head())); });
  PARLEY_REFUSE_WHEN_FULL(o)
  auto change = state_.change(o->who.key, what, ctx_->now());
  storage::change c;
  c.what = change;
  c.nonce = nonce_of(o, r.nonce);
  std::vector<storage::change> changes;
  changes.push_back(std::move(c));
  propose(
      o, std::move(changes), true,
      [this, o, change](results) {
        state_.committed_settings(change);
        event e;
        e.seq = change.seq;
        e.at = change.at;
        e.kind = event_kind::room_changed;
        e.sender = change.by;
        e.sender_id = o->who.id;
        e.by_id = o->who.id;
        e.settings = change.settings;
        publish_event(e);
        answer(o, wire::seq_fields(change.seq));
        changed();
      },
      [this, o](const storage::change_result& d) { answer_duplicate(o, d); });
}

void room::on(const wire::room_enter& r, const op_ptr& o) {
  at_turn(o, [this, o, after = r.after_seq, epoch = r.epoch] { enter(o, after, epoch); });
}

void room::on(const wire::room_exit&, const op_ptr& o) {
  at_turn(o, [this, o] {
    const auto* m = state_.joined(o->who.key);
    if (m == nullptr) return refuse(o, state_.outsider());
    if (!o->conn) return refuse(o, fail(errc::bad_request, "only a session enters or exits"));
    auto& c = attach_connection(o->who.key, *o->conn, false);
    if (c.how == mode::active) --active_;
    if (c.how == mode::entering) --entering_;
    c.how = mode::passive;
    ++c.turn;
    end_typing(o->who.key, true);
    post(*o->conn,
         exit_room{ref_, *o->conn, o->who.key, o->to.take_frame(""), state_.numbers_of(*m)});
    update_card();
  });
}

void room::on(const wire::message_read& r, const op_ptr& o) { move_mark(o, r.seq, false); }
void room::on(const wire::message_unread& r, const op_ptr& o) { move_mark(o, r.seq, true); }

void room::move_mark(const op_ptr& o, seq_no seq, bool backward) {
  const auto* m = state_.joined(o->who.key);
  if (m == nullptr) return at_turn(o, [this, o] { refuse(o, state_.outsider()); });
  auto tell = [this, o](bool moved) {
    auto* who = state_.find(o->who.key);
    if (who == nullptr) return refuse(o, state_.outsider());
    auto n = state_.numbers_of(*who);
    answer(o, wire::read_fields(n.read_seq, n.unread, n.mentions));
    ctx_->counters.message_read.observe_ns(steady_ns() - o->started_ns);
    if (!moved) return;
    tell_numbers(*who, true, o->conn.value_or(connection_id{}));
    marks_.insert(who->who.key);
    if (active_ > 0 && names_people())
      arm(room_timer::marks, std::chrono::milliseconds(settings().timers.read_marks_ms));
  };
  // Where the mark stands there already and nothing is on its way, nothing is written.
  if (!backward && line_.empty() && std::min(seq, state_.head()) <= m->read_seq) return tell(false);
  PARLEY_REFUSE_WHEN_FULL(o)
  storage::change c;
  c.what = storage::set_read{o->who.key, seq, backward};
  std::vector<storage::change> changes;
  changes.push_back(std::move(c));
  propose(o, std::move(changes), false, [this, o, tell](results done) {
    const auto& d = done.front();
    const auto* who = state_.find(o->who.key);
    bool moved = who != nullptr && who->read_seq != d.read_seq;
    state_.mark(o->who.key, d.read_seq, d.read_n, d.read_own);
    tell(moved);
  });
}

void room::on(const wire::typing& r, const op_ptr& o) {
  const auto* m = state_.joined(o->who.key);
  if (m == nullptr) return at_turn(o, [this, o] { refuse(o, state_.outsider()); });
  // Shown at once, answered in its turn: a room's requests are answered in the order in which they
  // came.
  at_turn(o, [this, o] { answer(o, ""); });
  if (!names_people()) return;
  if (!r.on) return end_typing(o->who.key, true);
  bool fresh = !typing_.contains(o->who.key);
  typing_[o->who.key] = clock().now() + std::chrono::milliseconds(settings().timers.typing_ms);
  arm(room_timer::typing, std::chrono::milliseconds(500));
  if (fresh)
    publish_to_active(wire::make_frame(wire::typing_frame(id_, o->who.id, true)), o->who.key);
}

void room::on(const wire::history& r, const op_ptr& o) {
  const auto* m = state_.joined(o->who.key);
  if (m == nullptr) return refuse(o, state_.outsider());
  ++reads_;
  auto first = state_.first_visible(*m);
  ctx_->readers->read<wire::history_page>(
      this,
      [key = ref_.key, r, first](storage::reader_store& s) {
        return s.history(key, r.before_seq, r.after_seq, r.limit, first);
      },
      [this, o, r, first](result<wire::history_page> page) {
        --reads_;
        if (!page) return refuse(o, page.error());
        if (state_.joined(o->who.key) == nullptr) return refuse(o, state_.outsider());
        // The reader came to the bottom of what is theirs, and the room has more below it.
        auto lowest = r.after_seq ? *r.after_seq + 1 : 1;
        bool bottom = r.after_seq ? true : !page->more;
        if (bottom && lowest < first) page->gaps.push_back({lowest, first - 1, "not_yours"});
        auto started = steady_ns();
        auto fields = wire::history_fields(*page, o->who.key);
        ctx_->counters.message_response_build.observe_ns(steady_ns() - started);
        answer(o, fields);
      });
}

void room::on(const wire::events& r, const op_ptr& o) {
  const auto* m = state_.joined(o->who.key);
  if (m == nullptr) return refuse(o, state_.outsider());
  auto first = state_.first_visible(*m);
  auto after = std::max(r.after_seq, first - 1);
  std::vector<wire::gap> gaps;
  if (r.after_seq + 1 < first) gaps.push_back({r.after_seq + 1, first - 1, "not_yours"});
  ++reads_;
  ctx_->readers->read<wire::events_page>(
      this,
      [key = ref_.key, after, limit = std::min(r.limit, events_most)](storage::reader_store& s) {
        return s.events(key, after, limit, static_cast<std::int64_t>(answer_bytes / 2));
      },
      [this, o, gaps](result<wire::events_page> page) {
        --reads_;
        if (!page) return refuse(o, page.error());
        if (state_.joined(o->who.key) == nullptr) return refuse(o, state_.outsider());
        // Not before the room has told it itself.
        while (!page->events.empty() && page->events.back().seq > state_.head())
          page->events.pop_back();
        page->gaps = gaps;
        answer(o, wire::events_fields(id_, *page, o->who.key));
      });
}

void room::on(const wire::room_get&, const op_ptr& o) {
  const auto* m = state_.joined(o->who.key);
  if (m != nullptr) return answer(o, wire::room_fields(state_.summary_for(*m)));
  if (state_.row().kind != room_kind::public_room) return refuse(o, state_.outsider());
  // Of a public room others see the card, not what was said.
  auto s = state_.summary();
  s.last.reset();
  s.my_membership = membership::left;
  answer(o, wire::room_fields(s));
}

std::vector<wire::member_view> room::member_views(std::size_t most, bool online_only) const {
  std::vector<wire::member_view> online, others;
  for (const auto& [key, m] : const_cast<room*>(this)->state_.members()) {
    if (m.state != membership::joined) continue;
    if (online.size() >= most) break;
    if (m.online)
      online.push_back({m.who, m.r, true, m.read_seq});
    else if (!online_only && others.size() < most)
      others.push_back({m.who, m.r, false, m.read_seq});
  }
  for (auto& x : others) {
    if (online.size() >= most) break;
    online.push_back(std::move(x));
  }
  return online;
}

void room::on(const wire::room_members& r, const op_ptr& o) {
  if (state_.joined(o->who.key) == nullptr) return refuse(o, state_.outsider());
  // By key, so that a page neither repeats nor skips one while others come and go.
  std::int64_t from = 0;
  if (r.cursor) {
    try {
      std::size_t used = 0;
      from = std::stoll(*r.cursor, &used);
      if (used != r.cursor->size() || from < 0) throw std::invalid_argument("cursor");
    } catch (const std::exception&) {
      return refuse(o, fail(errc::bad_request, "cursor: not one of ours"));
    }
  }
  auto limit = static_cast<std::size_t>(std::clamp<std::int64_t>(r.limit, 1, 200));
  std::vector<const room_state::member*> page;
  for (const auto& [key, m] : state_.members())
    if (m.state == membership::joined && raw(key) > from) page.push_back(&m);
  auto order = [](const auto* a, const auto* b) { return raw(a->who.key) < raw(b->who.key); };
  bool more = page.size() > limit;
  std::partial_sort(page.begin(),
                    page.begin() + static_cast<std::ptrdiff_t>(std::min(limit, page.size())),
                    page.end(), order);
  if (more) page.resize(limit);
  std::vector<wire::member_view> views;
  views.reserve(page.size());
  for (const auto* m : page)
    views.push_back({m->who, m->r, m->online, m->read_seq});
  answer(o, wire::members_fields(views,
                                 more ? std::to_string(raw(page.back()->who.key)) : std::string()));
}

void room::on(const wire::room_presence&, const op_ptr& o) {
  if (state_.joined(o->who.key) == nullptr) return refuse(o, state_.outsider());
  if (!names_people()) return answer(o, wire::presence_fields({}));
  answer(o, wire::presence_fields(member_views(members_shown * 2, true)));
}

void room::propose_create(op_ptr o) {
  const auto& r = std::get<wire::room_create>(o->what);
  storage::create_room c;
  c.id = id_;
  c.name = r.name;
  c.kind = r.kind;
  c.history = r.history;
  c.creator = o->who.key;
  c.at = ctx_->now();
  c.nonce = r.nonce;
  c.members.push_back(o->who.key);
  for (const auto& p : o->resolved)
    if (std::find(c.members.begin(), c.members.end(), p.key) == c.members.end())
      c.members.push_back(p.key);
  if (ctx_->gate->full()) {
    life_ = life::missing;
    refuse(o, failure{errc::overloaded, "too many changes wait to be stored", retry_ms});
    arm(room_timer::idle, std::chrono::milliseconds(500));
    return;
  }
  storage::change change;
  change.what = std::move(c);
  change.nonce = nonce_of(o, r.nonce);
  std::vector<storage::change> changes;
  changes.push_back(std::move(change));
  propose(
      o, std::move(changes), false,
      [this, o](results done) {
        answer(o, wire::created_fields(id_, done.front().seq));
        start_loading();
      },
      [this, o](const storage::change_result& d) {
        // The pair has a room already, or the nonce is known: that room's id; this one never was.
        if (!d.request_hash.empty() && d.request_hash != o->hash)
          refuse(o, fail(errc::conflict, "another room was made under this nonce"));
        else
          answer(o, wire::created_fields(d.room_id, d.seq, true));
        create_ = nullptr;
        life_ = life::missing;
        fail_waiting(fail(errc::not_found, "no such room"));
        arm(room_timer::idle, std::chrono::milliseconds(500));
      });
}

}  // namespace parley
