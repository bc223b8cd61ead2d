// The harness' own WebSocket codec (RFC 6455, no extensions), for both roles: the measuring client,
// and the floor and fake servers it is tested against. Called by client/, floor/ and fake/.
// Must not include anything of the server: a load client that shares a codec shares its faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace parley::bench {

enum class Opcode : std::uint8_t { more = 0, text = 1, binary = 2, close = 8, ping = 9, pong = 10 };

/// Appends one unfragmented frame to `out`. Client frames are masked with `mask` (any value).
void append_frame(std::string& out, Opcode op, std::string_view payload, bool masked,
                  std::uint32_t mask = 0x5bd1e995);

std::string client_frame(Opcode op, std::string_view payload);
std::string server_frame(Opcode op, std::string_view payload);

struct Frame {
  Opcode op = Opcode::text;
  std::string_view payload;  // valid until the next call on the reader
};

/// Incremental frame reader. Give it bytes with feed(), take whole messages with next().
/// Fragmented messages are joined. A malformed frame makes failed() true with a reason.
class FrameReader {
 public:
  /// `expect_masked`: true in a server (clients must mask), false in a client.
  explicit FrameReader(bool expect_masked, std::size_t max_message = 1U << 20)
      : expect_masked_(expect_masked), max_message_(max_message) {}

  void feed(const char* data, std::size_t n) {
    if (pos_ > 0) compact();
    buf_.append(data, n);
  }

  /// True and `out` filled when a whole message or control frame is there.
  bool next(Frame& out);

  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }

 private:
  void compact();
  bool fail(std::string why) {
    error_ = std::move(why);
    return false;
  }

  bool expect_masked_;
  std::size_t max_message_;
  std::string buf_;
  std::size_t pos_ = 0;  // bytes of buf_ already given out
  std::string joined_;   // a fragmented message so far
  bool in_fragments_ = false;
  bool give_back_joined_ = false;
  Opcode fragment_op_ = Opcode::text;
  std::string error_;
};

/// The value of Sec-WebSocket-Accept for a key.
std::string accept_key(std::string_view key);

/// 16 random bytes in base64, for Sec-WebSocket-Key.
std::string random_key();

/// The client's request head for an upgrade.
std::string upgrade_request(std::string_view host, std::string_view target, std::string_view key,
                            std::string_view subprotocol, std::string_view extra_headers);

/// Checks a server's answer head; empty when it is a right 101, else what is wrong.
std::string check_upgrade(std::string_view head, std::string_view key,
                          std::string_view subprotocol);

/// A field's value in an HTTP head (name compared without case), empty when absent.
std::string_view header_value(std::string_view head, std::string_view name);

}  // namespace parley::bench
