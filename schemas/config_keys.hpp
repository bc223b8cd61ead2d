// The one table of configuration keys: parsing, checks, `parleyd config` and its documentation are
// driven by it. Private to schemas/config*.cpp.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "schemas/config.hpp"

namespace parley::detail {

/// Where a key's value stands in a config; its alternative is the key's type.
using config_slot = std::variant<std::int64_t* (*)(config&), std::string* (*)(config&),
                                 bool* (*)(config&), std::vector<std::string>* (*)(config&)>;

/// Checks a string or a list's entry; answers what is wrong, or nothing.
using value_check = std::string (*)(std::string_view);

struct config_row {
  std::string_view section, key;
  config_slot slot;
  std::string_view doc;              // one line with unit
  bool restart = false;              // takes effect at the next start only
  std::int64_t least = 0, most = 0;  // integers
  value_check check = nullptr;       // strings and entries of lists
};

std::span<const config_row> config_rows();
bool is_section(std::string_view name);
/// "section.key".
std::string name_of(const config_row& row);
const config_row* find_row(std::string_view section, std::string_view key);
/// The known name that is closest to a wrong one, as ` (did you mean "x"?)`; empty where none is
/// close.
std::string suggestion(std::string_view wrong);

/// `url` without its password.
std::string masked_url(std::string_view url);

}  // namespace parley::detail
