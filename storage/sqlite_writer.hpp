// The writer on SQLite: group commits, account changes, checkpoints, and what is done about an
// error. One per process, owned by one thread. Called through writer_store; open_store makes it.
#pragma once
#include <memory>
#include <string>

#include "storage/faults.hpp"
#include "storage/store.hpp"

namespace parley::storage {

struct sqlite_writer_options {
  std::string path;
  bool full = true;  // durability: synchronous=FULL, else NORMAL
  std::int64_t cache_kib = 16384;
  std::int64_t unknown_ms = 60000;  // how long the outcome of a COMMIT is sought
  std::int64_t checkpoint_pages =
      4096;  // 16 MiB in the WAL: then a checkpoint stands between two commits
  std::int64_t idle_checkpoint_pages = 1000;  // 4 MiB: an idle writer does not wait for a pause
  std::int64_t max_pages = 0;                 // tests: the database is full beyond; 0: no bound
  faults inject;
};

/// The store must be open and current (open_store). Throws sql_error where it cannot be opened.
std::unique_ptr<writer_store> make_sqlite_writer(sqlite_writer_options options, metrics& m);

}  // namespace parley::storage
