// What an administrator does to people: users, suspensions, passwords, tokens, invitations.
#include <nlohmann/json.hpp>

#include "net/admin/routes.hpp"
#include "net/http/body.hpp"
#include "schemas/ids.hpp"
#include "schemas/text.hpp"
#include "schemas/wire/json_encode.hpp"

namespace parley::net::http {
namespace {

using json = nlohmann::json;

constexpr std::int64_t ttl_max = 10LL * 365 * 86400;  // seconds; ten years
constexpr std::int64_t at_max = 9007199254740991;     // what a JSON number holds exactly

json user_json(const profile& p) {
  json o = {{"user", p.id}, {"name", p.name}, {"display_name", p.display_name}};
  if (!p.picture.empty()) o["picture"] = p.picture;
  if (p.deleted) o["deleted"] = true;
  return o;
}

response json_answer(int status, const json& body) {
  response r;
  r.status = status;
  r.body = body.dump();
  return r;
}

response done(std::string_view name, const std::string& id) {
  return object(200, "\"ok\":true,\"" + std::string(name) + "\":" + wire::quoted(id));
}

void find_users(const services& s, const request& rq, const responder& out) {
  query_reader query(rq.query());
  const auto q = query.text("q").value_or(std::string());
  const auto limit = query.integer("limit", 1, INT64_MAX).value_or(100);
  if (query.error()) return out(*query.error());
  s.actors().account(admin_find_users{q}, [out, limit](result<account_answer> a) {
    if (!a) return out(a.error());
    json list = json::array();
    for (std::size_t i = 0; i < a->found.size() && static_cast<std::int64_t>(list.size()) < limit;
         ++i) {
      auto o = user_json(a->found[i]);
      o["suspended"] = i < a->found_suspended.size() && a->found_suspended[i];
      list.push_back(std::move(o));
    }
    out(json_answer(200, {{"users", std::move(list)}}));
  });
}

void add_user(const services& s, const request& rq, const responder& out) {
  body_reader in(rq.body);
  admin_add_user u;
  u.name = in.text("name");
  u.id = in.maybe_text("user").value_or(std::string());
  u.display_name = in.maybe_text("display_name").value_or(std::string());
  u.password = to_nfc(in.maybe_text("password").value_or(std::string()));
  if (!in.error()) in.also(check_user_name(u.name));
  if (!in.error() && !u.id.empty() && !is_id(u.id))
    in.also(field_failure(errc::bad_request, "user", "must be 1 to 64 of A-Z a-z 0-9 _ . : -"));
  if (!in.error() && !u.password.empty()) in.also(check_password(u.password));
  if (!in.error() && !u.display_name.empty())
    in.also(check_title(u.display_name, 64, "display_name"));
  if (in.error()) return out(*in.error());
  const auto folded = fold_name(u.name);
  s.actors().account(std::move(u), [out, folded](result<account_answer> a) {
    if (!a) return out(a.error());
    // An id that exists already is answered with the user it names; here that is somebody else.
    if (fold_name(a->who.name) != folded) return out(fail(errc::conflict, "user: the id is taken"));
    out(json_answer(201, user_json(a->who)));
  });
}

void suspend(const services& s, const request& rq, const responder& out, bool on) {
  const auto id = rq.params[0];
  body_reader in(rq.body, true);
  admin_suspend a;
  a.user = id;
  a.on = on;
  if (on) {
    a.until = in.maybe_integer("until", 0, at_max);
    a.reason = in.maybe_text("reason").value_or(std::string());
    if (code_points(a.reason) > 1000)
      in.also(field_failure(errc::too_large, "reason", "is over 1000 code points"));
  }
  if (in.error()) return out(*in.error());
  s.actors().account(std::move(a), [out, id](result<account_answer> r) {
    if (!r) return out(r.error());
    out(done("user", id));
  });
}

void set_password(const services& s, const request& rq, const responder& out) {
  const auto id = rq.params[0];
  body_reader in(rq.body);
  admin_set_password p{id, to_nfc(in.text("password"))};
  if (!in.error()) in.also(check_password(p.password));
  if (in.error()) return out(*in.error());
  s.actors().account(std::move(p), [out, id](result<account_answer> r) {
    if (!r) return out(r.error());
    out(done("user", id));
  });
}

void invite(const services& s, const request& rq, const responder& out) {
  body_reader in(rq.body, true);
  if (in.maybe_integer("uses", 1, 1000).value_or(1) != 1)
    in.also(field_failure(errc::out_of_range, "uses", "can only be 1: a code lets one person in"));
  if (in.error()) return out(*in.error());
  s.actors().account(admin_invite{}, [out](result<account_answer> r) {
    if (!r) return out(r.error());
    out(object(201, "\"invitation\":" + wire::quoted(r->code)));
  });
}

// A token for a user named by id or name, who is made where there is none. A word that can be an id
// becomes the id of the user that is made; where the name belongs to somebody already, that is who
// is meant.
void make_token(const services& s, const request& rq, const responder& out) {
  body_reader in(rq.body);
  const auto user = in.text("user");
  const auto ttl = in.maybe_integer("ttl_s", 1, ttl_max);
  if (!in.error() && !is_id(user)) in.also(check_user_name(user));
  if (in.error()) return out(*in.error());
  const auto give = [&s, out, ttl](const profile& who, std::int64_t generation) {
    out(object(201, token_fields(s, who.id, generation, ttl)));
  };
  admin_add_user u;
  u.id = is_id(user) ? user : std::string();
  u.name = user;
  s.actors().account(std::move(u), [&s, out, user, give](result<account_answer> made) {
    if (made) return give(made->who, made->generation);
    if (made.error().code != errc::conflict) return out(made.error());
    s.actors().account(admin_find_users{user}, [&s, out, user, give](result<account_answer> all) {
      if (!all) return out(all.error());
      const auto folded = fold_name(user);
      for (const auto& p : all->found) {
        if (fold_name(p.name) != folded) continue;
        // By its id once more, since a list tells no generations.
        admin_add_user again;
        again.id = p.id;
        again.name = p.name;
        return s.actors().account(std::move(again), [out, give](result<account_answer> known) {
          if (!known) return out(known.error());
          give(known->who, known->generation);
        });
      }
      out(fail(errc::conflict, "user: the name is taken"));
    });
  });
}

}  // namespace

void add_people_routes(services& s) {
  const auto route = [&s](std::string_view method, std::string_view path, auto run) {
    s.admin.add(method, path, [&s, run](request rq, responder out) { run(s, rq, out); });
  };
  route("GET", "/admin/users", find_users);
  route("POST", "/admin/users", add_user);
  route("POST", "/admin/users/{user}/suspend",
        [](const services& v, const request& rq, const responder& out) {
          suspend(v, rq, out, true);
        });
  route("POST", "/admin/users/{user}/unsuspend",
        [](const services& v, const request& rq, const responder& out) {
          suspend(v, rq, out, false);
        });
  route("POST", "/admin/users/{user}/password", set_password);
  route("POST", "/admin/invitations", invite);
  route("POST", "/admin/tokens", make_token);
}

}  // namespace parley::net::http
