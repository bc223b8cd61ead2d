// The handshake's checks as a table: hostile.md S1 to S12 and S18, and what a good client sends.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "net/ws_handshake.hpp"

namespace parley::net {
namespace {

const char* const key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

std::string head(const std::string& line, const std::string& fields) {
  return line + "\r\n" + fields + "\r\n";
}
std::string good(const std::string& extra = {}) {
  return head(
      "GET /ws HTTP/1.1",
      std::string(
          "Host: chat.example\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n") +
          key + "Sec-WebSocket-Version: 13\r\n" + extra);
}
std::string without(std::string text, const std::string& part, const std::string& instead = {}) {
  const auto at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), instead);
}
int status(const std::string& raw, const origin_policy& origins = {"", {}},
           const std::string& local = "127.0.0.1:8080") {
  const auto v = check_handshake(raw, local, origins);
  EXPECT_NE(v.accepted.has_value(), v.refused.has_value());
  return v.accepted ? 101 : v.refused->why.status;
}

TEST(Handshake, TakesWhatClientsSend) {
  EXPECT_EQ(status(good()), 101);
  EXPECT_EQ(status(good("Sec-WebSocket-Protocol: parley.v1\r\n")), 101);
  EXPECT_EQ(
      status(good("Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n")),
      101);
  EXPECT_EQ(status(without(good(), "Upgrade: websocket", "upgrade: WebSocket")), 101);
  EXPECT_EQ(status(without(good(), "keep-alive, Upgrade", "upgrade")), 101);
}

struct refusal_case {
  const char* what;
  std::string raw;
  int status;
};
TEST(Handshake, RefusesByTable) {
  const refusal_case cases[] = {
      {"S6 no Host", without(good(), "Host: chat.example\r\n"), 400},
      {"empty Host", without(good(), "Host: chat.example", "Host:"), 400},
      {"S7 two hosts", good("Host: other.example\r\n"), 400},
      {"S8 version 8", without(good(), "Version: 13", "Version: 8"), 426},
      {"no version", without(good(), "Sec-WebSocket-Version: 13\r\n"), 426},
      {"two versions", good("Sec-WebSocket-Version: 13\r\n"), 426},
      {"S9 short key", without(good(), "dGhlIHNhbXBsZSBub25jZQ==", "zzz"), 400},
      {"S9 no base64", without(good(), "dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZ!=="),
       400},
      {"S9 15 bytes", without(good(), "dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25j"), 400},
      {"S9 17 bytes", without(good(), "dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZWU="), 400},
      {"S9 loose bits", without(good(), "dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZR=="),
       400},
      {"S9 two keys", good(key), 400},
      {"S9 no key", without(good(), key), 400},
      {"S10 POST", without(good(), "GET", "POST"), 400},
      {"S10 HTTP/1.0", without(good(), "HTTP/1.1", "HTTP/1.0"), 400},
      {"no upgrade", without(good(), "Upgrade: websocket", "Upgrade: h2c"), 400},
      {"no connection", without(good(), "keep-alive, Upgrade", "keep-alive"), 400},
      {"a body", good("Content-Length: 5\r\n"), 400},
      {"a chunked body", good("Transfer-Encoding: chunked\r\n"), 400},
      {"unknown subprotocol", good("Sec-WebSocket-Protocol: mqtt, wamp\r\n"), 400},
      {"S18 token", without(good(), "/ws", "/ws?token=abc"), 400},
      {"S18 second", without(good(), "/ws", "/ws?a=1&token=abc"), 400},
      {"S18 encoded", without(good(), "/ws", "/ws?%74oken=abc"), 400},
      {"S18 access_token", without(good(), "/ws", "/ws?access_token=abc"), 400},
      {"two authorizations", good("Authorization: Bearer a\r\nAuthorization: Bearer b\r\n"), 400},
      {"two origins", good("Origin: http://127.0.0.1:8080\r\nOrigin: http://127.0.0.1:8080\r\n"),
       403},
      {"no head at all", "GET /ws", 400},
      {"a field without colon", without(good(), "Upgrade: websocket", "Upgrade"), 400},
  };
  for (const auto& c : cases)
    EXPECT_EQ(status(c.raw), c.status) << c.what;
  EXPECT_EQ(status(without(good(), "/ws", "/ws?tokens=1&x=token")), 101)
      << "only the parameter's name counts";
}

TEST(Handshake, NamesTheVersionItSpeaks) {
  const auto v = check_handshake(without(good(), "Version: 13", "Version: 8"), "", {"", {}});
  ASSERT_TRUE(v.refused);
  EXPECT_NE(v.refused->extra.find("Sec-WebSocket-Version: 13\r\n"), std::string::npos);
}

TEST(Handshake, ChoosesTheKnownSubprotocol) {
  const auto chosen = [](const std::string& fields) {
    const auto v = check_handshake(good(fields), "", {"", {}});
    return v.accepted ? v.accepted->subprotocol : "refused";
  };
  EXPECT_EQ(chosen(""), "");
  EXPECT_EQ(chosen("Sec-WebSocket-Protocol: mqtt, parley.v1\r\n"), "parley.v1");
  EXPECT_EQ(chosen("Sec-WebSocket-Protocol: mqtt\r\nSec-WebSocket-Protocol: parley.v1\r\n"),
            "parley.v1");
  EXPECT_EQ(chosen("Sec-WebSocket-Protocol: PARLEY.V1\r\n"),
            "refused");  // names are compared exactly
  // S11: many names, and a long run of spaces, are linear work.
  std::string many = "Sec-WebSocket-Protocol: ";
  for (int i = 0; i < 100; ++i)
    many += "p" + std::to_string(i) + ", ";
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(chosen(many + "parley.v1\r\n"), "parley.v1");
  EXPECT_EQ(chosen("Sec-WebSocket-Protocol: " + std::string(8000, ' ') + "x\r\n"), "refused");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(50));
}

TEST(Handshake, ReadsTheBearerToken) {
  const auto bearer = [](const std::string& fields) {
    return check_handshake(good(fields), "", {"", {}}).accepted->bearer;
  };
  EXPECT_EQ(bearer("Authorization: Bearer abc.def\r\n"), "abc.def");
  EXPECT_EQ(bearer("authorization:  bearer   abc\r\n"), "abc");
  EXPECT_EQ(bearer("Authorization: Basic abc\r\n"), "");
  EXPECT_EQ(bearer(""), "");
}

TEST(Handshake, ComparesOriginsExactly) {
  const origin_policy configured{"https://chat.example", {"https://other.example:8443"}};
  const auto with = [&](const std::string& origin, const origin_policy& p,
                        const std::string& local) {
    return status(good("Origin: " + origin + "\r\n"), p, local);
  };
  const std::string local = "127.0.0.1:8080";
  EXPECT_EQ(with("https://chat.example", configured, local), 101);
  EXPECT_EQ(with("https://chat.example:443", configured, local), 101);
  EXPECT_EQ(with("https://CHAT.example", configured, local), 101);
  EXPECT_EQ(with("https://other.example:8443", configured, local), 101);
  for (const char* bad :
       {"https://evil.example", "null", "https://chat.example.evil.com", "https://chat.example:444",
        "http://chat.example", "https://other.example", "https://chat.example/path",
        "https://user@chat.example", "chat.example", "https://", "",
        "https://chat.example,https://x", "http://127.0.0.1:8080", "file://"})
    EXPECT_EQ(with(bad, configured, local), 403) << bad;

  const origin_policy open{"", {}};
  EXPECT_EQ(with("http://127.0.0.1:8080", open, local), 101);
  EXPECT_EQ(with("http://localhost:8080", open, local), 101);
  EXPECT_EQ(with("http://localhost:8081", open, local), 403);
  EXPECT_EQ(with("https://127.0.0.1:8080", open, local), 403);
  EXPECT_EQ(with("http://evil.example:8080", open, local),
            403);  // a name that was made to point here
  EXPECT_EQ(with("http://10.0.0.7:8080", open, "10.0.0.7:8080"), 101);
  EXPECT_EQ(with("http://localhost:8080", open, "10.0.0.7:8080"), 403);
  EXPECT_EQ(with("http://[::1]:8080", open, "[::1]:8080"), 101);
  EXPECT_EQ(with("http://127.0.0.1", open, "127.0.0.1:80"), 101);
  EXPECT_EQ(with("null", origin_policy{"", {"null"}}, local), 101);
}

TEST(Handshake, PublicUrlMayHaveAPath) {
  const origin_policy p{"https://chat.example/parley/", {}};
  EXPECT_TRUE(p.allows("https://chat.example", ""));
  EXPECT_FALSE(p.allows("http://chat.example", ""));
}

}  // namespace
}  // namespace parley::net
