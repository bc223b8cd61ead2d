// Messages over HTTP: pages of history, sending, the read mark.
#include "net/http/services.hpp"
#include "schemas/ids.hpp"
#include "schemas/wire/json_decode.hpp"

namespace parley::net::http {

void add_message_routes(services& s);
result<std::string> nonce_of(const request_head& head);  // rooms.cpp

namespace {

constexpr std::int64_t seq_max = 9007199254740991;  // what a JSON number holds exactly

bool known_form(const std::string& room, const responder& out) {
  if (is_id(room)) return true;
  out(fail(errc::not_found, "there is no such room"));
  return false;
}

void list_messages(const services& s, const request& rq, const responder& out) {
  auto c = who(s, rq, out);
  if (!c || !known_form(rq.params[0], out)) return;
  query_reader query(rq.query());
  wire::history r;
  r.room = rq.params[0];
  r.before_seq = query.integer("before_seq", 0, seq_max);
  r.after_seq = query.integer("after_seq", 0, seq_max);
  r.limit = query.integer("limit", 1, seq_max).value_or(r.limit);
  if (r.limit > 200) r.limit = 200;
  if (query.error()) return out(*query.error());
  if (r.before_seq && r.after_seq)
    return out(fail(errc::bad_request, "before_seq and after_seq cannot both be given"));
  ask(s, std::move(*c), std::move(r), out);
}

void send(const services& s, const request& rq, const responder& out) {
  auto c = who(s, rq, out);
  if (!c || !known_form(rq.params[0], out)) return;
  auto nonce = nonce_of(rq.head);
  if (!nonce) return out(nonce.error());
  std::vector<std::pair<std::string_view, std::string>> given = {{"room", rq.params[0]}};
  if (!nonce->empty()) given.emplace_back("nonce", *nonce);
  auto r = wire::decode_body("message.send", rq.body, given);
  if (!r) return out(r.error());
  ask(s, std::move(*c), std::move(*r), out, 201, 200);
}

void read_up_to(const services& s, const request& rq, const responder& out) {
  auto c = who(s, rq, out);
  if (!c || !known_form(rq.params[0], out)) return;
  auto r = wire::decode_body("message.read", rq.body, {{"room", rq.params[0]}});
  if (!r) return out(r.error());
  ask(s, std::move(*c), std::move(*r), out);
}

}  // namespace

void add_message_routes(services& s) {
  const auto route = [&s](std::string_view method, std::string_view path, auto run) {
    s.main.add(method, path, [&s, run](request rq, responder out) { run(s, std::move(rq), out); });
  };
  route("GET", "/api/v1/rooms/{room}/messages", list_messages);
  route("POST", "/api/v1/rooms/{room}/messages", send);
  route("PUT", "/api/v1/rooms/{room}/read", read_up_to);
}

}  // namespace parley::net::http
