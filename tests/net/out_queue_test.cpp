// The outward queue over socket pairs: order, bounds, what stop() keeps, and every way a connection
// ends.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <limits>

#include "net/out_queue.hpp"
#include "schemas/wire/frame.hpp"

namespace parley::net {
namespace {

using kind = out_queue::kind;
using sent = out_queue::sent;
constexpr std::int64_t second = 1'000'000'000;

struct note final : out_queue::completion {
  int& runs;
  boost::system::error_code& ec;
  note(int& r, boost::system::error_code& e) : runs(r), ec(e) {}
  void run(boost::system::error_code e) override {
    ++runs;
    ec = e;
  }
};

struct OutQueue : testing::Test, out_queue::owner {
  OutQueue() {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    peer = pair[1];
    tcp_socket socket(context);
    socket.assign(tcp::v4(), pair[0]);
    q = std::make_shared<out_queue>(std::move(socket), clock, totals);
    q->set_owner(this);
    q->show_in(&shown_bytes, &shown_frames);
  }
  ~OutQueue() override {
    q->abandon();
    if (peer >= 0) ::close(peer);
  }

  void on_drained() override { ++drained; }
  void on_sealed() override { ++sealed; }
  void on_failed() override { ++failed; }
  void on_waiting() override { ++waited; }

  static frame_ptr frame(const std::string& text) { return wire::make_frame(text); }
  static frame_ptr big(char c, std::size_t n = 300'000) {
    return wire::make_frame(std::string(n, c));
  }
  /// Reads what the peer gets until nothing more comes, letting the queue go on.
  std::string peer_reads(std::size_t at_most = std::numeric_limits<std::size_t>::max()) {
    std::string got;
    char bytes[65536];
    while (got.size() < at_most) {
      const ssize_t n =
          ::recv(peer, bytes, std::min(sizeof bytes, at_most - got.size()), MSG_DONTWAIT);
      if (n > 0) {
        got.append(bytes, static_cast<std::size_t>(n));
        continue;
      }
      eof = n == 0;
      context.restart();
      if (eof || context.poll() == 0) {
        // The reactor may be a moment behind the kernel.
        pollfd p{peer, POLLIN, 0};
        if (eof || ::poll(&p, 1, 20) == 0) break;
      }
    }
    return got;
  }
  void run() {
    context.restart();
    context.poll();
  }

  boost::asio::io_context context{1};
  std::int64_t clock = 100 * second;
  traffic totals;
  std::atomic<std::int64_t> shown_bytes{-1}, shown_frames{-1};
  std::shared_ptr<out_queue> q;
  int peer = -1, drained = 0, sealed = 0, failed = 0, waited = 0;
  bool eof = false;
};

TEST_F(OutQueue, SendsInOrderWithOneWrite) {
  EXPECT_EQ(q->push(frame("a")), sent::ok);
  EXPECT_EQ(q->push(frame("b")), sent::ok);
  EXPECT_EQ(q->push(frame("c")), sent::ok);
  pollfd p{peer, POLLIN, 0};
  EXPECT_EQ(::poll(&p, 1, 0), 0) << "nothing before flush";
  q->flush();
  EXPECT_EQ(peer_reads(), *frame("a") + *frame("b") + *frame("c"));
  EXPECT_EQ(drained, 1);
  EXPECT_EQ(totals.frames_out, 3);
  EXPECT_EQ(totals.bytes_out, 9);
  EXPECT_EQ(shown_bytes, 0);
}

TEST_F(OutQueue, MoreThan64PiecesAndPartialWritesKeepTheirOrder) {
  std::string want;
  for (int i = 0; i < 500; ++i) {
    const auto f = wire::make_frame(std::to_string(i) +
                                    std::string(static_cast<std::size_t>(i * 7 % 900), 'x'));
    want += *f;
    ASSERT_EQ(q->push(f), sent::ok);
    if (i % 13 == 0) q->flush();
  }
  q->flush();
  EXPECT_EQ(peer_reads(), want);
  EXPECT_TRUE(q->empty());
  EXPECT_EQ(q->bytes(), 0u);
  EXPECT_EQ(static_cast<std::size_t>(totals.bytes_out), want.size());
}

TEST_F(OutQueue, BoundInBytesIsAnsweredByOverflow) {
  q->set_bounds({.bytes = 1000});
  EXPECT_EQ(q->push(big('a')), sent::ok) << "the first frame of an empty queue is always taken";
  q->flush();
  EXPECT_EQ(waited, 1);
  EXPECT_EQ(q->push(frame("b")), sent::overflow);
  EXPECT_GT(shown_bytes, 0);
  EXPECT_EQ(shown_frames, 1);
  EXPECT_EQ(peer_reads(), *big('a')) << "what was taken still goes out whole";
  EXPECT_EQ(q->push(frame("b")), sent::ok);
  EXPECT_GT(totals.peak_bytes, 0);
}

TEST_F(OutQueue, BoundInFramesIsAnsweredByOverflow) {
  q->set_bounds({.frames = 5});
  EXPECT_EQ(q->push(big('a')), sent::ok);
  q->flush();
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(q->push(frame("b")), sent::ok);
  EXPECT_EQ(q->push(frame("c")), sent::overflow);
}

TEST_F(OutQueue, ATurnMayGatherMoreThanTheBoundWhereTheSocketTakesIt) {
  q->set_bounds({.bytes = 100, .frames = 4});
  std::string want;
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(q->push(frame("0123456789")), sent::ok) << i;
    want += *frame("0123456789");
  }
  q->flush();
  EXPECT_EQ(peer_reads(), want);
}

TEST_F(OutQueue, ReplayPagesCountForNoBound) {
  q->set_bounds({.bytes = 1000, .frames = 3, .age_ns = 5 * second});
  EXPECT_EQ(q->push(big('p'), kind::replay), sent::ok);
  q->flush();
  EXPECT_EQ(q->push(big('q'), kind::replay), sent::ok);
  EXPECT_EQ(q->push(frame("1")), sent::ok);
  EXPECT_EQ(q->push(frame("2")), sent::ok);
  EXPECT_EQ(q->push(frame("3")), sent::ok);
  EXPECT_EQ(q->push(frame("4")), sent::overflow) << "ours behind them do";
  EXPECT_EQ(q->overdue_at(), std::numeric_limits<std::int64_t>::max());
  clock += 60 * second;
  const auto got = peer_reads();
  EXPECT_EQ(got, *big('p') + *big('q') + *frame("1") + *frame("2") + *frame("3"));
}

TEST_F(OutQueue, TheAgeOfWhatWaitsBehindAReplayBeginsBehindIt) {
  q->set_bounds({.age_ns = 5 * second});
  q->push(big('p'), kind::replay);
  q->push(big('l'));
  q->flush();
  clock += 20 * second;
  peer_reads(310'000);  // past the page
  ASSERT_FALSE(q->empty());
  EXPECT_EQ(q->overdue_at(), clock + 5 * second);
}

TEST_F(OutQueue, KnowsWhenTheOldestFrameIsOverdue) {
  q->set_bounds({.age_ns = 5 * second});
  EXPECT_EQ(q->overdue_at(), std::numeric_limits<std::int64_t>::max());
  q->push(big('a'));
  q->flush();
  EXPECT_EQ(q->overdue_at(), clock + 5 * second);
  clock += second;
  q->push(frame("b"));
  EXPECT_EQ(q->overdue_at(), clock + 4 * second);
  peer_reads();
  EXPECT_EQ(q->overdue_at(), std::numeric_limits<std::int64_t>::max());
}

TEST_F(OutQueue, StopKeepsTheFrameUnderWayControlFramesAndTheLastWord) {
  q->push(big('a'));
  q->flush();
  q->push(frame("dropped"));
  EXPECT_TRUE(q->push_control(std::string("\x8a\x01p", 3)));
  q->push(frame("dropped too"));
  q->stop(frame("bye"));
  EXPECT_EQ(q->push(frame("late")), sent::stopped);
  EXPECT_TRUE(q->push_control(std::string("\x88\x00", 2)));
  EXPECT_TRUE(q->sealed());
  EXPECT_EQ(sealed, 1);
  EXPECT_TRUE(q->push_control(std::string("\x8a\x00", 2))) << "swallowed";
  EXPECT_EQ(peer_reads(),
            *big('a') + std::string("\x8a\x01p", 3) + *frame("bye") + std::string("\x88\x00", 2));
  EXPECT_EQ(q->bytes(), 0u);
}

TEST_F(OutQueue, StopDropsEverythingThatHasNotBegun) {
  q->push(frame("a"));
  q->push(frame("b"));
  q->stop();
  q->flush();
  EXPECT_EQ(peer_reads(), "");
  EXPECT_EQ(q->bytes(), 0u);
  q->stop(frame("c"));
  q->flush();
  EXPECT_EQ(peer_reads(), "") << "stopped once";
}

TEST_F(OutQueue, StopCutsAPageOfFramesBehindTheOneUnderWay) {
  std::string page;
  for (int i = 0; i < 1000; ++i)
    page += *wire::make_frame(std::string(1000, static_cast<char>('a' + i % 26)));
  q->push(std::make_shared<const std::string>(page), kind::replay);
  q->push(frame("live"));
  q->flush();
  ASSERT_FALSE(q->empty());
  q->stop(frame("bye"));
  const auto got = peer_reads();
  ASSERT_GT(got.size(), frame("bye")->size());
  const auto kept = got.size() - frame("bye")->size();
  EXPECT_EQ(kept % 1004, 0u) << "whole frames";
  EXPECT_LT(kept, page.size());
  EXPECT_EQ(got, page.substr(0, kept) + *frame("bye"));
  EXPECT_EQ(q->bytes(), 0u);
}

TEST(FrameEnd, FindsTheEndOfTheFrameUnderWay) {
  const std::string two = *wire::make_frame("abc") + *wire::make_frame(std::string(200, 'x')) +
                          *wire::make_frame(std::string(70'000, 'y'));
  EXPECT_EQ(frame_end(two, 1), 5u);
  EXPECT_EQ(frame_end(two, 5), 5u);
  EXPECT_EQ(frame_end(two, 6), 5u + 204);
  EXPECT_EQ(frame_end(two, 210), two.size());
  EXPECT_EQ(frame_end(two.substr(0, two.size() - 1), 210), two.size() - 1)
      << "no whole frames: all of it";
  EXPECT_EQ(frame_end(std::string("\x81", 1), 1), 1u);
}

TEST_F(OutQueue, ControlFramesOverTwiceTheBoundResetIt) {
  q->set_bounds({.frames = 10});
  q->push(big('a'));
  q->flush();
  int taken = 0;
  while (q->push_control(std::string("\x8a\x00", 2)))
    ASSERT_LT(++taken, 100);
  EXPECT_EQ(taken, 19);
  EXPECT_TRUE(q->failed());
  EXPECT_EQ(failed, 1);
}

TEST_F(OutQueue, TearDownWaitsForTheQueueThenForThePeer) {
  int runs = 0;
  boost::system::error_code ec = boost::asio::error::fault;
  q->push(big('a'));
  q->flush();
  q->push_control(std::string("\x88\x00", 2));
  q->tear_down(std::make_unique<note>(runs, ec));
  run();
  EXPECT_EQ(runs, 0);
  EXPECT_FALSE(eof);
  EXPECT_EQ(peer_reads(), *big('a') + std::string("\x88\x00", 2));
  EXPECT_TRUE(eof) << "our end";
  EXPECT_EQ(::send(peer, "rest", 4, 0), 4);
  run();
  EXPECT_EQ(runs, 0);
  ::close(peer);
  peer = -1;
  run();
  run();
  EXPECT_EQ(runs, 1);
  EXPECT_FALSE(ec);
}

TEST_F(OutQueue, WhatIsReadAfterTheCloseIsBounded) {
  int runs = 0;
  boost::system::error_code ec;
  q->set_bounds({.discard = 10'000});
  q->push_control(std::string("\x88\x00", 2));
  q->tear_down(std::make_unique<note>(runs, ec));
  const std::string flood(4096, 'x');
  for (int i = 0; i < 100 && runs == 0; ++i) {
    ::send(peer, flood.data(), flood.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    run();
  }
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(ec);
}

TEST_F(OutQueue, HalfClosesAfterASecondAndResetsAfterFive) {
  q->push_control(std::string("\x88\x00", 2));
  EXPECT_EQ(q->tick(clock), clock + second);
  EXPECT_EQ(peer_reads(), std::string("\x88\x00", 2));
  EXPECT_FALSE(eof);
  clock += second;
  EXPECT_EQ(q->tick(clock), clock + 4 * second);
  peer_reads();
  EXPECT_TRUE(eof);
  EXPECT_FALSE(q->failed());
  clock += 4 * second;
  EXPECT_EQ(q->tick(clock), std::numeric_limits<std::int64_t>::max());
  EXPECT_TRUE(q->failed());
  EXPECT_EQ(failed, 1);
}

TEST_F(OutQueue, APeerThatReadsNothingIsResetByTheDeadline) {
  q->push(big('a'));
  q->flush();
  q->stop(frame("bye"));
  q->push_control(std::string("\x88\x00", 2));
  for (int i = 0; i < 49; ++i) {
    clock += second / 10;
    q->tick(clock);
    ASSERT_FALSE(q->failed()) << i;
  }
  clock += second / 10;
  q->tick(clock);
  EXPECT_TRUE(q->failed());
}

TEST_F(OutQueue, AFailureDropsEverythingOnceAndTellsTheTearDown) {
  int runs = 0;
  boost::system::error_code ec;
  q->push(big('a'));
  q->flush();
  q->push_control(std::string("\x88\x00", 2));
  q->tear_down(std::make_unique<note>(runs, ec));
  ::close(peer);
  peer = -1;
  run();  // the wait for writing ends with an error
  run();
  EXPECT_TRUE(q->failed());
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(ec);
  EXPECT_EQ(q->bytes(), 0u);
  EXPECT_EQ(shown_bytes, 0);
  q->fail();
  q->abort();
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(q->push(frame("x")), sent::stopped);
  EXPECT_FALSE(q->push_control("\x8a"));
}

TEST_F(OutQueue, WritingToAPeerThatIsGoneRaisesNoSignal) {
  ::close(peer);
  peer = -1;
  q->push(frame("a"));
  q->push(frame("b"));
  q->flush();
  EXPECT_TRUE(q->failed());
}

TEST_F(OutQueue, MemoryIsGivenBackWhenEmpty) {
  for (int i = 0; i < 300; ++i)
    q->push(frame("x"));
  q->flush();
  EXPECT_EQ(q->frames(), 0u);
  EXPECT_LE(sizeof(out_queue), 320u) << "an idle connection's share";
}

}  // namespace
}  // namespace parley::net
