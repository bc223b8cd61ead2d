// What handlers share; see services.hpp.
#include "net/http/services.hpp"

#include "net/auth/jwt.hpp"
#include "net/http_gate.hpp"
#include "schemas/wire/json_encode.hpp"

namespace parley::net::http {
namespace {

// "https://chat.example:8443/x" -> host and port, the scheme's port where none stands.
std::optional<std::pair<std::string, std::string>> host_of_url(std::string_view url) {
  const auto scheme = url.find("://");
  if (scheme == std::string_view::npos) return std::nullopt;
  const bool tls = url.substr(0, scheme) == "https";
  auto rest = url.substr(scheme + 3);
  auto parts = split_authority(rest.substr(0, rest.find('/')));
  if (parts && parts->second.empty()) parts->second = tls ? "443" : "80";
  return parts;
}

}  // namespace

std::optional<std::string_view> bearer(const request_head& head) {
  const auto* value = head.find("authorization");
  if (value == nullptr) return std::nullopt;
  std::string_view v = *value;
  constexpr std::string_view scheme = "bearer ";
  if (v.size() <= scheme.size()) return std::nullopt;
  for (std::size_t i = 0; i < scheme.size(); ++i) {
    const char c = v[i] >= 'A' && v[i] <= 'Z' ? static_cast<char>(v[i] - 'A' + 'a') : v[i];
    if (c != scheme[i]) return std::nullopt;
  }
  v.remove_prefix(scheme.size());
  while (!v.empty() && v.front() == ' ')
    v.remove_prefix(1);
  if (v.empty()) return std::nullopt;
  return v;
}

std::optional<claims> who(const services& s, const request& rq, const responder& out) {
  const auto token = bearer(rq.head);
  if (!token) {
    out(fail(errc::unauthenticated, "a token is needed: Authorization: Bearer TOKEN"));
    return std::nullopt;
  }
  auto found = s.server.tokens.check(*token);
  if (!found) {
    out(found.error());
    return std::nullopt;
  }
  return std::move(*found);
}

std::string token_fields(const services& s, const std::string& user, std::int64_t generation,
                         std::optional<std::int64_t> ttl_s) {
  const auto ttl = ttl_s.value_or(s.server.settings.get()->tokens.ttl_s);
  const auto made = auth::sign_token(s.token_secret, user, generation, ttl, s.server.now());
  return "\"user\":" + wire::quoted(user) + ",\"token\":" + wire::quoted(made.token) + "," +
         wire::expires_fields(made.expires_at);
}

void ask(const services& s, claims who, wire::request r, const responder& out, int ok, int again) {
  const auto deadline = std::chrono::milliseconds(s.server.settings.get()->limits.read_deadline_ms);
  s.actors().ask(std::move(who), std::move(r), deadline, [out, ok, again](reply what) {
    if (what.abandoned) return out.abandon();
    if (what.what.error) return out(*what.what.error);
    // No other field of such an answer is free text, so the words cannot stand inside one.
    const bool duplicate = what.what.fields.find("\"duplicate\":true") != std::string::npos;
    out(object(duplicate ? again : ok, what.what.fields));
  });
}

bool is_own_authority(std::string_view authority, std::string_view listen,
                      std::string_view local_address, std::string_view public_url) {
  auto asked = split_authority(authority);
  const auto bound = split_authority(listen);
  if (!asked) return false;
  if (!public_url.empty()) {
    const auto known = host_of_url(public_url);
    // Without a port the scheme's is meant, and which that was only the proxy in front knows.
    if (known && asked->first == known->first &&
        (asked->second == known->second || asked->second.empty()))
      return true;
  }
  if (asked->second.empty()) asked->second = "80";
  if (!bound || asked->second != bound->second) return false;
  const auto& host = asked->first;
  if (host == bound->first || host == "localhost" || host == "127.0.0.1" || host == "[::1]")
    return true;
  return !local_address.empty() &&
         (host == local_address || host == "[" + std::string(local_address) + "]");
}

}  // namespace parley::net::http
