// A WebSocket text frame as a server sends it (RFC 6455 5.2: FIN, opcode 1, unmasked), built once
// and shared. It stands here and not in net/, since rooms build the frame once and relays only pass
// the bytes on.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace parley::wire {

/// Prebuilt bytes of one or more whole frames, immutable and shared by every connection it goes to.
using frame_ptr = std::shared_ptr<const std::string>;

inline frame_ptr make_frame(std::string_view text) {
  auto f = std::make_shared<std::string>();
  f->reserve(text.size() + 10);
  f->push_back(static_cast<char>(0x81));
  if (text.size() < 126) {
    f->push_back(static_cast<char>(text.size()));
  } else if (text.size() < 65536) {
    f->push_back(static_cast<char>(126));
    f->push_back(static_cast<char>(text.size() >> 8));
    f->push_back(static_cast<char>(text.size() & 0xff));
  } else {
    f->push_back(static_cast<char>(127));
    for (int shift = 56; shift >= 0; shift -= 8)
      f->push_back(static_cast<char>((static_cast<std::uint64_t>(text.size()) >> shift) & 0xff));
  }
  f->append(text);
  return f;
}

}  // namespace parley::wire
