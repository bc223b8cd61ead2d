// The strict gate: every row of hostile input about heads and chunks, as bytes in and a verdict
// out.
#include "net/http_gate.hpp"

#include <gtest/gtest.h>

namespace parley::net::http {
namespace {

gate_result examine(std::string_view bytes) {
  std::size_t checked = 0;
  return examine_head(bytes, checked);
}

// 0: passed, -1: needs more, else the status of the refusal.
int verdict(const gate_result& r) {
  if (std::holds_alternative<need_more>(r)) return -1;
  if (const auto* f = std::get_if<failure>(&r)) return f->status;
  return 0;
}
int verdict(std::string_view bytes) { return verdict(examine(bytes)); }

std::string head(std::string_view line, std::string_view fields = "", bool host = true) {
  return std::string(line) + "\r\n" + (host ? "Host: a.example\r\n" : "") + std::string(fields) +
         "\r\n";
}
std::string post(std::string_view fields) { return head("POST /x HTTP/1.1", fields); }

request_head passed(std::string_view bytes) {
  auto r = examine(bytes);
  EXPECT_TRUE(std::holds_alternative<gate_head>(r)) << bytes;
  return std::holds_alternative<gate_head>(r) ? std::get<gate_head>(r).head : request_head{};
}

TEST(HttpGate, TakesAPlainRequest) {
  const auto bytes = head("GET /a?b=c HTTP/1.1", "X-A:  two words \r\nAccept: */*\r\n") + "rest";
  auto r = examine(bytes);
  ASSERT_TRUE(std::holds_alternative<gate_head>(r));
  const auto& g = std::get<gate_head>(r);
  EXPECT_EQ(bytes.substr(g.size), "rest");
  EXPECT_EQ(g.head.method, "GET");
  EXPECT_EQ(g.head.target, "/a?b=c");
  EXPECT_EQ(g.head.host, "a.example");
  EXPECT_EQ(*g.head.find("x-a"), "two words");
  EXPECT_TRUE(g.head.keep_alive);
  EXPECT_FALSE(g.head.has_body());
}

TEST(HttpGate, GivesTheSameVerdictByteByByte) {
  const auto bytes = head("GET / HTTP/1.1", "X-A: b\r\n");
  std::size_t checked = 0;
  for (std::size_t n = 0; n < bytes.size(); ++n)
    ASSERT_EQ(verdict(examine_head(std::string_view(bytes).substr(0, n), checked)), -1) << n;
  EXPECT_EQ(verdict(examine_head(bytes, checked)), 0);
}

TEST(HttpGate, LetsOneEmptyLinePass) {
  EXPECT_EQ(verdict("\r\n" + head("GET / HTTP/1.1")), 0);
  EXPECT_EQ(verdict("\r\n\r\n" + head("GET / HTTP/1.1")), 400);
}

struct row {
  const char* name;
  std::string bytes;
  int status;
};
class HttpGateRefuses : public testing::TestWithParam<row> {};
TEST_P(HttpGateRefuses, With) {
  EXPECT_EQ(verdict(GetParam().bytes), GetParam().status) << GetParam().bytes;
}

using namespace std::string_literals;
INSTANTIATE_TEST_SUITE_P(
    Rows, HttpGateRefuses,
    testing::Values(
        row{"S6_no_host", head("GET / HTTP/1.1", "", false), 400},
        row{"S7_two_hosts", head("GET / HTTP/1.1", "Host: b.example\r\n"), 400},
        row{"S7_same_host_twice", head("GET / HTTP/1.1", "Host: a.example\r\n"), 400},
        row{"host_with_user", head("GET / HTTP/1.1", "Host: u@a.example\r\n", false), 400},
        row{"host_with_path", head("GET / HTTP/1.1", "Host: a.example/x\r\n", false), 400},
        row{"empty_host", head("GET / HTTP/1.1", "Host:\r\n", false), 400},
        row{"S51_length_and_chunked", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
            400},
        row{"S51_chunked_and_length", post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
            400},
        row{"S52_identity", post("Transfer-Encoding: identity\r\n"), 501},
        row{"S53_chunked_identity", post("Transfer-Encoding: chunked, identity\r\n"), 400},
        row{"S53_gzip_chunked", post("Transfer-Encoding: gzip, chunked\r\n"), 501},
        row{"S53_chunked_twice", post("Transfer-Encoding: chunked, chunked\r\n"), 400},
        row{"xchunked", post("Transfer-Encoding: xchunked\r\n"), 501},
        row{"empty_coding", post("Transfer-Encoding:\r\n"), 400},
        row{"S55_two_codings", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
            400},
        row{"S56_old_chunked", head("POST /x HTTP/1.0", "Transfer-Encoding: chunked\r\n"), 400},
        row{"S57_two_lengths", post("Content-Length: 3\r\nContent-Length: 3\r\n"), 400},
        row{"S57_list", post("Content-Length: 3, 3\r\n"), 400},
        row{"S58_plus", post("Content-Length: +3\r\n"), 400},
        row{"S58_hex", post("Content-Length: 0x3\r\n"), 400},
        row{"S58_negative", post("Content-Length: -1\r\n"), 400},
        row{"S58_20_digits", post("Content-Length: 99999999999999999999\r\n"), 400},
        row{"S58_two_words", post("Content-Length: 3 4\r\n"), 400},
        row{"S58_empty", post("Content-Length:\r\n"), 400},
        row{"S59_space_before_colon", post("Content-Length : 3\r\n"), 400},
        row{"S59_bare_lf", "GET / HTTP/1.1\nHost: a\n\n"s, 400},
        row{"S59_bare_lf_at_once", "GET / HTTP/1.1\n"s, 400},
        row{"S59_bare_cr", post("X-A: b\rc\r\n"), 400}, row{"S59_nul", post("X-A: b\0c\r\n"s), 400},
        row{"control",
            post("X-A: b\x01"
                 "c\r\n"),
            400},
        row{"delete", post("X-A: b\x7f\r\n"), 400}, row{"fold", post("X-A: b\r\n c\r\n"), 400},
        row{"fold_by_tab", post("X-A: b\r\n\tc\r\n"), 400},
        row{"no_colon", post("nonsense\r\n"), 400}, row{"no_name", post(": x\r\n"), 400},
        row{"space_in_name", post("X A: b\r\n"), 400},
        row{"two_tokens", head("GET / HTTP/1.1", "Authorization: a\r\nAuthorization: b\r\n"), 400},
        row{"two_origins", head("GET / HTTP/1.1", "Origin: a\r\nOrigin: b\r\n"), 400},
        row{"expect", post("Expect: 200-ok\r\nContent-Length: 1\r\n"), 417},
        row{"S66_raw_byte", head("GET /\xe9 HTTP/1.1"), 400},
        row{"S66_backslash", head("GET /..\\x HTTP/1.1"), 400},
        row{"fragment", head("GET /a#b HTTP/1.1"), 400},
        row{"space", head("GET /a b HTTP/1.1"), 400}, row{"no_slash", head("GET a HTTP/1.1"), 400},
        row{"asterisk", head("OPTIONS * HTTP/1.1"), 400},
        row{"other_scheme", head("GET ftp://a.example/ HTTP/1.1"), 400},
        row{"user_info", head("GET http://u@a.example/ HTTP/1.1"), 400},
        row{"S68_lower_case", head("get / HTTP/1.1"), 501},
        row{"S68_unknown", head("FOO / HTTP/1.1"), 501},
        row{"S68_connect", head("CONNECT a:443 HTTP/1.1"), 501},
        row{"S68_trace", head("TRACE / HTTP/1.1"), 501},
        row{"control_in_method", head("G\x01T / HTTP/1.1"), 400},
        row{"S69_http_2", head("GET / HTTP/2.0"), 505},
        row{"S69_preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"s, 505},
        row{"S69_0_9", head("GET / HTTP/0.9"), 505}, row{"no_version", "GET /\r\n\r\n"s, 400},
        row{"long_version", head("GET / HTTP/1.1.1"), 400},
        row{"S69_tls_hello", "\x16\x03\x01\x02"s, 400}, row{"zeros", std::string(10, '\0'), 400},
        row{"frame_text", "\x81\x85"s, 400}),
    [](const auto& info) { return info.param.name; });

TEST(HttpGate, HostIsNotNeededInHttp10) {
  EXPECT_FALSE(passed(head("GET / HTTP/1.0", "", false)).keep_alive);
  EXPECT_TRUE(passed(head("GET / HTTP/1.0", "Connection: Keep-Alive\r\n", false)).keep_alive);
  EXPECT_FALSE(passed(head("GET / HTTP/1.1", "Connection: x, Close\r\n")).keep_alive);
}

TEST(HttpGate, BoundsTheHead) {
  std::string many;
  for (int i = 0; i < 99; ++i)
    many += "a: b\r\n";
  EXPECT_EQ(verdict(head("GET / HTTP/1.1", many)), 0);
  EXPECT_EQ(verdict(head("GET / HTTP/1.1", many + "a: b\r\n")), 431);
  // S12: 2,000 one-byte fields.
  std::string fields;
  for (int i = 0; i < 2000; ++i)
    fields += "a: b\r\n";
  EXPECT_EQ(verdict(head("GET / HTTP/1.1", fields)), 431);
  // Over 8 KiB before it ends: at once.
  EXPECT_EQ(verdict("GET / HTTP/1.1\r\nHost: a\r\nX-A: " + std::string(8192, 'b')), 431);
  EXPECT_EQ(verdict("GET /" + std::string(8192, 'b')), 414);
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\nX-A: ";
  const auto exact = start + std::string(8192 - start.size() - 4, 'b') + "\r\n\r\n";
  ASSERT_EQ(exact.size(), 8192u);
  EXPECT_EQ(verdict(exact), 0);
  EXPECT_EQ(verdict(start + std::string(8193 - start.size() - 4, 'b') + "\r\n\r\n"), 431);
}

TEST(HttpGate, ReadsBodiesAndUpgrades) {
  EXPECT_EQ(passed(post("Content-Length: 12\r\n")).content_length, 12u);
  EXPECT_TRUE(passed(post("Transfer-Encoding: Chunked\r\n")).chunked);
  EXPECT_TRUE(passed(post("Content-Length: 1\r\nExpect: 100-Continue\r\n")).expect_continue);
  EXPECT_TRUE(
      passed(head("GET /ws HTTP/1.1", "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"))
          .wants_websocket);
  EXPECT_FALSE(passed(head("GET /ws HTTP/1.1", "Upgrade: websocket\r\n")).wants_websocket);
}

TEST(HttpGate, TakesAbsoluteTargetsApart) {
  const auto h = passed(head("GET http://b.example:81/x?y HTTP/1.1"));
  EXPECT_EQ(h.authority, "b.example:81");
  EXPECT_EQ(h.target, "/x?y");
  EXPECT_EQ(passed(head("GET http://b.example HTTP/1.1")).target, "/");
  EXPECT_EQ(passed(head("GET http://b.example?y HTTP/1.1")).target, "/?y");
}

TEST(HttpGate, SplitsAuthorities) {
  using pair = std::pair<std::string, std::string>;
  EXPECT_EQ(split_authority("A.example:80"), (pair{"a.example", "80"}));
  EXPECT_EQ(split_authority("[::1]:80"), (pair{"[::1]", "80"}));
  EXPECT_EQ(split_authority("[::1]"), (pair{"[::1]", ""}));
  for (const char* bad :
       {"", "a:b", "a:123456", "a b", "[::1", "[]", "[::1]x", "a,b", "a/b", ":80", "::1"})
    EXPECT_FALSE(split_authority(bad)) << bad;
}

TEST(PercentDecode, DecodesOnceAndRefusesWhatIsNoText) {
  EXPECT_EQ(percent_decode("a%20b+c", false), "a b+c");
  EXPECT_EQ(percent_decode("a%20b+c", true), "a b c");
  EXPECT_EQ(percent_decode("%252e", false), "%2e");
  EXPECT_EQ(percent_decode("%E3%81%82", false), "あ");
  for (const char* bad :
       {"%", "%4", "%zz", "%4z", "%00", "%0a", "%7f", "%c0%ae", "%ff", "%ed%a0%80", "a%"})
    EXPECT_FALSE(percent_decode(bad, false)) << bad;
}

std::pair<chunk_decoder::state, std::string> decode(std::string_view in, std::size_t max = 100,
                                                    std::size_t step = 0) {
  chunk_decoder d(max);
  std::string out;
  auto s = chunk_decoder::state::more;
  for (std::size_t i = 0; i < in.size() && s == chunk_decoder::state::more;) {
    std::size_t used = 0;
    s = d.feed(in.substr(i, step == 0 ? in.npos : step), out, used);
    i += used;
    if (used == 0) break;
  }
  return {s, out};
}

TEST(ChunkDecoder, JoinsChunksHoweverTheyArrive) {
  const std::string_view in = "3\r\nabc\r\n1;x=y\r\nd\r\n0\r\nX-Trailer: z\r\n\r\n";
  for (std::size_t step : {0u, 1u, 2u, 7u}) {
    const auto [s, out] = decode(in, 100, step);
    EXPECT_EQ(s, chunk_decoder::state::done) << step;
    EXPECT_EQ(out, "abcd");
  }
}

TEST(ChunkDecoder, LeavesWhatStandsBehind) {
  chunk_decoder d(10);
  std::string out;
  std::size_t used = 0;
  EXPECT_EQ(d.feed("0\r\n\r\nGET /", out, used), chunk_decoder::state::done);
  EXPECT_EQ(used, 5u);
}

TEST(ChunkDecoder, RefusesOddChunks) {
  using enum chunk_decoder::state;
  for (const char* in :
       {"0x3\r\nabc\r\n", "10000000000000003\r\nabc", "-3\r\nabc", "3\nabc\r\n", "3\r\nabcde\r\n",
        "\r\nabc", " 3\r\nabc\r\n", "3 \r\nabc\r\n", "3\rabc", "g\r\n", "3;a\x01\r\n",
        "0\r\nno colon\r\n\r\n", "0\r\nbad name: x\r\n\r\n"})
    EXPECT_EQ(decode(in).first, bad) << in;
  // S61: 9 KB of extension; and many small ones.
  EXPECT_EQ(decode("2;" + std::string(9216, 'x') + "\r\nab\r\n").first, bad);
  std::string many;
  for (int i = 0; i < 100; ++i)
    many += "1;" + std::string(100, 'x') + "\r\na\r\n";
  EXPECT_EQ(decode(many, 1000).first, bad);
  // Trailers without end.
  std::string trailers = "0\r\n";
  for (int i = 0; i < 200; ++i)
    trailers += "X-A: bcdefgh\r\n";
  EXPECT_EQ(decode(trailers).first, bad);
}

TEST(ChunkDecoder, StopsAtTheLimitFromTheSizeAlone) {
  using enum chunk_decoder::state;
  EXPECT_EQ(decode("64\r\n", 100).first, more);
  EXPECT_EQ(decode("65\r\n", 100).first, too_large);
  EXPECT_EQ(decode("ffffffff\r\n", 100).first, too_large);
  EXPECT_EQ(decode("32\r\n" + std::string(50, 'a') + "\r\n33\r\n", 100).first, too_large);
}

}  // namespace
}  // namespace parley::net::http
