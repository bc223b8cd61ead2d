// The listener: bounds on sockets and their answers, descriptors running out, and addresses it
// cannot have.
#include "net/listener.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <ctime>

#include "tests/net/ws_server.hpp"

namespace parley::test {
namespace {

TEST(Listener, OverTheLimitPerAddressAnswers429) {
  config settings;
  settings.limits.connections_per_address = 3;
  ws_server s(settings);
  std::vector<raw_ws_client> all;
  for (int i = 0; i < 3; ++i)
    all.push_back(s.connect());
  raw_ws_client c(s.port);
  EXPECT_EQ(c.upgrade(), 429);
  EXPECT_NE(c.head.find("Retry-After: 5\r\n"), std::string::npos) << c.head;
  EXPECT_EQ(c.head.find("Server:"), std::string::npos);
  EXPECT_EQ(s.counters.rejected_rate_limited.get(), 1);
  EXPECT_EQ(s.context.entrance.open(), 3);
  all.pop_back();
  ASSERT_TRUE(s.wait_gone(2));
  auto again = s.connect();
  EXPECT_EQ(s.context.entrance.open_of("127.0.0.1"), 3);
}

TEST(Listener, OverTheLimitInAllAnswers503) {
  config settings;
  settings.limits.connections = 2;
  ws_server s(settings);
  auto a = s.connect(), b = s.connect();
  raw_ws_client c(s.port);
  EXPECT_EQ(c.upgrade(), 503);
  EXPECT_NE(c.head.find("Retry-After: 2\r\n"), std::string::npos) << c.head;
  EXPECT_EQ(s.counters.rejected_overloaded.get(), 1);
}

TEST(Listener, SocketsOfATrustedProxyCountForNoAddressUntilNamed) {
  config settings;
  settings.limits.connections_per_address = 1;
  settings.server.trusted_proxies = {"127.0.0.0/8"};
  ws_server s(settings);
  auto a = s.connect(), b = s.connect();
  EXPECT_EQ(s.context.entrance.open(), 2);
  EXPECT_EQ(s.context.entrance.open_of("127.0.0.1"), 0);
}

TEST(Listener, SpreadsSocketsOverItsThreads) {
  ws_server s({}, 2);
  std::vector<raw_ws_client> all;
  for (int i = 0; i < 10; ++i)
    all.push_back(s.connect());
  std::size_t n[2] = {};
  for (std::size_t i = 0; i < 2; ++i)
    s.on_thread([&] { n[i] = s.ios[i]->sockets().connections(); }, i);
  EXPECT_EQ(n[0], 5u);
  EXPECT_EQ(n[1], 5u);
}

TEST(Listener, RefusesAddressesItCannotHave) {
  ws_server s;
  const auto tried = [&](const std::string& address) {
    auto l = net::listener::open(address, s.context.entrance, *s.ios[0], {s.ios[0].get()}, {});
    return l ? std::string("opened") : l.error().message;
  };
  EXPECT_NE(tried("nonsense").find("HOST:PORT"), std::string::npos);
  EXPECT_NE(tried("127.0.0.1:").find("HOST:PORT"), std::string::npos);
  EXPECT_NE(tried("127.0.0.1:99999").find("HOST:PORT"), std::string::npos);
  EXPECT_NE(tried("chat.example:80").find("HOST:PORT"), std::string::npos);
  const std::string taken = s.door->authority();
  EXPECT_NE(tried(taken).find(taken), std::string::npos) << tried(taken);
  EXPECT_EQ(tried("localhost:0"), "opened");
}

TEST(Listener, ClosesItsPortAtOnceAndKeepsItsSockets) {
  ws_server s;
  auto c = s.greeted();
  s.door->close();
  EXPECT_THROW(raw_ws_client(s.port), std::runtime_error);
  c.send_text(R"({"op":"ping","id":1})");
  EXPECT_TRUE(c.next().is_text());
}

TEST(Listener, WithoutDescriptorsItPausesWithoutSpinning) {
  // In a process of its own, since the limit is the process's.
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto check = [](bool ok, int code) {
      if (!ok) ::_exit(code);
    };
    // Fewer descriptors than the listener keeps free for others, over what is open now.
    const rlimit few{160, 160};
    check(::setrlimit(RLIMIT_NOFILE, &few) == 0, 2);
    {
      ws_server s;
      connection_id conn;
      auto living = s.greeted(&conn);
      std::vector<raw_ws_client> crowd;
      int refused = 0;
      std::vector<int> taken;
      // What the process itself takes, so that the next accept is over the threshold.
      for (int fd; (fd = ::open("/dev/null", O_RDONLY)) >= 0 && fd < 100;)
        taken.push_back(fd);
      const std::clock_t cpu = std::clock();
      const auto begun = std::chrono::steady_clock::now();
      for (int i = 0; i < 6; ++i) {
        raw_ws_client c(s.port);
        if (c.upgrade() == 503) ++refused;
      }
      const double wall =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
      const double busy = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
      check(refused == 6, 3);
      check(wall > 0.8, 4);         // one per pause, not a loop
      check(busy < 0.2 * wall, 5);  // F14: at most 20 % of a core
      living.send_text(R"({"op":"ping","id":1})");
      check(living.next().is_text(), 6);
      const int own = ::open("/dev/null", O_RDONLY);
      check(own >= 0, 7);  // others still find descriptors
      for (const int fd : taken)
        ::close(fd);
      bool again = false;
      for (int i = 0; i < 20 && !again; ++i) {
        raw_ws_client c(s.port);
        again = c.upgrade() == 101;
      }
      check(again, 8);
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace parley::test
