// /livez and /readyz, on both listeners, and what the main listener answers as a whole.
#include "net/http/services.hpp"
#include "net/web.hpp"
#include "schemas/wire/json_encode.hpp"

namespace parley::net::http {

void add_account_routes(services& s);
void add_room_routes(services& s);
void add_message_routes(services& s);
void add_health_routes(services& s, router& to);

namespace {

// That this is answered says that the loop of this connection turns; nothing else is asked.
void live(const request&, const responder& out) { out(object(200, "\"status\":\"ok\"")); }

void ready(const services& s, const request&, const responder& out) {
  const bool draining = s.server.stopping.load();
  const auto why = s.actors().not_ready();
  const bool good = !draining && !why;
  const auto settings = s.server.settings.get();
  // Migrations were applied before the listeners opened, or the start had failed.
  auto r = object(good ? 200 : 503,
                  std::string("\"status\":") + (good ? "\"ready\"" : "\"not_ready\"") +
                      ",\"durability\":" + wire::quoted(settings->storage.durability) +
                      ",\"checks\":{\"storage\":" + (why && !draining ? "\"failing\"" : "\"ok\"") +
                      ",\"migrations\":\"ok\",\"draining\":" + (draining ? "true" : "false") + "}");
  if (!good) r.headers.emplace_back("Retry-After", "1");
  out(std::move(r));
}

}  // namespace

void add_health_routes(services& s, router& to) {
  to.add("GET", "/livez", [](request rq, responder out) { live(rq, out); });
  to.add("GET", "/readyz", [&s](request rq, responder out) { ready(s, rq, out); });
}

void add_main_routes(services& s) {
  add_health_routes(s, s.main);
  add_account_routes(s);
  add_room_routes(s);
  add_message_routes(s);
  add_web_routes(s.main);
}

}  // namespace parley::net::http
