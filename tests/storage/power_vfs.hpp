// A disk for SQLite that records every write, sync and truncation, so that the state after a loss
// of power at any point can be made: what was not synced is dropped, torn at 512 bytes, or kept, at
// random. It also fails on request: full, or a sync that reports an error (whose writes no later
// sync makes durable, as on Linux).
#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace parley::storage::test {

/// While one exists it is the default of all connections that are opened. One at a time.
class power_vfs {
 public:
  /// Records the databases in this folder.
  explicit power_vfs(const std::string& folder);
  ~power_vfs();
  power_vfs(const power_vfs&) = delete;
  power_vfs& operator=(const power_vfs&) = delete;

  /// The number of recorded operations: a point in time.
  std::size_t now() const;
  /// Writes the files as a loss of power after `point` operations leaves them; `base` is the folder
  /// they were in. Nothing of what was not synced is kept where `drop_all`.
  void crash(std::size_t point, const std::string& to, std::mt19937& random,
             bool drop_all = false) const;
  /// How many writes were not synced at that point.
  std::size_t unsynced(std::size_t point) const;

  /// From now on writes that make the file of this suffix longer than `bytes` say that the disk is
  /// full; -1: off.
  void full_beyond(const std::string& suffix, std::int64_t bytes);
  /// The next `count` syncs of files with this suffix fail.
  void fail_syncs(const std::string& suffix, int count);
  /// The next `count` writes to files with this suffix fail with an I/O error.
  void fail_writes(const std::string& suffix, int count);
};

}  // namespace parley::storage::test
