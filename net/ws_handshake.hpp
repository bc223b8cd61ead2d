// Whether an upgrade is taken: the checks of RFC 6455 4.2.1 and ours on top (Origin, subprotocol,
// no token in the query). Pure: text in, verdict out. Called by accept_websocket; http_session may
// ask it before it hands a socket over.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/error.hpp"

namespace parley::net {

/// The origins that a browser may come from.
class origin_policy {
 public:
  /// `public_url`: its scheme, host and port; empty: whatever the listener is reached by.
  /// `allowed`: further origins.
  origin_policy(std::string_view public_url, const std::vector<std::string>& allowed);
  /// `origin`: the header's value. `local`: the socket's own address, "127.0.0.1:8080", which
  /// stands for the origin http://127.0.0.1:8080, and http://localhost:8080 where it is a loopback
  /// one; it counts only without a public_url. Exact comparison of scheme, host and port; "null"
  /// only where it is listed.
  bool allows(std::string_view origin, std::string_view local) const;

 private:
  std::string public_origin_;  // normal form; empty: none
  std::vector<std::string> allowed_;
};

/// "https://Chat.Example:443" -> "https://chat.example". nullopt: no origin (a path, user info,
/// another scheme).
std::optional<std::string> normal_origin(std::string_view origin);

struct handshake {
  std::string bearer;       // the token of `Authorization: Bearer`; empty: none
  std::string subprotocol;  // to be named in the answer; empty: none was offered
};
/// A refusal: `failure::status` is the HTTP status (400, 403, 426), `extra` header lines to add,
/// each with CRLF.
struct handshake_refusal {
  failure why;
  std::string extra;
};
struct handshake_verdict {
  std::optional<handshake> accepted;
  std::optional<handshake_refusal> refused;
};

/// `raw_head`: request line, fields and the empty line. `local`: see origin_policy::allows.
handshake_verdict check_handshake(std::string_view raw_head, std::string_view local,
                                  const origin_policy& origins);

}  // namespace parley::net
