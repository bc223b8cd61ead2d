#include "actors/session.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <deque>
#include <unordered_map>

#include "actors/metered.hpp"
#include "actors/prepare.hpp"

namespace parley {
namespace {

const caf::duration people_deadline{std::chrono::seconds(10)};
constexpr std::int64_t rooms_in_hello = 50;
constexpr int close_unauthenticated = 4001, close_suspended = 4003, close_try_later = 1013;

class session final : public metered<session_actor::base> {
 public:
  session(caf::actor_config& cfg, context_ptr ctx, connection_id conn,
          std::shared_ptr<session_card> card)
      : metered(cfg, ctx->meters, "session", card->session), ctx_(std::move(ctx)), conn_(conn),
        card_(std::move(card)) {}

  behavior_type make_behavior() override {
    link_ = std::make_shared<const session_link>(
        session_link{caf::actor_cast<session_actor>(this), conn_});
    return {
        [this](const begin_session& b) { on_hello(b); },
        [this](const session_op& o) { on_op(o); },
        [this](const routed& r) { on_routed(r); },
        [this](const please_detach& p) {
          auto at = slots_.find(p.room);
          if (at == slots_.end() || at->second.outstanding > 0 || !at->second.blocked.empty())
            return;
          if (at->second.link) send(at->second.link->actor, let_go{conn_, false});
          slots_.erase(at);
        },
        [this](const hello_entered& e) {
          if (e.index < entered_.size() && !entered_done_[e.index]) {
            auto room = entered_[e.index].room;
            entered_[e.index] = std::move(*e.what);
            entered_[e.index].room = room;
            entered_done_[e.index] = true;
            if (--entered_left_ == 0) greet_now();
          }
        },
        [this](const token_expires& t) {
          post(deliver{conn_, wire::make_frame(wire::token_expiring(t.at)), false});
        },
        [this](const end_session& e) -> caf::result<session_ended> {
          auto promise = make_response_promise<session_ended>();
          ended_.push_back(promise);
          auto self = caf::actor_cast<session_actor>(this);
          post(close_connection{conn_, e.code, e.reason, std::nullopt,
                                [self] { caf::anon_send(self, session_ended{}); }});
          return promise;
        },
        [this](const session_ended&) {
          for (auto& p : ended_)
            p.deliver(session_ended{});
          ended_.clear();
        },
        [this](const socket_gone&) { on_gone(); },
    };
  }

  void on_exit() override {
    for (auto& p : ended_)
      p.deliver(session_ended{});
    ended_.clear();
    // Handles go, that of this actor to itself too, else it would live for ever.
    slots_.clear();
    early_.clear();
    link_.reset();
    ctx_->sessions.remove(card_->session);
  }

 private:
  struct slot {
    room_link_ptr link;
    std::int64_t outstanding = 0;  // passed to the directory and not yet acknowledged
    std::deque<op_ptr> blocked;    // wait for the people whom the first of them names
  };

  void post(relay_op what) { ctx_->relays[conn_.io]->post(std::move(what)); }
  void close(int code, std::string why, std::optional<std::int64_t> retry = std::nullopt) {
    post(close_connection{conn_, code, std::move(why), retry, {}});
  }

  // ---- hello
  void on_hello(const begin_session& b) {
    hello_ = b.what;
    hello_id_ = b.wire_id;
    user_id_ = b.who.user;
    greeting_ = true;
    auto& shard = ctx_->people_of(user_id_);
    request(shard, people_deadline,
            hello_user{b.who, conn_, link_, hello_->enter == wire::hello::enter_mode::all})
        .then([this](const hello_result& r) { on_known(r); },
              [this](const caf::error&) {
                known_ = greeting_ = false;
                send(ctx_->people_of(user_id_), goodbye{user_id_, conn_});
                close(close_try_later, "the server is busy", 1000);
              });
  }

  void on_known(const hello_result& r) {
    if (!r.ok) {
      greeting_ = false;
      if (gone_) return leave();
      switch (r.why.code) {
      case errc::suspended:
        return close(close_suspended, r.why.message);
      case errc::unauthenticated:
        return close(close_unauthenticated, r.why.message);
      default:
        return close(close_try_later, r.why.message, r.why.retry_after_ms.value_or(1000));
      }
    }
    known_ = true;
    who_ = r.ok->who;
    bucket_ = r.ok->bucket;
    card_->user = who_.id;
    card_->greeted.store(true, std::memory_order_release);
    if (gone_) return leave();
    struct lists {
      storage::reader_store::room_page page;
      std::vector<std::pair<room_key, std::string>> all;
    };
    bool all = hello_->enter == wire::hello::enter_mode::all;
    ctx_->readers->read<lists>(
        this,
        [user = who_.key, all](storage::reader_store& s) -> result<lists> {
          lists l;
          auto page = s.room_list(user, "", rooms_in_hello);
          if (!page) return page.error();
          l.page = std::move(*page);
          if (all) {
            auto rooms = s.rooms_of(user);
            if (!rooms) return rooms.error();
            l.all = std::move(*rooms);
          }
          return l;
        },
        [this, all](result<lists> l) {
          if (!l) {
            greeting_ = false;
            if (gone_) return leave();
            close(close_try_later, l.error().message, l.error().retry_after_ms.value_or(1000));
            return;
          }
          rooms_ = std::move(l->page.rooms);
          rooms_next_ = std::move(l->page.next);
          for (auto& room : rooms_)
            room.online = ctx_->online.of(room.key);
          std::vector<std::pair<std::string, std::optional<seq_no>>> enter;
          if (all) {
            for (auto& [key, id] : l->all)
              enter.emplace_back(id, std::nullopt);
          }
          for (auto& [id, after] : hello_->enter_rooms)
            enter.emplace_back(id, after);
          enter_rooms(enter);
        });
  }

  void enter_rooms(const std::vector<std::pair<std::string, std::optional<seq_no>>>& rooms) {
    entered_.resize(rooms.size());
    entered_done_.assign(rooms.size(), false);
    entered_left_ = rooms.size();
    if (rooms.empty()) return greet_now();
    auto self = caf::actor_cast<session_actor>(this);
    for (std::size_t i = 0; i < rooms.size(); ++i) {
      entered_[i].room = rooms[i].first;
      auto o = std::make_shared<op>();
      wire::room_enter enter;
      enter.room = rooms[i].first;
      enter.after_seq = rooms[i].second;
      enter.epoch = hello_->epoch;
      o->what = std::move(enter);
      o->who = who_;
      o->conn = conn_;
      o->started_ns = o->parsed_ns = steady_ns();
      o->entered = [self, i](wire::entered e) {
        caf::anon_send(self, hello_entered{i, std::make_shared<wire::entered>(std::move(e))});
      };
      if (!is_id(rooms[i].first)) {
        wire::entered e;
        e.error = fail(errc::not_found, "no such room");
        o->entered(std::move(e));
        o->entered = nullptr;
        continue;
      }
      to_room(std::move(o));
    }
  }

  void greet_now() {
    greeting_ = false;
    wire::hello_view h;
    h.user = who_;
    h.session = card_->session;
    h.epoch = ctx_->epoch;
    h.durability = ctx_->settings().storage.durability;
    h.now = ctx_->now();
    h.rooms = std::move(rooms_);
    h.rooms_next = std::move(rooms_next_);
    h.entered_rooms = std::move(entered_);
    const auto& l = ctx_->settings().limits;
    h.limits = {l.frame_bytes, l.text_code_points, l.in_flight, l.messages_per_s, l.messages_burst};
    post(greet{conn_, wire::make_frame(wire::ok_frame(hello_id_, wire::hello_fields(h)))});
    hello_ = nullptr;
    entered_.clear();
    entered_.shrink_to_fit();
    entered_done_.clear();
    auto early = std::move(early_);
    early_.clear();
    for (auto& o : early)
      on_op(o);
    if (gone_) leave();
  }

  // ---- requests
  void on_op(const session_op& r) {
    if (greeting_) {
      early_.push_back(r);  // bounded by the in-flight window
      return;
    }
    auto o = std::make_shared<op>();
    o->what = std::move(*r.what);
    o->who = who_;
    o->conn = conn_;
    o->started_ns = r.started_ns;
    o->parsed_ns = steady_ns();
    o->to.aim(ctx_->relays[conn_.io], conn_, r.wire_id);
    ctx_->counters.stages[static_cast<std::size_t>(stage::session)].observe_ns(o->parsed_ns -
                                                                               r.parsed_ns);
    if (!known_) return o->to.fail(fail(errc::unauthenticated, "hello first"));
    if (ctx_->draining.load(std::memory_order_relaxed))
      return o->to.fail(failure{errc::unavailable, "the server is stopping", 1000});
    if (std::holds_alternative<wire::ping>(o->what)) return o->to.ok("");
    if (std::holds_alternative<wire::rooms>(o->what)) return answer_rooms(this, ctx_, o);
    if (std::holds_alternative<wire::users>(o->what)) return answer_users(this, ctx_, o);
    if (std::holds_alternative<wire::room_create>(o->what)) return create_room(this, ctx_, o);
    if (std::holds_alternative<wire::token_renew>(o->what)) return renew(o);
    auto id = wire::room_of(o->what);
    if (id.empty()) return o->to.fail(fail(errc::bad_request, "op: not known here"));
    if (!is_id(id)) return o->to.fail(fail(errc::not_found, "no such room"));
    prepare(*o, ctx_->settings(), bucket_.get(), ctx_->counters);
    to_room(std::move(o));
  }

  void renew(const op_ptr& o) {
    auto now = ctx_->tokens->check(std::get<wire::token_renew>(o->what).token);
    if (!now) return o->to.fail(now.error());
    if (now->user != who_.id) return o->to.fail(fail(errc::forbidden, "token: of another user"));
    request(ctx_->people_of(who_.id), people_deadline, authenticate{*now})
        .then(
            [this, o, claims = *now](const authenticated& a) {
              if (!*a.what) return o->to.fail(a.what->error());
              send(ctx_->people_of(who_.id), token_renewed{who_.id, conn_, claims});
              o->to.ok(wire::expires_fields(claims.expires_at));
            },
            [o](const caf::error&) {
              o->to.fail(failure{errc::unavailable, "the server is busy", 1000});
            });
  }

  // Requests that concern one room stay in the order in which they came: behind one whose people
  // are looked up, and on one way, which changes from the directory's to the direct one only when
  // nothing is under way there.
  void to_room(op_ptr o) {
    std::string id(wire::room_of(o->what));
    auto& s = slots_[id];
    if (static_cast<std::int64_t>(s.blocked.size()) >= ctx_->settings().limits.session_queue)
      return o->to.fail(failure{errc::overloaded, "too many requests wait", 1000});
    bool names = !people_named(o->what).empty();
    if (s.blocked.empty() && !names) return forward(id, s, std::move(o));
    s.blocked.push_back(std::move(o));
    if (s.blocked.size() == 1) unblock(id);
  }

  void unblock(const std::string& id) {
    auto at = slots_.find(id);
    if (at == slots_.end()) return;
    while (!at->second.blocked.empty()) {
      auto o = at->second.blocked.front();
      if (!people_named(o->what).empty() && o->resolved.empty() && !o->refuse) {
        resolve_people(this, ctx_, o, [this, id, o] {
          if (o->resolved.empty() && !o->refuse)
            o->refuse = fail(errc::not_found, "user: no such user");
          unblock(id);
        });
        return;
      }
      at->second.blocked.pop_front();
      forward(id, at->second, std::move(o));
    }
  }

  void forward(const std::string& id, slot& s, op_ptr o) {
    if (s.link && s.outstanding == 0) {
      if (s.link->load->length() >= ctx_->settings().limits.room_queue) {
        ctx_->counters.rejected_overloaded.add();
        return o->to.fail(failure{errc::overloaded, "too many requests wait for the room", 1000});
      }
      send(s.link->actor, room_op{std::move(o), nullptr, false});
      return;
    }
    ++s.outstanding;
    static_cast<void>(id);
    send(ctx_->directory, route{std::move(o), link_});
  }

  void on_routed(const routed& r) {
    auto at = slots_.find(r.room);
    if (at == slots_.end()) return;
    --at->second.outstanding;
    if (r.link) at->second.link = r.link;
    if (gone_) leave();
  }

  // ---- the end
  void on_gone() {
    gone_ = true;
    if (!greeting_ || !known_) leave();
    // While people still decide on hello, on_known goes on from here.
  }

  void leave() {
    if (known_ && !said_goodbye_) {
      said_goodbye_ = true;
      send(ctx_->people_of(who_.id), goodbye{who_.id, conn_});
    }
    bool waits = greeting_ && !known_ && !said_goodbye_;
    for (auto at = slots_.begin(); at != slots_.end();) {
      if (at->second.outstanding > 0 || !at->second.blocked.empty()) {
        waits = true;
        ++at;
        continue;
      }
      if (at->second.link) send(at->second.link->actor, let_go{conn_, true});
      at = slots_.erase(at);
    }
    if (!waits) quit();
  }

  context_ptr ctx_;
  connection_id conn_;
  std::shared_ptr<session_card> card_;
  session_link_ptr link_;
  std::string user_id_, hello_id_;
  profile who_;
  std::shared_ptr<rate_bucket> bucket_;
  bool greeting_ = false, known_ = false, gone_ = false, said_goodbye_ = false;
  std::shared_ptr<wire::hello> hello_;
  std::vector<room_summary> rooms_;
  std::string rooms_next_;
  std::vector<wire::entered> entered_;
  std::vector<bool> entered_done_;
  std::size_t entered_left_ = 0;
  std::vector<session_op> early_;
  std::unordered_map<std::string, slot> slots_;
  std::vector<caf::typed_response_promise<session_ended>> ended_;
};

}  // namespace

session_ref spawn_session(caf::actor_system& system, const context_ptr& ctx, connection_id conn,
                          std::shared_ptr<session_card> card) {
  auto handle = std::make_shared<session_handle>();
  handle->actor = system.spawn<session>(ctx, conn, card);
  if (auto* s = dynamic_cast<session*>(caf::actor_cast<caf::abstract_actor*>(handle->actor)))
    handle->load = s->own_meter();
  handle->card = std::move(card);
  ctx->sessions.add(handle);
  return handle;
}

}  // namespace parley
