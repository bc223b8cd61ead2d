// The harness' only clock: CLOCK_MONOTONIC in nanoseconds for every latency, CLOCK_REALTIME only to
// be compared with the kernel's receive stamp, which the kernel takes from that clock.
// Called by everything in bench/. Must never mix the two.
#pragma once

#include <cerrno>
#include <cstdint>
#include <ctime>

namespace parley::bench {

using nanos = std::int64_t;

inline constexpr nanos us = 1'000;
inline constexpr nanos ms = 1'000'000;
inline constexpr nanos sec = 1'000'000'000;

inline nanos read_clock(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return static_cast<nanos>(t.tv_sec) * sec + t.tv_nsec;
}

/// Nanoseconds of CLOCK_MONOTONIC.
inline nanos now() { return read_clock(CLOCK_MONOTONIC); }

/// Nanoseconds of CLOCK_REALTIME; only ever subtracted from a kernel receive stamp.
inline nanos wall() { return read_clock(CLOCK_REALTIME); }

/// CPU nanoseconds of the calling thread.
inline nanos thread_cpu() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

/// CPU nanoseconds of this process.
inline nanos process_cpu() { return read_clock(CLOCK_PROCESS_CPUTIME_ID); }

/// Sleeps until the absolute CLOCK_MONOTONIC instant `at` (returns at once when it has passed).
inline void sleep_until(nanos at) {
  timespec t{};
  t.tv_sec = at / sec;
  t.tv_nsec = at % sec;
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) == EINTR) {
  }
}

inline double to_ms(nanos n) { return static_cast<double>(n) / 1e6; }
inline double to_s(nanos n) { return static_cast<double>(n) / 1e9; }

}  // namespace parley::bench
