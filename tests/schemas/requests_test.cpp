// Names and rooms of requests.
#include "schemas/wire/requests.hpp"

#include <gtest/gtest.h>

#include <set>

namespace parley::wire {
namespace {

TEST(requests, every_request_has_the_name_of_its_op) {
  EXPECT_EQ(op_name(hello{}), "hello");
  EXPECT_EQ(op_name(room_create{}), "room.create");
  EXPECT_EQ(op_name(room_enter{}), "room.enter");
  EXPECT_EQ(op_name(message_send{}), "message.send");
  EXPECT_EQ(op_name(message_unread{}), "message.unread");
  EXPECT_EQ(op_name(typing{}), "typing");
  EXPECT_EQ(op_name(token_renew{}), "token.renew");
  EXPECT_EQ(op_name(ping{}), "ping");
  EXPECT_EQ(op_name(room_presence{}), "room.presence");
}

TEST(requests, a_request_names_the_room_that_it_concerns) {
  EXPECT_EQ(room_of(room_enter{"r_1", {}, {}}), "r_1");
  EXPECT_EQ(room_of(message_send{"r_2", "n", "t", {}, {}}), "r_2");
  EXPECT_EQ(room_of(history{"r_3", {}, {}, 50}), "r_3");
}

TEST(requests, what_concerns_no_room_names_none) {
  EXPECT_EQ(room_of(ping{}), "");
  EXPECT_EQ(room_of(hello{}), "");
  room_create create;
  create.room = "r_wanted";
  EXPECT_EQ(room_of(create), "") << "it does not exist yet";
}

}  // namespace
}  // namespace parley::wire
