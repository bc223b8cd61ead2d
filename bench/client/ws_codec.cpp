// Framing, masking and the upgrade for the harness. See ws_codec.hpp.
#include "client/ws_codec.hpp"

#include <openssl/evp.h>

#include <array>
#include <cctype>
#include <cstring>
#include <random>

namespace parley::bench {

void append_frame(std::string& out, Opcode op, std::string_view payload, bool masked,
                  std::uint32_t mask) {
  const std::size_t n = payload.size();
  out.push_back(static_cast<char>(0x80U | static_cast<unsigned>(op)));
  const unsigned bit = masked ? 0x80U : 0U;
  if (n < 126) {
    out.push_back(static_cast<char>(bit | n));
  } else if (n < 65536) {
    out.push_back(static_cast<char>(bit | 126U));
    out.push_back(static_cast<char>(n >> 8U));
    out.push_back(static_cast<char>(n));
  } else {
    out.push_back(static_cast<char>(bit | 127U));
    for (int shift = 56; shift >= 0; shift -= 8)
      out.push_back(static_cast<char>(static_cast<std::uint64_t>(n) >> shift));
  }
  if (!masked) {
    out.append(payload);
    return;
  }
  std::array<char, 4> key{};
  for (int i = 0; i < 4; ++i)
    key[static_cast<std::size_t>(i)] = static_cast<char>(mask >> (24 - 8 * i));
  out.append(key.data(), 4);
  const std::size_t at = out.size();
  out.append(payload);
  for (std::size_t i = 0; i < n; ++i)
    out[at + i] = static_cast<char>(out[at + i] ^ key[i & 3U]);
}

namespace {
std::uint32_t random_mask() {
  thread_local std::minstd_rand engine(std::random_device{}());
  return static_cast<std::uint32_t>(engine()) * 2654435761U;
}
}  // namespace

std::string client_frame(Opcode op, std::string_view payload) {
  std::string out;
  out.reserve(payload.size() + 14);
  append_frame(out, op, payload, true, random_mask());
  return out;
}

std::string server_frame(Opcode op, std::string_view payload) {
  std::string out;
  out.reserve(payload.size() + 10);
  append_frame(out, op, payload, false);
  return out;
}

void FrameReader::compact() {
  if (pos_ == buf_.size()) {
    buf_.clear();
    pos_ = 0;
  } else if (pos_ > 65536 || pos_ > buf_.size() / 2) {
    buf_.erase(0, pos_);
    pos_ = 0;
  }
}

bool FrameReader::next(Frame& out) {
  if (give_back_joined_) {
    joined_.clear();
    give_back_joined_ = false;
  }
  while (error_.empty()) {
    const std::size_t have = buf_.size() - pos_;
    if (have < 2) return false;
    auto* p = reinterpret_cast<unsigned char*>(buf_.data() + pos_);
    const bool fin = (p[0] & 0x80U) != 0;
    if ((p[0] & 0x70U) != 0) return fail("reserved bits are set");
    const auto op = static_cast<Opcode>(p[0] & 0x0FU);
    const bool masked = (p[1] & 0x80U) != 0;
    if (masked != expect_masked_) return fail(masked ? "a masked frame" : "an unmasked frame");
    std::size_t head = 2;
    std::uint64_t n = p[1] & 0x7FU;
    if (n == 126) {
      head = 4;
      if (have < head) return false;
      n = static_cast<std::uint64_t>(p[2]) << 8U | p[3];
    } else if (n == 127) {
      head = 10;
      if (have < head) return false;
      n = 0;
      for (int i = 2; i < 10; ++i)
        n = n << 8U | p[i];
    }
    if (n > max_message_) return fail("a frame of " + std::to_string(n) + " bytes");
    const std::size_t key_at = head;
    if (masked) head += 4;
    if (have < head + n) return false;
    char* body = buf_.data() + pos_ + head;
    if (masked)
      for (std::size_t i = 0; i < n; ++i)
        body[i] = static_cast<char>(body[i] ^ buf_[pos_ + key_at + (i & 3U)]);
    pos_ += head + static_cast<std::size_t>(n);
    const std::string_view payload(body, static_cast<std::size_t>(n));
    switch (op) {
    case Opcode::close:
    case Opcode::ping:
    case Opcode::pong:
      if (!fin || n > 125) return fail("a control frame that is fragmented or too long");
      out = {op, payload};
      return true;
    case Opcode::text:
    case Opcode::binary:
      if (in_fragments_) return fail("a new message inside a fragmented one");
      if (fin) {
        out = {op, payload};
        return true;
      }
      in_fragments_ = true;
      fragment_op_ = op;
      joined_.assign(payload);
      break;
    case Opcode::more:
      if (!in_fragments_) return fail("a continuation of nothing");
      if (joined_.size() + n > max_message_) return fail("a message over the limit");
      joined_.append(payload);
      if (fin) {
        in_fragments_ = false;
        give_back_joined_ = true;
        out = {fragment_op_, joined_};
        return true;
      }
      break;
    default:
      return fail("an unknown opcode");
    }
  }
  return false;
}

namespace {

bool same_word(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::tolower(static_cast<unsigned char>(a[i])) !=
        std::tolower(static_cast<unsigned char>(b[i])))
      return false;
  return true;
}

}  // namespace

std::string base64(const unsigned char* data, std::size_t n) {
  std::string out((n + 2) / 3 * 4 + 1, '\0');
  const int written =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()), data, static_cast<int>(n));
  out.resize(static_cast<std::size_t>(written));
  return out;
}

std::string accept_key(std::string_view key) {
  const std::string both = std::string(key) + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  std::array<unsigned char, 20> digest{};
  unsigned size = 0;
  EVP_Digest(both.data(), both.size(), digest.data(), &size, EVP_sha1(), nullptr);
  return base64(digest.data(), digest.size());
}

std::string random_key() {
  std::array<unsigned char, 16> raw{};
  for (std::size_t i = 0; i < raw.size(); i += 4) {
    const std::uint32_t v = random_mask();
    std::memcpy(raw.data() + i, &v, 4);
  }
  return base64(raw.data(), raw.size());
}

std::string upgrade_request(std::string_view host, std::string_view target, std::string_view key,
                            std::string_view subprotocol, std::string_view extra_headers) {
  std::string out = "GET ";
  out.append(target).append(" HTTP/1.1\r\nHost: ").append(host);
  out.append("\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13");
  out.append("\r\nSec-WebSocket-Key: ").append(key).append("\r\n");
  if (!subprotocol.empty())
    out.append("Sec-WebSocket-Protocol: ").append(subprotocol).append("\r\n");
  out.append(extra_headers).append("\r\n");
  return out;
}

std::string_view header_value(std::string_view head, std::string_view name) {
  std::size_t at = head.find("\r\n");
  while (at != std::string_view::npos && at + 2 < head.size()) {
    const std::size_t from = at + 2;
    const std::size_t end = head.find("\r\n", from);
    const std::string_view line =
        head.substr(from, end == std::string_view::npos ? end : end - from);
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos && same_word(line.substr(0, colon), name)) {
      std::string_view value = line.substr(colon + 1);
      while (!value.empty() && (value.front() == ' ' || value.front() == '\t'))
        value.remove_prefix(1);
      while (!value.empty() && (value.back() == ' ' || value.back() == '\t'))
        value.remove_suffix(1);
      return value;
    }
    at = end;
  }
  return {};
}

std::string check_upgrade(std::string_view head, std::string_view key,
                          std::string_view subprotocol) {
  if (head.substr(0, 12) != "HTTP/1.1 101")
    return "the server answered the upgrade with: " +
           std::string(head.substr(0, head.find("\r\n")));
  if (header_value(head, "Sec-WebSocket-Accept") != accept_key(key))
    return "the upgrade's Sec-WebSocket-Accept is wrong";
  if (!subprotocol.empty() && header_value(head, "Sec-WebSocket-Protocol") != subprotocol)
    return "the server did not choose the subprotocol " + std::string(subprotocol);
  return {};
}

}  // namespace parley::bench
