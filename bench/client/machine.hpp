// What the machine is and what its disk does: every result carries it. Called once per run.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace parley::bench {

/// File system of a folder: its type as mounted ("ext4", "tmpfs", "overlay") .
std::string file_system_of(const std::string& folder);

/// True where a folder lies in memory: durability there is no durability, so no result either.
bool in_memory(const std::string& folder);

/// Median and p99 in ms of `fdatasync` after a 4 KiB append in that folder, 200 times.
nlohmann::json fdatasync_of(const std::string& folder);

/// CPU, cores, memory, kernel, load average, compiler, git commit, scheduling class.
nlohmann::json describe_machine(const std::string& source_folder);

}  // namespace parley::bench
