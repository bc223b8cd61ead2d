// Routing: templates, HEAD, Allow, and paths that try to leave; query strings; responses' heads.
#include "net/http/router.hpp"

#include <gtest/gtest.h>

#include "net/http/services.hpp"

namespace parley::net::http {
namespace {

router sample() {
  router r;
  const auto nothing = [](request, responder) {};
  r.add("GET", "/", nothing);
  r.add("GET", "/app.js", nothing);
  r.add("GET", "/api/v1/rooms", nothing);
  r.add("POST", "/api/v1/rooms", nothing);
  r.add("GET", "/api/v1/rooms/{room}", nothing);
  r.add("PUT", "/api/v1/rooms/{room}/members/{user}", nothing);
  return r;
}

int status(std::string_view method, std::string_view path, std::string* allow = nullptr) {
  std::string a;
  const auto r = sample();
  const auto found = r.find(method, path, a);
  if (allow != nullptr) *allow = a;
  if (const auto* f = std::get_if<failure>(&found))
    return f->status != 0 ? f->status : http_status(f->code);
  return 200;
}

TEST(Router, FindsTemplatesAndDecodesOnce) {
  const auto r = sample();
  std::string allow;
  const auto found = r.find("PUT", "/api/v1/rooms/a%3Ab/members/%252e", allow);
  ASSERT_TRUE(std::holds_alternative<router::found>(found));
  EXPECT_EQ(std::get<router::found>(found).params, (std::vector<std::string>{"a:b", "%2e"}));
}

TEST(Router, SaysWhichMethodsThereAre) {
  std::string allow;
  EXPECT_EQ(status("DELETE", "/api/v1/rooms", &allow), 405);
  EXPECT_EQ(allow, "GET, HEAD, POST");
  EXPECT_EQ(status("HEAD", "/api/v1/rooms"), 200);
  EXPECT_EQ(status("POST", "/"), 405);
}

TEST(Router, NeverLeaves) {
  for (const char* path :
       {"/nowhere", "//etc/passwd", "/api/v1/rooms/", "/api/v1/rooms//", "/%2e%2e%2fetc",
        "/../app.js", "/x/../app.js", "/..", "/.", "/%2e%2e/app.js", "/api%2fv1%2frooms",
        "/api/v1/rooms/..%2f..%2fme", "/api/v1/rooms/..%5cme", "/api/v1/rooms/..", "/.git/config",
        "/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t", ""})
    EXPECT_EQ(status("GET", path), 404) << path;
  for (const char* path :
       {"/%", "/%zz", "/%00", "/%ff", "/app.js%00.html", "/%c0%ae%c0%ae/", "/%0d%0aX: y"})
    EXPECT_EQ(status("GET", path), 400) << path;
}

TEST(Query, ReadsWhatIsThereAndNamesWhatIsWrong) {
  query_reader q("limit=5&id=a&id=b,c&cursor=x%2By&flag");
  EXPECT_EQ(q.integer("limit", 1, 10), 5);
  EXPECT_EQ(q.list("id"), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(q.text("cursor"), "x+y");
  EXPECT_EQ(q.text("flag"), "");
  EXPECT_FALSE(q.text("none"));
  EXPECT_FALSE(q.error());
  for (const char* bad :
       {"limit=", "limit=x", "limit=1x", "limit=0", "limit=11", "limit=-1", "limit=1&limit=2",
        "limit=99999999999999999999", "limit=+1", "limit= 1"}) {
    query_reader wrong(bad);
    wrong.integer("limit", 1, 10);
    ASSERT_TRUE(wrong.error()) << bad;
    EXPECT_NE(wrong.error()->message.find("limit"), std::string::npos) << bad;
  }
  EXPECT_TRUE(query_reader("a=%zz").error());
}

TEST(Response, HeadIsWholeAndCannotBeSplit) {
  auto r = object(201, "\"a\":1");
  r.headers.emplace_back("X-Echo", "one\r\nX-Injected: yes");
  const auto head = response_head(r, true, "DATE");
  EXPECT_EQ(head.find("HTTP/1.1 201 Created\r\nDate: DATE\r\nContent-Type: "
                      "application/json\r\nContent-Length: 7\r\n"),
            0u);
  EXPECT_EQ(head.find("\r\nX-Injected"), std::string::npos);
  EXPECT_NE(head.find("Cache-Control: no-store\r\n"), std::string::npos);
  EXPECT_EQ(head.find("Connection"), std::string::npos);
  EXPECT_EQ(head.substr(head.size() - 4), "\r\n\r\n");
  EXPECT_NE(response_head(r, false, "DATE").find("Connection: close\r\n\r\n"), std::string::npos);
  EXPECT_EQ(response_head(no_content(), true, "D").find("Content-Length"), std::string::npos);
  EXPECT_EQ(head.find("Server:"), std::string::npos);  // S23
}

TEST(Response, ProblemsCarryTheirHeaders) {
  const auto busy = problem(failure{errc::rate_limited, "slow down", 1500});
  EXPECT_EQ(busy.status, 429);
  EXPECT_EQ(busy.content_type, "application/problem+json");
  ASSERT_EQ(busy.headers.size(), 1u);
  EXPECT_EQ(busy.headers[0], (std::pair<std::string_view, std::string>{"Retry-After", "2"}));
  EXPECT_EQ(problem(fail(errc::unavailable, "x")).headers.at(0).first, "Retry-After");
  EXPECT_EQ(problem(fail(errc::unauthenticated, "x")).headers.at(0).first, "WWW-Authenticate");
  EXPECT_EQ(problem(failure{errc::bad_request, "x", std::nullopt, 415}).status, 415);
}

TEST(Response, DatesAreThoseOfHttp) {
  EXPECT_EQ(http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(http_date(951782400), "Tue, 29 Feb 2000 00:00:00 GMT");
}

struct counting final : responder::sink {
  int answers = 0, abandons = 0;
  bool answered = false;
  void answer(response) override {
    if (!answered) ++answers;
    answered = true;
  }
  void abandon() override {
    if (!answered) ++abandons;
    answered = true;
  }
};

TEST(Responder, IsAbandonedWhenItsLastCopyGoes) {
  auto sink = std::make_shared<counting>();
  {
    responder first(sink);
    const auto second = first;
    first = {};
    EXPECT_EQ(sink->abandons, 0);
  }
  EXPECT_EQ(sink->abandons, 1);
  auto other = std::make_shared<counting>();
  {
    const responder out(other);
    out(no_content());
  }
  EXPECT_EQ(other->answers, 1);
  EXPECT_EQ(other->abandons, 0);
}

TEST(Bearer, IsReadStrictly) {
  const auto read = [](std::string value) {
    request_head h;
    h.fields.emplace_back("authorization", std::move(value));
    const auto found = bearer(h);
    return found ? std::optional<std::string>(*found) : std::nullopt;
  };
  EXPECT_EQ(read("Bearer abc"), "abc");
  EXPECT_EQ(read("bEARER  abc"), "abc");
  EXPECT_FALSE(read("Bearer"));
  EXPECT_FALSE(read("Bearer "));
  EXPECT_FALSE(read("Basic abc"));
  EXPECT_FALSE(read("abc"));
  EXPECT_FALSE(bearer(request_head{}));
}

TEST(OwnAuthority, IsTheListenersAndNoOther) {
  const auto own = [](const char* asked, const char* url = "") {
    return is_own_authority(asked, "127.0.0.1:8081", "127.0.0.1", url);
  };
  for (const char* good : {"127.0.0.1:8081", "localhost:8081", "LocalHost:8081", "[::1]:8081"})
    EXPECT_TRUE(own(good)) << good;
  for (const char* bad : {"evil.example", "evil.example:8081", "127.0.0.1", "localhost:8080",
                          "127.0.0.1.evil.example:8081", "localhost.:8081", "", "localhost:08081"})
    EXPECT_FALSE(own(bad)) << bad;
  EXPECT_TRUE(own("chat.example", "https://chat.example"));
  EXPECT_TRUE(own("chat.example:443", "https://chat.example"));
  EXPECT_TRUE(own("chat.example:8443", "https://chat.example:8443/"));
  EXPECT_FALSE(own("chat.example:444", "https://chat.example"));
  EXPECT_FALSE(own("chat.example.evil:443", "https://chat.example"));
  EXPECT_TRUE(is_own_authority("192.168.1.5:8080", "0.0.0.0:8080", "192.168.1.5", ""));
  EXPECT_TRUE(is_own_authority("[fd00::5]:8080", "[::]:8080", "fd00::5", ""));
  EXPECT_FALSE(is_own_authority("192.168.1.6:8080", "0.0.0.0:8080", "192.168.1.5", ""));
  EXPECT_TRUE(is_own_authority("localhost", "127.0.0.1:80", "127.0.0.1", ""));
}

}  // namespace
}  // namespace parley::net::http
