#include "net/ws_handshake.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace parley::net {

namespace {

constexpr std::string_view protocol = "parley.v1";

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_word(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t'))
    s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t'))
    s.remove_suffix(1);
  return s;
}

struct head_view {
  std::string_view method, target, version;
  std::vector<std::pair<std::string_view, std::string_view>> fields;

  std::size_t count(std::string_view name) const {
    return static_cast<std::size_t>(std::count_if(
        fields.begin(), fields.end(), [&](const auto& f) { return same_word(f.first, name); }));
  }
  std::string_view get(std::string_view name) const {
    for (const auto& [n, v] : fields)
      if (same_word(n, name)) return v;
    return {};
  }
  /// Calls f with each element of the comma-separated list that all fields of the name make
  /// together.
  template <class F> void each(std::string_view name, F&& f) const {
    for (const auto& [n, v] : fields) {
      if (!same_word(n, name)) continue;
      std::string_view rest = v;
      while (true) {
        const auto comma = rest.find(',');
        f(trim(rest.substr(0, comma)));
        if (comma == std::string_view::npos) break;
        rest.remove_prefix(comma + 1);
      }
    }
  }
  bool lists(std::string_view name, std::string_view word) const {
    bool found = false;
    each(name, [&](std::string_view item) { found = found || same_word(item, word); });
    return found;
  }
};

std::optional<head_view> parse_head(std::string_view raw) {
  head_view h;
  const auto line_end = raw.find("\r\n");
  if (line_end == std::string_view::npos) return std::nullopt;
  const std::string_view line = raw.substr(0, line_end);
  const auto first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return std::nullopt;
  h.method = line.substr(0, first);
  h.target = line.substr(first + 1, last - first - 1);
  h.version = line.substr(last + 1);
  raw.remove_prefix(line_end + 2);
  while (true) {
    const auto end = raw.find("\r\n");
    if (end == std::string_view::npos) return std::nullopt;
    if (end == 0) return h;
    const std::string_view field = raw.substr(0, end);
    raw.remove_prefix(end + 2);
    const auto colon = field.find(':');
    if (colon == std::string_view::npos || colon == 0) return std::nullopt;
    h.fields.emplace_back(field.substr(0, colon), trim(field.substr(colon + 1)));
  }
}

/// Base64 of 16 bytes: 22 characters of the alphabet, the last with two bits of the value alone,
/// and "==".
bool is_key(std::string_view key) {
  if (key.size() != 24 || key.substr(22) != "==") return false;
  const auto in_alphabet = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '/';
  };
  if (!std::all_of(key.begin(), key.begin() + 22, in_alphabet)) return false;
  return key[21] == 'A' || key[21] == 'Q' || key[21] == 'g' || key[21] == 'w';
}

/// A parameter `token` or `access_token`, percent-encoded or not, in the target's query.
bool token_in_query(std::string_view target) {
  const auto mark = target.find('?');
  if (mark == std::string_view::npos) return false;
  std::string_view query = target.substr(mark + 1);
  const auto hex = [](char c) {
    return c >= '0' && c <= '9'                 ? c - '0'
           : lower(c) >= 'a' && lower(c) <= 'f' ? lower(c) - 'a' + 10
                                                : -1;
  };
  while (!query.empty()) {
    const auto end = query.find_first_of("&;");
    const std::string_view item = query.substr(0, end);
    const std::string_view raw = item.substr(0, item.find('='));
    std::string name;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] == '%' && i + 2 < raw.size() && hex(raw[i + 1]) >= 0 && hex(raw[i + 2]) >= 0) {
        name.push_back(lower(static_cast<char>(hex(raw[i + 1]) * 16 + hex(raw[i + 2]))));
        i += 2;
      } else {
        name.push_back(lower(raw[i]));
      }
    }
    if (name == "token" || name == "access_token") return true;
    if (end == std::string_view::npos) break;
    query.remove_prefix(end + 1);
  }
  return false;
}

handshake_verdict refuse(int status, errc code, std::string message, std::string extra = {}) {
  failure why{code, std::move(message)};
  why.status = status;
  return {std::nullopt, handshake_refusal{std::move(why), std::move(extra)}};
}

struct authority {
  std::string_view host, port;
};
std::optional<authority> split(std::string_view text) {
  authority a;
  if (!text.empty() && text.front() == '[') {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    a.host = text.substr(0, end + 1);
    text.remove_prefix(end + 1);
    if (!text.empty() && text.front() != ':') return std::nullopt;
    if (!text.empty()) a.port = text.substr(1);
  } else {
    const auto colon = text.find(':');
    a.host = text.substr(0, colon);
    if (colon != std::string_view::npos) a.port = text.substr(colon + 1);
    if (a.port.find(':') != std::string_view::npos) return std::nullopt;
  }
  if (a.host.empty() ||
      !std::all_of(a.port.begin(), a.port.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  return a;
}

}  // namespace

std::optional<std::string> normal_origin(std::string_view origin) {
  const auto colon = origin.find("://");
  if (colon == std::string_view::npos) return std::nullopt;
  std::string scheme(origin.substr(0, colon));
  std::transform(scheme.begin(), scheme.end(), scheme.begin(), lower);
  if (scheme != "http" && scheme != "https") return std::nullopt;
  const std::string_view rest = origin.substr(colon + 3);
  if (rest.find_first_of("/?#@\\ ,\t") != std::string_view::npos) return std::nullopt;
  const auto a = split(rest);
  if (!a) return std::nullopt;
  std::string normal = scheme + "://";
  std::transform(a->host.begin(), a->host.end(), std::back_inserter(normal), lower);
  const std::string_view usual = scheme == "http" ? "80" : "443";
  if (!a->port.empty() && a->port != usual) normal.append(":").append(a->port);
  return normal;
}

origin_policy::origin_policy(std::string_view public_url, const std::vector<std::string>& allowed) {
  if (const auto begin = public_url.find("://"); begin != std::string_view::npos) {
    const auto path = public_url.find('/', begin + 3);
    public_origin_ = normal_origin(public_url.substr(0, path)).value_or("");
  }
  for (const auto& each : allowed) {
    if (each == "null")
      allowed_.push_back(each);
    else if (auto normal = normal_origin(each))
      allowed_.push_back(std::move(*normal));
  }
}

bool origin_policy::allows(std::string_view origin, std::string_view local) const {
  const auto listed = [&](std::string_view o) {
    return std::find(allowed_.begin(), allowed_.end(), o) != allowed_.end();
  };
  if (origin == "null") return listed(origin);
  const auto normal = normal_origin(origin);
  if (!normal) return false;
  if (!public_origin_.empty() && *normal == public_origin_) return true;
  if (listed(*normal)) return true;
  if (!public_origin_.empty()) return false;
  const auto here = split(local);
  if (!here) return false;
  if (*normal == normal_origin("http://" + std::string(local))) return true;
  const bool loopback = here->host.substr(0, 4) == "127." || here->host == "[::1]";
  return loopback && *normal == normal_origin("http://localhost:" + std::string(here->port));
}

handshake_verdict check_handshake(std::string_view raw_head, std::string_view local,
                                  const origin_policy& origins) {
  const auto bad = [](std::string message) {
    return refuse(400, errc::bad_request, std::move(message));
  };
  const auto parsed = parse_head(raw_head);
  if (!parsed) return bad("The request head is malformed.");
  const head_view& h = *parsed;
  if (h.method != "GET") return bad("A WebSocket handshake is a GET.");
  if (h.version != "HTTP/1.1") return bad("A WebSocket handshake needs HTTP/1.1.");
  if (h.count("Host") != 1 || h.get("Host").empty())
    return bad("There must be exactly one Host field.");
  if (h.count("Content-Length") > 0 && h.get("Content-Length") != "0")
    return bad("A WebSocket handshake has no body: Content-Length.");
  if (h.count("Transfer-Encoding") > 0)
    return bad("A WebSocket handshake has no body: Transfer-Encoding.");
  if (!h.lists("Upgrade", "websocket")) return bad("The Upgrade field must name websocket.");
  if (!h.lists("Connection", "upgrade")) return bad("The Connection field must name Upgrade.");
  if (h.count("Sec-WebSocket-Version") != 1 || h.get("Sec-WebSocket-Version") != "13")
    return refuse(426, errc::bad_request,
                  "Only version 13 of the WebSocket protocol is spoken here.",
                  "Sec-WebSocket-Version: 13\r\nUpgrade: websocket\r\n");
  if (h.count("Sec-WebSocket-Key") != 1 || !is_key(h.get("Sec-WebSocket-Key")))
    return bad("Sec-WebSocket-Key must stand once and be the base64 of 16 bytes.");
  if (token_in_query(h.target))
    return bad("A token in the query string would stand in logs; send it in the Authorization "
               "field or in hello.");
  if (h.count("Origin") > 1)
    return refuse(403, errc::forbidden, "There must be at most one Origin field.");
  if (h.count("Origin") == 1 && !origins.allows(h.get("Origin"), local))
    return refuse(
        403, errc::forbidden,
        "This Origin may not connect; server.public_url and server.allowed_origins say which may.");

  handshake out;
  bool offered = false, known = false;
  h.each("Sec-WebSocket-Protocol", [&](std::string_view name) {
    if (name.empty()) return;
    offered = true;
    known = known || name == protocol;
  });
  if (offered && !known) return bad("None of the offered subprotocols is known; parley.v1 is.");
  if (known) out.subprotocol = protocol;

  if (h.count("Authorization") > 1) return bad("There must be at most one Authorization field.");
  const std::string_view auth = h.get("Authorization");
  if (auth.size() > 7 && same_word(auth.substr(0, 7), "Bearer ")) out.bearer = trim(auth.substr(7));
  return {std::move(out), std::nullopt};
}

}  // namespace parley::net
