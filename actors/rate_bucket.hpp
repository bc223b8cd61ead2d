// One user's allowance of messages, shared by all sessions of the user: the generic cell rate
// algorithm (ITU-T I.371) in one atomic, so that a send asks no actor. Owned by people, handed out
// with hello.
#pragma once
#include <atomic>
#include <cstdint>

namespace parley {

class rate_bucket {
 public:
  /// Takes one. 0: granted; else milliseconds until one will be. `per_s` >= 1, `burst` >= 1.
  std::int64_t take(std::int64_t now_ns, std::int64_t per_s, std::int64_t burst) {
    const std::int64_t interval = 1'000'000'000 / per_s;
    const std::int64_t slack = interval * (burst - 1);
    auto tat = tat_.load(std::memory_order_relaxed);
    for (;;) {
      auto base = tat > now_ns ? tat : now_ns;
      if (base - now_ns > slack) return (base - now_ns - slack) / 1'000'000 + 1;
      if (tat_.compare_exchange_weak(tat, base + interval, std::memory_order_relaxed)) return 0;
    }
  }

 private:
  std::atomic<std::int64_t> tat_{0};  // theoretical arrival time of the next one
};

}  // namespace parley
