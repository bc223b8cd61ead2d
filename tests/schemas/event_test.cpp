// The words of the domain's enumerations.
#include "schemas/domain/event.hpp"

#include <gtest/gtest.h>

namespace parley {
namespace {

TEST(event, kinds_policies_and_roles_are_read_back_as_they_are_written) {
  for (auto k : {room_kind::public_room, room_kind::private_room, room_kind::direct})
    EXPECT_EQ(parse_room_kind(to_string(k)), k);
  for (auto p : {history_policy::all, history_policy::joined})
    EXPECT_EQ(parse_history_policy(to_string(p)), p);
  for (auto r : {role::member, role::moderator, role::owner})
    EXPECT_EQ(parse_role(to_string(r)), r);
}

TEST(event, other_words_are_nothing) {
  EXPECT_FALSE(parse_room_kind("Public"));
  EXPECT_FALSE(parse_room_kind(""));
  EXPECT_FALSE(parse_history_policy("none"));
  EXPECT_FALSE(parse_role("invited"));
  EXPECT_FALSE(parse_role("admin"));
}

TEST(event, a_number_from_outside_never_opens_a_room_or_gives_power) {
  EXPECT_EQ(to_string(static_cast<room_kind>(9)), "private");
  EXPECT_EQ(to_string(static_cast<history_policy>(9)), "joined");
  EXPECT_EQ(to_string(static_cast<role>(9)), "member");
}

TEST(event, notification_levels_have_the_contracts_words) {
  EXPECT_EQ(to_string(notify_level::all), "all");
  EXPECT_EQ(to_string(notify_level::mentions), "mentions");
  EXPECT_EQ(to_string(notify_level::nothing), "nothing");
}

}  // namespace
}  // namespace parley
