#include "actors/people.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "actors/metered.hpp"
#include "schemas/text.hpp"

namespace parley {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds tick_every{1000};
const caf::duration writer_deadline{
    std::chrono::seconds(65)};  // an unknown commit is waited out for 60 s
const caf::duration session_deadline{std::chrono::seconds(2)};
constexpr std::int64_t warn_before_ms = 60'000;
// Accounts of people without a session are kept for requests over HTTP up to this many, and this
// many ticks.
constexpr std::size_t cached_most = 20'000;
constexpr int sweep_ticks = 30;

class people final : public metered<people_actor::base> {
 public:
  people(caf::actor_config& cfg, context_ptr ctx, std::size_t shard)
      : metered(cfg, ctx->meters, "people", "people-" + std::to_string(shard)),
        ctx_(std::move(ctx)) {}

  behavior_type make_behavior() override {
    return {
        [this](const hello_user& h) -> caf::result<hello_result> {
          auto promise = make_response_promise<hello_result>();
          with_user(h.who, [this, h, promise](user* u, const failure* why) mutable {
            promise.deliver(u == nullptr ? hello_result{std::nullopt, *why} : welcome(*u, h));
          });
          return promise;
        },
        [this](const goodbye& g) { on_goodbye(g); },
        [this](const token_renewed& t) {
          auto* u = loaded(t.user);
          if (u == nullptr) return;
          for (auto& s : u->sessions)
            if (s.conn == t.conn) {
              s.token = t.now;
              expects(s, t.user);
            }
        },
        [this](const authenticate& a) -> caf::result<authenticated> {
          auto promise = make_response_promise<authenticated>();
          with_user(a.who, [this, promise](user* u, const failure* why) mutable {
            auto r = u == nullptr
                         ? std::make_shared<result<hello_ok>>(*why)
                         : std::make_shared<result<hello_ok>>(hello_ok{u->account.who, u->bucket});
            promise.deliver(authenticated{std::move(r)});
          });
          return promise;
        },
        [this](const room_awake& r) -> online_now {
          awake_[r.room] = r.link;
          online_now out;
          if (auto at = online_in_.find(r.room); at != online_in_.end())
            for (auto* u : at->second)
              for (const auto& s : u->sessions)
                out.who.push_back({u->account.who.key, s.conn});
          return out;
        },
        [this](const room_asleep& r) {
          auto at = awake_.find(r.room);
          if (at != awake_.end() && at->second->actor == r.link->actor) awake_.erase(at);
        },
        [this](const member_joined& m) { on_membership(m.user, m.room, true); },
        [this](const member_left& m) { on_membership(m.user, m.room, false); },
        [this](const account_changed& c) { return on_account(c); },
        [this](const people_tick&) {
          armed_ = false;
          on_tick();
        },
    };
  }

  void on_exit() override {
    awake_.clear();
    users_.clear();
    online_in_.clear();
  }

 private:
  struct entry {
    connection_id conn;
    session_link_ptr link;
    claims token;
    bool enters_all = false;
  };
  struct user {
    storage::account account;
    std::vector<entry> sessions;
    std::unordered_set<room_key> rooms;
    std::shared_ptr<rate_bucket> bucket = std::make_shared<rate_bucket>();
    bool online = false;  // has a session, or the grace runs
    std::optional<caf::actor_clock::time_point> grace_until;
    bool loading = false, present = false;  // present: account and rooms are known
    std::vector<std::function<void(user*, const failure*)>> waiting;
    std::vector<claims> waiting_claims;
    std::vector<std::pair<room_key, bool>> while_loading;  // joined and left since the load began
    int idle_sweeps = 0;
  };
  struct load_result {
    storage::account account;
    std::vector<std::pair<room_key, std::string>> rooms;
  };

  user* loaded(const std::string& id) {
    auto at = users_.find(id);
    return at == users_.end() || !at->second.present ? nullptr : &at->second;
  }

  /// Why a token is no longer good for this account.
  std::optional<failure> refuse(const user& u, const claims& c) const {
    const auto& a = u.account;
    if (a.who.deleted) return fail(errc::unauthenticated, "the account was deleted");
    if (!c.foreign && c.generation != a.generation)
      return fail(errc::unauthenticated, "the token was revoked");
    if (!c.jti.empty() && std::find(a.revoked.begin(), a.revoked.end(), c.jti) != a.revoked.end())
      return fail(errc::unauthenticated, "the token was revoked");
    if (a.suspended && (!a.suspended_until || *a.suspended_until > ctx_->now()))
      return fail(errc::suspended, a.suspended_reason.empty()
                                       ? "the account is suspended"
                                       : "the account is suspended: " + a.suspended_reason);
    return std::nullopt;
  }

  /// Calls `then` with the user of a good token, or with why not; loads the account where it is not
  /// known.
  void with_user(const claims& c, std::function<void(user*, const failure*)> then) {
    auto& u = users_[c.user];
    u.idle_sweeps = 0;
    if (u.present) {
      if (auto why = refuse(u, c)) return then(nullptr, &*why);
      return then(&u, nullptr);
    }
    u.waiting_claims.push_back(c);
    u.waiting.push_back(std::move(then));
    if (!u.loading) load(c.user);
  }

  void load(const std::string& id) {
    users_[id].loading = true;
    ctx_->readers->read<load_result>(
        this,
        [id](storage::reader_store& s) -> result<load_result> {
          load_result out;
          auto account = s.account_by_id(id);
          if (!account) return account.error();
          out.account = std::move(*account);
          auto rooms = s.rooms_of(out.account.who.key);
          if (!rooms) return rooms.error();
          out.rooms = std::move(*rooms);
          return out;
        },
        [this, id](result<load_result> r) { on_loaded(id, std::move(r)); });
  }

  void on_loaded(const std::string& id, result<load_result> r) {
    auto at = users_.find(id);
    if (at == users_.end()) return;
    auto& u = at->second;
    if (!r) {
      auto foreign = std::find_if(u.waiting_claims.begin(), u.waiting_claims.end(),
                                  [](const claims& c) { return c.foreign; });
      if (r.error().code == errc::not_found && foreign != u.waiting_claims.end())
        return make_user(id, *foreign);
      auto why = r.error().code == errc::not_found
                     ? fail(errc::unauthenticated, "the token's user does not exist")
                     : r.error();
      return fail_waiting(id, why);
    }
    u.loading = false;
    u.present = true;
    u.account = std::move(r->account);
    for (auto& [room, name] : r->rooms)
      u.rooms.insert(room);
    for (auto [room, joined] : u.while_loading)
      joined ? void(u.rooms.insert(room)) : void(u.rooms.erase(room));
    u.while_loading.clear();
    auto waiting = std::move(u.waiting);
    auto tokens = std::move(u.waiting_claims);
    u.waiting.clear();
    u.waiting_claims.clear();
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (auto why = refuse(u, tokens[i]))
        waiting[i](nullptr, &*why);
      else
        waiting[i](&u, nullptr);
    }
  }

  void fail_waiting(const std::string& id, const failure& why) {
    auto at = users_.find(id);
    if (at == users_.end()) return;
    auto waiting = std::move(at->second.waiting);
    users_.erase(at);
    for (auto& then : waiting)
      then(nullptr, &why);
  }

  /// A user first seen in a configured issuer's token.
  void make_user(const std::string& id, const claims& c) {
    storage::new_user n;
    n.id = id;
    n.name = c.name.empty() ? id : c.name;
    n.display_name = n.name;
    n.at = ctx_->now();
    n.folded_name = fold_name(n.name);
    auto change = std::make_shared<storage::account_change>(std::move(n));
    request(ctx_->writer, writer_deadline, apply_account{change})
        .then(
            [this, id, c](const account_result& r) {
              // A taken name is no reason to turn the user away: the id itself serves as name.
              if (!*r.what && r.what->error().code == errc::conflict && !c.name.empty() &&
                  c.name != id) {
                auto again = c;
                again.name = id;
                return make_user(id, again);
              }
              if (!*r.what) return fail_waiting(id, r.what->error());
              load(id);
            },
            [this, id](const caf::error&) {
              fail_waiting(id, failure{errc::unavailable, "the database does not answer", 1000});
            });
  }

  hello_result welcome(user& u, const hello_user& h) {
    auto full = std::find_if(u.sessions.begin(), u.sessions.end(),
                             [&](const entry& e) { return e.conn == h.conn; });
    if (full == u.sessions.end()) u.sessions.push_back({h.conn, h.session, h.who, h.enters_all});
    u.grace_until.reset();
    if (!u.online) {
      u.online = true;
      ctx_->counters.users_online.add(1);
      for (auto room : u.rooms) {
        online_in_[room].insert(&u);
        ctx_->online.add(room, 1);
      }
    }
    came_online news{{{u.account.who.key, h.conn}}};
    for (auto room : u.rooms)
      if (auto at = awake_.find(room); at != awake_.end()) send(at->second->actor, news);
    ctx_->counters.sessions.add(1);
    expects(entry{h.conn, h.session, h.who, h.enters_all}, h.who.user);
    return hello_result{hello_ok{u.account.who, u.bucket}, {}};
  }

  void on_goodbye(const goodbye& g) {
    auto* u = loaded(g.user);
    if (u == nullptr) return;
    auto at = std::find_if(u->sessions.begin(), u->sessions.end(),
                           [&](const entry& e) { return e.conn == g.conn; });
    if (at == u->sessions.end()) return;
    u->sessions.erase(at);
    ctx_->counters.sessions.add(-1);
    for (auto room : u->rooms)
      if (auto w = awake_.find(room); w != awake_.end())
        send(w->second->actor, connection_closed{{u->account.who.key, g.conn}});
    if (!u->sessions.empty()) return;
    u->grace_until = clock().now() + milliseconds(ctx_->settings().presence.grace_ms);
    grace_.push_back(g.user);
    arm();
  }

  void on_membership(const std::string& id, room_key room, bool joined) {
    auto at = users_.find(id);
    if (at == users_.end()) return;
    auto& u = at->second;
    if (!u.present) {
      u.while_loading.emplace_back(room, joined);
      return;
    }
    bool fresh = joined ? u.rooms.insert(room).second : u.rooms.erase(room) > 0;
    if (u.online && fresh) {
      if (joined) {
        online_in_[room].insert(&u);
      } else if (auto in = online_in_.find(room); in != online_in_.end()) {
        in->second.erase(&u);
        if (in->second.empty()) online_in_.erase(in);
      }
      ctx_->online.add(room, joined ? 1 : -1);
    }
    auto awake = awake_.find(room);
    if (!joined || awake == awake_.end() || u.sessions.empty()) return;
    member_sessions news{u.account.who.key, {}, {}};
    for (const auto& s : u.sessions)
      (s.enters_all ? news.enter : news.conns).push_back(s.conn);
    send(awake->second->actor, news);
  }

  caf::result<account_settled> on_account(const account_changed& c) {
    auto promise = make_response_promise<account_settled>();
    auto* u = loaded(c.now.who.id);
    if (u == nullptr) {
      promise.deliver(account_settled{});
      return promise;
    }
    const auto& was = u->account.who;
    bool renamed = was.display_name != c.now.who.display_name || was.picture != c.now.who.picture ||
                   was.name != c.now.who.name || was.deleted != c.now.who.deleted;
    u->account = c.now;
    if (renamed)
      for (auto room : u->rooms)
        if (auto at = awake_.find(room); at != awake_.end())
          send(at->second->actor, user_changed{c.now.who});
    std::vector<session_link_ptr> end;
    for (const auto& s : u->sessions) {
      bool ends = c.end_all || (!c.end_jti.empty() && s.token.jti == c.end_jti) ||
                  (!c.keep_jti.empty() && s.token.jti != c.keep_jti);
      if (ends) end.push_back(s.link);
    }
    if (end.empty()) {
      promise.deliver(account_settled{});
      return promise;
    }
    // Settled when no socket of theirs can carry another event.
    auto left = std::make_shared<std::size_t>(end.size());
    auto done = [left, promise]() mutable {
      if (--*left == 0) promise.deliver(account_settled{});
    };
    for (const auto& s : end)
      request(s->actor, session_deadline, end_session{c.close_code, c.reason})
          .then([done](const session_ended&) mutable { done(); },
                [done](const caf::error&) mutable { done(); });
    return promise;
  }

  // ---- time
  void expects(const entry& e, const std::string& id) {
    auto now = ctx_->now();
    auto warn = e.token.expires_at - warn_before_ms;
    if (warn <= now) {
      // Less than a minute is left already.
      send(e.link->actor, token_expires{e.token.expires_at});
      warn = e.token.expires_at;
    }
    due_.emplace(warn, std::pair{id, e.conn});
    arm();
  }
  void arm() {
    if (armed_) return;
    armed_ = true;
    delayed_send(this, tick_every, people_tick{});
  }

  void on_tick() {
    auto now = clock().now();
    auto wall = ctx_->now();
    storage::touch_seen seen;
    // The grace is the same for all, so they end in the order in which they began.
    std::vector<std::string> again;
    for (auto& id : grace_) {
      auto* u = loaded(id);
      if (u == nullptr || !u->grace_until || !u->sessions.empty()) continue;
      if (*u->grace_until > now) {
        again.push_back(id);
        continue;
      }
      u->grace_until.reset();
      u->online = false;
      u->account.last_seen = wall;
      ctx_->counters.users_online.add(-1);
      seen.last_seen.emplace_back(u->account.who.key, wall);
      for (auto room : u->rooms) {
        if (auto in = online_in_.find(room); in != online_in_.end()) {
          in->second.erase(u);
          if (in->second.empty()) online_in_.erase(in);
        }
        ctx_->online.add(room, -1);
        if (auto at = awake_.find(room); at != awake_.end())
          send(at->second->actor, went_offline{u->account.who.key, wall});
      }
    }
    grace_ = std::move(again);
    if (!seen.last_seen.empty())
      request(ctx_->writer, writer_deadline,
              apply_account{std::make_shared<storage::account_change>(std::move(seen))})
          .then([](const account_result&) {},
                [](const caf::error&) { log::warn("people", "last_seen could not be stored"); });

    while (!due_.empty() && due_.begin()->first <= wall) {
      auto [id, conn] = due_.begin()->second;
      due_.erase(due_.begin());
      auto* u = loaded(id);
      if (u == nullptr) continue;
      for (const auto& s : u->sessions) {
        if (!(s.conn == conn)) continue;
        if (s.token.expires_at <= wall) {
          request(s.link->actor, session_deadline, end_session{4001, "the token has expired"})
              .then([](const session_ended&) {}, [](const caf::error&) {});
        } else if (s.token.expires_at - warn_before_ms <= wall) {
          send(s.link->actor, token_expires{s.token.expires_at});
          due_.emplace(s.token.expires_at, std::pair{id, conn});
        }
        break;
      }
    }

    if (++ticks_ % sweep_ticks == 0) sweep();
    bool more = !grace_.empty() || !due_.empty() || users_.size() > 0;
    if (more) arm();
  }

  /// Forgets accounts of people who have had neither session nor request for a while.
  void sweep() {
    bool crowded = users_.size() > cached_most;
    for (auto at = users_.begin(); at != users_.end();) {
      auto& u = at->second;
      bool idle = u.present && u.sessions.empty() && !u.online && u.waiting.empty();
      if (idle && (crowded || ++u.idle_sweeps > 10))
        at = users_.erase(at);
      else
        ++at;
    }
  }

  context_ptr ctx_;
  std::unordered_map<std::string, user> users_;  // node-based: entries are pointed at
  std::unordered_map<room_key, std::unordered_set<user*>> online_in_;  // online users of a room
  std::unordered_map<room_key, room_link_ptr> awake_;
  std::vector<std::string> grace_;
  std::multimap<unix_ms, std::pair<std::string, connection_id>>
      due_;  // tokens: the warning, then the end
  bool armed_ = false;
  int ticks_ = 0;
};

}  // namespace

people_actor spawn_people(caf::actor_system& system, const context_ptr& ctx, std::size_t shard) {
  return system.spawn<people>(ctx, shard);
}

}  // namespace parley
