// What HTTP handlers are given: the server context, the secrets, the routes of both listeners. Made
// once by the composition root before the listeners, read by all I/O threads, outlives them.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/ports.hpp"
#include "actors/runtime.hpp"
#include "net/http/message.hpp"
#include "net/http/router.hpp"
#include "net/server_context.hpp"

namespace parley::net::http {

/// What a reload did: keys whose value is another now, and those that wait for the next start.
struct reload_report {
  std::vector<std::string> changed, restart;
};

struct services {
  explicit services(server_context& s) : server(s) {}
  server_context& server;
  std::string token_secret;     // signs our own tokens
  std::string admin_token;      // what the admin listener asks for
  std::string admin_authority;  // where the admin listener is bound, "127.0.0.1:8081"
  router main, admin;           // filled before the listeners open
  /// Reads the configuration anew, as SIGHUP does. Blocks a little; called on the admin thread.
  std::function<result<reload_report>()> reload;
  /// The integrity check of the whole store. Blocks for long; called on a thread of its own.
  std::function<result<std::vector<std::string>>()> check;
  std::atomic<bool> checking{false};  // while such a thread runs, this object must not end

  runtime& actors() const { return *server.rt; }
};

/// Fills services::main with everything that the main listener answers, the page and the documents
/// included.
void add_main_routes(services& s);
/// Fills services::admin.
void add_admin_routes(services& s);
/// Guards the admin listener (own Host, no foreign Origin, the token) and runs the route.
void serve_admin(services& s, request rq, const responder& out);

// ---- shared by the handlers

/// The token of `Authorization: Bearer`; nullopt where there is none of this form.
std::optional<std::string_view> bearer(const request_head& head);
/// Whose request it is; where that is not clear, the answer (401) has been given and nullopt comes
/// back.
std::optional<claims> who(const services& s, const request& rq, const responder& out);
/// A token of our own for a user, with the configured lifetime or `ttl_s`.
std::string token_fields(const services& s, const std::string& user, std::int64_t generation,
                         std::optional<std::int64_t> ttl_s = std::nullopt);
/// Hands a request to the actors and answers with its fields: `ok` is the status, `again` the one
/// where the fields say `"duplicate":true`.
void ask(const services& s, claims who, wire::request r, const responder& out, int ok = 200,
         int again = 200);
/// Whether an authority (of Host or of an absolute target) is this listener: what it is bound to,
/// the socket's own address or a loopback name with its port, or `public_url`'s.
bool is_own_authority(std::string_view authority, std::string_view listen,
                      std::string_view local_address, std::string_view public_url);

}  // namespace parley::net::http
