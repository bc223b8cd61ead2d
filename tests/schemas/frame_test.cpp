// The head of a frame at the edges of its three length forms (RFC 6455 5.2).
#include "schemas/wire/frame.hpp"

#include <gtest/gtest.h>

namespace parley::wire {
namespace {

std::string head_of(std::size_t payload, std::size_t head) {
  const std::string text(payload, 'x');
  const auto frame = make_frame(text);
  EXPECT_EQ(frame->size(), head + payload);
  EXPECT_EQ(frame->substr(head), text);
  return frame->substr(0, head);
}

std::string bytes(std::initializer_list<int> values) {
  std::string out;
  for (int v : values)
    out.push_back(static_cast<char>(v));
  return out;
}

TEST(frame, up_to_125_bytes_the_length_is_in_the_second_byte) {
  EXPECT_EQ(head_of(0, 2), bytes({0x81, 0}));
  EXPECT_EQ(head_of(1, 2), bytes({0x81, 1}));
  EXPECT_EQ(head_of(125, 2), bytes({0x81, 125}));
}

TEST(frame, from_126_to_65535_bytes_the_length_has_16_bits) {
  EXPECT_EQ(head_of(126, 4), bytes({0x81, 126, 0x00, 0x7E}));
  EXPECT_EQ(head_of(127, 4), bytes({0x81, 126, 0x00, 0x7F}));
  EXPECT_EQ(head_of(128, 4), bytes({0x81, 126, 0x00, 0x80}));
  EXPECT_EQ(head_of(65535, 4), bytes({0x81, 126, 0xFF, 0xFF}));
}

TEST(frame, from_65536_bytes_the_length_has_64_bits) {
  EXPECT_EQ(head_of(65536, 10), bytes({0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(head_of(131072, 10), bytes({0x81, 127, 0, 0, 0, 0, 0, 2, 0, 0}));
}

}  // namespace
}  // namespace parley::wire
