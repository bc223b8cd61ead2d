// Counts the frames in the bytes that a client sends, ahead of Beast, which tells nobody of
// fragments: an empty one leaves no trace there, and a header without its payload neither. Fed by
// the layer (ws_layer.hpp). It judges nothing; Beast does.
#pragma once
#include <cstddef>
#include <cstdint>

namespace parley::net {

class frame_scanner {
 public:
  void feed(const char* bytes, std::size_t n) {
    for (std::size_t i = 0; i < n;) {
      if (payload_ > 0) {
        const std::uint64_t part = payload_ < n - i ? payload_ : n - i;
        payload_ -= part;
        i += static_cast<std::size_t>(part);
        if (payload_ == 0) end_frame();
        continue;
      }
      head(static_cast<unsigned char>(bytes[i++]));
    }
  }
  /// Data frames of the message under way, its first one included.
  std::uint32_t fragments() const { return fragments_; }
  /// The most that one message ever had.
  std::uint32_t most_fragments() const { return most_; }
  /// Whether a message or a frame has begun that has not ended.
  bool open() const { return unfinished_ || at_ > 0 || payload_ > 0; }
  /// Whole messages so far; wraps.
  std::uint32_t messages() const { return messages_; }

 private:
  void head(unsigned char byte) {
    if (at_ == 0) {
      first_ = byte;
      at_ = 1;
      if (!control() && ++fragments_ > most_) most_ = fragments_;
      return;
    }
    if (at_ == 1) {
      const unsigned length = byte & 0x7f;
      skip_ = (byte & 0x80) ? 4 : 0;  // the mask
      wide_ = length == 126 ? 2 : length == 127 ? 8 : 0;
      length_ = wide_ ? 0 : length;
      at_ = 2;
    } else if (wide_ > 0) {
      length_ = length_ << 8 | byte;
      --wide_;
    } else {
      --skip_;
    }
    if (wide_ > 0 || skip_ > 0) return;
    payload_ = length_;
    at_ = 0;
    if (payload_ == 0) end_frame();
  }
  void end_frame() {
    if (control()) return;
    unfinished_ = (first_ & 0x80) == 0;
    if (unfinished_) return;
    fragments_ = 0;
    ++messages_;
  }
  bool control() const { return (first_ & 0x08) != 0; }

  std::uint64_t payload_ = 0, length_ = 0;
  std::uint32_t fragments_ = 0, most_ = 0, messages_ = 0;
  std::uint8_t first_ = 0, at_ = 0, wide_ = 0, skip_ = 0;
  bool unfinished_ = false;
};

}  // namespace parley::net
