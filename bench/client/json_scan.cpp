// Top-level JSON scanning. See json_scan.hpp.
#include "client/json_scan.hpp"

#include <array>
#include <cstdio>

namespace parley::bench {

namespace {

bool blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// The end (exclusive) of the value that starts at `at`, or npos. Braces inside strings are skipped.
std::size_t value_end(std::string_view s, std::size_t at) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = at; i < s.size(); ++i) {
    const char c = s[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"') {
        in_string = false;
        if (depth == 0) return i + 1;
      }
      continue;
    }
    if (c == '"')
      in_string = true;
    else if (c == '{' || c == '[')
      ++depth;
    else if (c == '}' || c == ']') {
      if (depth == 0) return i;
      if (--depth == 0) return i + 1;
    } else if (depth == 0 && (c == ',' || blank(c)))
      return i;
  }
  return depth == 0 && !in_string ? s.size() : std::string_view::npos;
}

}  // namespace

std::uint64_t leading_number(std::string_view text) {
  std::uint64_t n = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') break;
    n = n * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return n;
}

ObjectScan::ObjectScan(std::string_view text) : text_(text) {
  space();
  if (at_ >= text_.size() || text_[at_] != '{')
    malformed_ = true;
  else
    ++at_;
}

void ObjectScan::space() {
  while (at_ < text_.size() && blank(text_[at_]))
    ++at_;
}

bool ObjectScan::string(std::string_view& out) {
  if (at_ >= text_.size() || text_[at_] != '"') return false;
  const std::size_t from = ++at_;
  while (at_ < text_.size() && text_[at_] != '"')
    at_ += text_[at_] == '\\' ? 2 : 1;
  if (at_ >= text_.size()) return false;
  out = text_.substr(from, at_ - from);
  ++at_;
  return true;
}

bool ObjectScan::next() {
  if (malformed_) return false;
  space();
  if (at_ < text_.size() && text_[at_] == '}') return false;
  if (!first_) {
    if (at_ >= text_.size() || text_[at_] != ',') {
      malformed_ = true;
      return false;
    }
    ++at_;
    space();
  }
  first_ = false;
  if (!string(key_)) {
    malformed_ = true;
    return false;
  }
  space();
  if (at_ >= text_.size() || text_[at_] != ':') {
    malformed_ = true;
    return false;
  }
  ++at_;
  space();
  return skip_value();
}

bool ObjectScan::skip_value() {
  is_string_ = at_ < text_.size() && text_[at_] == '"';
  if (is_string_) {
    if (string(value_)) return true;
    malformed_ = true;
    return false;
  }
  const std::size_t end = value_end(text_, at_);
  if (end == std::string_view::npos || end == at_) {
    malformed_ = true;
    return false;
  }
  value_ = text_.substr(at_, end - at_);
  at_ = end;
  return true;
}

std::uint64_t ObjectScan::number() const { return leading_number(value_); }

bool ArrayScan::next() {
  if (at_ == 0) {
    at_ = text_.find('[');
    if (at_ == std::string_view::npos) {
      at_ = text_.size();
      return false;
    }
    ++at_;
  }
  while (at_ < text_.size() && (blank(text_[at_]) || text_[at_] == ','))
    ++at_;
  if (at_ >= text_.size() || text_[at_] == ']') return false;
  const std::size_t end = value_end(text_, at_);
  if (end == std::string_view::npos || end == at_) return false;
  value_ = text_.substr(at_, end - at_);
  at_ = end;
  return true;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> hex{};
      std::snprintf(hex.data(), hex.size(), "\\u%04x", static_cast<unsigned>(c));
      out.append(hex.data());
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
  return out;
}

}  // namespace parley::bench
