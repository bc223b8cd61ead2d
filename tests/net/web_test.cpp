// The packed page and documents: all there, right types, strict headers, revalidation.
#include "net/web.hpp"

#include <gtest/gtest.h>

#include <regex>

namespace parley::net::http {
namespace {

const packed_file* packed(std::string_view name) {
  for (std::size_t i = 0; i < web_files_count; ++i)
    if (web_files[i].name == name) return &web_files[i];
  return nullptr;
}

std::string header(const response& r, std::string_view name) {
  for (const auto& [n, v] : r.headers)
    if (n == name) return v;
  return {};
}

struct kept final : responder::sink {
  response got;
  void answer(response r) override { got = std::move(r); }
  void abandon() override {}
};

response get(const router& routes, std::string_view path, std::string match = {}) {
  request rq;
  rq.head.method = "GET";
  rq.head.target = path;
  if (!match.empty()) rq.head.fields.emplace_back("if-none-match", std::move(match));
  auto sink = std::make_shared<kept>();
  dispatch(routes, std::move(rq), responder(sink));
  return sink->got;
}

TEST(Web, ThePageNamesOnlyFilesThatAreThere) {
  const auto* page = packed("index.html");
  ASSERT_NE(page, nullptr);
  const std::string text(page->data);
  const std::regex reference(R"re((?:href|src)="/([^"]*)")re");
  int found = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), reference), end; it != end; ++it, ++found)
    EXPECT_NE(packed((*it)[1].str()), nullptr) << (*it)[1];
  EXPECT_GT(found, 3);
  // S89: nothing inline, or the policy would forbid it.
  EXPECT_FALSE(std::regex_search(text, std::regex("<script(?![^>]* src=)")));
  EXPECT_EQ(text.find("<style"), std::string::npos);
  EXPECT_EQ(text.find(" style="), std::string::npos);
}

TEST(Web, EveryFileHasATypeAndStrictHeaders) {
  router routes;
  add_web_routes(routes);
  for (std::size_t i = 0; i < web_files_count; ++i) {
    const auto r = get(routes, "/" + std::string(web_files[i].name));
    EXPECT_EQ(r.status, 200) << web_files[i].name;
    EXPECT_NE(r.content_type, "application/octet-stream") << web_files[i].name;
    EXPECT_EQ(r.content(), web_files[i].data);
    const auto policy = header(r, "Content-Security-Policy");
    for (const char* part : {"default-src 'none'", "script-src 'self'", "object-src 'none'",
                             "base-uri 'none'", "frame-ancestors 'none'"})
      EXPECT_NE(policy.find(part), std::string::npos) << part;
    EXPECT_EQ(policy.find("unsafe"), std::string::npos);
    EXPECT_EQ(header(r, "Referrer-Policy"), "no-referrer");
    EXPECT_EQ(header(r, "Cache-Control"), "no-cache");
    EXPECT_FALSE(r.no_store);
    EXPECT_NE(response_head(r, true, "D").find("X-Content-Type-Options: nosniff\r\n"),
              std::string::npos);
  }
  EXPECT_EQ(get(routes, "/").content(), packed("index.html")->data);
  EXPECT_EQ(get(routes, "/").content_type, "text/html; charset=utf-8");
}

TEST(Web, RevalidatesByTag) {
  router routes;
  add_web_routes(routes);
  const auto tag = header(get(routes, "/"), "ETag");
  ASSERT_GT(tag.size(), 10u);
  for (const auto& match : {tag, "W/" + tag, "\"x\", " + tag, std::string("*"), " " + tag + " ,"}) {
    const auto r = get(routes, "/", match);
    EXPECT_EQ(r.status, 304) << match;
    EXPECT_TRUE(r.content().empty());
    EXPECT_EQ(header(r, "ETag"), tag);
  }
  for (const auto& match :
       {std::string("\"x\""), tag.substr(1), std::string("\"\""), std::string(",")})
    EXPECT_EQ(get(routes, "/", match).status, 200) << match;
}

TEST(Web, DocumentsAreServed) {
  router routes;
  add_web_routes(routes);
  for (const char* path : {"/openapi.json", "/asyncapi.json"}) {
    const auto r = get(routes, path);
    EXPECT_EQ(r.status, 200) << path;
    EXPECT_EQ(r.content_type, "application/json");
    EXPECT_EQ(r.content().front(), '{');
    EXPECT_EQ(r.content().find("\"$ref\":\"json/"), std::string_view::npos)
        << "an outside reference is left in " << path;
  }
}

}  // namespace
}  // namespace parley::net::http
