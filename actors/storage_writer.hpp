// The detached actor that owns the writing connection: whatever came while the last commit ran goes
// into the next one, without a timer, so that a lone message waits for nothing and a burst shares
// its commits.
#pragma once
#include <atomic>
#include <functional>
#include <memory>

#include "actors/interfaces.hpp"
#include "schemas/metrics.hpp"

namespace parley {

/// The bound of the writer's queue over all rooms, taken before anything is accepted, and what
/// admin shows of it.
struct writer_gate {
  std::atomic<std::int64_t> depth{0};  // changes proposed and not yet decided
  std::atomic<std::int64_t> bound{20000};
  std::atomic<std::int64_t> batches{0}, last_batch{0}, commit_us_last{0}, commit_since_ns{0};
  std::atomic<bool> healthy{true};
  bool full() const {
    return depth.load(std::memory_order_relaxed) >= bound.load(std::memory_order_relaxed);
  }
};

inline constexpr std::size_t max_batch_changes = 1000;

writer_actor spawn_writer(caf::actor_system& system, meter_table& meters,
                          std::unique_ptr<storage::writer_store> store,
                          std::shared_ptr<writer_gate> gate, metrics& counters, bool detached);

}  // namespace parley
