// The strict door before every HTTP request: decides on the raw bytes of a head whether it is one
// that every intermediary reads as we do (RFC 9112), and how its body is framed. Called by
// http_session on each arrival of bytes. Pure: no socket, no clock; it must never accept what two
// parsers could read in two ways.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "schemas/error.hpp"

namespace parley::net::http {

/// Where a head stops being read: protocol.md's 8 KiB and 100 fields.
inline constexpr std::size_t head_bytes_max = 8192;
inline constexpr std::size_t head_fields_max = 100;

/// A whole head that passed.
struct request_head {
  std::string method;  // one of GET HEAD POST PUT PATCH DELETE OPTIONS
  std::string target;  // origin form, as sent: path and query, still encoded
  std::string
      authority;     // of an absolute target, else empty: the caller refuses a foreign one with 421
  std::string host;  // the Host field; empty only in HTTP/1.0
  int minor = 1;     // HTTP/1.minor
  bool keep_alive = true;
  bool expect_continue = false;
  bool wants_websocket = false;  // Connection: upgrade and Upgrade: websocket
  bool chunked = false;
  std::optional<std::uint64_t> content_length;
  std::vector<std::pair<std::string, std::string>> fields;  // names in lower case, values trimmed

  bool has_body() const { return chunked || content_length.value_or(0) > 0; }
  /// The only value of a field; null where it is absent. Of several the first (see `count`).
  const std::string* find(std::string_view name) const;
  std::size_t count(std::string_view name) const;
};

/// What the bytes so far are: a head of `size` bytes, a failure (answer it and close), or not
/// enough yet.
struct need_more {};
struct gate_head {
  request_head head;
  std::size_t size =
      0;  // bytes of the buffer that belong to the head, a leading empty line included
};
using gate_result = std::variant<need_more, gate_head, failure>;

/// Looks at the bytes received so far. Fails as soon as the beginning can no longer become a good
/// head, so that a TLS hello or a line ended by a bare LF is answered at once. `failure::status` is
/// the HTTP status to answer. Cost: linear in `buffer`; `checked` (start with 0) keeps how far the
/// bytes were looked at already.
gate_result examine_head(std::string_view buffer, std::size_t& checked);

/// Splits "host[:port]" ("[v6]:port"); nullopt where it is no authority. The port is empty where
/// none stands.
std::optional<std::pair<std::string, std::string>> split_authority(std::string_view authority);

/// Percent-decodes one path segment or query value, once. nullopt: broken escapes, or bytes that
/// are no clean UTF-8 text (an overlong form, a control character, NUL). `plus`: '+' means a space,
/// as in a query.
std::optional<std::string> percent_decode(std::string_view text, bool plus);

/// Decodes a chunked body as it arrives (RFC 9112 7.1), strictly: CRLF only, at most 8 hex digits
/// of size, at most 256 bytes of extensions per chunk, trailers of at most 1 KiB which are checked
/// and dropped.
class chunk_decoder {
 public:
  explicit chunk_decoder(std::size_t max_body) : max_body_(max_body) {}
  enum class state : std::uint8_t { more, done, bad, too_large };
  /// Takes what it can from `in`, appends the body's bytes to `out`; `used` is how many bytes of
  /// `in` were taken.
  state feed(std::string_view in, std::string& out, std::size_t& used);

 private:
  enum class at : std::uint8_t { size_line, data, data_end, trailer, done, bad };
  at at_ = at::size_line;
  std::string line_;
  std::size_t max_body_, left_ = 0, total_ = 0, trailer_bytes_ = 0, framing_ = 0;
};

}  // namespace parley::net::http
