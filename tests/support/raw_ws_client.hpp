// A WebSocket client that shares no code with the server: blocking socket, own parser, able to send
// what no library would. Every wait has a deadline.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace parley::test {

struct ws_frame {
  enum class kind : std::uint8_t { frame, eof, reset, timeout } what = kind::timeout;
  bool fin = true;
  int opcode = 0, rsv = 0;
  bool masked = false;
  std::string payload;

  bool is_text() const { return what == kind::frame && opcode == 1; }
  bool is_close() const { return what == kind::frame && opcode == 8; }
  bool ended() const { return what == kind::eof || what == kind::reset; }
  /// A close frame's code; 0: none in it, -1: no close frame.
  int code() const {
    if (!is_close()) return -1;
    if (payload.size() < 2) return 0;
    return static_cast<unsigned char>(payload[0]) << 8 | static_cast<unsigned char>(payload[1]);
  }
};

class raw_ws_client {
 public:
  /// `buffer`: SO_RCVBUF and SO_SNDBUF, set before connecting; 0: the kernel's.
  explicit raw_ws_client(std::uint16_t port, int buffer = 0) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (buffer) {
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
      ::setsockopt(fd_, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    }
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0)
      throw std::runtime_error(std::string("connect: ") + std::strerror(errno));
  }
  raw_ws_client(raw_ws_client&& o) noexcept
      : fd_(std::exchange(o.fd_, -1)), in_(std::move(o.in_)) {}
  ~raw_ws_client() {
    if (fd_ >= 0) ::close(fd_);
  }

  int fd() const { return fd_; }
  void vanish(bool with_reset) {
    if (with_reset) {
      linger now{1, 0};
      ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    ::close(std::exchange(fd_, -1));
  }

  /// Sends a head and reads the answer's head; the status, 0 where the server closed without one.
  int upgrade(std::string_view fields = {}, std::string_view behind = {}) {
    std::string head =
        "GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Protocol: parley.v1\r\n";
    head.append(fields).append("\r\n").append(behind);
    send_raw(head);
    return read_head();
  }
  int read_head() {
    while (in_.find("\r\n\r\n") == std::string::npos)
      if (!fill(deadline_in(10'000))) return 0;
    const auto end = in_.find("\r\n\r\n") + 4;
    head = in_.substr(0, end);
    in_.erase(0, end);
    return head.size() > 12 ? std::stoi(head.substr(9, 3)) : 0;
  }
  std::string head;  // of the answer

  bool send_raw(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  static std::string frame(int opcode, std::string_view payload, bool fin = true,
                           bool masked = true, int rsv = 0) {
    std::string out;
    out.push_back(static_cast<char>((fin ? 0x80 : 0) | rsv << 4 | opcode));
    const int bit = masked ? 0x80 : 0;
    const std::size_t n = payload.size();
    if (n < 126) {
      out.push_back(static_cast<char>(bit | static_cast<int>(n)));
    } else if (n < 65536) {
      out.push_back(static_cast<char>(bit | 126));
      out.push_back(static_cast<char>(n >> 8));
      out.push_back(static_cast<char>(n));
    } else {
      out.push_back(static_cast<char>(bit | 127));
      for (int s = 56; s >= 0; s -= 8)
        out.push_back(static_cast<char>(static_cast<std::uint64_t>(n) >> s));
    }
    if (!masked) return out.append(payload);
    const char mask[4] = {0x12, 0x34, 0x56, 0x78};
    out.append(mask, 4);
    for (std::size_t i = 0; i < n; ++i)
      out.push_back(static_cast<char>(payload[i] ^ mask[i % 4]));
    return out;
  }
  bool send_text(std::string_view text) { return send_raw(frame(1, text)); }
  bool send_close(int code, std::string_view reason = {}) {
    std::string payload{static_cast<char>(code >> 8), static_cast<char>(code)};
    return send_raw(frame(8, payload.append(reason)));
  }

  /// The next frame, control frames included.
  ws_frame next(int within_ms = 10'000) {
    const auto by = deadline_in(within_ms);
    while (true) {
      ws_frame f;
      if (parse(f)) return f;
      if (!fill(by)) {
        f.what = end_;
        return f;
      }
    }
  }
  /// The next frame that is no ping.
  ws_frame next_data(int within_ms = 10'000) {
    while (true) {
      auto f = next(within_ms);
      if (f.what != ws_frame::kind::frame || f.opcode != 9) return f;
    }
  }
  /// Reads to the end: the close frame, which it answers, and nothing but EOF behind it. Data
  /// frames before it are dropped, `bye` (the last of them) kept. -2: ended without a close frame,
  /// -3: something came behind it, -4: timeout.
  int read_close(int within_ms = 5'000) {
    while (true) {
      auto f = next(within_ms);
      if (f.what == ws_frame::kind::timeout) return -4;
      if (f.ended()) {
        end = f.what;
        vanish(false);
        return close_code_ == -1 ? -2 : close_code_;
      }
      if (close_code_ != -1) return -3;
      if (f.is_close()) {
        close_code_ = f.code();
        send_raw(frame(8, f.payload.substr(0, 2)));
      }
      if (f.is_text()) last_text = f.payload;
    }
  }
  ws_frame::kind end = ws_frame::kind::timeout;
  std::string last_text;

  /// Whether bytes or the end have come, without taking them.
  bool readable(int within_ms) {
    pollfd p{fd_, POLLIN, 0};
    return !in_.empty() || ::poll(&p, 1, within_ms) > 0;
  }

 private:
  using when = std::chrono::steady_clock::time_point;
  static when deadline_in(int ms) {
    return std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  }

  bool fill(when by) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        by - std::chrono::steady_clock::now());
    pollfd p{fd_, POLLIN, 0};
    if (::poll(&p, 1, static_cast<int>(std::max<std::int64_t>(0, left.count()))) <= 0) {
      end_ = ws_frame::kind::timeout;
      return false;
    }
    char bytes[65536];
    const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
    if (n <= 0) {
      end_ = n == 0 ? ws_frame::kind::eof : ws_frame::kind::reset;
      return false;
    }
    in_.append(bytes, static_cast<std::size_t>(n));
    return true;
  }
  bool parse(ws_frame& f) {
    const auto at = [&](std::size_t i) { return static_cast<unsigned char>(in_[i]); };
    if (in_.size() < 2) return false;
    std::size_t head_size = 2;
    std::uint64_t length = at(1) & 0x7f;
    if (length >= 126) {
      const std::size_t wide = length == 126 ? 2 : 8;
      if (in_.size() < 2 + wide) return false;
      length = 0;
      for (std::size_t i = 0; i < wide; ++i)
        length = length << 8 | at(2 + i);
      head_size += wide;
    }
    if (in_.size() < head_size + length) return false;
    f.what = ws_frame::kind::frame;
    f.fin = at(0) & 0x80;
    f.rsv = at(0) >> 4 & 7;
    f.opcode = at(0) & 15;
    f.masked = at(1) & 0x80;
    f.payload = in_.substr(head_size, static_cast<std::size_t>(length));
    in_.erase(0, head_size + static_cast<std::size_t>(length));
    return true;
  }

  int fd_ = -1, close_code_ = -1;
  std::string in_;
  ws_frame::kind end_ = ws_frame::kind::timeout;
};

}  // namespace parley::test
