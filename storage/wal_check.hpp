// Whether the write-ahead log is still all there when a store is opened after a crash. SQLite's
// recovery takes what it can read and is silent about the rest; the index file beside the log,
// which survives the death of a process, knows how much there was. Called by open_store before and
// after it opens the database.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "storage/sql.hpp"

namespace parley::storage {

/// How many pages of the log the last process had committed and not yet copied into the database's
/// file, as its index says; nothing where there is no index that belongs to the log. Must be asked
/// before the database is opened.
std::optional<std::int64_t> committed_log_pages(const std::string& database);

/// What recovery found of them. Must be asked on the first connection. Copies them into the
/// database.
std::int64_t recovered_log_pages(connection& c);

}  // namespace parley::storage
