// One actor's counters, bumped by metered<> and readable from any thread without asking the actor;
// and the table of all of them. Knows no CAF.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <typeinfo>
#include <vector>

#include "actors/runtime.hpp"

namespace parley {

/// Mailbox length is `in - done`; `busy_since_ns` is 0 while no handler runs.
struct meter {
  const char* kind = "";
  std::string id;
  std::atomic<std::int64_t> in{0}, done{0}, handled{0}, busy_since_ns{0}, max_ns{0};
  std::atomic<const std::type_info*> busy_with{nullptr};
  std::int64_t length() const {
    return in.load(std::memory_order_relaxed) - done.load(std::memory_order_relaxed);
  }
};
using meter_ptr = std::shared_ptr<meter>;

/// All meters. An entry leaves when its actor does. One mutex, taken at spawn, at the end and for a
/// snapshot.
class meter_table {
 public:
  explicit meter_table(std::int64_t slow_ns = 1'000'000'000) : slow_ns(slow_ns) {}
  /// A new actor's meter; `hold` keeps it in the table as long as it lives.
  meter_ptr add(const char* kind, std::string id);
  std::vector<actor_view> snapshot() const;
  /// A handler over this many nanoseconds is a warning in the log.
  std::atomic<std::int64_t> slow_ns;

 private:
  struct shard {
    mutable std::mutex lock;
    std::vector<meter*> all;
  };
  std::shared_ptr<shard> shard_ = std::make_shared<shard>();
};

/// The readable name of a message type, without its namespace; a literal that lives for ever.
std::string message_name(const std::type_info* type);

}  // namespace parley
