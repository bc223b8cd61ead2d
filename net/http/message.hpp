// One HTTP request and its response as handlers see them, and the one way to answer. http_session
// makes requests and writes responses; handlers in net/http and net/admin know nothing of sockets.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/http_gate.hpp"
#include "schemas/error.hpp"

namespace parley::net::http {

struct request {
  request_head head;
  std::string body;
  std::string address;        // the client's, a trusted proxy's word believed
  std::string local_address;  // of the socket, without port
  // Looked up each time, since a view would not outlive a move of the target.
  std::string_view path() const {
    return std::string_view(head.target).substr(0, head.target.find('?'));
  }
  std::string_view query() const {
    const auto mark = head.target.find('?');
    return mark == std::string::npos ? std::string_view()
                                     : std::string_view(head.target).substr(mark + 1);
  }
  std::vector<std::string> params;  // what the route's {…} stand for, decoded once, in order
};

struct response {
  int status = 200;
  std::string content_type = "application/json";  // empty: no body is meant to be there
  std::string body;
  std::string_view packed;  // a body that lives as long as the program, in place of `body`
  std::vector<std::pair<std::string_view, std::string>>
      headers;           // further ones; names are literals
  bool no_store = true;  // Cache-Control: no-store, as private answers have it
  bool close = false;    // end the connection behind it
  std::string_view content() const {
    return packed.data() != nullptr ? packed : std::string_view(body);
  }
};

/// {FIELDS} as application/json.
response object(int status, std::string_view fields);
/// application/problem+json with its status, Retry-After and WWW-Authenticate where they belong.
response problem(const failure& why);
/// 204.
response no_content();

/// Where an answer goes. Thread-safe; the first call counts. When the last copy is dropped
/// unanswered, the connection is closed without an answer, which tells the client that the outcome
/// is open.
class responder {
 public:
  struct sink {
    virtual ~sink() = default;
    virtual void answer(response r) = 0;
    virtual void abandon() = 0;
  };
  responder() = default;
  explicit responder(std::shared_ptr<sink> to) : hold_(std::make_shared<holder>(std::move(to))) {}
  void operator()(response r) const { hold_->to->answer(std::move(r)); }
  void operator()(const failure& why) const { hold_->to->answer(problem(why)); }
  void abandon() const { hold_->to->abandon(); }

 private:
  struct holder {
    std::shared_ptr<sink> to;
    explicit holder(std::shared_ptr<sink> s) : to(std::move(s)) {}
    ~holder() { to->abandon(); }  // no effect behind an answer
    holder(const holder&) = delete;
    holder& operator=(const holder&) = delete;
  };
  std::shared_ptr<holder> hold_;
};

/// The status line and header of a response, with the empty line. `head_of`: HEAD, so
/// Content-Length alone tells the body. `date`: as RFC 9110 5.6.7 writes it.
std::string response_head(const response& r, bool keep_alive, std::string_view date);
std::string_view reason_phrase(int status);
/// "Sun, 06 Nov 1994 08:49:37 GMT" for seconds since the epoch.
std::string http_date(std::int64_t unix_seconds);

// ---- query strings

/// Decoded name=value pairs in order; nullopt where an escape is broken.
std::optional<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view query);

/// Named access with the first failure kept, so that a handler reads all and checks once.
class query_reader {
 public:
  explicit query_reader(std::string_view query);
  std::optional<std::string> text(std::string_view name);
  /// An integer in [low, high]; out of range or no integer is a failure that names it.
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t low, std::int64_t high);
  /// All values of a repeated parameter, comma-separated ones taken apart.
  std::vector<std::string> list(std::string_view name);
  const std::optional<failure>& error() const { return error_; }

 private:
  std::vector<std::pair<std::string, std::string>> pairs_;
  std::optional<failure> error_;
};

}  // namespace parley::net::http
