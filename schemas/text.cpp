// The text contract over ICU: UTF-8, blankness, folding, and the checks of names, titles and
// passwords. Called by rooms, people and HTTP handlers before anything is stored; knows no JSON.
#include "schemas/text.hpp"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/ustring.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace parley {

namespace {

constexpr UChar32 zwnj = 0x200C;
constexpr UChar32 zwj = 0x200D;

/// Letters and symbols that show nothing (the contract's "blank").
bool is_filler(UChar32 c) {
  return c == 0x115F || c == 0x1160 || c == 0x2800 || c == 0x3164 || c == 0xFFA0;
}
bool is_space(UChar32 c) { return u_isUWhiteSpace(c) != 0; }
bool is_format(UChar32 c) { return u_charType(c) == U_FORMAT_CHAR; }
bool is_control(UChar32 c) { return u_charType(c) == U_CONTROL_CHAR; }
bool is_line_break(UChar32 c) { return c == 0x2028 || c == 0x2029; }
/// Embeddings, overrides and isolates: they turn around what stands after a name.
bool is_bidi_control(UChar32 c) {
  return (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

/// Calls f(code point) for each; an ill-formed sequence gives -1. Stops early where f returns
/// false.
template <class F> bool each(std::string_view text, F&& f) {
  const auto* s = reinterpret_cast<const std::uint8_t*>(text.data());
  const auto n = static_cast<std::int64_t>(text.size());
  for (std::int64_t i = 0; i < n;) {
    UChar32 c = 0;
    U8_NEXT(s, i, n, c);
    if (!f(c)) return false;
  }
  return true;
}

std::string normalised(std::string_view utf8, const UNormalizer2* (*instance)(UErrorCode*)) {
  UErrorCode status = U_ZERO_ERROR;
  const UNormalizer2* form = instance(&status);
  if (U_FAILURE(status) || utf8.size() > INT32_MAX / 4) return std::string(utf8);
  const auto bytes = static_cast<std::int32_t>(utf8.size());
  std::u16string wide(utf8.size() + 1, u'\0');
  std::int32_t units = 0;
  u_strFromUTF8WithSub(wide.data(), static_cast<std::int32_t>(wide.size()), &units, utf8.data(),
                       bytes, 0xFFFD, nullptr, &status);
  if (U_FAILURE(status)) return std::string(utf8);
  // One code unit never becomes more than 18 (NFKC of U+FDFA); the first try holds nearly always.
  std::u16string out(static_cast<std::size_t>(units) + 32, u'\0');
  std::int32_t length = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    status = U_ZERO_ERROR;
    length = unorm2_normalize(form, wide.data(), units, out.data(),
                              static_cast<std::int32_t>(out.size()), &status);
    if (status != U_BUFFER_OVERFLOW_ERROR) break;
    out.resize(static_cast<std::size_t>(length) + 1);
  }
  if (U_FAILURE(status)) return std::string(utf8);
  std::string narrow(static_cast<std::size_t>(length) * 3 + 1, '\0');
  std::int32_t written = 0;
  u_strToUTF8WithSub(narrow.data(), static_cast<std::int32_t>(narrow.size()), &written, out.data(),
                     length, 0xFFFD, nullptr, &status);
  if (U_FAILURE(status)) return std::string(utf8);
  narrow.resize(static_cast<std::size_t>(written));
  return narrow;
}

failure bad_field(std::string_view field, std::string_view what) {
  return field_failure(errc::bad_request, field, what);
}

std::string over(std::string_view unit, std::size_t is, std::size_t max) {
  return "has " + std::to_string(is) + " " + std::string(unit) + ", at most " +
         std::to_string(max) + " are allowed";
}

constexpr std::string_view unclean = "must be UTF-8 without U+0000";

}  // namespace

std::size_t code_points(std::string_view utf8) {
  return static_cast<std::size_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

bool is_clean_utf8(std::string_view text) {
  return each(text, [](UChar32 c) { return c > 0; });
}

bool is_blank(std::string_view utf8) {
  return each(utf8,
              [](UChar32 c) { return c >= 0 && (is_space(c) || is_format(c) || is_filler(c)); });
}

std::string_view first_code_points(std::string_view utf8, std::size_t n) {
  if (utf8.size() <= n) return utf8;
  std::size_t seen = 0;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    if ((static_cast<unsigned char>(utf8[i]) & 0xC0U) == 0x80U) continue;
    if (seen++ == n) return utf8.substr(0, i);
  }
  return utf8;
}

std::string fold_name(std::string_view utf8) {
  return normalised(utf8, unorm2_getNFKCCasefoldInstance);
}

std::string to_nfc(std::string_view utf8) {
  return is_clean_utf8(utf8) ? normalised(utf8, unorm2_getNFCInstance) : std::string(utf8);
}

std::optional<failure> check_text(std::string_view text, std::size_t max, std::string_view field) {
  if (!is_clean_utf8(text)) return bad_field(field, unclean);
  if (const auto n = code_points(text); n > max)
    return field_failure(errc::too_large, field, over("code points", n, max));
  if (is_blank(text)) return bad_field(field, "must not be blank");
  return std::nullopt;
}

std::optional<failure> check_user_name(std::string_view name) {
  constexpr std::size_t longest = 64;
  constexpr std::string_view field = "name";
  if (!is_clean_utf8(name)) return bad_field(field, unclean);
  if (name.empty()) return bad_field(field, "must not be empty");
  if (const auto n = code_points(name); n > longest)
    return bad_field(field, over("code points", n, longest));
  bool first = true;
  const bool fits = each(name, [&first](UChar32 c) {
    // Joiners belong to words of Indic scripts and Persian, also at their end, and to emoji.
    const bool joiner = (c == zwj || c == zwnj) && !first;
    first = false;
    return joiner || !(is_space(c) || is_control(c) || is_format(c) || is_filler(c));
  });
  if (!fits)
    return bad_field(field, "must have no white space, control, format or invisible characters");
  const auto folded = fold_name(name);
  if (folded.empty()) return bad_field(field, "must not be blank");
  // Compatibility forms can bring in a space that was not there before (U+00A8 becomes space and
  // U+0308).
  if (!each(folded, [](UChar32 c) { return !is_space(c); }))
    return bad_field(field, "must have no character that stands for white space");
  static constexpr std::array<std::string_view, 4> reserved = {"admin", "all", "here", "system"};
  if (std::find(reserved.begin(), reserved.end(), folded) != reserved.end())
    return bad_field(field, "is reserved");
  return std::nullopt;
}

std::optional<failure> check_title(std::string_view text, std::size_t max, std::string_view field) {
  if (!is_clean_utf8(text)) return bad_field(field, unclean);
  if (const auto n = code_points(text); n > max)
    return bad_field(field, over("code points", n, max));
  if (is_blank(text)) return bad_field(field, "must not be blank");
  const bool fits = each(
      text, [](UChar32 c) { return !is_control(c) && !is_line_break(c) && !is_bidi_control(c); });
  if (!fits)
    return bad_field(field, "must have no control characters, line breaks or changes of direction");
  return std::nullopt;
}

std::optional<failure> check_password(std::string_view nfc) {
  constexpr std::size_t shortest = 8, longest = 1024;
  constexpr std::string_view field = "password";
  if (!is_clean_utf8(nfc)) return bad_field(field, unclean);
  if (nfc.size() < shortest || nfc.size() > longest)
    return bad_field(field, "must have 8 to 1024 bytes");
  return std::nullopt;
}

}  // namespace parley
