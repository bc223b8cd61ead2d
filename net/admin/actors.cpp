// Introspection: actors, rooms, sessions and storage as their snapshots show them. No actor is
// asked and no database, so this answers while one of them is stuck. Shapes:
// schemas/json/admin.schema.json.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "net/admin/routes.hpp"
#include "net/auth/keys.hpp"

namespace parley::net::http {
namespace {

using json = nlohmann::json;

constexpr std::int64_t page_default = 100, page_max = 1000;
constexpr std::int64_t stuck_ms = 1000;  // a handler that runs longer shows as stuck

response json_answer(const json& body) {
  response r;
  // Ids and names are clean text by their rules; `replace` keeps a defect there from becoming a 500
  // here.
  r.body = body.dump(-1, ' ', false, json::error_handler_t::replace);
  return r;
}

double in_ms(std::int64_t us) { return static_cast<double>(us) / 1000.0; }

json actor_json(const actor_view& a, unix_ms now) {
  json o = {{"kind", a.kind}, {"id", a.id}, {"mailbox", a.mailbox}, {"handled", a.handled}};
  o["state"] = !a.busy_since_ms ? "idle" : *a.busy_since_ms >= stuck_ms ? "stuck" : "busy";
  o["slowest_ms"] = in_ms(a.max_handler_us);
  if (a.busy_since_ms) {
    o["busy_since_ms"] = now - *a.busy_since_ms;
    o["busy_for_ms"] = *a.busy_since_ms;
    if (!a.busy_with.empty()) o["busy_with"] = a.busy_with;
  }
  return o;
}

json room_json(const room_view& r, std::int64_t queue_max) {
  return {{"room", r.room},         {"state", r.state},   {"members", r.members},
          {"online", r.online},     {"active", r.active}, {"passive", r.passive},
          {"last_seq", r.last_seq}, {"queued", r.queued}, {"queued_max", queue_max},
          {"mailbox", r.mailbox}};
}

json session_json(const session_view& v, unix_ms now, std::int64_t in_flight_max) {
  return {{"session", v.session},
          {"user", v.user},
          {"rooms", v.rooms},
          {"in_flight", v.in_flight},
          {"in_flight_max", in_flight_max},
          {"queued_bytes", v.queued_bytes},
          {"queued_frames", v.queued_frames},
          {"connected_ms", std::max<std::int64_t>(0, now - v.connected_at)},
          {"address", v.address},
          {"mailbox", v.mailbox}};
}

// A page of a snapshot in the order of its ids; the cursor is the last id told, so a list that
// changes meanwhile neither repeats nor skips what stays.
template <class T, class Id, class Make>
void answer_page(const request& rq, const responder& out, std::string_view name, std::vector<T> all,
                 Id id, Make make) {
  query_reader query(rq.query());
  const auto limit =
      std::min(query.integer("limit", 1, INT64_MAX).value_or(page_default), page_max);
  const auto cursor = query.text("cursor");
  if (query.error()) return out(*query.error());
  std::string after;
  if (cursor) {
    auto text = auth::base64url_decode(*cursor);
    if (!text) return out(field_failure(errc::bad_request, "cursor", "is not one that was given"));
    after = std::move(*text);
  }
  std::sort(all.begin(), all.end(), [&](const T& a, const T& b) { return id(a) < id(b); });
  auto from = all.begin();
  if (cursor)
    from = std::upper_bound(all.begin(), all.end(), after,
                            [&](const std::string& a, const T& b) { return a < id(b); });
  json list = json::array();
  const auto count = std::min<std::ptrdiff_t>(limit, all.end() - from);
  const auto to = from + count;
  for (auto it = from; it != to; ++it)
    list.push_back(make(*it));
  json body = {{std::string(name), std::move(list)}, {"total", all.size()}};
  if (to != all.end() && count > 0) body["next"] = auth::base64url_encode(id(*std::prev(to)));
  out(json_answer(body));
}

template <class T, class Id, class Make>
void answer_one(const request& rq, const responder& out, const std::vector<T>& all,
                std::string_view what, Id id, Make make) {
  for (const auto& one : all)
    if (id(one) == rq.params[0]) return out(json_answer(make(one)));
  out(fail(errc::not_found, "there is no such " + std::string(what)));
}

json storage_json(const storage_view& v, std::int64_t statements, bool mysql) {
  json writer = {{"queue", v.queue},
                 {"queue_max", v.queue_max},
                 {"batches", v.batches},
                 {"last_batch", v.last_batch},
                 {"commit_ms_last", in_ms(v.commit_us_last)}};
  writer["state"] = v.state == "away" ? "away" : v.busy_ms ? "committing" : "idle";
  if (v.busy_ms) writer["busy_for_ms"] = *v.busy_ms;
  json readers = json::array();
  for (std::size_t i = 0; i < v.readers.size(); ++i) {
    const auto& r = v.readers[i];
    json o = {{"reader", i},
              {"queue", r.queue},
              {"queue_max", v.reader_queue_max},
              {"handled", r.handled}};
    o["state"] = !r.busy_ms ? "idle" : *r.busy_ms >= stuck_ms ? "stuck" : "busy";
    if (r.busy_ms) o["busy_for_ms"] = *r.busy_ms;
    readers.push_back(std::move(o));
  }
  return {{"backend", mysql ? "mysql" : "sqlite"},
          {"durability", v.durability},
          {"epoch", v.epoch},
          {"writer", std::move(writer)},
          {"readers", std::move(readers)},
          {"statements", statements}};
}

// A room that was asked for and does not exist has an actor for a moment; it is none of those that
// are awake.
std::vector<room_view> awake_rooms(const services& s) {
  auto all = s.actors().rooms();
  std::erase_if(all, [](const room_view& r) { return r.state == "missing"; });
  return all;
}

}  // namespace

void add_introspection_routes(services& s) {
  s.admin.add("GET", "/metrics", [&s](request, responder out) {
    response r;
    r.content_type = "text/plain; version=0.0.4; charset=utf-8";
    r.body = metrics_text(s.server.counters, s.actors().actors());
    out(std::move(r));
  });
  const auto actor_id = [](const actor_view& a) -> const std::string& { return a.id; };
  s.admin.add("GET", "/admin/actors", [&s, actor_id](request rq, responder out) {
    auto all = s.actors().actors();
    query_reader query(rq.query());
    if (const auto kind = query.text("kind"))
      std::erase_if(all, [&](const actor_view& a) { return a.kind != *kind; });
    answer_page(rq, out, "actors", std::move(all), actor_id,
                [now = s.server.now()](const actor_view& a) { return actor_json(a, now); });
  });
  s.admin.add("GET", "/admin/actors/{id}", [&s, actor_id](request rq, responder out) {
    answer_one(rq, out, s.actors().actors(), "actor", actor_id,
               [now = s.server.now()](const actor_view& a) { return actor_json(a, now); });
  });
  const auto room_id = [](const room_view& r) -> const std::string& { return r.room; };
  s.admin.add("GET", "/admin/rooms", [&s, room_id](request rq, responder out) {
    answer_page(rq, out, "rooms", awake_rooms(s), room_id,
                [max = s.server.settings.get()->limits.room_queue](const room_view& r) {
                  return room_json(r, max);
                });
  });
  s.admin.add("GET", "/admin/rooms/{room}", [&s, room_id](request rq, responder out) {
    answer_one(rq, out, awake_rooms(s), "awake room", room_id,
               [max = s.server.settings.get()->limits.room_queue](const room_view& r) {
                 return room_json(r, max);
               });
  });
  const auto session_id = [](const session_view& v) -> const std::string& { return v.session; };
  const auto session_of = [&s](const session_view& v) {
    return session_json(v, s.server.now(), s.server.settings.get()->limits.in_flight);
  };
  s.admin.add("GET", "/admin/sessions", [&s, session_id, session_of](request rq, responder out) {
    answer_page(rq, out, "sessions", s.actors().sessions(), session_id, session_of);
  });
  s.admin.add("GET", "/admin/sessions/{session}",
              [&s, session_id, session_of](request rq, responder out) {
                answer_one(rq, out, s.actors().sessions(), "session", session_id, session_of);
              });
  s.admin.add("GET", "/admin/storage", [&s](request, responder out) {
    const bool mysql = s.server.settings.get()->storage.url.rfind("mysql:", 0) == 0;
    out(json_answer(storage_json(s.actors().storage(), s.server.counters.statements.get(), mysql)));
  });
}

}  // namespace parley::net::http
