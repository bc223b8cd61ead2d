// The store's epoch: a random id that changes when numbers could name other events than before.
// Kept in `meta` with what decides about it; called by open_store at the start and by the writer at
// a clean end.
#pragma once
#include <string>
#include <string_view>

#include "storage/sql.hpp"

namespace parley::storage {

/// Reads the epoch, or makes a new one: where there is none (a new store, a backup put back), or
/// where the last run was `relaxed`, did not end cleanly, and the machine has been booted since
/// (what it had acknowledged may be lost). Notes this run's durability and boot, and that it has
/// not ended cleanly. Must be called with synchronous=FULL.
std::string begin_run(connection& c, std::string_view durability, std::string_view boot_id);
/// Whether the last run may have lost what it acknowledged together with the machine: `relaxed`,
/// not ended cleanly, and another boot since.
bool lost_by_boot(connection& c, std::string_view boot_id);
/// So that the next run makes a new epoch.
void forget_epoch(connection& c);
/// Notes a clean end; everything committed before is then on the disk. Must be called with
/// synchronous=FULL.
void end_run(connection& c);
/// /proc/sys/kernel/random/boot_id; where it cannot be read, one of this process alone.
std::string boot_id();

}  // namespace parley::storage
