// String literals and numbers of JSON, the inner loop of every frame that is built.
#include "schemas/wire/json_text.hpp"

#include <unicode/utf8.h>

#include <array>
#include <charconv>

#include "schemas/wire/json_encode.hpp"

namespace parley::wire {

namespace {

void put_escape(std::string& out, unsigned char c) {
  static constexpr std::string_view hex = "0123456789abcdef";
  switch (c) {
  case '"':
    out.append("\\\"");
    return;
  case '\\':
    out.append("\\\\");
    return;
  case '\b':
    out.append("\\b");
    return;
  case '\f':
    out.append("\\f");
    return;
  case '\n':
    out.append("\\n");
    return;
  case '\r':
    out.append("\\r");
    return;
  case '\t':
    out.append("\\t");
    return;
  default:
    out.append("\\u00");
    out.push_back(hex[c >> 4U]);
    out.push_back(hex[c & 0xFU]);
  }
}

}  // namespace

namespace detail {

void put(std::string& out, std::string_view text) { out.append(text); }

void put(std::string& out, std::int64_t number) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

/// A string literal. Runs that need no change are appended whole; what is no UTF-8 becomes U+FFFD,
/// since one bad byte would make every receiver close its connection (1007).
void put_quoted(std::string& out, std::string_view text) {
  const auto* s = reinterpret_cast<const std::uint8_t*>(text.data());
  const auto n = static_cast<std::int64_t>(text.size());
  std::int64_t from = 0;
  const auto flush = [&](std::int64_t to) {
    out.append(text.data() + from, static_cast<std::size_t>(to - from));
  };
  out.push_back('"');
  for (std::int64_t i = 0; i < n;) {
    const std::uint8_t c = s[i];
    if (c >= 0x80) {
      const auto start = i;
      UChar32 code_point = 0;
      U8_NEXT(s, i, n, code_point);
      if (code_point < 0) {
        flush(start);
        out.append("\xEF\xBF\xBD");
        from = i;
      }
    } else if (c < 0x20 || c == '"' || c == '\\') {
      flush(i);
      put_escape(out, c);
      from = ++i;
    } else {
      ++i;
    }
  }
  flush(n);
  out.push_back('"');
}

void field(std::string& out, std::string_view lead, std::string_view value) {
  put(out, lead);
  put_quoted(out, value);
}
void field(std::string& out, std::string_view lead, std::int64_t value) {
  put(out, lead);
  put(out, value);
}
void flag(std::string& out, std::string_view lead, bool value) {
  put(out, lead);
  put(out, std::string_view(value ? "true" : "false"));
}

}  // namespace detail

std::string quoted(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  detail::put_quoted(out, text);
  return out;
}

}  // namespace parley::wire
