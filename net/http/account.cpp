// Accounts over HTTP: registration, log-in and log-out, tokens, the password, the own profile,
// others' profiles. Form is checked here; names, passwords and revocation are the actors' matter,
// and the token is signed here.
#include "net/http/body.hpp"
#include "net/http/services.hpp"
#include "schemas/text.hpp"
#include "schemas/wire/json_decode.hpp"
#include "schemas/wire/json_encode.hpp"

namespace parley::net::http {

void add_account_routes(services& s);

namespace {

constexpr std::size_t display_name_max = 64;  // code points; common.schema.json
constexpr std::size_t picture_max = 1000;     // bytes
constexpr std::size_t password_bytes_max = 1024;
constexpr std::size_t device_max = 256;  // bytes

// Answers with what `make` says of the account, or with the failure.
template <class F> account_fn then(const responder& out, F make) {
  return [out, make = std::move(make)](result<account_answer> a) {
    if (!a) return out(a.error());
    out(make(*a));
  };
}

void register_one(const services& s, request rq, const responder& out) {
  const auto settings = s.server.settings.get();
  const auto& policy = settings->accounts.registration;
  if (policy == "closed") return out(fail(errc::forbidden, "registration is closed"));
  body_reader in(rq.body);
  register_user r;
  r.name = in.text("name");
  r.password = to_nfc(in.text("password"));
  r.display_name = in.maybe_text("display_name").value_or(std::string());
  r.invitation = in.maybe_text("invitation").value_or(std::string());
  r.address = rq.address;
  if (!in.error()) in.also(check_user_name(r.name));
  if (!in.error()) in.also(check_password(r.password));
  if (!in.error() && !r.display_name.empty())
    in.also(check_title(r.display_name, display_name_max, "display_name"));
  if (in.error()) return out(*in.error());
  if (policy == "invitation") {
    if (r.invitation.empty())
      return out(fail(errc::forbidden, "an invitation is needed to register"));
  } else {
    r.invitation.clear();
  }
  s.actors().account(std::move(r), then(out, [](const account_answer& a) {
                       return object(201,
                                     "\"user\":" + wire::quoted(a.who.id) +
                                         ",\"name\":" + wire::quoted(a.who.name) +
                                         ",\"display_name\":" + wire::quoted(a.who.display_name));
                     }));
}

void log_in(const services& s, request rq, const responder& out) {
  body_reader in(rq.body);
  login l;
  l.name = in.text("name");
  l.password = to_nfc(in.text("password"));
  // What an earlier log-in gave this device to keep: with it the right password is let in whatever
  // others guess.
  if (const auto* device = rq.head.find("parley-device");
      device != nullptr && device->size() <= device_max)
    l.device = *device;
  l.address = rq.address;
  if (in.error()) return out(*in.error());
  // Nobody has such a password; hashing it would be work for nothing.
  if (l.password.size() > password_bytes_max)
    return out(fail(errc::unauthenticated, "the name or the password is wrong"));
  s.actors().account(std::move(l), then(out, [&s](const account_answer& a) {
                       auto r = object(200, token_fields(s, a.who.id, a.generation));
                       if (!a.device.empty()) r.headers.emplace_back("Parley-Device", a.device);
                       return r;
                     }));
}

void log_out(const services& s, const request& rq, const responder& out) {
  auto c = who(s, rq, out);
  if (!c) return;
  s.actors().account(logout{std::move(*c)},
                     then(out, [](const account_answer&) { return no_content(); }));
}

void new_token(const services& s, const request& rq, const responder& out) {
  auto c = who(s, rq, out);
  if (!c) return;
  s.actors().account(renew{std::move(*c)}, then(out, [&s](const account_answer& a) {
                       return object(200, token_fields(s, a.who.id, a.generation));
                     }));
}

void new_password(const services& s, const request& rq, const responder& out) {
  auto c = who(s, rq, out);
  if (!c) return;
  body_reader in(rq.body);
  change_password p;
  p.who = std::move(*c);
  p.password = to_nfc(in.text("password"));
  p.new_password = to_nfc(in.text("new_password"));
  p.address = rq.address;
  if (!in.error())
    if (auto bad = check_password(p.new_password)) {
      bad->message = "new_password: " + bad->message;
      in.also(std::move(bad));
    }
  if (in.error()) return out(*in.error());
  if (p.password.size() > password_bytes_max)
    return out(fail(errc::unauthenticated, "the password is wrong"));
  s.actors().account(std::move(p), then(out, [&s](const account_answer& a) {
                       return object(200, token_fields(s, a.who.id, a.generation));
                     }));
}

response profile_response(const account_answer& a) {
  response r;
  r.body = wire::profile_object(a.who);
  return r;
}

void own_profile(const services& s, const request& rq, const responder& out) {
  auto c = who(s, rq, out);
  if (!c) return;
  s.actors().account(get_me{std::move(*c)}, then(out, profile_response));
}

void change_profile(const services& s, const request& rq, const responder& out) {
  auto c = who(s, rq, out);
  if (!c) return;
  body_reader in(rq.body);
  patch_me p;
  p.who = std::move(*c);
  p.display_name = in.maybe_text("display_name");
  p.picture = in.maybe_text("picture");
  if (!in.error() && p.display_name)
    in.also(check_title(*p.display_name, display_name_max, "display_name"));
  if (!in.error() && p.picture && p.picture->size() > picture_max)
    in.also(field_failure(errc::too_large, "picture", "is over 1000 bytes"));
  if (in.error()) return out(*in.error());
  s.actors().account(std::move(p), then(out, profile_response));
}

void profiles(const services& s, const request& rq, const responder& out) {
  auto c = who(s, rq, out);
  if (!c) return;
  query_reader query(rq.query());
  const auto ids = query.list("id");
  if (query.error()) return out(*query.error());
  if (ids.empty()) return out(fail(errc::bad_request, "id is missing"));
  // As the op of the same meaning, so that the bounds are the same.
  std::string body = "{\"users\":[";
  for (const auto& id : ids)
    body += (body.back() == '[' ? "" : ",") + wire::quoted(id);
  auto r = wire::decode_body("users", body + "]}");
  if (!r) return out(r.error());
  ask(s, std::move(*c), std::move(*r), out);
}

}  // namespace

void add_account_routes(services& s) {
  const auto route = [&s](std::string_view method, std::string_view path, auto run) {
    s.main.add(method, path, [&s, run](request rq, responder out) { run(s, std::move(rq), out); });
  };
  route("POST", "/api/v1/users", register_one);
  route("GET", "/api/v1/users", profiles);
  route("POST", "/api/v1/login", log_in);
  route("POST", "/api/v1/logout", log_out);
  route("POST", "/api/v1/token", new_token);
  route("PUT", "/api/v1/password", new_password);
  route("GET", "/api/v1/me", own_profile);
  route("PATCH", "/api/v1/me", change_profile);
}

}  // namespace parley::net::http
