// The one text contract: what is text, a name, blank; all limits count code points. Uses ICU
// inside.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "schemas/error.hpp"

namespace parley {

/// Number of code points of valid UTF-8.
std::size_t code_points(std::string_view utf8);
/// Valid UTF-8 without U+0000 (lone surrogates cannot be written in valid UTF-8).
bool is_clean_utf8(std::string_view text);
/// Only white space, format characters (Cf) and U+115F, U+1160, U+2800, U+3164, U+FFA0; also the
/// empty text.
bool is_blank(std::string_view utf8);
/// The first `n` code points, never cutting one.
std::string_view first_code_points(std::string_view utf8, std::size_t n);
/// NFKC and case folding: two names are the same when these are equal.
std::string fold_name(std::string_view utf8);
/// NFC, for passwords.
std::string to_nfc(std::string_view utf8);

/// Message text: clean, not blank, at most `max` code points. `field` is named in the error.
std::optional<failure> check_text(std::string_view text, std::size_t max, std::string_view field);
/// A user's name: 1 to 64 code points, no white space, control or format characters, not reserved
/// (admin, all, here, system; compared folded). ZWJ and ZWNJ are allowed inside (not alone).
std::optional<failure> check_user_name(std::string_view name);
/// A room's or display name: clean, not blank, at most `max` code points, no control characters.
std::optional<failure> check_title(std::string_view text, std::size_t max, std::string_view field);
/// Password: NFC, 8 to 1,024 bytes.
std::optional<failure> check_password(std::string_view nfc);

}  // namespace parley
