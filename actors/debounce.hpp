// Trailing-edge debounce with an upper bound, as a pure value: no actor, no clock. It fires `quiet`
// after the last change and never later than `latest` after the first, with steady traffic too. At
// most one tick is in flight.
#pragma once
#include <algorithm>
#include <chrono>
#include <optional>

namespace parley {

class debounce {
 public:
  using clock = std::chrono::steady_clock;
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<clock, duration>;

  debounce() = default;
  debounce(duration quiet, duration latest) : quiet_(quiet), latest_(latest) {}

  /// Something changed. A value: arm one tick after that long; none: one is in flight already.
  std::optional<duration> change(time_point now) {
    last_ = now;
    if (pending_) return std::nullopt;
    pending_ = true;
    first_ = now;
    return std::min(quiet_, latest_);
  }
  /// The tick fired. `emit` says whether it is due; a value: arm the tick again after that long.
  std::optional<duration> fired(time_point now, bool& emit) {
    emit = false;
    if (!pending_) return std::nullopt;
    auto due = std::min(last_ + quiet_, first_ + latest_);
    if (now < due) return due - now;
    emit = true;
    pending_ = false;
    return std::nullopt;
  }
  bool pending() const { return pending_; }

 private:
  duration quiet_{}, latest_{};
  bool pending_ = false;
  time_point first_{}, last_{};
};

}  // namespace parley
