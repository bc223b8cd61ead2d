// Blocking HTTP/1.1 calls with a deadline, for preparing a run and reading the server's own
// figures. Called by the scenarios between measurements; must not be used while latency is
// measured, except by the scenario that measures an HTTP call itself.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "client/clock.hpp"
#include "client/fd.hpp"

namespace parley::bench {

/// Something outside failed: no connection, a deadline, a wrong answer. The text is for people.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Where a server listens. `netns` is a file descriptor of the network namespace to dial from, or
/// -1 for the process' own (see link.hpp).
struct Endpoint {
  std::string host = "127.0.0.1";
  int port = 0;
  int netns = -1;
  std::string text() const { return host + ":" + std::to_string(port); }
};

/// "HOST:PORT" to an endpoint; throws Failure when it is none.
Endpoint parse_endpoint(std::string_view text);

/// A TCP connection with TCP_NODELAY; non-blocking from then on. Throws Failure.
Fd dial(const Endpoint& to, nanos timeout);

/// Starts a non-blocking connect; completion shows as EPOLLOUT. Throws Failure.
Fd dial_async(const Endpoint& to);

struct HttpAnswer {
  int status = 0;
  std::string head;
  std::string body;
};

/// One keep-alive connection to one server; dials again when the server closed it between calls.
class HttpClient {
 public:
  explicit HttpClient(Endpoint to, std::string bearer = {}, nanos timeout = 10 * sec)
      : to_(std::move(to)), bearer_(std::move(bearer)), timeout_(timeout) {}

  /// Throws Failure when there is no answer within the deadline; any status is an answer.
  HttpAnswer call(std::string_view method, std::string_view target, std::string_view body = {});

  /// The same with another bearer token for this call.
  HttpAnswer call_as(std::string_view bearer, std::string_view method, std::string_view target,
                     std::string_view body = {});

  const Endpoint& endpoint() const { return to_; }

 private:
  bool try_call(const std::string& request, HttpAnswer& out, bool head_only);

  Endpoint to_;
  std::string bearer_;
  nanos timeout_;
  Fd fd_;
};

}  // namespace parley::bench
