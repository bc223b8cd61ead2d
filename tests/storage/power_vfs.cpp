// See power_vfs.hpp.
#include "tests/storage/power_vfs.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <stdexcept>

#include <sqlite3.h>

namespace parley::storage::test {
namespace {

enum class kind { write, truncate, sync, remove };
constexpr auto never = std::numeric_limits<std::size_t>::max();

struct operation {
  kind what;
  std::string name;
  sqlite3_int64 offset = 0;  // truncate: the new size
  std::string data;
  std::size_t durable_at = never;
};

struct disk {
  sqlite3_vfs* base = nullptr;
  std::vector<operation> log;
  std::string full_suffix, sync_suffix, write_suffix;
  std::int64_t full_at = -1;
  int failing_syncs = 0, failing_writes = 0;

  std::string folder;  // what lies below it is recorded
  std::map<std::string, std::vector<std::size_t>>
      pending;  // per file: operations that no sync has reached

  void add(kind what, const std::string& name, sqlite3_int64 offset, std::string data = {}) {
    if (what != kind::sync) pending[name].push_back(log.size());
    log.push_back({what, name, offset, std::move(data)});
  }
  void sync(const std::string& name, bool ok) {
    if (ok)
      for (const auto i : pending[name])
        log[i].durable_at = log.size();
    pending[name].clear();  // after an error no later sync makes them durable
    add(kind::sync, name, 0);
  }
} the;

struct file {
  sqlite3_file head;
  std::string* name;  // null: not recorded
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};
file* of(sqlite3_file* f) { return reinterpret_cast<file*>(f); }

int x_close(sqlite3_file* f) {
  auto* self = of(f);
  const int rc = self->real()->pMethods->xClose(self->real());
  delete self->name;
  self->name = nullptr;
  return rc;
}
int x_read(sqlite3_file* f, void* to, int n, sqlite3_int64 at) {
  return of(f)->real()->pMethods->xRead(of(f)->real(), to, n, at);
}
int x_write(sqlite3_file* f, const void* from, int n, sqlite3_int64 at) {
  auto* self = of(f);
  if (self->name != nullptr) {
    if (the.full_at >= 0 && self->name->ends_with(the.full_suffix) && at + n > the.full_at)
      return SQLITE_FULL;
    if (the.failing_writes > 0 && self->name->ends_with(the.write_suffix)) {
      --the.failing_writes;
      return SQLITE_IOERR_WRITE;
    }
    the.add(kind::write, *self->name, at,
            std::string(static_cast<const char*>(from), static_cast<std::size_t>(n)));
  }
  return self->real()->pMethods->xWrite(self->real(), from, n, at);
}
int x_truncate(sqlite3_file* f, sqlite3_int64 size) {
  auto* self = of(f);
  if (self->name != nullptr) the.add(kind::truncate, *self->name, size);
  return self->real()->pMethods->xTruncate(self->real(), size);
}
// The real file is not synced: what matters is the record.
int x_sync(sqlite3_file* f, int) {
  auto* self = of(f);
  if (self->name == nullptr) return SQLITE_OK;
  const bool fails = the.failing_syncs > 0 && self->name->ends_with(the.sync_suffix);
  the.sync(*self->name, !fails);
  if (!fails) return SQLITE_OK;
  --the.failing_syncs;
  return SQLITE_IOERR_FSYNC;
}
int x_size(sqlite3_file* f, sqlite3_int64* size) {
  return of(f)->real()->pMethods->xFileSize(of(f)->real(), size);
}
int x_lock(sqlite3_file* f, int level) {
  return of(f)->real()->pMethods->xLock(of(f)->real(), level);
}
int x_unlock(sqlite3_file* f, int level) {
  return of(f)->real()->pMethods->xUnlock(of(f)->real(), level);
}
int x_reserved(sqlite3_file* f, int* out) {
  return of(f)->real()->pMethods->xCheckReservedLock(of(f)->real(), out);
}
int x_control(sqlite3_file* f, int op, void* arg) {
  return of(f)->real()->pMethods->xFileControl(of(f)->real(), op, arg);
}
int x_sector(sqlite3_file* f) { return of(f)->real()->pMethods->xSectorSize(of(f)->real()); }
int x_traits(sqlite3_file* f) {
  return of(f)->real()->pMethods->xDeviceCharacteristics(of(f)->real());
}
int x_shm_map(sqlite3_file* f, int page, int size, int extend, void volatile** out) {
  return of(f)->real()->pMethods->xShmMap(of(f)->real(), page, size, extend, out);
}
int x_shm_lock(sqlite3_file* f, int offset, int n, int flags) {
  return of(f)->real()->pMethods->xShmLock(of(f)->real(), offset, n, flags);
}
void x_shm_barrier(sqlite3_file* f) { of(f)->real()->pMethods->xShmBarrier(of(f)->real()); }
int x_shm_unmap(sqlite3_file* f, int remove) {
  return of(f)->real()->pMethods->xShmUnmap(of(f)->real(), remove);
}

const sqlite3_io_methods methods = {
    2,          x_close,       x_read,      x_write,   x_truncate, x_sync,   x_size,
    x_lock,     x_unlock,      x_reserved,  x_control, x_sector,   x_traits, x_shm_map,
    x_shm_lock, x_shm_barrier, x_shm_unmap, nullptr,   nullptr};

int v_open(sqlite3_vfs*, sqlite3_filename name, sqlite3_file* f, int flags, int* out) {
  auto* self = of(f);
  self->head.pMethods = nullptr;
  self->name = nullptr;
  std::memset(static_cast<void*>(self->real()), 0, static_cast<std::size_t>(the.base->szOsFile));
  const int rc = the.base->xOpen(the.base, name, self->real(), flags, out);
  if (rc != SQLITE_OK) return rc;
  constexpr int recorded = SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL;
  if (name != nullptr && (flags & recorded) != 0 && std::string_view(name).starts_with(the.folder))
    self->name = new std::string(name);
  self->head.pMethods = &methods;
  return SQLITE_OK;
}
int v_delete(sqlite3_vfs*, const char* name, int sync_folder) {
  if (std::string_view(name).starts_with(the.folder)) the.add(kind::remove, name, 0);
  return the.base->xDelete(the.base, name, sync_folder);
}
int v_access(sqlite3_vfs*, const char* name, int flags, int* out) {
  return the.base->xAccess(the.base, name, flags, out);
}
int v_full_path(sqlite3_vfs*, const char* name, int n, char* out) {
  return the.base->xFullPathname(the.base, name, n, out);
}
void* v_dl_open(sqlite3_vfs*, const char* name) { return the.base->xDlOpen(the.base, name); }
void v_dl_error(sqlite3_vfs*, int n, char* text) { the.base->xDlError(the.base, n, text); }
void (*v_dl_sym(sqlite3_vfs*, void* lib, const char* name))(void) {
  return the.base->xDlSym(the.base, lib, name);
}
void v_dl_close(sqlite3_vfs*, void* lib) { the.base->xDlClose(the.base, lib); }
int v_random(sqlite3_vfs*, int n, char* out) { return the.base->xRandomness(the.base, n, out); }
int v_sleep(sqlite3_vfs*, int us) { return the.base->xSleep(the.base, us); }
int v_time(sqlite3_vfs*, double* out) { return the.base->xCurrentTime(the.base, out); }
int v_error(sqlite3_vfs*, int n, char* out) { return the.base->xGetLastError(the.base, n, out); }
int v_time64(sqlite3_vfs*, sqlite3_int64* out) {
  return the.base->xCurrentTimeInt64(the.base, out);
}

sqlite3_vfs vfs = {2,        0,          0,        nullptr,     "power",   nullptr,
                   v_open,   v_delete,   v_access, v_full_path, v_dl_open, v_dl_error,
                   v_dl_sym, v_dl_close, v_random, v_sleep,     v_time,    v_error,
                   v_time64, nullptr,    nullptr,  nullptr};

}  // namespace

power_vfs::power_vfs(const std::string& folder) {
  sqlite3_initialize();
  the = {};
  the.folder = folder + "/";
  the.base = sqlite3_vfs_find(nullptr);
  vfs.szOsFile = static_cast<int>(sizeof(file)) + the.base->szOsFile;
  vfs.mxPathname = the.base->mxPathname;
  if (sqlite3_vfs_register(&vfs, 1) != SQLITE_OK)
    throw std::runtime_error("the VFS cannot be registered");
}

power_vfs::~power_vfs() {
  sqlite3_vfs_unregister(&vfs);
  sqlite3_vfs_register(the.base, 1);
}

std::size_t power_vfs::now() const { return the.log.size(); }

std::size_t power_vfs::unsynced(std::size_t point) const {
  std::size_t out = 0;
  for (std::size_t i = 0; i < point; ++i)
    if (the.log[i].what == kind::write && the.log[i].durable_at >= point) ++out;
  return out;
}

void power_vfs::crash(std::size_t point, const std::string& to, std::mt19937& random,
                      bool drop_all) const {
  std::map<std::string, std::string> files;
  // Of a burst of writes that were under way the disk may have done most, some or none.
  const auto keep = random() % 4;
  for (std::size_t i = 0; i < point; ++i) {
    const auto& op = the.log[i];
    if (op.what == kind::sync) continue;
    if (op.what == kind::remove) {
      files.erase(op.name);
      continue;
    }
    std::size_t from = 0, size = op.data.size();
    if (op.durable_at >= point) {
      if (drop_all || random() % 4 >= keep) {
        if (drop_all || random() % 3 != 0 || size <= 512) continue;
        // Torn: a run of whole sectors.
        const auto sectors = size / 512;
        from = (random() % sectors) * 512;
        size = std::min(size - from, (1 + random() % sectors) * 512);
      }
    }
    auto& content = files[op.name];
    const auto offset = static_cast<std::size_t>(op.offset);
    if (op.what == kind::truncate) {
      content.resize(offset);
      continue;
    }
    if (content.size() < offset + from + size) content.resize(offset + from + size);
    content.replace(offset + from, size, op.data, from, size);
  }
  for (const auto& [name, content] : files) {
    const auto path =
        std::filesystem::path(to) / std::filesystem::path(name).lexically_relative(the.folder);
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
  }
}

void power_vfs::full_beyond(const std::string& suffix, std::int64_t bytes) {
  the.full_suffix = suffix;
  the.full_at = bytes;
}
void power_vfs::fail_syncs(const std::string& suffix, int count) {
  the.sync_suffix = suffix;
  the.failing_syncs = count;
}
void power_vfs::fail_writes(const std::string& suffix, int count) {
  the.write_suffix = suffix;
  the.failing_writes = count;
}

}  // namespace parley::storage::test
