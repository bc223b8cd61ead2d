// A scanner over the top level of one JSON object, for frames that must be understood in under a
// microsecond and without an allocation. Called by the protocols on the receiving threads.
// Must not be used where a full JSON value is needed; it checks structure, not every detail.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace parley::bench {

/// Walks `{"key": value, …}`. next() gives each key and its raw value: a string value without its
/// quotes (escapes kept as they stand), anything else verbatim. False at the end or when malformed.
class ObjectScan {
 public:
  explicit ObjectScan(std::string_view text);
  bool next();
  std::string_view key() const { return key_; }
  std::string_view value() const { return value_; }
  bool is_string() const { return is_string_; }
  bool malformed() const { return malformed_; }
  std::uint64_t number() const;

 private:
  void space();
  bool string(std::string_view& out);
  bool skip_value();
  std::string_view text_;
  std::size_t at_ = 0;
  std::string_view key_;
  std::string_view value_;
  bool is_string_ = false;
  bool first_ = true;
  bool malformed_ = false;
};

/// Walks `[value, …]` the same way.
class ArrayScan {
 public:
  explicit ArrayScan(std::string_view text) : text_(text) {}
  bool next();
  std::string_view value() const { return value_; }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  std::string_view value_;
};

/// Unsigned decimal at the start of `text`; 0 when there is none.
std::uint64_t leading_number(std::string_view text);

/// `text` as a JSON string with its quotes.
std::string quoted(std::string_view text);

}  // namespace parley::bench
