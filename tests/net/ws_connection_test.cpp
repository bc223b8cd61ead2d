// A connection from its handshake to its end, over real sockets: hello, window, limits, heart-beat,
// and the close code of every way in which it can go wrong (hostile.md A and B).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/net/ws_server.hpp"

namespace parley::test {
namespace {

using nlohmann::json;

json parsed(const ws_frame& f) { return f.is_text() ? json::parse(f.payload) : json(); }
std::string text(const std::string& payload) { return raw_ws_client::frame(1, payload); }
const std::string hello = R"({"op":"hello","id":1,"token":"good-ann"})";

std::int64_t disconnects(const metrics& m, int code) {
  for (std::size_t i = 0; i < disconnect_codes.size(); ++i)
    if (disconnect_codes[i] == code) return m.disconnects[i].get();
  return -1;
}

// ---------------------------------------------------------------- handshake on the wire

TEST(WsConnection, AnswersTheHandshakeWithoutABanner) {
  ws_server s;
  raw_ws_client c(s.port);
  EXPECT_EQ(c.upgrade(), 101);
  EXPECT_NE(c.head.find("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"),
            std::string::npos)
      << c.head;
  EXPECT_NE(c.head.find("Sec-WebSocket-Protocol: parley.v1\r\n"), std::string::npos);
  EXPECT_EQ(c.head.find("Beast"), std::string::npos);
  EXPECT_EQ(c.head.find("Extensions"), std::string::npos);
  raw_ws_client bad(s.port);
  EXPECT_EQ(bad.upgrade("Origin: https://evil.example\r\n"), 403);
  EXPECT_NE(bad.head.find("application/problem+json"), std::string::npos);
  EXPECT_EQ(bad.head.find("Server:"), std::string::npos);
  EXPECT_TRUE(bad.next(5000).ended() || bad.next(5000).what == ws_frame::kind::frame);
  EXPECT_EQ(s.counters.handshakes_refused.get(), 1);
  EXPECT_EQ(s.connections(), 1u);
}

TEST(WsConnection, RefusesWhileStopping) {
  ws_server s;
  s.context.stopping = true;
  raw_ws_client c(s.port);
  EXPECT_EQ(c.upgrade(), 503);
  EXPECT_NE(c.head.find("Retry-After: 1\r\n"), std::string::npos) << c.head;
}

TEST(WsConnection, TakesFramesThatCameWithTheHead) {
  ws_server s;
  raw_ws_client c(s.port);
  EXPECT_EQ(c.upgrade({}, text(hello) + text(R"({"op":"ping","id":"p"})")), 101);
  EXPECT_EQ(parsed(c.next())["re"], 1);
  EXPECT_EQ(parsed(c.next())["re"], "p");
}

// ---------------------------------------------------------------- hello

TEST(WsConnection, GreetsAndHoldsWhatCameBefore) {
  ws_server s;
  s.rt.on_open = [&](fake_runtime::session& session) {
    s.say(session.conn, R"({"ev":"early","n":1})");
    s.post(session.conn, begin_enter{{room_key{7}, std::make_shared<const std::string>("r_7")},
                                     session.conn,
                                     nullptr});
    s.post(session.conn,
           replay_page{room_key{7}, session.conn, wire::make_frame(R"({"ev":"page"})"), {}});
    s.rt.greet_now(session);
    s.say(session.conn, R"({"ev":"late"})");
  };
  auto c = s.connect();
  c.send_text(hello);
  EXPECT_EQ(parsed(c.next())["re"], 1);
  EXPECT_EQ(parsed(c.next())["ev"], "early");
  EXPECT_EQ(parsed(c.next())["ev"], "page");
  EXPECT_EQ(parsed(c.next())["ev"], "late");
  EXPECT_EQ(s.rt.session_at(0)->who.user, "ann");
  EXPECT_EQ(s.rt.session_at(0)->hello_id, "1");
  EXPECT_EQ(s.rt.session_at(0)->card->address, "127.0.0.1");
}

TEST(WsConnection, WhatIsHeldBeforeTheGreetingIsBounded) {
  config settings;
  settings.limits.outgoing_frames = 10;
  ws_server s(settings);
  s.rt.on_open = [&](fake_runtime::session& session) {
    for (int i = 0; i < 11; ++i)
      s.say(session.conn, "{}");
  };
  auto c = s.connect();
  c.send_text(hello);
  EXPECT_EQ(c.read_close(), 4008);
}

TEST(WsConnection, TakesTheTokenOfTheHandshake) {
  ws_server s;
  raw_ws_client c(s.port);
  EXPECT_EQ(c.upgrade("Authorization: Bearer good-bob\r\n"), 101);
  c.send_text(R"({"op":"hello","id":"x"})");
  EXPECT_EQ(parsed(c.next())["re"], "x");
  EXPECT_EQ(s.rt.session_at(0)->who.user, "bob");
}

TEST(WsConnection, AnyOtherFirstFrameCloses4001AndDoesNothing) {
  ws_server s;
  for (const std::string& first : std::vector<std::string>{
           R"({"op":"message.send","id":1,"room":"r","nonce":"n","text":"t"})",
           R"({"op":"ping","id":1})", "nonsense", "[]", "",
           R"({"op":"hello","id":1,"token":"bad"})", R"({"op":"hello","id":1})"}) {
    auto c = s.connect();
    c.send_text(first);
    EXPECT_EQ(c.read_close(), 4001) << first;
    const auto bye = json::parse(c.last_text);
    EXPECT_EQ(bye["ev"], "bye");
    EXPECT_EQ(bye["code"], 4001);
  }
  EXPECT_EQ(s.rt.opened(), 0u);
  EXPECT_EQ(s.rt.submitted_count(), 0u);
  EXPECT_TRUE(s.wait_gone());
  EXPECT_EQ(disconnects(s.counters, 4001), 7);
}

TEST(WsConnection, NoHelloWithin10SecondsCloses4001) {
  ws_server s;
  auto c = s.connect();
  s.advance_ms(9'900);
  c.send_raw(raw_ws_client::frame(10, ""));  // an unsolicited pong buys no time
  EXPECT_FALSE(c.readable(50));
  s.advance_ms(200);
  EXPECT_EQ(c.read_close(), 4001);
}

TEST(WsConnection, AnIllFormedHelloIsAnsweredAndMayBeSaidAgain) {
  ws_server s;
  auto c = s.connect();
  c.send_text(R"({"op":"hello","id":5,"token":7})");
  const auto answer = parsed(c.next());
  EXPECT_EQ(answer["re"], 5);
  EXPECT_EQ(answer["error"]["code"], "bad_request");
  c.send_text(hello);
  EXPECT_EQ(parsed(c.next())["ok"], true);
}

TEST(WsConnection, ASecondHelloIsAnErrorAndTheConnectionStays) {
  ws_server s;
  auto c = s.greeted();
  c.send_text(R"({"op":"hello","id":2,"token":"good-bob"})");
  const auto answer = parsed(c.next());
  EXPECT_EQ(answer["re"], 2);
  EXPECT_EQ(answer["error"]["code"], "bad_request");
  c.send_text(R"({"op":"ping","id":3})");
  EXPECT_EQ(parsed(c.next())["re"], 3);
  EXPECT_EQ(s.rt.opened(), 1u);
  EXPECT_EQ(s.rt.request_at(0).from->who.user, "ann");
}

TEST(WsConnection, BadFramesAreAnsweredAndTheConnectionStays) {
  ws_server s;
  auto c = s.greeted();
  for (const std::string& bad :
       std::vector<std::string>{"nonsense", "[]", "", R"({"op":"ping"})", R"({"id":1})"}) {
    c.send_text(bad);
    const auto answer = parsed(c.next());
    EXPECT_TRUE(answer.contains("error")) << bad;
  }
  c.send_text(R"({"op":"nothing.known","id":4})");
  EXPECT_EQ(parsed(c.next())["re"], 4);
  c.send_text(R"({"op":"ping","id":3})");
  EXPECT_EQ(parsed(c.next())["re"], 3);
  EXPECT_EQ(s.counters.bad_requests.get(), 6);
}

// ---------------------------------------------------------------- window

TEST(WsConnection, StopsReadingWhenTheWindowIsFull) {
  config settings;
  settings.limits.in_flight = 8;
  ws_server s(settings);
  connection_id conn;
  auto c = s.greeted(&conn);
  s.rt.on_submit = [](auto&) {};
  std::string many;
  for (int i = 0; i < 50; ++i)
    many += text(R"({"op":"ping","id":)" + std::to_string(i) + "}");
  c.send_raw(many);
  ASSERT_TRUE(s.rt.wait_submitted(8));
  for (int i = 0; i < 20; ++i)
    s.on_thread([] {});
  EXPECT_EQ(s.rt.submitted_count(), 8u);
  EXPECT_EQ(s.rt.session_at(0)->card->in_flight, 8);
  // The heart-beat rests: the client's pongs are not read either.
  s.advance_ms(300'000);
  EXPECT_EQ(s.rt.submitted_count(), 8u);
  auto first = s.rt.request_at(0);
  s.rt.answer_ok(first);
  ASSERT_TRUE(s.rt.wait_submitted(9));
  for (int i = 0; i < 20; ++i)
    s.on_thread([] {});
  EXPECT_EQ(s.rt.submitted_count(), 9u);
  s.rt.on_submit = [&](auto& r) { s.rt.answer_ok(r); };
  for (std::size_t i = 1; i < 9; ++i) {
    auto r = s.rt.request_at(i);
    s.rt.answer_ok(r);
  }
  ASSERT_TRUE(s.rt.wait_submitted(50));
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(parsed(c.next_data())["re"], i);
  EXPECT_EQ(s.rt.session_at(0)->card->in_flight, 0);
}

TEST(WsConnection, TypingWithoutIdHasItsPlaceInTheWindowToo) {
  config settings;
  settings.limits.in_flight = 2;
  ws_server s(settings);
  auto c = s.greeted();
  std::string many;
  for (int i = 0; i < 100; ++i)
    many += text(R"({"op":"typing","room":"r_1"})");
  c.send_raw(many + text(R"({"op":"ping","id":1})"));
  EXPECT_EQ(parsed(c.next())["re"], 1);
  EXPECT_EQ(s.rt.submitted_count(), 101u);
  EXPECT_EQ(s.rt.session_at(0)->card->in_flight, 0);
}

TEST(WsConnection, AFullWindowDoesNotHideAPeerThatIsGone) {
  config settings;
  settings.limits.in_flight = 1;
  ws_server s(settings);
  connection_id conn;
  auto c = s.greeted(&conn);
  s.rt.on_submit = [](auto&) {};
  c.send_text(R"({"op":"ping","id":1})");
  ASSERT_TRUE(s.rt.wait_submitted(1));
  c.vanish(true);
  for (int i = 0; i < 3; ++i)
    s.say(conn, "{}");  // the first may still be taken by the kernel
  EXPECT_TRUE(s.rt.wait_closed(1));
  EXPECT_TRUE(s.wait_gone());
}

// ---------------------------------------------------------------- frames that are wrong

struct wrong {
  const char* what;
  std::string bytes;
  int code;
};

TEST(WsConnection, WrongFramesHaveTheirCloseCodes) {
  using r = raw_ws_client;
  const auto bytes = [](std::initializer_list<int> list) {
    std::string out;
    for (const int b : list)
      out.push_back(static_cast<char>(b));
    return out;
  };
  const std::string long_header = bytes({0x81, 0xff, 0, 0, 0, 0, 0, 1, 0, 1});  // 65,537 announced
  const auto close_with = [&](int code) { return r::frame(8, bytes({code >> 8, code & 255})); };
  std::vector<wrong> cases = {
      {"S24 unmasked", r::frame(1, "Hello", true, false), 1002},
      {"S25 RSV1", r::frame(1, "x", true, true, 4), 1002},
      {"S25 RSV2", r::frame(1, "x", true, true, 2), 1002},
      {"S25 RSV3", r::frame(1, "x", true, true, 1), 1002},
      {"S46 RSV1 on a ping", r::frame(9, "x", true, true, 4), 1002},
      {"S27 ping of 126", r::frame(9, std::string(126, 'x')), 1002},
      {"S27 ping in pieces", r::frame(9, "x", false), 1002},
      {"S28 orphan continuation", r::frame(0, "x"), 1002},
      {"S28 text inside a message", r::frame(1, "x", false) + r::frame(1, "y"), 1002},
      {"S29 16 bits for 5 bytes", bytes({0x81, 0xfe, 0, 5, 1, 2, 3, 4, 1, 2, 3, 4, 5}), 1002},
      {"S29 64 bits for 5 bytes",
       bytes({0x81, 0xff, 0, 0, 0, 0, 0, 0, 0, 5, 1, 2, 3, 4, 1, 2, 3, 4, 5}), 1002},
      {"S30 high bit", bytes({0x81, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4}), 1009},
      {"S31 over the limit, header alone", long_header + bytes({1, 2, 3, 4}), 1009},
      {"over the limit in pieces",
       r::frame(1, std::string(40'000, ' '), false) + r::frame(0, std::string(30'000, ' ')), 1009},
      {"S35 c0 80", r::frame(1, "\xc0\x80"), 1007},
      {"S35 surrogate", r::frame(1, "\xed\xa0\x80"), 1007},
      {"S35 over U+10FFFF", r::frame(1, "\xf4\x90\x80\x80"), 1007},
      {"S35 cut off", r::frame(1, "\xe3\x81"), 1007},
      {"S35 in an unfinished piece", r::frame(1, "a\xff", false), 1007},
      {"S36 reason", r::frame(8, bytes({3, 0xe8, 0xff, 0xff})), 1002},
      {"S36 one byte", r::frame(8, "x"), 1002},
      {"S43 binary", r::frame(2, "x"), 1003},
      {"S43 binary in pieces", r::frame(2, "x", false), 1003},
      {"S50 a request", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 1002},
      {"close without a code", r::frame(8, ""), 1000},
  };
  for (int opcode : {3, 4, 5, 6, 7, 11, 12, 13, 14, 15})
    cases.push_back({"S26 opcode", r::frame(opcode, "x"), 1002});
  for (int code : {0, 999, 1004, 1005, 1006, 1014, 1015, 1016, 2999, 5000, 65535})
    cases.push_back({"S37 close code", close_with(code), 1002});
  for (int code :
       {1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 3000, 3999, 4000, 4999})
    cases.push_back({"a good close code", close_with(code), code});

  ws_server s;
  for (const bool say_hello : {true, false}) {
    for (const auto& w : cases) {
      if (!say_hello && w.code == 1003)
        continue;  // any first frame but hello: 4001 and 1003 are both right
      auto c = say_hello ? s.greeted() : s.connect();
      const auto submitted = s.rt.submitted_count();
      // S42: what comes behind has no effect.
      c.send_raw(w.bytes + text(R"({"op":"ping","id":1})"));
      const int code = s.close_of(c);
      EXPECT_EQ(code, w.code) << w.what << (say_hello ? "" : " before hello");
      EXPECT_EQ(s.rt.submitted_count(), submitted) << w.what;
    }
  }
  // Where a framing error follows our own close, Beast's read and close wait for each other: the
  // deadline ends it.
  s.advance_ms(6000);
  EXPECT_TRUE(s.wait_gone());
  EXPECT_TRUE(s.rt.wait_closed(s.rt.opened()));
  auto again = s.greeted();
  again.send_text(R"({"op":"ping","id":1})");
  EXPECT_TRUE(again.next().is_text());
}

TEST(WsConnection, TakesFragmentsUpToTheirBound) {
  using r = raw_ws_client;
  ws_server s;
  const std::string request = R"({"op":"ping","id":"fragments"})";
  for (const int n : {1024, 1025}) {
    auto c = s.greeted();
    std::string bytes = r::frame(1, request.substr(0, 5), false);
    for (int i = 0; i < n - 2; ++i)
      bytes += i % 2 ? r::frame(0, "", false) : r::frame(0, i < 40 ? " " : "", false);
    bytes += r::frame(9, "between") + r::frame(0, request.substr(5));
    c.send_raw(bytes);
    if (n == 1024) {
      auto f = c.next();
      EXPECT_EQ(f.opcode, 10);
      EXPECT_EQ(f.payload, "between");
      f = c.next();
      EXPECT_EQ(parsed(f)["re"], "fragments");
    } else {
      EXPECT_EQ(c.read_close(), 1008);
    }
  }
}

TEST(WsConnection, EmptyFragmentsWithoutEndAreClosed) {
  using r = raw_ws_client;
  ws_server s;
  auto c = s.greeted();
  std::string bytes = r::frame(1, "", false);
  for (int i = 0; i < 5000; ++i)
    bytes += r::frame(0, "", false);
  c.send_raw(bytes);
  EXPECT_EQ(s.close_of(c), 1008);
  EXPECT_TRUE(s.wait_gone());
  EXPECT_EQ(disconnects(s.counters, 1008), 1);
}

TEST(WsConnection, AMessageHas30SecondsWhateverItsPings) {
  using r = raw_ws_client;
  for (const std::string& begun : std::vector<std::string>{
           r::frame(1, "{", false), r::frame(1, "{\"op\":\"ping\"").substr(0, 8),
           std::string("\x81"), std::string("\x81\xfe\x70\x00xxxx", 8)}) {
    ws_server s;
    auto c = s.greeted();
    c.send_raw(begun);
    for (int i = 0; i < 29; ++i) {
      s.advance_ms(1000);
      if (begun.size() == 7) {  // between frames: pings are answered
        c.send_raw(r::frame(9, "p"));
        EXPECT_EQ(c.next_data().opcode, 10);
      }
    }
    EXPECT_EQ(s.connections(), 1u);
    s.advance_ms(2500);
    EXPECT_EQ(s.close_of(c), 1008) << begun.size();
  }
}

TEST(WsConnection, MessagesInTurnMayTakeTheirTimeEach) {
  ws_server s;
  auto c = s.greeted();
  const std::string message = text(R"({"op":"ping","id":1})");
  c.send_raw(message.substr(0, 5));
  for (int i = 0; i < 4; ++i) {
    s.on_thread([] {});
    s.advance_ms(20'000);
    // The end of one message and the beginning of the next in one piece.
    c.send_raw(message.substr(5) + message.substr(0, 5));
    EXPECT_TRUE(c.next_data().is_text());
    c.send_raw("");
  }
  EXPECT_EQ(s.connections(), 1u);
}

// ---------------------------------------------------------------- pings

TEST(WsConnection, AnswersPingsInOrderAtABoundedRate) {
  using r = raw_ws_client;
  ws_server s;
  auto c = s.greeted();
  std::string bytes;
  for (int i = 0; i < 20; ++i)
    bytes += r::frame(9, std::string(static_cast<std::size_t>(i * 6), static_cast<char>('a' + i)));
  c.send_raw(bytes);
  for (int i = 0; i < 20; ++i) {
    const auto f = c.next();
    EXPECT_EQ(f.opcode, 10);
    EXPECT_EQ(f.payload, std::string(static_cast<std::size_t>(i * 6), static_cast<char>('a' + i)));
  }
  s.advance_ms(1000);
  c.send_raw(bytes);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(c.next_data().opcode, 10);
  c.send_raw(r::frame(9, "one too many"));
  EXPECT_EQ(c.read_close(), 1008);
}

TEST(WsConnection, AFloodOfPongsIsClosedToo) {
  ws_server s;
  auto c = s.greeted();
  std::string bytes;
  for (int i = 0; i < 1000; ++i)
    bytes += raw_ws_client::frame(10, "x");
  c.send_raw(bytes);
  EXPECT_EQ(c.read_close(), 1008);
}

TEST(WsConnection, PingsWithoutReadingMeetTheOutgoingBound) {
  config settings;
  settings.limits.pings_per_s = 1'000'000;
  settings.limits.outgoing_frames = 100;
  ws_server s(settings);
  auto c = s.greeted(nullptr, 4096);
  const std::string ping = raw_ws_client::frame(9, std::string(125, 'p'));
  std::string bytes;
  for (int i = 0; i < 100; ++i)
    bytes += ping;
  // The kernel's buffers take some first; then the queue is full and the connection is reset.
  bool alive = true;
  for (int i = 0; i < 10'000 && alive; ++i)
    alive = c.send_raw(bytes);
  EXPECT_FALSE(alive);
  EXPECT_TRUE(s.wait_gone());
}

TEST(WsConnection, TheHeartBeatIsMissedAfterTwoPingsAndFiveSeconds) {
  ws_server s;
  auto c = s.greeted();
  const auto begun = s.clock.load();
  std::vector<std::int64_t> pings;
  auto f = c.next(0);
  while (f.what == ws_frame::kind::timeout || f.opcode == 9) {
    if (f.what == ws_frame::kind::timeout)
      s.advance_ms(100);
    else
      pings.push_back((s.clock - begun) / ms_ns);
    ASSERT_LT(s.clock - begun, 100'000 * ms_ns);
    // What the server sent at this tick is there: it sends before the tick ends.
    f = c.next(2);
  }
  ASSERT_EQ(pings.size(), 2u);
  EXPECT_LE(pings[0], 30'200);
  EXPECT_NEAR(static_cast<double>(pings[1] - pings[0]), 30'000, 200);
  EXPECT_EQ(parsed(f)["ev"], "bye");
  EXPECT_NEAR(static_cast<double>((s.clock - begun) / ms_ns - pings[1]), 5'000, 300);
  EXPECT_EQ(c.read_close(), 4009);
}

TEST(WsConnection, AnyFrameCountsAsLife) {
  ws_server s;
  auto c = s.greeted();
  for (int i = 0; i < 20; ++i) {
    s.advance_ms(25'000);
    c.send_text(R"({"op":"ping","id":1})");
    ASSERT_TRUE(c.next_data().is_text()) << i;
  }
}

TEST(WsConnection, HeartBeatsAreSpreadEvenly) {
  config settings;
  ws_server s(settings);
  std::vector<raw_ws_client> all;
  for (int i = 0; i < 60; ++i)
    all.push_back(s.greeted());
  std::size_t worst = 0, total = 0;
  for (int t = 0; t < 30; ++t) {
    s.advance_ms(1000);
    std::size_t now = 0;
    for (auto& c : all)
      if (c.readable(0)) {
        while (c.next(0).what == ws_frame::kind::frame)
          ++now;
      }
    worst = std::max(worst, now);
    total += now;
  }
  EXPECT_GE(total, 58u);
  EXPECT_LE(worst, 6u) << "of 60 over 30 s";
}

// ---------------------------------------------------------------- closes

TEST(WsConnection, ClosesByByeThenCloseFrameAndTellsWhenDone) {
  ws_server s;
  connection_id conn;
  auto c = s.greeted(&conn);
  s.say(conn, R"({"ev":"before"})");
  std::promise<void> done;
  s.post(conn, close_connection{conn, 1012, "restart", 750, [&] { done.set_value(); }});
  s.say(conn, R"({"ev":"after"})");
  EXPECT_EQ(parsed(c.next())["ev"], "before")
      << "what was given before it is sent where the socket takes it";
  const auto bye = parsed(c.next());
  EXPECT_EQ(bye,
            (json{{"ev", "bye"}, {"code", 1012}, {"reason", "restart"}, {"retry_after_ms", 750}}));
  EXPECT_EQ(done.get_future().wait_for(std::chrono::seconds(5)), std::future_status::ready);
  EXPECT_TRUE(s.rt.wait_closed(1)) << "the session ends with the word, not with the socket";
  const auto f = c.next();
  EXPECT_EQ(f.code(), 1012);
  EXPECT_EQ(f.payload.substr(2), "restart");
  c.send_close(1012);
  EXPECT_EQ(c.next().what, ws_frame::kind::eof);
  c.vanish(false);
  EXPECT_TRUE(s.wait_gone());
  std::promise<void> gone;
  s.post(conn, close_connection{conn, 1000, "", std::nullopt, [&] { gone.set_value(); }});
  EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(5)), std::future_status::ready);
}

TEST(WsConnection, EveryCodeOfOursCloses) {
  ws_server s;
  for (const int code : {1001, 1008, 1011, 1012, 1013, 4001, 4003, 4008, 4009, 4029}) {
    connection_id conn;
    auto c = s.greeted(&conn);
    s.post(conn, close_connection{conn, code, std::string(200, 'r'), std::nullopt, {}});
    EXPECT_EQ(c.read_close(15'000), code);
    EXPECT_EQ(json::parse(c.last_text)["code"], code);
  }
}

TEST(WsConnection, APeerThatNeverAnswersTheCloseSeesOurEndAfterASecond) {
  ws_server s;
  connection_id conn;
  auto c = s.greeted(&conn);
  s.post(conn, close_connection{conn, 1001, "stopping", std::nullopt, {}});
  EXPECT_TRUE(c.next().is_text());
  EXPECT_EQ(c.next().code(), 1001);
  s.advance_ms(800);
  EXPECT_FALSE(c.readable(50));
  s.advance_ms(300);
  EXPECT_EQ(c.next().what, ws_frame::kind::eof);
  EXPECT_EQ(s.connections(), 1u);
  s.advance_ms(4200);
  EXPECT_TRUE(s.wait_gone());
}

TEST(WsConnection, AClientsCloseIsAnsweredOnceAndEndsTheSession) {
  ws_server s;
  connection_id conn;
  auto c = s.greeted(&conn);
  c.send_close(4321, "going");
  EXPECT_EQ(c.read_close(), 4321);
  EXPECT_EQ(c.end, ws_frame::kind::eof);
  EXPECT_TRUE(s.rt.wait_closed(1));
  s.say(conn, "{}");
  EXPECT_TRUE(s.wait_gone());
}

TEST(WsConnection, AClientThatVanishesEndsTheSession) {
  ws_server s;
  for (const bool reset : {false, true}) {
    auto c = s.greeted();
    c.vanish(reset);
  }
  EXPECT_TRUE(s.rt.wait_closed(2));
  EXPECT_TRUE(s.wait_gone());
  EXPECT_EQ(s.counters.connections_ws.get(), 0);
  EXPECT_EQ(s.counters.connections_total.get(), 2);
}

TEST(WsConnection, StoppingSpreadsItsClosesWithATimeForEach) {
  ws_server s;
  std::vector<raw_ws_client> all;
  for (int i = 0; i < 40; ++i)
    all.push_back(s.greeted());
  std::promise<void> done;
  s.ios[0]->close_all(1001, "stopping", 8000, [&] { done.set_value(); });
  std::vector<int> closed_at;
  std::vector<bool> told(all.size(), false);
  std::vector<std::int64_t> retries;
  for (int t = 0; t <= 80; ++t) {
    s.on_thread([] {});
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (told[i] || !all[i].readable(0)) continue;
      auto f = all[i].next(0);
      while (f.what == ws_frame::kind::frame && f.opcode == 9)
        f = all[i].next(0);
      if (f.what != ws_frame::kind::frame) continue;
      told[i] = true;
      retries.push_back(parsed(f)["retry_after_ms"]);
      closed_at.push_back(t);
      EXPECT_EQ(all[i].next().code(), 1001);
      all[i].send_close(1001);
      EXPECT_TRUE(all[i].next().ended());
      all[i].vanish(false);
    }
    s.advance_ms(100);
  }
  EXPECT_EQ(closed_at.size(), all.size());
  EXPECT_LE(closed_at.front(), 2);
  EXPECT_GE(closed_at.back(), 70);
  std::sort(retries.begin(), retries.end());
  EXPECT_GT(std::unique(retries.begin(), retries.end()) - retries.begin(), 30)
      << "one of its own for each";
  EXPECT_LE(retries.back(), 8500);
  EXPECT_TRUE(s.wait_gone());
  s.advance_ms(200);
  EXPECT_EQ(done.get_future().wait_for(std::chrono::seconds(5)), std::future_status::ready);
  raw_ws_client late(s.port);
  EXPECT_EQ(late.upgrade(), 503);
}

// ---------------------------------------------------------------- slow readers

TEST(WsConnection, OverTheOutgoingBoundItIsClosed4008) {
  ws_server s;
  connection_id conn;
  auto c = s.greeted(&conn, 4096);
  const std::string payload(5000, 'x');
  for (int i = 0; i < 400; ++i)
    s.say(conn, payload);
  ASSERT_TRUE(s.rt.wait_closed(1));
  EXPECT_GT(s.counters.outgoing_peak_bytes.get(), 200'000);
  EXPECT_LE(s.counters.outgoing_peak_bytes.get(), 262'144 + 5010);
  // The frame under way is whole, then bye and the close; everything is aligned.
  EXPECT_EQ(c.read_close(), 4008);
  EXPECT_EQ(json::parse(c.last_text)["code"], 4008);
  EXPECT_EQ(disconnects(s.counters, 4008), 1);
  EXPECT_TRUE(s.wait_gone());
}

TEST(WsConnection, WhatWaitsLongerThanFiveSecondsCloses4008AndFiveLaterResets) {
  ws_server s;
  connection_id conn;
  auto c = s.greeted(&conn, 4096);
  const std::string payload(5000, 'x');
  std::int64_t queued = 0;
  while (queued == 0) {
    s.say(conn, payload);
    s.on_thread([&] { queued = s.rt.session_at(0)->card->queued_bytes; });
  }
  EXPECT_GT(s.rt.session_at(0)->card->queued_frames, 0);
  s.advance_ms(4900, 100);
  EXPECT_EQ(s.rt.session_at(0)->closed, false);
  s.advance_ms(400, 100);
  ASSERT_TRUE(s.rt.wait_closed(1));
  EXPECT_EQ(s.connections(), 1u);
  s.advance_ms(5100, 100);
  EXPECT_TRUE(s.wait_gone());
  EXPECT_EQ(c.read_close(), -2) << "reset: the close frame was behind what it did not read";
}

TEST(WsConnection, AReplayIsPacedAndClosesNobody) {
  config settings;
  settings.limits.outgoing_bytes = 20'000;
  ws_server s(settings);
  connection_id conn;
  auto c = s.greeted(&conn, 4096);
  const room_ref room{room_key{5}, std::make_shared<const std::string>("r_5")};
  std::string page;
  for (int i = 0; i < 13; ++i)
    page += text_frame(std::string(5000, static_cast<char>('a' + i)));
  std::atomic<int> drained{0};
  const int pages = 40;
  std::function<void()> next = [&] {
    if (++drained < pages)
      s.post(conn, replay_page{room.key, conn, std::make_shared<const std::string>(page), next});
    else
      s.post(conn, go_live{room, conn, user_key{1}, wire::make_frame("tail")});
  };
  s.post(conn, begin_enter{room, conn, wire::make_frame("answer")});
  s.post(conn, replay_page{room.key, conn, std::make_shared<const std::string>(page), next});
  EXPECT_EQ(c.next().payload, "answer");
  s.advance_ms(20'000);  // nothing has been read for long
  for (int p = 0; p < pages; ++p)
    for (int i = 0; i < 13; ++i)
      ASSERT_EQ(c.next_data().payload, std::string(5000, static_cast<char>('a' + i)));
  EXPECT_EQ(c.next_data().payload, "tail");
  EXPECT_EQ(drained, pages);
  auto p = std::make_shared<publication>();
  p->room = room;
  p->active = wire::make_frame("live");
  s.post(conn, publish{p});
  EXPECT_EQ(c.next_data().payload, "live");
}

TEST(WsConnection, AReloadChangesLimitsOfLivingConnections) {
  ws_server s;
  connection_id conn;
  auto c = s.greeted(&conn);
  s.rt.on_submit = [](auto&) {};
  config changed;
  changed.limits.in_flight = 3;
  changed.limits.frame_bytes = 100;
  s.context.settings.set(std::make_shared<const config>(changed));
  s.advance_ms(100);
  std::string many;
  for (int i = 0; i < 9; ++i)
    many += text(R"({"op":"ping","id":1})");
  c.send_raw(many);
  ASSERT_TRUE(s.rt.wait_submitted(3));
  for (int i = 0; i < 20; ++i)
    s.on_thread([] {});
  EXPECT_EQ(s.rt.submitted_count(), 3u);
  auto other = s.greeted();
  other.send_text(std::string(101, ' '));
  EXPECT_EQ(other.read_close(), 1009);
}

TEST(WsConnection, StoppingTheThreadWithLivingConnectionsIsClean) {
  std::vector<raw_ws_client> all;
  {
    ws_server s;
    for (int i = 0; i < 6; ++i) {
      connection_id conn;
      all.push_back(s.greeted(&conn, i % 2 ? 4096 : 0));
      for (int k = 0; k < 20 * i; ++k)
        s.say(conn, std::string(3000, 'x'));
      if (i == 3) s.post(conn, close_connection{conn, 1001, "", std::nullopt, {}});
      if (i == 4) all.back().send_close(1000);
    }
    all.push_back(s.connect());
    raw_ws_client half(s.port);
    half.send_raw("GET /ws HT");
    all.push_back(std::move(half));
  }
  for (auto& c : all) {
    ws_frame f = c.next();
    while (f.what == ws_frame::kind::frame)
      f = c.next();
    EXPECT_TRUE(f.ended());
  }
}

}  // namespace
}  // namespace parley::test
