// Bodies of account and admin requests: types, names in errors, what is ignored.
#include "net/http/body.hpp"

#include <gtest/gtest.h>

namespace parley::net::http {
namespace {

TEST(Body, ReadsFieldsAndIgnoresOthers) {
  body_reader in(R"({"name":"あ","until":5,"__proto__":{"x":[1]}})");
  EXPECT_EQ(in.text("name"), "あ");
  EXPECT_EQ(in.maybe_integer("until", 0, 10), 5);
  EXPECT_FALSE(in.maybe_text("reason"));
  EXPECT_FALSE(in.error());
}

TEST(Body, NamesWhatIsWrong) {
  const auto error = [](std::string_view body) {
    body_reader in(body);
    in.text("name");
    in.maybe_integer("n", 1, 9);
    return in.error() ? in.error()->message : std::string();
  };
  EXPECT_NE(error("{}").find("name"), std::string::npos);
  for (const char* bad :
       {R"({"name":5})", R"({"name":null})", R"({"name":{}})", R"({"name":"a\u0000b"})"})
    EXPECT_NE(error(bad).find("name"), std::string::npos) << bad;
  for (const char* bad :
       {R"({"name":"a","n":0})", R"({"name":"a","n":10})", R"({"name":"a","n":"1"})",
        R"({"name":"a","n":1.5})", R"({"name":"a","n":18446744073709551615})",
        R"({"name":"a","n":1e300})", R"({"name":"a","n":true})"})
    EXPECT_EQ(error(bad).find("n "), 0u) << bad << error(bad);
  for (const char* bad : {"", "[]", "5", "{", "{}x", "\xef\xbb\xbf{}", "{\"name\":\"a\",}",
                          "{'name':'a'}", R"({"name":"a","name":"b"})"})
    EXPECT_NE(error(bad), "") << bad;
}

TEST(Body, MayBeLeftOutWhereItIsOptional) {
  body_reader in("", true);
  EXPECT_FALSE(in.maybe_text("reason"));
  EXPECT_FALSE(in.error());
  EXPECT_TRUE(body_reader("[]", true).error());
}

}  // namespace
}  // namespace parley::net::http
