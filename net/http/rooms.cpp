// Rooms and their members over HTTP: the same operations as on the WebSocket, asked of the same
// actors.
#include "net/http/services.hpp"
#include "schemas/ids.hpp"
#include "schemas/wire/json_decode.hpp"

namespace parley::net::http {

void add_room_routes(services& s);
result<std::string> nonce_of(const request_head& head);

/// The Idempotency-Key, which serves as the nonce; empty where there is none.
result<std::string> nonce_of(const request_head& head) {
  const auto* key = head.find("idempotency-key");
  if (key == nullptr) return std::string();
  std::string_view v = *key;
  // The draft writes it as a quoted string; most clients do not.
  if (v.size() >= 2 && v.front() == '"' && v.back() == '"') v = v.substr(1, v.size() - 2);
  if (!is_nonce(v))
    return field_failure(errc::bad_request, "Idempotency-Key",
                         "must be 1 to 64 of A-Z a-z 0-9 _ -");
  return std::string(v);
}

namespace {

constexpr std::int64_t list_max =
    1000;  // what a client may ask for; the actors give what fits an answer

// A name in a path that is none cannot exist.
bool known_form(const std::string& id, const responder& out) {
  if (is_id(id)) return true;
  out(fail(errc::not_found, "there is no such room or user"));
  return false;
}

using given_fields = std::vector<std::pair<std::string_view, std::string>>;

void list_rooms(const services& s, const request& rq, const responder& out) {
  auto c = who(s, rq, out);
  if (!c) return;
  query_reader query(rq.query());
  wire::rooms r;
  r.cursor = query.text("cursor");
  r.limit = query.integer("limit", 1, list_max);
  if (query.error()) return out(*query.error());
  ask(s, std::move(*c), std::move(r), out);
}

void create_room(const services& s, const request& rq, const responder& out) {
  auto c = who(s, rq, out);
  if (!c) return;
  auto nonce = nonce_of(rq.head);
  if (!nonce) return out(nonce.error());
  given_fields given;
  if (!nonce->empty()) given.emplace_back("nonce", *nonce);
  auto r = wire::decode_body("room.create", rq.body, given);
  if (!r) return out(r.error());
  ask(s, std::move(*c), std::move(*r), out, 201, 200);
}

void get_room(const services& s, const request& rq, const responder& out) {
  auto c = who(s, rq, out);
  if (!c || !known_form(rq.params[0], out)) return;
  ask(s, std::move(*c), wire::room_get{rq.params[0]}, out);
}

void change_room(const services& s, const request& rq, const responder& out) {
  auto c = who(s, rq, out);
  if (!c || !known_form(rq.params[0], out)) return;
  auto nonce = nonce_of(rq.head);
  if (!nonce) return out(nonce.error());
  given_fields given = {{"room", rq.params[0]}};
  if (!nonce->empty()) given.emplace_back("nonce", *nonce);
  auto r = wire::decode_body("room.change", rq.body, given);
  if (!r) return out(r.error());
  ask(s, std::move(*c), std::move(*r), out);
}

void list_members(const services& s, const request& rq, const responder& out) {
  auto c = who(s, rq, out);
  if (!c || !known_form(rq.params[0], out)) return;
  query_reader query(rq.query());
  wire::room_members r{rq.params[0], query.text("cursor"), 100};
  r.limit = query.integer("limit", 1, list_max).value_or(r.limit);
  if (query.error()) return out(*query.error());
  ask(s, std::move(*c), std::move(r), out);
}

void put_member(const services& s, const request& rq, const responder& out) {
  auto c = who(s, rq, out);
  if (!c || !known_form(rq.params[0], out) || !known_form(rq.params[1], out)) return;
  auto nonce = nonce_of(rq.head);
  if (!nonce) return out(nonce.error());
  wire::request r = wire::room_join{rq.params[0], *nonce};
  if (rq.params[1] != c->user) r = wire::room_invite{rq.params[0], rq.params[1], *nonce};
  ask(s, std::move(*c), std::move(r), out);
}

void delete_member(const services& s, const request& rq, const responder& out) {
  auto c = who(s, rq, out);
  if (!c || !known_form(rq.params[0], out) || !known_form(rq.params[1], out)) return;
  auto nonce = nonce_of(rq.head);
  if (!nonce) return out(nonce.error());
  // Whatever the room is: the same answer, so that it tells nothing about it.
  if (rq.params[1] != c->user)
    return out(fail(errc::forbidden, "only oneself can be taken out of a room"));
  ask(s, std::move(*c), wire::room_leave{rq.params[0], *nonce}, out);
}

void get_presence(const services& s, const request& rq, const responder& out) {
  auto c = who(s, rq, out);
  if (!c || !known_form(rq.params[0], out)) return;
  ask(s, std::move(*c), wire::room_presence{rq.params[0]}, out);
}

}  // namespace

void add_room_routes(services& s) {
  const auto route = [&s](std::string_view method, std::string_view path, auto run) {
    s.main.add(method, path, [&s, run](request rq, responder out) { run(s, std::move(rq), out); });
  };
  route("GET", "/api/v1/rooms", list_rooms);
  route("POST", "/api/v1/rooms", create_room);
  route("GET", "/api/v1/rooms/{room}", get_room);
  route("PATCH", "/api/v1/rooms/{room}", change_room);
  route("GET", "/api/v1/rooms/{room}/members", list_members);
  route("PUT", "/api/v1/rooms/{room}/members/{user}", put_member);
  route("DELETE", "/api/v1/rooms/{room}/members/{user}", delete_member);
  route("GET", "/api/v1/rooms/{room}/presence", get_presence);
}

}  // namespace parley::net::http
