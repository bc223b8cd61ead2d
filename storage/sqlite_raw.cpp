// See sqlite_raw.hpp. The only translation unit that includes sqlite3.h (in SOCI's namespace
// sqlite_api).
#include "storage/sqlite_raw.hpp"

#include <mutex>

#include <soci/sqlite3/soci-sqlite3.h>

namespace parley::storage::lite {
namespace {

sqlite_api::sqlite3* handle(soci::session& s) {
  return static_cast<soci::sqlite3_session_backend*>(s.get_backend())->conn_;
}

int on_wal(void* pages, sqlite_api::sqlite3*, const char*, int now) {
  *static_cast<std::int64_t*>(pages) = now;
  return 0;
}

}  // namespace

std::unique_ptr<soci::session> open(const std::string& path, bool read_only) {
  // Every connection belongs to one thread, so that SQLite's own mutex around each call would be
  // for nothing, as would be the one around its count of memory. Both are chosen before the first
  // use only.
  static std::once_flag once;
  std::call_once(once, [] {
    sqlite_api::sqlite3_config(2 /* SQLITE_CONFIG_MULTITHREAD */);
    sqlite_api::sqlite3_config(9 /* SQLITE_CONFIG_MEMSTATUS */, 0);
  });
  if (path.find('"') != std::string::npos)
    throw soci::soci_error("a database path must not contain a quotation mark");
  std::string options = "db=\"" + path + "\"";
  if (read_only) options += " readonly=true";
  return std::make_unique<soci::session>(*soci::factory_sqlite3(), options);
}

void busy_timeout(soci::session& s, int ms) { sqlite_api::sqlite3_busy_timeout(handle(s), ms); }
int extended_error(soci::session& s) { return sqlite_api::sqlite3_extended_errcode(handle(s)); }
bool autocommit(soci::session& s) { return sqlite_api::sqlite3_get_autocommit(handle(s)) != 0; }
std::int64_t changes(soci::session& s) { return sqlite_api::sqlite3_changes(handle(s)); }

void reset(soci::statement& st) {
  auto* backend = static_cast<soci::sqlite3_statement_backend*>(st.get_backend());
  if (backend->stmt_ != nullptr) sqlite_api::sqlite3_reset(backend->stmt_);
}

void watch_wal(soci::session& s, std::int64_t* pages) {
  sqlite_api::sqlite3_wal_hook(handle(s), on_wal, pages);
}

std::string version() { return sqlite_api::sqlite3_libversion(); }

}  // namespace parley::storage::lite
