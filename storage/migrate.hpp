// Brings a database to the current schema by the numbered files of schemas/sql, packed into the
// program. Called by open_store with the store's lock held; each step is one transaction, so that a
// crash leaves the version before or after it, never half.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/sql.hpp"

namespace parley::storage {

struct migration {
  std::int64_t number = 0;
  std::string_view name, sql;
};

/// The packed migrations of a dialect ("sqlite", "mysql") in order. `internal` where a number is
/// missing or twice there.
result<std::vector<migration>> migrations(std::string_view dialect);
/// The same over any files: name and text.
result<std::vector<migration>>
order_migrations(const std::vector<std::pair<std::string_view, std::string_view>>& files,
                 std::string_view dialect);
/// The statements of a file; a semicolon in a string, an identifier or a comment ends none.
std::vector<std::string> split_statements(std::string_view sql);
/// The schema version of a database: 0 where it is empty.
std::int64_t schema_version(connection& c);
/// Applies what is missing; from, to. `conflict` where the database is newer than the program.
result<std::pair<std::int64_t, std::int64_t>> migrate(connection& c,
                                                      const std::vector<migration>& all);

}  // namespace parley::storage
