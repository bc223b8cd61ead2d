// See jwt.hpp.
#include "net/auth/jwt.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "schemas/ids.hpp"
#include "schemas/text.hpp"
#include "schemas/wire/json_decode.hpp"

namespace parley::net::auth {
namespace {

using json = nlohmann::json;

// One answer for all that is wrong with a signature or the form, so that nobody learns which check
// failed.
failure invalid() { return fail(errc::unauthenticated, "the token is not valid"); }
failure says(std::string message) { return fail(errc::unauthenticated, std::move(message)); }

// Year 10000: beyond it a number is not a time.
constexpr std::int64_t seconds_max = 253'402'300'800;
constexpr std::int64_t skew_s = 60;

struct parts {
  std::string_view signed_text, header, payload, signature;
};

bool split(std::string_view token, parts& out) {
  const auto first = token.find('.');
  if (first == std::string_view::npos) return false;
  const auto second = token.find('.', first + 1);
  if (second == std::string_view::npos || token.find('.', second + 1) != std::string_view::npos)
    return false;
  out.signed_text = token.substr(0, second);
  out.header = token.substr(0, first);
  out.payload = token.substr(first + 1, second - first - 1);
  out.signature = token.substr(second + 1);
  return true;
}

std::optional<json> object(std::string_view encoded) {
  const auto text = base64url_decode(encoded);
  if (!text) return std::nullopt;
  auto doc = wire::parse_strict(*text);
  if (!doc || !doc->is_object()) return std::nullopt;
  return std::move(*doc);
}

const json* get(const json& o, const char* name) {
  const auto it = o.find(name);
  return it == o.end() ? nullptr : &*it;
}
std::string text(const json& o, const char* name) {
  const auto* v = get(o, name);
  return v != nullptr && v->is_string() ? v->get<std::string>() : std::string();
}

// A time that must be an integer (exp) or may have a fraction (nbf, iat, which some issuers write
// so).
std::optional<std::int64_t> seconds(const json& v, bool fraction) {
  if (v.is_number_unsigned()) {
    const auto n = v.get<std::uint64_t>();
    if (n > static_cast<std::uint64_t>(seconds_max)) return std::nullopt;
    return static_cast<std::int64_t>(n);
  }
  if (fraction && v.is_number_float()) {
    const auto d = v.get<double>();
    if (!(d >= 0) || d > static_cast<double>(seconds_max)) return std::nullopt;
    return static_cast<std::int64_t>(std::floor(d));
  }
  return std::nullopt;
}

bool names_audience(const json& payload, const std::string& wanted) {
  const auto* aud = get(payload, "aud");
  if (aud == nullptr) return false;
  if (aud->is_string()) return aud->get_ref<const std::string&>() == wanted;
  if (!aud->is_array()) return false;
  for (const auto& a : *aud)
    if (a.is_string() && a.get_ref<const std::string&>() == wanted) return true;
  return false;
}

bool good_type(std::string_view typ) {
  std::string low;
  for (const char c : typ)
    low.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  return low.empty() || low == "jwt" || low == "at+jwt" || low == "application/at+jwt";
}

}  // namespace

result<claims> jwt_checker::check(std::string_view token) const {
  parts p;
  if (token.size() > token_bytes_max || !split(token, p)) return invalid();
  const auto header = object(p.header), payload = object(p.payload);
  const auto signature = base64url_decode(p.signature);
  if (!header || !payload || !signature || signature->empty()) return invalid();
  // RFC 7515 4.1.11: an extension that must be understood and is not.
  if (get(*header, "crit") != nullptr || !good_type(text(*header, "typ"))) return invalid();
  const auto alg = text(*header, "alg"), kid = text(*header, "kid"), iss = text(*payload, "iss");

  const auto foreign = foreign_.load();
  const bool own = iss == own_issuer;
  if (!own && (foreign == nullptr || iss != foreign->issuer)) return invalid();
  const auto passes = [&](const verify_key& key) {
    return alg == to_string(key.alg) && verify(key, p.signed_text, *signature);
  };
  bool good = false;
  if (own) {
    good = passes(own_);
  } else {
    // A `kid` only chooses among the keys that we have; it is compared and used for nothing else.
    for (const auto& key : foreign->keys)
      if (kid.empty() || key.kid.empty() || key.kid == kid) good = good || passes(key);
  }
  if (!good) return invalid();

  const auto now_s = now_() / 1000;
  const auto* exp = get(*payload, "exp");
  const auto expires = exp != nullptr ? seconds(*exp, false) : std::nullopt;
  if (!expires) return says("the token's exp is missing or no integer number of seconds");
  if (now_() >= *expires * 1000) return says("the token has expired");
  for (const char* name : {"nbf", "iat"}) {
    const auto* v = get(*payload, name);
    if (v == nullptr) continue;
    const auto from = seconds(*v, true);
    if (!from) return says(std::string("the token's ") + name + " is no time");
    if (*from > now_s + skew_s)
      return says(std::string("the token's ") + name + " lies in the future");
  }

  claims out;
  out.user = text(*payload, "sub");
  if (!is_id(out.user)) return says("the token's sub is no user id");
  out.expires_at = *expires * 1000;
  if (const auto* iat = get(*payload, "iat"))
    out.issued_at = seconds(*iat, true).value_or(0) * 1000;
  out.jti = text(*payload, "jti");
  if (own) {
    const auto* gen = get(*payload, "gen");
    if (gen == nullptr || !gen->is_number_integer() || out.jti.empty() || out.jti.size() > 128)
      return invalid();
    out.generation = gen->get<std::int64_t>();
    return out;
  }
  if (!names_audience(*payload, foreign->audience))
    return says("the token is for another audience");
  out.foreign = true;
  // A token without an id of its own, or with an odd one, is named by its digest: log-out must find
  // it again.
  if (out.jti.empty() || out.jti.size() > 128 || !is_clean_utf8(out.jti))
    out.jti = "sha256." + sha256_hex(p.signed_text).substr(0, 40);
  for (const char* name : {"preferred_username", "name"}) {
    auto candidate = text(*payload, name);
    if (!candidate.empty() && !check_user_name(candidate)) {
      out.name = std::move(candidate);
      break;
    }
  }
  return out;
}

result<std::shared_ptr<const foreign_issuer>> load_issuer(const config::tokens_t& tokens) {
  if (tokens.issuer.empty() && tokens.audience.empty() && tokens.key_file.empty())
    return std::shared_ptr<const foreign_issuer>();
  if (tokens.issuer.empty() || tokens.audience.empty() || tokens.key_file.empty())
    return fail(errc::bad_request,
                "tokens.issuer, tokens.audience and tokens.key_file belong together");
  if (tokens.issuer == own_issuer)
    return fail(errc::bad_request,
                "tokens.issuer must not be \"parley\", which names this server's own tokens");
  auto keys = load_key_file(tokens.key_file);
  if (!keys) return keys.error();
  return std::make_shared<const foreign_issuer>(
      foreign_issuer{tokens.issuer, tokens.audience, std::move(*keys)});
}

signed_token sign_token(std::string_view secret, std::string_view user, std::int64_t generation,
                        std::int64_t ttl_s, unix_ms now) {
  // The header's text never changes: {"alg":"HS256","typ":"JWT"}.
  static const std::string header = base64url_encode(R"({"alg":"HS256","typ":"JWT"})");
  const auto issued = now / 1000;
  signed_token out;
  out.expires_at = (issued + ttl_s) * 1000;
  const json payload = {{"iss", own_issuer}, {"sub", user},   {"jti", make_id("")},
                        {"gen", generation}, {"iat", issued}, {"exp", issued + ttl_s}};
  out.token = header + "." + base64url_encode(payload.dump());
  out.token += "." + base64url_encode(hmac_sha256(secret, out.token));
  return out;
}

}  // namespace parley::net::auth
