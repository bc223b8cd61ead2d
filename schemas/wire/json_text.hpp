// Appending JSON to a string: numbers, string literals, fields, lists. Private to json_encode.cpp,
// which knows the names.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace parley::wire::detail {

/// Text as it is; a number.
void put(std::string& out, std::string_view text);
void put(std::string& out, std::int64_t number);
/// A string literal; what is no UTF-8 becomes U+FFFD.
void put_quoted(std::string& out, std::string_view text);

/// Appends `lead` (a literal such as `,"name":`) and the value, a string as a JSON string.
void field(std::string& out, std::string_view lead, std::string_view value);
void field(std::string& out, std::string_view lead, std::int64_t value);
void flag(std::string& out, std::string_view lead, bool value);

/// `[a,b]`, each element written by `each`.
template <class Range, class F> void list(std::string& out, const Range& range, F&& each) {
  out.push_back('[');
  bool first = true;
  for (const auto& element : range) {
    if (!first) out.push_back(',');
    first = false;
    each(element);
  }
  out.push_back(']');
}

}  // namespace parley::wire::detail
