#include "actors/accounts.hpp"

#include <caf/send.hpp>
#include <caf/spawn_options.hpp>
#include <sodium.h>

#include <algorithm>
#include <unordered_map>

#include "actors/metered.hpp"
#include "schemas/text.hpp"

namespace parley {
namespace {

using std::chrono::minutes;
const caf::duration hash_deadline{std::chrono::seconds(30)};
const caf::duration writer_deadline{std::chrono::seconds(65)};
const caf::duration people_deadline{std::chrono::seconds(10)};
constexpr auto guess_window = minutes(15);
constexpr std::size_t guesses_kept = 100'000;  // accounts and addresses remembered at once
constexpr unix_ms invitation_lives_ms = 30LL * 24 * 3600 * 1000;
constexpr std::size_t display_name_most = 64, picture_most = 500;
constexpr std::int64_t list_most = 1000;

std::string hex_hash(std::string_view text) {
  unsigned char out[32];
  crypto_generichash(out, sizeof out, reinterpret_cast<const unsigned char*>(text.data()),
                     text.size(), nullptr, 0);
  char hex[2 * sizeof out + 1];
  sodium_bin2hex(hex, sizeof hex, out, sizeof out);
  return hex;
}

std::string random_hex(std::size_t bytes) {
  std::string raw(bytes, '\0');
  randombytes_buf(raw.data(), raw.size());
  std::string hex(2 * bytes + 1, '\0');
  sodium_bin2hex(hex.data(), hex.size(), reinterpret_cast<const unsigned char*>(raw.data()),
                 raw.size());
  hex.pop_back();
  return hex;
}

class hasher final : public metered<hasher_actor::base> {
 public:
  hasher(caf::actor_config& cfg, context_ptr ctx, std::size_t index)
      : metered(cfg, ctx->meters, "hasher", "hasher-" + std::to_string(index)),
        ctx_(std::move(ctx)) {}

  behavior_type make_behavior() override {
    return {[this](const hash_job& j) -> hash_done {
      const auto& a = ctx_->settings().accounts;
      hash_done out;
      if (!j.verify.empty()) {
        out.matches =
            crypto_pwhash_str_verify(j.verify.c_str(), j.password.data(), j.password.size()) == 0;
        bool old = crypto_pwhash_str_needs_rehash(
                       j.verify.c_str(), static_cast<unsigned long long>(a.hash_passes),
                       static_cast<std::size_t>(a.hash_memory_kib) * 1024) != 0;
        if (!out.matches || !old) return out;
      }
      char text[crypto_pwhash_STRBYTES];
      if (crypto_pwhash_str_alg(text, j.password.data(), j.password.size(),
                                static_cast<unsigned long long>(a.hash_passes),
                                static_cast<std::size_t>(a.hash_memory_kib) * 1024,
                                crypto_pwhash_ALG_ARGON2ID13) == 0)
        out.hash = text;
      return out;
    }};
  }

 private:
  context_ptr ctx_;
};

class accounts final : public metered<accounts_actor::base> {
 public:
  accounts(caf::actor_config& cfg, context_ptr ctx)
      : metered(cfg, ctx->meters, "accounts", "accounts"), ctx_(std::move(ctx)) {}

  behavior_type make_behavior() override {
    return {[this](const account_op& o) {
      if (ctx_->draining.load(std::memory_order_relaxed))
        return (*o.then)(failure{errc::unavailable, "the server is stopping", 1000});
      std::visit([&](const auto& r) { on(r, o.then); }, *o.what);
    }};
  }

 private:
  using then_ptr = std::shared_ptr<account_fn>;

  static account_answer view(const storage::account& a) {
    account_answer out;
    out.who = a.who;
    out.generation = a.generation;
    return out;
  }

  // ---- hashing, bounded
  template <class Then>
  void hash(std::string password, std::string verify, const then_ptr& out, Then then) {
    if (ctx_->counters.hash_queue.get() >= ctx_->settings().limits.hash_queue) {
      ctx_->counters.rejected_overloaded.add();
      return (*out)(failure{errc::overloaded, "too many passwords wait to be checked", 1000});
    }
    ctx_->counters.hash_queue.add(1);
    auto& h = ctx_->hashers[next_hasher_++ % ctx_->hashers.size()];
    request(h, hash_deadline, hash_job{std::move(password), std::move(verify)})
        .then(
            [this, then](const hash_done& d) mutable {
              ctx_->counters.hash_queue.add(-1);
              then(d);
            },
            [this, out](const caf::error&) {
              ctx_->counters.hash_queue.add(-1);
              (*out)(failure{errc::overloaded, "the password could not be checked in time", 1000});
            });
  }

  // ---- writing
  template <class Then> void apply(storage::account_change c, const then_ptr& out, Then then) {
    request(ctx_->writer, writer_deadline,
            apply_account{std::make_shared<storage::account_change>(std::move(c))})
        .then(
            [out, then](const account_result& r) mutable {
              if (!*r.what) return (*out)(r.what->error());
              then(**r.what);
            },
            [out](const caf::error&) {
              (*out)(failure{errc::unavailable, "the database does not answer", 1000});
            });
  }

  /// Tells people, and answers when they have settled.
  void settle(account_changed c, const then_ptr& out, account_answer a) {
    auto& shard = ctx_->people_of(c.now.who.id);
    request(shard, people_deadline, std::move(c))
        .then([out, a](const account_settled&) { (*out)(a); },
              [out, a](const caf::error&) { (*out)(a); });
  }

  template <class Then>
  void credentials(const std::string& folded, const then_ptr& out, bool unknown_is_nobody,
                   Then then) {
    ctx_->readers->read<storage::credentials>(
        this, [folded](storage::reader_store& s) { return s.credentials_by_name(folded); },
        [out, unknown_is_nobody, then](result<storage::credentials> c) mutable {
          if (!c && c.error().code == errc::not_found && unknown_is_nobody)
            return then(storage::credentials{}, false);
          if (!c) return (*out)(c.error());
          then(*c, true);
        });
  }

  // ---- guesses
  struct guesses {
    std::int64_t wrong = 0;
    caf::actor_clock::time_point since{};
  };
  std::optional<failure> over(const std::string& key, std::int64_t most) {
    auto at = guesses_.find(key);
    if (at == guesses_.end()) return std::nullopt;
    auto left = at->second.since + guess_window - clock().now();
    if (left.count() <= 0) {
      guesses_.erase(at);
      return std::nullopt;
    }
    if (at->second.wrong < most) return std::nullopt;
    return failure{errc::rate_limited, "too many wrong passwords",
                   std::chrono::duration_cast<std::chrono::milliseconds>(left).count()};
  }
  void wrong(const std::string& key) {
    if (guesses_.size() >= guesses_kept) {
      auto now = clock().now();
      std::erase_if(guesses_, [&](const auto& g) { return g.second.since + guess_window <= now; });
      if (guesses_.size() >= guesses_kept) guesses_.erase(guesses_.begin());
    }
    auto [at, fresh] = guesses_.try_emplace(key);
    if (fresh || at->second.since + guess_window <= clock().now()) at->second = {0, clock().now()};
    ++at->second.wrong;
  }

  // ---- requests
  void on(const register_user& r, const then_ptr& out) {
    const auto& mode = ctx_->settings().accounts.registration;
    if (mode == "closed") return (*out)(fail(errc::forbidden, "registration is closed"));
    if (mode == "invitation" && r.invitation.empty())
      return (*out)(fail(errc::forbidden, "invitation: registration needs an invitation"));
    if (auto why = check_user_name(r.name)) return (*out)(*why);
    if (!r.display_name.empty())
      if (auto why = check_title(r.display_name, display_name_most, "display_name"))
        return (*out)(*why);
    auto password = to_nfc(r.password);
    if (auto why = check_password(password)) return (*out)(*why);
    hash(password, "", out, [this, r, out, mode](const hash_done& h) {
      if (h.hash.empty())
        return (*out)(failure{errc::overloaded, "no memory to hash a password", 1000});
      storage::new_user n;
      n.id = make_id("u_");
      n.name = r.name;
      n.folded_name = fold_name(r.name);
      n.display_name = r.display_name.empty() ? r.name : r.display_name;
      n.password_hash = h.hash;
      n.at = ctx_->now();
      if (mode == "invitation") n.invitation = r.invitation;
      apply(std::move(n), out, [out](const storage::account& a) { (*out)(view(a)); });
    });
  }

  void on(const login& r, const then_ptr& out) {
    auto folded = fold_name(r.name);
    const auto& l = ctx_->settings().limits;
    if (auto why = over("address " + r.address, l.login_failures_per_address)) return (*out)(*why);
    auto limited = over("account " + folded, l.login_failures_per_account);
    if (limited && r.device.empty()) return (*out)(*limited);
    credentials(
        folded, out, true,
        [this, r, out, folded, limited](const storage::credentials& c, bool known) {
          auto device = r.device.empty() ? std::string() : hex_hash(r.device);
          bool seen_before = !device.empty() && std::find(c.devices.begin(), c.devices.end(),
                                                          device) != c.devices.end();
          if (limited && !seen_before) return (*out)(*limited);
          // Where there is nothing to verify against, a hash is made and thrown away: both take the
          // same time.
          bool usable = known && !c.password_hash.empty() && !c.who.who.deleted;
          hash(to_nfc(r.password), usable ? c.password_hash : std::string(), out,
               [this, r, out, folded, c, usable, seen_before](const hash_done& h) {
                 if (!h.matches || !usable) {
                   wrong("account " + folded);
                   wrong("address " + r.address);
                   return (*out)(fail(errc::unauthenticated, "name or password is wrong"));
                 }
                 if (c.who.suspended &&
                     (!c.who.suspended_until || *c.who.suspended_until > ctx_->now()))
                   return (*out)(fail(errc::suspended, "the account is suspended"));
                 guesses_.erase("account " + folded);
                 auto a = view(c.who);
                 if (!h.hash.empty())
                   keep(storage::set_password{c.who.who.key, h.hash,
                                              false});  // the parameters have risen
                 if (seen_before) {
                   a.device = r.device;
                   return (*out)(a);
                 }
                 a.device = random_hex(16);
                 keep(storage::remember_device{c.who.who.key, hex_hash(a.device), ctx_->now()});
                 (*out)(a);
               });
        });
  }

  /// Written without anybody waiting for it.
  void keep(storage::account_change c) {
    request(ctx_->writer, writer_deadline,
            apply_account{std::make_shared<storage::account_change>(std::move(c))})
        .then([](const account_result&) {},
              [](const caf::error&) {
                log::warn("accounts", "an account's detail could not be stored");
              });
  }

  /// The account behind good claims, as people know it now.
  template <class Then> void who(const claims& c, const then_ptr& out, Then then) {
    request(ctx_->people_of(c.user), people_deadline, authenticate{c})
        .then(
            [out, then](const authenticated& a) mutable {
              if (!*a.what) return (*out)(a.what->error());
              then((*a.what)->who);
            },
            [out](const caf::error&) {
              (*out)(failure{errc::unavailable, "the server is busy", 1000});
            });
  }
  template <class Then> void account_of(const std::string& id, const then_ptr& out, Then then) {
    ctx_->readers->read<storage::account>(
        this, [id](storage::reader_store& s) { return s.account_by_id(id); },
        [out, then](result<storage::account> a) mutable {
          if (!a) return (*out)(a.error());
          then(*a);
        });
  }

  void on(const change_password& r, const then_ptr& out) {
    auto fresh = to_nfc(r.new_password);
    if (auto why = check_password(fresh)) return (*out)(*why);
    if (auto why = over("address " + r.address, ctx_->settings().limits.login_failures_per_address))
      return (*out)(*why);
    who(r.who, out, [this, r, out, fresh](const profile& p) {
      auto folded = fold_name(p.name);
      if (auto why = over("account " + folded, ctx_->settings().limits.login_failures_per_account))
        return (*out)(*why);
      credentials(folded, out, false,
                  [this, r, out, fresh, folded](const storage::credentials& c, bool) {
                    hash(to_nfc(r.password), c.password_hash, out,
                         [this, r, out, fresh, c, folded](const hash_done& h) {
                           if (!h.matches || c.password_hash.empty()) {
                             wrong("account " + folded);
                             wrong("address " + r.address);
                             return (*out)(fail(errc::forbidden, "password: is wrong"));
                           }
                           hash(fresh, "", out, [this, r, out, c](const hash_done& made) {
                             if (made.hash.empty())
                               return (*out)(
                                   failure{errc::overloaded, "no memory to hash a password", 1000});
                             apply(storage::set_password{c.who.who.key, made.hash, true}, out,
                                   [this, r, out](const storage::account& a) {
                                     account_changed news;
                                     news.now = a;
                                     news.keep_jti = r.who.jti.empty() ? "-" : r.who.jti;
                                     news.reason = "the password was changed";
                                     settle(std::move(news), out, view(a));
                                   });
                           });
                         });
                  });
    });
  }

  void on(const logout& r, const then_ptr& out) {
    who(r.who, out, [this, r, out](const profile& p) {
      apply(storage::revoke_token{p.key, r.who.jti, r.who.expires_at}, out,
            [this, r, out](const storage::account& a) {
              account_changed news;
              news.now = a;
              news.end_jti = r.who.jti;
              news.reason = "logged out";
              settle(std::move(news), out, view(a));
            });
    });
  }

  void on(const renew& r, const then_ptr& out) {
    who(r.who, out, [this, out](const profile& p) {
      account_of(p.id, out, [out](const storage::account& a) { (*out)(view(a)); });
    });
  }
  void on(const get_me& r, const then_ptr& out) {
    who(r.who, out, [out](const profile& p) {
      account_answer a;
      a.who = p;
      (*out)(a);
    });
  }
  void on(const patch_me& r, const then_ptr& out) {
    if (r.display_name)
      if (auto why = check_title(*r.display_name, display_name_most, "display_name"))
        return (*out)(*why);
    if (r.picture && !r.picture->empty())
      if (auto why = check_title(*r.picture, picture_most, "picture")) return (*out)(*why);
    who(r.who, out, [this, r, out](const profile& p) {
      apply(storage::update_profile{p.key, r.display_name, r.picture}, out,
            [this, out](const storage::account& a) {
              account_changed news;
              news.now = a;
              settle(std::move(news), out, view(a));
            });
    });
  }

  // ---- by the administrator
  void on(const admin_add_user& r, const then_ptr& out) {
    auto id = r.id.empty() ? make_id("u_") : r.id;
    if (!is_id(id)) return (*out)(fail(errc::bad_request, "user: not an id"));
    auto name = r.name.empty() ? id : r.name;
    if (!r.name.empty())
      if (auto why = check_user_name(name)) return (*out)(*why);
    if (!r.display_name.empty())
      if (auto why = check_title(r.display_name, display_name_most, "display_name"))
        return (*out)(*why);
    auto password = to_nfc(r.password);
    if (!r.password.empty())
      if (auto why = check_password(password)) return (*out)(*why);
    auto make = [this, out, r, id, name](const std::string& hashed) {
      storage::new_user n;
      n.id = id;
      n.name = name;
      n.folded_name = fold_name(name);
      n.display_name = r.display_name.empty() ? name : r.display_name;
      n.password_hash = hashed;
      n.at = ctx_->now();
      apply(std::move(n), out, [out](const storage::account& a) { (*out)(view(a)); });
    };
    // An id that exists is answered as it is: `parleyd token USER` makes the user only once.
    ctx_->readers->read<storage::account>(
        this, [id](storage::reader_store& s) { return s.account_by_id(id); },
        [this, out, make, password](result<storage::account> a) {
          if (a) return (*out)(view(*a));
          if (a.error().code != errc::not_found) return (*out)(a.error());
          if (password.empty()) return make("");
          hash(password, "", out, [out, make](const hash_done& h) {
            if (h.hash.empty())
              return (*out)(failure{errc::overloaded, "no memory to hash a password", 1000});
            make(h.hash);
          });
        });
  }
  void on(const admin_find_users& r, const then_ptr& out) {
    ctx_->readers->read<std::vector<storage::account>>(
        this, [q = r.query](storage::reader_store& s) { return s.list_users(q, list_most); },
        [this, out](result<std::vector<storage::account>> found) {
          if (!found) return (*out)(found.error());
          account_answer a;
          for (auto& u : *found) {
            a.found.push_back(u.who);
            a.found_suspended.push_back(u.suspended &&
                                        (!u.suspended_until || *u.suspended_until > ctx_->now()));
          }
          (*out)(a);
        });
  }
  void on(const admin_set_password& r, const then_ptr& out) {
    auto fresh = to_nfc(r.password);
    if (auto why = check_password(fresh)) return (*out)(*why);
    account_of(r.user, out, [this, out, fresh](const storage::account& a) {
      hash(fresh, "", out, [this, out, key = a.who.key](const hash_done& h) {
        if (h.hash.empty())
          return (*out)(failure{errc::overloaded, "no memory to hash a password", 1000});
        apply(storage::set_password{key, h.hash, true}, out,
              [this, out](const storage::account& now) {
                account_changed news;
                news.now = now;
                news.end_all = true;
                news.reason = "the password was changed";
                settle(std::move(news), out, view(now));
              });
      });
    });
  }
  void on(const admin_suspend& r, const then_ptr& out) {
    account_of(r.user, out, [this, r, out](const storage::account& a) {
      apply(storage::suspend_user{a.who.key, r.on, r.until, r.reason, ctx_->now()}, out,
            [this, r, out](const storage::account& now) {
              account_changed news;
              news.now = now;
              news.end_all = r.on;
              news.close_code = 4003;
              news.reason = r.reason.empty() ? "the account is suspended" : r.reason;
              settle(std::move(news), out, view(now));
            });
    });
  }
  void on(const admin_invite&, const then_ptr& out) {
    auto code = random_hex(12);
    apply(storage::make_invitation{code, ctx_->now(), ctx_->now() + invitation_lives_ms}, out,
          [out, code](const storage::account&) {
            account_answer a;
            a.code = code;
            (*out)(a);
          });
  }

  context_ptr ctx_;
  std::unordered_map<std::string, guesses> guesses_;
  std::size_t next_hasher_ = 0;
};

}  // namespace

accounts_actor spawn_accounts(caf::actor_system& system, const context_ptr& ctx) {
  return system.spawn<accounts>(ctx);
}

hasher_actor spawn_hasher(caf::actor_system& system, const context_ptr& ctx, std::size_t index,
                          bool detached) {
  if (detached) return system.spawn<hasher, caf::detached>(ctx, index);
  return system.spawn<hasher>(ctx, index);
}

}  // namespace parley
