// A URL taken apart. Used by open_store.cpp and check.cpp; the factory's functions are declared in
// store.hpp.
#pragma once
#include <string>

#include "schemas/config.hpp"

namespace parley::storage {

/// The path of the SQLite database that the configuration names. `unavailable` for mysql://,
/// `bad_request` for what is no database URL.
result<std::string> sqlite_path(const config& c);

}  // namespace parley::storage
