// The grammar of ids and nonces, and fresh random ids.
#include "schemas/ids.hpp"

#include <sodium.h>

#include <algorithm>

namespace parley {

namespace {

constexpr std::size_t longest = 64;

constexpr bool is_alnum(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

}  // namespace

bool is_id(std::string_view text) {
  return !text.empty() && text.size() <= longest &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return is_alnum(c) || c == '_' || c == '.' || c == ':' || c == '-';
         });
}

bool is_nonce(std::string_view text) {
  return !text.empty() && text.size() <= longest &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return is_alnum(c) || c == '_' || c == '-'; });
}

std::string make_id(std::string_view prefix) {
  static constexpr std::string_view alphabet = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::string id(prefix);
  id.reserve(prefix.size() + 16);
  // randombytes_uniform has no modulo bias; it needs no sodium_init for its default source
  // (getrandom).
  for (int i = 0; i < 16; ++i)
    id.push_back(alphabet[randombytes_uniform(static_cast<std::uint32_t>(alphabet.size()))]);
  return id;
}

}  // namespace parley
