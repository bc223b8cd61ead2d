// The torture client: pings between shared frames of every length form through small buffers, byte
// by byte, with closes from either side at random moments, vanishing peers and slow readers
// (hostile.md P1 to P6). Everything received is parsed and compared. Sizes are for every day;
// PARLEY_TORTURE multiplies them (10 is the size that was first proved).
#include <gtest/gtest.h>
#include <poll.h>

#include <cstdlib>
#include <deque>
#include <random>
#include <thread>

#include "tests/net/ws_server.hpp"

namespace parley::test {
namespace {

int scale() {
  const char* text = std::getenv("PARLEY_TORTURE");
  return text ? std::max(1, std::atoi(text)) : 1;
}

/// The n-th shared frame's payload: 45, 25, 25, 2.5 and 2.5 % of 1, 125, 126, 65,535 and 65,536
/// bytes.
std::size_t length_of(std::uint32_t n) {
  const std::uint32_t r = (n * 2654435761u) >> 16 & 1023;
  if (r < 460) return 1;
  if (r < 716) return 125;
  if (r < 972) return 126;
  return r < 998 ? 65535 : 65536;
}
char letter_of(std::uint32_t n) { return static_cast<char>('a' + n * 7 % 26); }
std::string payload_of(std::uint32_t n) { return std::string(length_of(n), letter_of(n)); }
const frame_ptr& shared_frame(std::uint32_t n) {
  // Built once for all rooms and connections, as a room builds them.
  static const auto table = [] {
    std::vector<frame_ptr> t;
    for (const std::size_t size : {std::size_t{1}, std::size_t{125}, std::size_t{126},
                                   std::size_t{65535}, std::size_t{65536}})
      for (int c = 0; c < 26; ++c)
        t.push_back(wire::make_frame(std::string(size, static_cast<char>('a' + c))));
    return t;
  }();
  const std::size_t size = length_of(n);
  const std::size_t row = size == 1 ? 0 : size == 125 ? 1 : size == 126 ? 2 : size == 65535 ? 3 : 4;
  return table[row * 26 + static_cast<std::size_t>(letter_of(n) - 'a')];
}

config wide_open() {
  config c;
  c.limits.pings_per_s = 1'000'000'000;
  c.limits.outgoing_bytes = 1 << 24;
  c.limits.outgoing_frames = 1 << 20;
  return c;
}

/// What one client saw.
struct outcome {
  std::uint32_t frames = 0, pongs = 0, answers = 0, heart_beats = 0;
  std::string error;
  int close_code = -1;
  bool eof = false;
};

struct behaviour {
  std::uint32_t frames = 0;  // shared frames that will come; 0: until the end
  bool pings = true, requests = true, bytewise = true;
  std::uint32_t close_at = ~0u, vanish_at = ~0u;  // after so many shared frames
  bool vanish_with_reset = false;
  std::uint32_t first = 0;                         // number of the first shared frame
  std::atomic<std::uint32_t>* received = nullptr;  // told as frames come, for the sender's pace
};

/// Runs until the end of the connection, or (frames > 0) until everything expected has come.
outcome torture(raw_ws_client& c, std::mt19937& random, const behaviour& how) {
  outcome out;
  std::deque<std::string> pings;  // unanswered
  std::deque<int> requests;
  std::string to_send;
  std::size_t sent = 0;
  std::string in;
  int next_request = 1000;
  bool close_sent = false;
  std::uint32_t want = how.first;
  const auto by = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto fail = [&](const std::string& what) {
    if (out.error.empty()) out.error = what + " after " + std::to_string(out.frames) + " frames";
  };
  std::vector<char> buffer(9000);
  while (out.error.empty()) {
    if (std::chrono::steady_clock::now() > by) {
      fail("deadline");
      break;
    }
    const bool all_here =
        how.frames && out.frames == how.frames && pings.empty() && requests.empty();
    if (all_here && to_send.size() == sent) break;
    if (to_send.size() == sent) {
      to_send.clear();
      sent = 0;
      const bool more = !close_sent && (!how.frames || out.frames < how.frames);
      if (more && how.pings && pings.size() < 64 && random() % 2) {
        std::string payload(random() % 126, '\0');
        for (char& b : payload)
          b = static_cast<char>(random());
        pings.push_back(payload);
        to_send += raw_ws_client::frame(9, payload);
      }
      if (more && how.requests && requests.size() < 32 && random() % 8 == 0) {
        requests.push_back(next_request);
        to_send +=
            raw_ws_client::frame(1, R"({"op":"ping","id":)" + std::to_string(next_request++) + "}");
      }
      // A frame under way is sent whole first, or the client would break its own stream.
      if (!close_sent && out.frames >= how.close_at) {
        to_send += raw_ws_client::frame(8, std::string("\x0f\xa1", 2) + "enough");  // 4001
        close_sent = true;
      }
    }
    pollfd p{c.fd(), static_cast<short>(POLLIN | (to_send.size() > sent ? POLLOUT : 0)), 0};
    ::poll(&p, 1, 50);
    if (p.revents & POLLOUT) {
      const std::size_t part = how.bytewise && random() % 4 == 0 ? 1 : to_send.size() - sent;
      const ssize_t n = ::send(c.fd(), to_send.data() + sent, part, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n > 0) sent += static_cast<std::size_t>(n);
      if (n < 0 && errno != EAGAIN) to_send.clear(), sent = 0;
    }
    if (p.revents & (POLLIN | POLLHUP | POLLERR)) {
      const ssize_t n = ::recv(c.fd(), buffer.data(), 1 + random() % buffer.size(), MSG_DONTWAIT);
      if (n == 0) {
        out.eof = true;
        if (!in.empty()) fail("ends inside a frame");
        break;
      }
      if (n < 0 && errno != EAGAIN) {
        fail("reset");
        break;
      }
      if (n > 0) in.append(buffer.data(), static_cast<std::size_t>(n));
    }
    std::size_t at = 0;
    while (out.error.empty()) {
      const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(in[at + i]); };
      const std::size_t have = in.size() - at;
      if (have < 2) break;
      std::size_t head = 2, length = byte(1) & 0x7f;
      if (length >= 126) {
        const std::size_t wide = length == 126 ? 2 : 8;
        if (have < 2 + wide) break;
        length = 0;
        for (std::size_t i = 0; i < wide; ++i)
          length = length << 8 | byte(2 + i);
        head += wide;
      }
      if (length > 65536 || (byte(1) & 0x80) || (byte(0) & 0x70)) {
        fail("no frame: " + std::to_string(byte(0)) + " " + std::to_string(byte(1)));
        break;
      }
      if (have < head + length) break;
      const std::string_view payload(in.data() + at + head, length);
      if (out.close_code != -1) fail("something behind the close frame");
      switch (byte(0)) {
      case 0x81:
        if (payload.substr(0, 6) == R"({"re":)") {
          if (requests.empty() || payload.substr(6, 4) != std::to_string(requests.front()))
            fail("a wrong answer");
          if (!requests.empty()) requests.pop_front();
          ++out.answers;
        } else if (payload.substr(0, 6) == R"({"ev":)") {
          // bye
        } else {
          if (payload != payload_of(want)) fail("a wrong frame");
          ++want;
          ++out.frames;
          if (how.received) *how.received = out.frames;
        }
        break;
      case 0x8a:
        if (pings.empty() || payload != pings.front()) fail("a wrong pong");
        if (!pings.empty()) pings.pop_front();
        ++out.pongs;
        break;
      case 0x89:
        ++out.heart_beats;
        if (!close_sent) to_send += raw_ws_client::frame(10, payload);
        break;
      case 0x88:
        out.close_code = payload.size() < 2 ? 0 : byte(head) << 8 | byte(head + 1);
        if (!close_sent) {
          to_send += raw_ws_client::frame(8, payload.substr(0, 2));
          close_sent = true;
        }
        break;
      default:
        fail("opcode " + std::to_string(byte(0)));
      }
      at += head + length;
      if (out.frames >= how.vanish_at) {
        c.vanish(how.vanish_with_reset);
        return out;
      }
    }
    in.erase(0, at);
  }
  return out;
}

/// Publishes shared frames first.. first + n to a room that all connections have entered, never
/// more than `ahead` frames beyond what `received` says, so that the bound of the queue is not what
/// is tested.
struct broadcaster {
  ws_server& s;
  room_ref room{room_key{1}, std::make_shared<const std::string>("r_1")};

  void enter(const connection_id& conn) { s.post(conn, go_live{room, conn, user_key{1}, nullptr}); }
  void publish_one(std::uint32_t n) {
    auto p = std::make_shared<publication>();
    p->room = room;
    p->active = shared_frame(n);
    for (relay* r : s.rt.relays)
      r->post(publish{p});
  }
};

TEST(Torture, P1P2P5PingsBetweenBroadcastsThroughSmallBuffers) {
  const auto frames = static_cast<std::uint32_t>(20'000 * scale());
  ws_server s(wide_open());
  connection_id conn;
  auto c = s.greeted(&conn, 4096);
  broadcaster b{s};
  b.enter(conn);
  std::atomic<bool> stop{false};
  std::atomic<std::uint32_t> received{0};
  std::thread sender([&] {
    for (std::uint32_t n = 0; n < frames && !stop; ++n) {
      b.publish_one(n);
      // P5: our own pings join the queue whatever is under way.
      if (n % 997 == 0)
        s.post(conn, deliver{conn, std::make_shared<const std::string>("\x89\x00", 2), false});
      // So far ahead only that the bound of the queue is not what is tested.
      while (!stop && n > received + 200)
        std::this_thread::yield();
    }
  });
  std::mt19937 random(7);
  const auto out = torture(c, random, {.frames = frames, .received = &received});
  stop = true;
  sender.join();
  EXPECT_EQ(out.error, "");
  EXPECT_EQ(out.frames, frames);
  EXPECT_GT(out.pongs, frames / 50);
  EXPECT_GT(out.answers, 100u);
  EXPECT_GE(out.heart_beats, frames / 997);
}

TEST(Torture, EightClientsAtOnce) {
  const auto frames = static_cast<std::uint32_t>(1'500 * scale());
  ws_server s(wide_open(), 2);
  broadcaster b{s};
  std::vector<raw_ws_client> clients;
  std::vector<connection_id> conns(8);
  for (auto& conn : conns) {
    clients.push_back(s.greeted(&conn, 4096));
    b.enter(conn);
  }
  std::vector<outcome> outs(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      std::mt19937 random(static_cast<unsigned>(i));
      outs[i] = torture(clients[i], random, {.frames = frames});
    });
  for (std::uint32_t n = 0; n < frames; ++n) {
    b.publish_one(n);
    for (std::size_t i = 0; i < 8; ++i) {
      const auto by = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (s.rt.session_at(i)->card->queued_bytes > 1 << 20 &&
             std::chrono::steady_clock::now() < by)
        std::this_thread::yield();
    }
  }
  for (auto& t : threads)
    t.join();
  for (const auto& out : outs) {
    EXPECT_EQ(out.error, "");
    EXPECT_EQ(out.frames, frames);
    EXPECT_GT(out.pongs, 50u);
  }
}

enum class ending : std::uint8_t { client_closes, server_closes, client_vanishes };

void endings(ending how, int rounds) {
  ws_server s(wide_open());
  broadcaster b{s};
  std::mt19937 random(static_cast<unsigned>(how) + 40);
  for (int round = 0; round < rounds; ++round) {
    connection_id conn;
    auto c = s.greeted(&conn, 4096);
    b.enter(conn);
    const std::uint32_t at = random() % 40;
    const int code = round % 3 == 0 ? 1012 : round % 3 == 1 ? 4008 : 1001;
    std::thread sender([&, at] {
      for (std::uint32_t n = 0; n < 60; ++n) {
        b.publish_one(n);
        if (how == ending::server_closes && n == at)
          s.post(conn, close_connection{conn, code, "done", std::nullopt, {}});
      }
    });
    behaviour does;
    if (how == ending::client_closes) does.close_at = at;
    if (how == ending::client_vanishes) {
      does.vanish_at = at;
      does.vanish_with_reset = round % 2;
    }
    const auto out = torture(c, random, does);
    sender.join();
    ASSERT_EQ(out.error, "") << "round " << round;
    if (how == ending::client_vanishes) continue;
    EXPECT_TRUE(out.eof);
    ASSERT_EQ(out.close_code, how == ending::client_closes ? 4001 : code) << "round " << round;
  }
  EXPECT_TRUE(s.rt.wait_closed(static_cast<std::size_t>(rounds)));
  EXPECT_TRUE(s.wait_gone());
}

TEST(Torture, P3TheClientClosesAtARandomMoment) { endings(ending::client_closes, 60 * scale()); }
TEST(Torture, P4TheServerClosesAtARandomMoment) { endings(ending::server_closes, 60 * scale()); }
TEST(Torture, P6TheClientVanishesAtARandomMoment) {
  endings(ending::client_vanishes, 60 * scale());
}

TEST(Torture, P6OneFrameToManyOfWhomSomeLeaveMidWrite) {
  const int n = 300 * scale();
  ws_server s(wide_open(), 2);
  broadcaster b{s};
  std::vector<raw_ws_client> clients;
  for (int i = 0; i < n; ++i) {
    connection_id conn;
    clients.push_back(s.greeted(&conn, i % 3 ? 0 : 4096));
    b.enter(conn);
  }
  for (std::uint32_t k = 0; k < 40; ++k) {
    b.publish_one(k);
    if (k == 20)
      for (std::size_t i = 0; i < clients.size(); i += 5)
        clients[i].vanish(i % 2);
  }
  for (std::size_t i = 0; i < clients.size(); ++i) {
    if (i % 5 == 0) continue;
    std::mt19937 random(static_cast<unsigned>(i));
    const auto out = torture(clients[i], random, {.frames = 40, .pings = false, .requests = false});
    ASSERT_EQ(out.error, "") << i;
  }
  EXPECT_TRUE(s.rt.wait_closed(clients.size() / 5));
}

TEST(Torture, ASlowReaderGetsTheFrameUnderWayWholeAndIsClosed) {
  config settings;
  settings.limits.pings_per_s = 1'000'000'000;
  ws_server s(settings);
  broadcaster b{s};
  std::mt19937 random(3);
  for (int round = 0; round < 10 * scale(); ++round) {
    connection_id conn;
    auto c = s.greeted(&conn, 4096);
    b.enter(conn);
    // More than the kernel's buffers and the bound together.
    for (std::uint32_t n = 0; n < 500; ++n)
      b.publish_one(n);
    ASSERT_TRUE(s.rt.wait_closed(static_cast<std::size_t>(round) + 1));
    const auto out = torture(c, random, {.pings = false, .requests = false});
    ASSERT_EQ(out.error, "") << round;
    EXPECT_EQ(out.close_code, 4008);
    EXPECT_LT(out.frames, 500u);
  }
}

}  // namespace
}  // namespace parley::test
