// Codes, their statuses, and what a failure says.
#include "schemas/error.hpp"

#include <gtest/gtest.h>

#include <set>

namespace parley {
namespace {

TEST(error, every_code_has_its_own_name_and_a_status_of_an_error) {
  std::set<std::string_view> names;
  for (int i = 1; i <= static_cast<int>(errc::internal); ++i) {
    const auto code = static_cast<errc>(i);
    EXPECT_TRUE(names.insert(to_string(code)).second) << i;
    EXPECT_GE(http_status(code), 400);
    EXPECT_LE(http_status(code), 599);
  }
}

TEST(error, names_and_statuses_are_those_of_the_contract) {
  EXPECT_EQ(to_string(errc::bad_request), "bad_request");
  EXPECT_EQ(http_status(errc::bad_request), 400);
  EXPECT_EQ(http_status(errc::unauthenticated), 401);
  EXPECT_EQ(http_status(errc::not_found), 404);
  EXPECT_EQ(http_status(errc::conflict), 409);
  EXPECT_EQ(http_status(errc::duplicate_key), 400);
  EXPECT_EQ(http_status(errc::too_large), 413);
  EXPECT_EQ(http_status(errc::rate_limited), 429);
  EXPECT_EQ(http_status(errc::overloaded), 503);
  EXPECT_EQ(http_status(errc::unavailable), 503);
  EXPECT_EQ(to_string(errc::internal), "internal");
  EXPECT_EQ(http_status(errc::internal), 500);
}

TEST(error, a_number_that_is_no_code_counts_as_internal) {
  EXPECT_EQ(to_string(static_cast<errc>(0)), "internal");
  EXPECT_EQ(to_string(static_cast<errc>(200)), "internal");
}

TEST(error, a_fields_failure_names_the_field_in_its_message) {
  const auto why = field_failure(errc::bad_request, "users[3]", "must be an id");
  EXPECT_EQ(why.field, "users[3]");
  EXPECT_EQ(why.message, "users[3] must be an id");
}

TEST(error, a_result_holds_a_value_or_a_reason) {
  const result<int> good = 7;
  ASSERT_TRUE(good);
  EXPECT_EQ(*good, 7);
  const result<int> bad = fail(errc::conflict, "taken");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, errc::conflict);
}

}  // namespace
}  // namespace parley
