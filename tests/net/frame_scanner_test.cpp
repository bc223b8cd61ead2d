// The frame counter, fed whole and byte by byte: what it says must not depend on how the bytes
// come.
#include <gtest/gtest.h>

#include <string>

#include "net/frame_scanner.hpp"
#include "tests/support/raw_ws_client.hpp"

namespace parley::net {
namespace {

using test::raw_ws_client;

frame_scanner fed(const std::string& bytes, std::size_t step) {
  frame_scanner s;
  for (std::size_t i = 0; i < bytes.size(); i += step)
    s.feed(bytes.data() + i, std::min(step, bytes.size() - i));
  return s;
}

TEST(FrameScanner, CountsFragmentsAndMessages) {
  const std::string open = raw_ws_client::frame(1, "a", false) +
                           raw_ws_client::frame(0, "", false) + raw_ws_client::frame(9, "ping") +
                           raw_ws_client::frame(0, std::string(300, 'x'), false);
  const std::string whole =
      open + raw_ws_client::frame(0, "") + raw_ws_client::frame(1, std::string(70'000, 'y'));
  for (const std::size_t step : {std::size_t{1}, std::size_t{3}, whole.size()}) {
    auto s = fed(open, step);
    EXPECT_EQ(s.fragments(), 3u) << step;
    EXPECT_TRUE(s.open());
    EXPECT_EQ(s.messages(), 0u);
    s = fed(whole, step);
    EXPECT_EQ(s.fragments(), 0u) << step;
    EXPECT_FALSE(s.open());
    EXPECT_EQ(s.messages(), 2u);
    EXPECT_EQ(s.most_fragments(), 4u);
  }
}

TEST(FrameScanner, IsOpenInsideAnyFrame) {
  const std::string text = raw_ws_client::frame(1, std::string(200, 'x'));
  EXPECT_FALSE(fed("", 1).open());
  for (std::size_t n = 1; n < text.size(); ++n)
    EXPECT_TRUE(fed(text.substr(0, n), 1).open()) << n;
  EXPECT_FALSE(fed(text, 1).open());
  const std::string ping = raw_ws_client::frame(9, "");
  EXPECT_TRUE(fed(ping.substr(0, 1), 1).open());
  EXPECT_FALSE(fed(ping, 1).open());
  EXPECT_EQ(fed(ping, 1).fragments(), 0u);
}

TEST(FrameScanner, TakesUnmaskedFramesAsTheyAre) {
  const std::string bytes =
      raw_ws_client::frame(1, "abc", true, false) + raw_ws_client::frame(1, "d", true, false);
  EXPECT_EQ(fed(bytes, 1).messages(), 2u);
}

}  // namespace
}  // namespace parley::net
