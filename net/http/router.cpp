// See router.hpp.
#include "net/http/router.hpp"

#include <algorithm>

namespace parley::net::http {
namespace {

std::vector<std::string_view> split(std::string_view path) {
  std::vector<std::string_view> out;
  path.remove_prefix(1);
  while (true) {
    const auto slash = path.find('/');
    out.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return out;
    path.remove_prefix(slash + 1);
  }
}

bool is_param(std::string_view segment) { return !segment.empty() && segment.front() == '{'; }

}  // namespace

void router::add(std::string_view method, std::string_view path, handler h) {
  route r;
  r.method = method;
  for (const auto s : split(path))
    r.segments.emplace_back(s);
  r.run = std::move(h);
  routes_.push_back(std::move(r));
}

std::variant<router::found, failure> router::find(std::string_view method, std::string_view path,
                                                  std::string& allow) const {
  const auto nothing = [] {
    return failure{errc::not_found, "there is no such path", std::nullopt, 404};
  };
  if (path.empty() || path.front() != '/') return nothing();
  std::vector<std::string> segments;
  for (const auto raw : split(path)) {
    if (segments.size() == 16) return nothing();
    auto decoded = percent_decode(raw, false);
    if (!decoded) return fail(errc::bad_request, "the path is not well-formed");
    if (*decoded == "." || *decoded == ".." || decoded->find_first_of("/\\") != std::string::npos)
      return nothing();
    segments.push_back(std::move(*decoded));
  }
  std::vector<std::string_view> methods;
  for (const auto& r : routes_) {
    if (r.segments.size() != segments.size()) continue;
    const bool same =
        std::equal(r.segments.begin(), r.segments.end(), segments.begin(),
                   [](const auto& a, const auto& b) { return is_param(a) ? !b.empty() : a == b; });
    if (!same) continue;
    if (r.method == method || (r.method == "GET" && method == "HEAD")) {
      found out;
      out.run = &r.run;
      for (std::size_t i = 0; i < segments.size(); ++i)
        if (is_param(r.segments[i])) out.params.push_back(std::move(segments[i]));
      return out;
    }
    methods.push_back(r.method);
    if (r.method == "GET") methods.push_back("HEAD");
  }
  if (methods.empty()) return nothing();
  std::sort(methods.begin(), methods.end());
  methods.erase(std::unique(methods.begin(), methods.end()), methods.end());
  for (const auto m : methods)
    allow += (allow.empty() ? "" : ", ") + std::string(m);
  return failure{errc::bad_request, "the path has no such method", std::nullopt, 405};
}

void dispatch(const router& routes, request rq, const responder& out) {
  std::string allow;
  auto where = routes.find(rq.head.method, rq.path(), allow);
  if (const auto* none = std::get_if<failure>(&where)) {
    auto r = problem(*none);
    if (!allow.empty()) r.headers.emplace_back("Allow", allow);
    out(std::move(r));
    return;
  }
  auto& route = std::get<router::found>(where);
  rq.params = std::move(route.params);
  (*route.run)(std::move(rq), out);
}

}  // namespace parley::net::http
