// The few things that SOCI does not offer of SQLite: extended error codes, the size of the WAL
// after a commit, an early reset, the state of the transaction. Called by sql.hpp and the writer;
// the only file beside it that sees sqlite3.h is sqlite_raw.cpp, since SOCI wraps that header in a
// namespace.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include <soci/soci.h>

namespace parley::storage::lite {

/// Opens a database file. `read_only`: never writes it, and fails where it does not exist. Throws
/// soci_error.
std::unique_ptr<soci::session> open(const std::string& path, bool read_only);
/// Waits for locks of others for at most this long.
void busy_timeout(soci::session& s, int ms);
/// The extended code of the connection's last error (SQLITE_FULL, SQLITE_IOERR_FSYNC, …).
int extended_error(soci::session& s);
/// True outside a transaction; an error may have rolled it back by itself.
bool autocommit(soci::session& s);
/// Rows changed by the last insert, update or delete.
std::int64_t changes(soci::session& s);
/// Ends a statement's run at once, so that it holds no snapshot.
void reset(soci::statement& st);
/// From now on `*pages` holds the number of pages in the WAL after each commit. It takes the place
/// of SQLite's automatic checkpoints.
void watch_wal(soci::session& s, std::int64_t* pages);
/// The library's version, e.g. "3.40.1".
std::string version();

// Result codes, as sqlite3.h has them.
inline constexpr int ok = 0, error = 1, busy = 5, locked = 6, nomem = 7, read_only = 8,
                     io_error = 10, corrupt = 11, full = 13, cannot_open = 14, too_big = 18,
                     constraint = 19, not_a_database = 26;

}  // namespace parley::storage::lite
