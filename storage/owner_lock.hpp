// The lock file by which one process owns a store. Taken by open_store; held until the process ends
// or drops it.
#pragma once
#include <memory>
#include <string>

#include "schemas/error.hpp"

namespace parley::storage {

/// Takes DIR/parleyd.lock and, where the database lies elsewhere, DATABASE.lock. `conflict` where
/// another process holds one: the message names it (process, host, since when). Released by the
/// kernel when the process dies.
result<std::shared_ptr<void>> take_lock(const std::string& data_dir, const std::string& database);

}  // namespace parley::storage
