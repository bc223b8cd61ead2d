// A reader on SQLite: one connection that can only query, its statements prepared once. Several per
// process, each owned by one thread. Called through reader_store; open_store makes it. Writes
// nothing.
#pragma once
#include <memory>
#include <string>

#include "storage/store.hpp"

namespace parley::storage {

/// Throws sql_error where the database cannot be opened.
std::unique_ptr<reader_store> make_sqlite_reader(const std::string& path, metrics& m);

}  // namespace parley::storage
