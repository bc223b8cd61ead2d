// Routes by method and path template. The path is split first and each segment decoded once, so no
// escape can make a separator; `.` and `..` never match. Filled once at the start, then read by all
// I/O threads without a lock.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "net/http/message.hpp"

namespace parley::net::http {

/// Answers a request, at once or later; must not block. `request` is the handler's own.
using handler = std::function<void(request, responder)>;

class router {
 public:
  /// `path` like "/api/v1/rooms/{room}". A GET serves HEAD too.
  void add(std::string_view method, std::string_view path, handler h);

  struct found {
    const handler* run = nullptr;
    std::vector<std::string> params;
  };
  /// The route of a path (encoded, without query); a failure with status 404, 405 (then `allow` is
  /// set) or 400.
  std::variant<found, failure> find(std::string_view method, std::string_view path,
                                    std::string& allow) const;

 private:
  struct route {
    std::string method;
    std::vector<std::string> segments;  // "{…}" matches any one
    handler run;
  };
  std::vector<route> routes_;
};

/// Runs the route of `rq`, or answers why there is none.
void dispatch(const router& routes, request rq, const responder& out);

}  // namespace parley::net::http
