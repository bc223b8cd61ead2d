// The server's clock as a port, so that tests drive it.
#pragma once
#include <chrono>
#include <functional>

#include "schemas/ids.hpp"

namespace parley {

/// Wall clock for `at` and token expiry; a room never goes backwards by taking max(last, now).
using wall_clock = std::function<unix_ms()>;
inline unix_ms system_now_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}
/// Monotonic nanoseconds for durations.
inline std::int64_t steady_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace parley
