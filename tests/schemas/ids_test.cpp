// The grammar of ids and nonces.
#include "schemas/ids.hpp"

#include <gtest/gtest.h>

#include <set>

namespace parley {
namespace {

TEST(ids, an_id_has_1_to_64_bytes_of_its_alphabet) {
  EXPECT_TRUE(is_id("a"));
  EXPECT_TRUE(is_id("u_AZaz09.:-"));
  EXPECT_TRUE(is_id("__proto__"));
  EXPECT_TRUE(is_id(std::string(64, 'x')));
  EXPECT_FALSE(is_id(""));
  EXPECT_FALSE(is_id(std::string(65, 'x')));
}

TEST(ids, what_is_outside_the_alphabet_is_no_id) {
  for (const std::string bad :
       {"a b", "a/b", "../x", "a\n", "a%00", "'; DROP TABLE messages;--", "é", "a@b", "a*"})
    EXPECT_FALSE(is_id(bad)) << bad;
  EXPECT_FALSE(is_id(std::string_view("a\0b", 3)));
}

TEST(ids, a_nonce_has_neither_dots_nor_colons) {
  EXPECT_TRUE(is_nonce("aZ0_-"));
  EXPECT_TRUE(is_nonce(std::string(64, '-')));
  EXPECT_FALSE(is_nonce(""));
  EXPECT_FALSE(is_nonce("a.b"));
  EXPECT_FALSE(is_nonce("a:b"));
  EXPECT_FALSE(is_nonce(std::string(65, 'a')));
}

TEST(ids, fresh_ids_are_ids_of_the_prefix_and_16_characters) {
  const auto id = make_id("u_");
  EXPECT_EQ(id.size(), 18U);
  EXPECT_TRUE(id.starts_with("u_"));
  EXPECT_TRUE(is_id(id));
  EXPECT_EQ(id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789", 2), std::string::npos);
}

TEST(ids, fresh_ids_differ_and_use_the_whole_alphabet) {
  std::set<std::string> seen;
  std::set<char> characters;
  for (int i = 0; i < 2000; ++i) {
    const auto id = make_id("");
    characters.insert(id.begin(), id.end());
    EXPECT_TRUE(seen.insert(id).second) << id;
  }
  EXPECT_EQ(characters.size(), 36U);
}

}  // namespace
}  // namespace parley
