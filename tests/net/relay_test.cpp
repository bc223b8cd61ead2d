// The relay: the order per room, fan-outs in slices, gathered writes and gathered `unread` frames.
// Connections here are queues over socket pairs, and the thread's loop is turned by hand.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "net/relay.hpp"
#include "tests/net/ws_server.hpp"

namespace parley::net {
namespace {

using nlohmann::json;
using test::fake_tokens;

struct pair_connection final : connection {
  std::shared_ptr<out_queue> queue;
  relay_loop& loop;
  int peer;
  int answered_ = 0, closed_with = 0;
  std::string reason;
  std::string in;

  pair_connection(io_thread& io, relay_loop& l) : loop(l) {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    peer = pair[1];
    tcp_socket socket(io.context());
    socket.assign(tcp::v4(), pair[0]);
    queue = std::make_shared<out_queue>(std::move(socket), loop.clock(), loop.totals());
    queue->set_owner(this);
  }
  ~pair_connection() override {
    queue->abandon();
    ::close(peer);
  }
  out_queue& out() override { return *queue; }
  void close(int code, std::string_view why, std::optional<std::int64_t>) override {
    if (closed_with) return;
    closed_with = code;
    reason = why;
    queue->stop();
    leave();
  }
  void answered() override { ++answered_; }
  std::int64_t on_due(std::int64_t) override { return std::numeric_limits<std::int64_t>::max(); }
  void leave() override { loop.detach(*this); }
  void on_drained() override { loop.ran_empty(*this); }
  void on_sealed() override {}
  void on_failed() override {}
  void on_waiting() override {}

  /// The payloads that have come, and in how many reads the kernel had them: one per write, as each
  /// is read apart.
  std::vector<std::string> frames() {
    char bytes[65536];
    for (ssize_t n; (n = ::recv(peer, bytes, sizeof bytes, MSG_DONTWAIT)) > 0;)
      in.append(bytes, static_cast<std::size_t>(n));
    std::vector<std::string> out;
    while (in.size() >= 2) {
      std::size_t head = 2, length = static_cast<unsigned char>(in[1]) & 0x7f;
      if (length == 126) {
        head = 4;
        length = static_cast<std::size_t>(static_cast<unsigned char>(in[2])) << 8 |
                 static_cast<unsigned char>(in[3]);
      }
      if (in.size() < head + length) break;
      out.push_back(in.substr(head, length));
      in.erase(0, head + length);
    }
    return out;
  }
};

struct Relay : testing::Test {
  Relay()
      : server(tokens, counters, std::make_shared<const config>()),
        io(0, server, [this] { return clock; }), loop(io.sockets()) {}
  ~Relay() override { loop.drop_all(); }

  pair_connection& connect(bool greeted = true) {
    auto c = std::make_shared<pair_connection>(io, loop);
    loop.add(c);
    all.push_back(c);
    if (greeted) {
      loop.post(greet{c->id(), frame("hi")});
      settle();
      c->frames();
      c->answered_ = 0;
    }
    return *c;
  }
  static frame_ptr frame(const std::string& text) { return wire::make_frame(text); }
  room_ref room(int n) {
    return {room_key{n}, std::make_shared<const std::string>("r_" + std::to_string(n))};
  }
  publish message(const room_ref& r, const std::string& text, seq_no seq = 0, int sender = 0) {
    auto p = std::make_shared<publication>();
    p->room = r;
    p->active = frame(text);
    p->counts = seq > 0;
    p->seq = seq;
    p->sender = user_key{sender};
    p->committed_ns = steady_ns();
    return {p};
  }
  void turn() {
    io.context().restart();
    io.context().run_one();
  }
  void settle() {
    io.context().restart();
    while (io.context().poll() > 0)
      io.context().restart();
  }
  void advance_ms(std::int64_t ms) {
    clock += ms * 1'000'000;
    io.tick();
    settle();
  }
  static std::vector<std::string> texts(std::initializer_list<const char*> list) {
    return {list.begin(), list.end()};
  }

  std::int64_t clock = 1'000'000'000'000;
  fake_tokens tokens;
  metrics counters;
  server_context server;
  io_thread io;
  relay_loop& loop;
  std::vector<std::shared_ptr<pair_connection>> all;
};

TEST_F(Relay, PostsOfOneTurnLeaveInOneWrite) {
  auto& c = connect();
  const auto before = loop.totals().bytes_out;
  loop.post(go_live{room(1), c.id(), user_key{1}, frame("tail")});
  for (int i = 0; i < 10; ++i)
    loop.post(message(room(1), std::to_string(i)));
  loop.post(deliver{c.id(), frame("answer"), true});
  EXPECT_EQ(loop.inbox_length(), 12u);
  turn();
  // A datagram-like look at writes: everything of the turn is there after one, and the queue never
  // waited.
  EXPECT_GT(loop.totals().bytes_out, before);
  EXPECT_EQ(c.frames(),
            texts({"tail", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "answer"}));
  EXPECT_EQ(c.answered_, 1);
  EXPECT_EQ(counters.frames_out.get(), 13);
  EXPECT_EQ(loop.inbox_length(), 0u);
}

TEST_F(Relay, ActiveSessionsGetEventsVariantsAndSkips) {
  auto &ann = connect(), &bob = connect(), &eve = connect(), &other = connect();
  const auto r = room(1);
  int n = 0;
  for (auto* c : {&ann, &bob, &eve})
    loop.post(go_live{r, c->id(), user_key{++n}, nullptr});
  loop.post(go_live{room(2), other.id(), user_key{9}, nullptr});
  auto p = std::make_shared<publication>();
  p->room = r;
  p->active = frame("event");
  p->variants = {{user_key{1}, frame("with nonce")}};
  p->skip = user_key{3};
  loop.post(publish{p});
  settle();
  EXPECT_EQ(ann.frames(), texts({"with nonce"}));
  EXPECT_EQ(bob.frames(), texts({"event"}));
  EXPECT_EQ(eve.frames(), texts({}));
  EXPECT_EQ(other.frames(), texts({}));
}

TEST_F(Relay, ManyVariantsAndMentionsFindTheirUsers) {
  std::vector<pair_connection*> active, passive;
  auto p = std::make_shared<publication>();
  p->room = room(1);
  p->active = frame("event");
  p->counts = true;
  p->seq = 1;
  for (int i = 1; i <= 40; ++i) {
    active.push_back(&connect());
    passive.push_back(&connect());
    loop.post(go_live{p->room, active.back()->id(), user_key{i}, nullptr});
    loop.post(watch{p->room, passive.back()->id(), user_key{i}, {}});
    if (i % 2) p->variants.emplace_back(user_key{i}, frame("hidden"));
    if (i % 3 == 0) p->mentioned.insert(p->mentioned.begin(), user_key{i});
  }
  loop.post(publish{p});
  settle();
  for (int i = 1; i <= 40; ++i) {
    const auto at = static_cast<std::size_t>(i - 1);
    EXPECT_EQ(active[at]->frames(), texts({i % 2 ? "hidden" : "event"})) << i;
    EXPECT_EQ(json::parse(passive[at]->frames().at(0))["rooms"][0]["mentions"], i % 3 == 0 ? 1 : 0)
        << i;
  }
}

TEST_F(Relay, EnteringIsSilentUntilLive) {
  auto& c = connect();
  const auto r = room(1);
  loop.post(watch{r, c.id(), user_key{1}, {3, 1, 10, 7}});
  loop.post(begin_enter{r, c.id(), frame("answer")});
  loop.post(message(r, "during", 11, 2));
  bool drained = false;
  loop.post(replay_page{r.key, c.id(), frame("page"), [&] { drained = true; }});
  loop.post(message(r, "during too", 12, 2));
  loop.post(go_live{r, c.id(), user_key{1}, frame("tail")});
  loop.post(message(r, "live", 13, 2));
  settle();
  EXPECT_EQ(c.frames(), texts({"answer", "page", "tail", "live"}));
  EXPECT_TRUE(drained);
  EXPECT_EQ(c.answered_, 1);
  // Again: what came before does not matter.
  loop.post(begin_enter{r, c.id(), frame("answer")});
  loop.post(message(r, "hidden", 14, 2));
  loop.post(go_live{r, c.id(), user_key{1}, frame("tail")});
  loop.post(exit_room{r, c.id(), user_key{1}, frame("exited"), {0, 0, 14, 14}});
  loop.post(message(r, "not after exit", 15, 2));
  settle();
  const auto got = c.frames();
  ASSERT_EQ(got.size(), 4u);
  EXPECT_EQ(got[2], "exited");
  EXPECT_EQ(json::parse(got[3])["rooms"][0]["unread"], 1);
}

TEST_F(Relay, PassiveNumbersCountOnFromTheirBase) {
  auto& c = connect();
  loop.post(watch{room(1), c.id(), user_key{1}, {3, 1, 10, 7}});
  auto p = message(room(1), "x", 11, 2);
  auto counted = std::make_shared<publication>(*p.what);
  counted->mentioned = {user_key{5}, user_key{1}};
  counted->passive = frame("room.updated");
  loop.post(publish{counted});
  loop.post(publish{counted});  // told twice by nobody, but a number is not counted twice either
  settle();
  const auto got = c.frames();
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[0], "room.updated");
  const auto unread = json::parse(got[2]);
  EXPECT_EQ(unread["ev"], "unread");
  EXPECT_EQ(
      unread["rooms"],
      json::array(
          {{{"room", "r_1"}, {"unread", 4}, {"mentions", 2}, {"last_seq", 11}, {"read_seq", 7}}}));
}

TEST_F(Relay, TheSendersOwnPassiveSessionsCountNothing) {
  auto& c = connect();
  loop.post(watch{room(1), c.id(), user_key{1}, {0, 0, 10, 10}});
  loop.post(message(room(1), "x", 11, 1));
  settle();
  EXPECT_EQ(c.frames(), texts({}));
  loop.post(set_numbers{room_key{1}, user_key{1}, {0, 0, 11, 11}, true, {}});
  settle();
  const auto got = c.frames();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(json::parse(got[0])["rooms"][0]["read_seq"], 11);
}

TEST_F(Relay, UnreadComesAtOnceThenFourTimesASecondWithTheLatest) {
  auto& c = connect();
  for (int r = 1; r <= 3; ++r)
    loop.post(watch{room(r), c.id(), user_key{1}, {}});
  loop.post(message(room(1), "x", 1, 2));
  loop.post(message(room(2), "x", 1, 2));
  settle();
  auto got = c.frames();
  ASSERT_EQ(got.size(), 1u) << "rooms gathered";
  EXPECT_EQ(json::parse(got[0])["rooms"].size(), 2u);
  int frames = 0;
  std::int64_t last = 0;
  for (int i = 0; i < 100; ++i) {  // 50 messages over 5 s
    if (i % 2) loop.post(message(room(3), "x", i + 1, 2));
    settle();
    advance_ms(50);
    for (const auto& f : c.frames()) {
      ++frames;
      const std::int64_t n = json::parse(f)["rooms"][0]["unread"];
      EXPECT_GT(n, last);
      last = n;
    }
  }
  EXPECT_GE(frames, 14);
  EXPECT_LE(frames, 20);
  advance_ms(300);
  for (const auto& f : c.frames())
    last = json::parse(f)["rooms"][0]["unread"];
  EXPECT_EQ(last, 50) << "the last value is always told";
}

TEST_F(Relay, ARoomThatIsLeftOrPutAwayIsToldNoMore) {
  auto& c = connect();
  for (int r = 1; r <= 4; ++r)
    loop.post(watch{room(r), c.id(), user_key{1}, {}});
  loop.post(message(room(4), "x", 1, 2));
  settle();
  c.frames();
  for (int r = 1; r <= 3; ++r)
    loop.post(message(room(r), "x", 1, 2));
  loop.post(leave_room{room_key{1}, c.id()});
  loop.post(drop_room{room_key{2}});
  settle();
  advance_ms(300);
  const auto got = c.frames();
  ASSERT_EQ(got.size(), 1u);
  const auto rooms = json::parse(got[0])["rooms"];
  ASSERT_EQ(rooms.size(), 1u);
  EXPECT_EQ(rooms[0]["room"], "r_3");
  EXPECT_EQ(loop.rooms(), 2u);
  // It wakes and watches again.
  loop.post(watch{room(2), c.id(), user_key{1}, {5, 0, 9, 4}});
  loop.post(message(room(2), "x", 10, 2));
  settle();
  advance_ms(300);
  EXPECT_EQ(json::parse(c.frames().at(0))["rooms"][0]["unread"], 6);
}

TEST_F(Relay, SetNumbersTellsPassiveOnesGatheredActiveOnesAtOnceAndExceptNobody) {
  auto &passive = connect(), &active = connect(), &asker = connect(), &stranger = connect();
  const auto r = room(1);
  loop.post(watch{r, passive.id(), user_key{1}, {2, 0, 9, 7}});
  loop.post(go_live{r, active.id(), user_key{1}, nullptr});
  loop.post(watch{r, asker.id(), user_key{1}, {2, 0, 9, 7}});
  loop.post(watch{r, stranger.id(), user_key{2}, {2, 0, 9, 7}});
  loop.post(set_numbers{r.key, user_key{1}, {0, 0, 9, 9}, true, asker.id()});
  settle();
  EXPECT_EQ(json::parse(passive.frames().at(0))["rooms"][0]["read_seq"], 9);
  EXPECT_EQ(json::parse(active.frames().at(0))["rooms"][0]["read_seq"], 9);
  EXPECT_EQ(asker.frames(), texts({}));
  EXPECT_EQ(stranger.frames(), texts({}));
  loop.post(set_numbers{r.key, user_key{1}, {0, 0, 9, 9}, false, {}});
  settle();
  advance_ms(300);
  EXPECT_EQ(passive.frames(), texts({})) << "nothing changed";
  EXPECT_EQ(active.frames(), texts({}));
}

TEST_F(Relay, LargeRoomsAreCutIntoSlicesAndOthersGetTheirTurn) {
  const int n = 1300;
  std::vector<pair_connection*> large;
  const auto big = room(1), small = room(2);
  for (int i = 0; i < n; ++i)
    large.push_back(&connect(false));
  auto& single = connect();
  for (int i = 0; i < n; ++i) {
    loop.post(greet{large[static_cast<std::size_t>(i)]->id(), frame("hi")});
    loop.post(go_live{big, large[static_cast<std::size_t>(i)]->id(), user_key{i + 1}, nullptr});
  }
  loop.post(go_live{small, single.id(), user_key{5000}, nullptr});
  settle();
  for (auto* c : large)
    c->frames();

  const auto served = [&] {
    std::size_t k = 0;
    for (auto* c : large)
      k += c->queue->empty() && [&] {
        char b;
        return ::recv(c->peer, &b, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
      }();
    return k;
  };
  loop.post(message(big, "1", 1));
  loop.post(message(big, "2", 2));
  turn();
  EXPECT_EQ(served(), relay_loop::slice);
  // Another room goes on between slices; what concerns the large one waits.
  loop.post(message(small, "small", 1));
  loop.post(begin_enter{big, large[1299]->id(), frame("answer")});
  loop.post(message(big, "3", 3));
  loop.post(go_live{big, large[1299]->id(), user_key{1300}, nullptr});
  loop.post(leave_room{big.key, large[0]->id()});
  loop.post(message(big, "4", 4));
  turn();
  EXPECT_EQ(served(), 2 * relay_loop::slice);
  EXPECT_EQ(single.frames(), texts({"small"}));
  EXPECT_FALSE(large[1299]->queue->failed());
  settle();
  EXPECT_EQ(large[0]->frames(), texts({"1", "2", "3"})) << "left before the fourth";
  for (std::size_t i = 1; i < 1299; ++i)
    ASSERT_EQ(large[i]->frames(), texts({"1", "2", "3", "4"})) << i;
  EXPECT_EQ(large[1299]->frames(), texts({"1", "2", "answer", "4"}));
  std::int64_t observed = 0;
  for (auto& b : counters.broadcast_room.count)
    observed += b.load();
  EXPECT_EQ(observed, 5);
  std::int64_t writes = 0;
  for (auto& b : counters.ws_send.count)
    writes += b.load();
  EXPECT_GE(writes, 1301);
}

TEST_F(Relay, SeveralPublicationsOfALargeRoomLeaveInOneWriteEach) {
  std::vector<pair_connection*> large;
  const auto big = room(1);
  for (int i = 0; i < 600; ++i)
    large.push_back(&connect(false));
  for (auto* c : large) {
    loop.post(greet{c->id(), frame("hi")});
    loop.post(go_live{big, c->id(), user_key{1}, nullptr});
  }
  settle();
  for (auto* c : large)
    c->frames();
  for (int i = 0; i < 10; ++i)
    loop.post(message(big, std::to_string(i), i + 1));
  turn();
  // After the first slice its connections have all ten, the others none.
  EXPECT_EQ(large[0]->frames().size(), 10u);
  EXPECT_EQ(large[511]->frames().size(), 10u);
  EXPECT_EQ(large[512]->frames().size(), 0u);
  settle();
  EXPECT_EQ(large[512]->frames().size(), 10u);
}

TEST_F(Relay, ConnectionsThatGoDuringAFanOutDisturbNobody) {
  std::vector<pair_connection*> large;
  const auto big = room(1);
  for (int i = 0; i < 1100; ++i)
    large.push_back(&connect(false));
  for (std::size_t i = 0; i < large.size(); ++i) {
    loop.post(greet{large[i]->id(), frame("hi")});
    if (i % 2)
      loop.post(watch{big, large[i]->id(), user_key{2}, {}});
    else
      loop.post(go_live{big, large[i]->id(), user_key{2}, nullptr});
  }
  settle();
  for (auto* c : large)
    c->frames();
  loop.post(message(big, "1", 1));
  turn();
  // Served and unserved ones go, of both lists.
  for (const std::size_t i : {0u, 2u, 1u, 1000u, 1098u, 1099u, 997u})
    loop.remove(*large[i]);
  loop.post(message(big, "2", 2));
  settle();
  for (std::size_t i = 4; i < 996; i += 2)
    ASSERT_EQ(large[i]->frames(), texts({"1", "2"})) << i;
  for (std::size_t i = 3; i < 996; i += 2) {
    advance_ms(i == 3 ? 300 : 0);
    const auto got = large[i]->frames();
    ASSERT_FALSE(got.empty()) << i;
    EXPECT_EQ(json::parse(got.back())["rooms"][0]["unread"], 2);
  }
  EXPECT_EQ(loop.connections(), 1100u - 7);
  for (auto* c : large)
    loop.remove(*c);
  settle();
  EXPECT_EQ(loop.rooms(), 0u);
}

TEST_F(Relay, ASlowConnectionIsClosedAndHoldsUpNobody) {
  auto &slow = connect(), &quick = connect();
  const auto r = room(1);
  loop.post(go_live{r, slow.id(), user_key{1}, nullptr});
  loop.post(go_live{r, quick.id(), user_key{2}, nullptr});
  slow.queue->set_bounds({.bytes = 10'000, .frames = 1000});
  std::size_t got = 0;
  for (int i = 0; i < 200; ++i) {
    loop.post(message(r, std::string(4000, 'x'), i + 1));
    settle();
    got += quick.frames().size();
  }
  EXPECT_EQ(got, 200u);
  EXPECT_EQ(slow.closed_with, 4008);
  EXPECT_EQ(quick.closed_with, 0);
  loop.post(message(r, "after", 300));
  settle();
  EXPECT_EQ(quick.frames(), texts({"after"}));
}

TEST_F(Relay, OldNumbersNameNobody) {
  auto& first = connect();
  const auto old = first.id();
  loop.remove(first);
  auto& second = connect();
  EXPECT_EQ(second.id().slot, old.slot);
  EXPECT_NE(second.id().generation, old.generation);
  bool done = false;
  loop.post(deliver{old, frame("stray"), true});
  loop.post(watch{room(1), old, user_key{1}, {}});
  loop.post(go_live{room(1), old, user_key{1}, frame("stray")});
  loop.post(close_connection{old, 1001, "x", std::nullopt, [&] { done = true; }});
  loop.post(deliver{{7, 0, 1}, frame("another thread's"), false});
  loop.post(deliver{{0, 99, 1}, frame("no such slot"), false});
  settle();
  EXPECT_TRUE(done);
  EXPECT_EQ(second.frames(), texts({}));
  EXPECT_EQ(second.closed_with, 0);
  EXPECT_EQ(loop.rooms(), 0u);
}

TEST_F(Relay, ManyOperationsAreSpreadOverTurns) {
  auto& c = connect();
  for (int i = 0; i < 5000; ++i)
    loop.post(deliver{c.id(), frame("x"), true});
  turn();
  EXPECT_LE(c.answered_, static_cast<int>(relay_loop::turn_budget));
  EXPECT_GT(c.answered_, 0);
  settle();
  EXPECT_EQ(c.answered_, 5000);
}

}  // namespace
}  // namespace parley::net
