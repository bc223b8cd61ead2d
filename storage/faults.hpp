// Faults for tests, from the environment variable PARLEY_FAULTS (`name=number`, separated by
// commas). They exist only in builds with PARLEY_FAULTS defined; everywhere else `faults` is empty
// and costs nothing. Read by sqlite_writer, and by the writer and room actors.
#pragma once
#include <cstdint>

namespace parley::storage {

#ifdef PARLEY_FAULTS
inline constexpr bool faults_built_in = true;
#else
inline constexpr bool faults_built_in = false;
#endif

struct faults {
  std::int64_t commit_delay_ms = 0;  // each COMMIT waits this long before it
  std::int64_t sync_off = 0;         // 1: synchronous=OFF, whatever the durability
  std::int64_t storage_hang_ms =
      0;                         // a batch with the message text "!hang" blocks this long in COMMIT
  std::int64_t commit_fail = 0;  // every Nth COMMIT fails and has not happened
  std::int64_t ack_before_commit = 0;   // 1: the writer tells rooms before it commits
  std::int64_t stuck_room_ms = 0;       // a room's handler blocks this long on the text "!stuck"
  std::int64_t commit_lost_answer = 0;  // every Nth COMMIT happens and is reported as failed
};

/// What the environment asks for; all zero without PARLEY_FAULTS defined. An unknown name ends the
/// process: a fault that is silently not injected would let a test pass that tests nothing.
faults read_faults();

}  // namespace parley::storage
