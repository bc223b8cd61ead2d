// The admin listener's door and its actions. It runs on an I/O thread of its own, so it answers
// while the main ones are busy. Nothing but health passes without the token; a request for another
// host or from a foreign page never does.
#include <nlohmann/json.hpp>
#include <thread>

#include "net/admin/routes.hpp"
#include "net/auth/keys.hpp"
#include "schemas/log.hpp"
#include "schemas/wire/json_encode.hpp"

namespace parley::net::http {
namespace {

using json = nlohmann::json;

void passivate(const services& s, const request& rq, const responder& out) {
  const auto room = rq.params[0];
  s.actors().passivate(room, [out, room](reply r) {
    if (r.abandoned) return out.abandon();
    if (r.what.error) return out(*r.what.error);
    if (r.what.fields.find("\"passivated\":true") == std::string::npos)
      return out(fail(errc::conflict, "the room is in use"));
    out(object(200, "\"ok\":true,\"room\":" + wire::quoted(room)));
  });
}

void end_session(const services& s, const request& rq, const responder& out) {
  const auto& session = rq.params[0];
  if (!s.actors().end_session(session))
    return out(fail(errc::not_found, "there is no such session"));
  out(object(200, "\"ok\":true,\"session\":" + wire::quoted(session)));
}

void reload(const services& s, const request&, const responder& out) {
  auto done = s.reload();
  if (!done) {
    failure why = done.error();
    why.code = errc::conflict;  // the request is good; the configuration as it stands is not
    return out(why);
  }
  response r;
  r.body = json({{"ok", true}, {"changed", done->changed}, {"restart", done->restart}}).dump();
  out(std::move(r));
}

// One check at a time, on a thread of its own: it reads the whole store.
void check(services& s, const request&, const responder& out) {
  if (s.checking.exchange(true))
    return out(failure{errc::overloaded, "a check is running already", 5000});
  std::thread([&s, out = responder(out)]() mutable {
    auto found = s.check();
    if (found) {
      response r;
      r.body = json({{"ok", found->empty()}, {"problems", *found}})
                   .dump(-1, ' ', false, json::error_handler_t::replace);
      out(std::move(r));
    } else {
      out(found.error());
    }
    out = {};
    s.checking.store(false);
  }).detach();
}

}  // namespace

void serve_admin(services& s, request rq, const responder& out) {
  if (rq.head.host.empty() ||
      !is_own_authority(rq.head.host, s.admin_authority, rq.local_address, {}))
    return out(failure{errc::bad_request, "the admin listener answers only its own host",
                       std::nullopt, 421});
  const auto* origin = rq.head.find("origin");
  if (origin != nullptr && *origin != "http://" + rq.head.host)
    return out(fail(errc::forbidden, "a page of another origin may not ask this"));
  const bool health = rq.path() == "/livez" || rq.path() == "/readyz";
  if (!health) {
    const auto token = bearer(rq.head);
    if (!token || !auth::equal_secret(*token, s.admin_token))
      return out(
          fail(errc::unauthenticated, "the admin token is needed: Authorization: Bearer TOKEN"));
  }
  dispatch(s.admin, std::move(rq), out);
}

void add_admin_routes(services& s) {
  add_health_routes(s, s.admin);
  add_introspection_routes(s);
  add_people_routes(s);
  const auto route = [&s](std::string_view method, std::string_view path, auto run) {
    s.admin.add(method, path, [&s, run](request rq, responder out) { run(s, rq, out); });
  };
  route("POST", "/admin/rooms/{room}/passivate", passivate);
  route("DELETE", "/admin/sessions/{session}", end_session);
  route("POST", "/admin/reload", reload);
  route("POST", "/admin/check", check);
}

}  // namespace parley::net::http
