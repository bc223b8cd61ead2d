// URL -> store: the only factory. Takes the lock, makes the data folder and the database, migrates,
// settles the epoch.
#include "storage/open_store.hpp"

#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include "schemas/log.hpp"
#include "storage/epoch.hpp"
#include "storage/migrate.hpp"
#include "storage/owner_lock.hpp"
#include "storage/sqlite_reader.hpp"
#include "storage/sqlite_writer.hpp"
#include "storage/store.hpp"
#include "storage/wal_check.hpp"

namespace parley::storage {
namespace {

namespace fs = std::filesystem;

/// So that a new database is still found there after a loss of power.
void sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

std::optional<failure> make_folder(const fs::path& folder) {
  std::error_code e;
  if (fs::exists(folder, e)) return std::nullopt;
  fs::create_directories(folder, e);
  if (e)
    return fail(errc::unavailable,
                "cannot make the folder " + folder.string() + ": " + e.message());
  fs::permissions(folder, fs::perms::owner_all, e);
  return std::nullopt;
}

struct prepared {
  std::string path;
  std::shared_ptr<void> lock;
};

result<prepared> prepare(const config& c) {
  auto path = sqlite_path(c);
  if (!path) return path.error();
  if (auto why = make_folder(c.storage.data)) return *why;
  if (auto why = make_folder(fs::absolute(*path).parent_path())) return *why;
  auto lock = take_lock(c.storage.data, *path);
  if (!lock) return lock.error();
  return prepared{*path, *lock};
}

connection open_database(const std::string& path) {
  connection c(path, connection::mode::read_write, nullptr);
  c.run("pragma journal_mode=wal");
  c.run("pragma synchronous=full");
  return c;
}

/// After a crash: refuses once where a part of the log is gone, since what had been acknowledged is
/// then missing. The next start goes on with what is there, under a new epoch.
std::optional<failure> check_log(connection& db, std::optional<std::int64_t> expected,
                                 const std::string& path) {
  if (!expected) return std::nullopt;
  const auto found = recovered_log_pages(db);
  if (found >= *expected) return std::nullopt;
  // A relaxed run may lose the end of its log with the machine; the epoch then changes by itself.
  if (lost_by_boot(db, boot_id())) return std::nullopt;
  forget_epoch(db);
  return fail(errc::internal,
              "storage is damaged: of the " + std::to_string(*expected) + " pages in " + path +
                  "-wal only " + std::to_string(found) +
                  " can be read, so that acknowledged messages are missing: restore a backup, or "
                  "start again to go on without them under a new epoch");
}

failure opening(const sql_error& e, const std::string& path) {
  log_error("open", e);
  failure why = to_failure(e);
  why.message += ": " + path + ": " + e.what();
  return why;
}

}  // namespace

result<std::string> sqlite_path(const config& c) {
  const std::string& url = c.storage.url;
  if (url.empty()) return (fs::path(c.storage.data) / "parley.db").string();
  if (url.starts_with("mysql://"))
    return fail(errc::unavailable,
                "storage.url: this version has no MySQL store yet, use sqlite:PATH");
  if (!url.starts_with("sqlite:"))
    return fail(errc::bad_request, "storage.url: must be sqlite:PATH");
  auto path = url.substr(7);
  if (path.empty() || path.find('"') != path.npos || path.find(":memory:") != path.npos)
    return fail(errc::bad_request, "storage.url: no usable path of a database file");
  return path;
}

result<opened> open_writer(const config& c, metrics& m) {
  if (c.storage.durability != "full" && c.storage.durability != "relaxed")
    return fail(errc::bad_request, "storage.durability: must be full or relaxed");
  auto ready = prepare(c);
  if (!ready) return ready.error();
  try {
    opened out;
    out.lock = ready->lock;
    {
      auto all = migrations("sqlite");
      if (!all) return all.error();
      const auto expected = committed_log_pages(ready->path);
      auto db = open_database(ready->path);
      if (auto why = check_log(db, expected, ready->path)) {
        log::error("storage", why->message);
        return *why;
      }
      const auto version = schema_version(db);
      if (!c.storage.migrate && version < static_cast<std::int64_t>(all->size()))
        return fail(errc::unavailable, "the database has schema " + std::to_string(version) +
                                           " and must be migrated: run parleyd migrate");
      auto moved = migrate(db, *all);
      if (!moved) return moved.error();
      out.schema_version = moved->second;
      out.epoch = begin_run(db, c.storage.durability, boot_id());
    }
    sync_folder(fs::absolute(ready->path).parent_path());
    sqlite_writer_options o;
    o.path = ready->path;
    o.full = c.storage.durability == "full";
    o.cache_kib = c.storage.cache_kib;
    o.inject = read_faults();
    out.writer = make_sqlite_writer(o, m);
    return out;
  } catch (const sql_error& e) {
    return opening(e, ready->path);
  }
}

result<std::unique_ptr<reader_store>> open_reader(const config& c, metrics& m) {
  auto path = sqlite_path(c);
  if (!path) return path.error();
  if (std::error_code e; !fs::exists(*path, e))
    return fail(errc::unavailable, "there is no database at " + *path);
  try {
    return make_sqlite_reader(*path, m);
  } catch (const sql_error& e) {
    return opening(e, *path);
  }
}

result<std::pair<std::int64_t, std::int64_t>> migrate_store(const config& c) {
  auto ready = prepare(c);
  if (!ready) return ready.error();
  auto all = migrations("sqlite");
  if (!all) return all.error();
  try {
    const auto expected = committed_log_pages(ready->path);
    auto db = open_database(ready->path);
    if (auto why = check_log(db, expected, ready->path)) return *why;
    return migrate(db, *all);
  } catch (const sql_error& e) {
    return opening(e, ready->path);
  }
}

}  // namespace parley::storage
