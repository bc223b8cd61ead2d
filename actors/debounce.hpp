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
    if (first_) return std::nullopt;
    first_ = now;
    return std::min(quiet_, latest_);
  }
  /// The tick fired. `emit` says whether it is due; a value: arm the tick again after that long.
  std::optional<duration> fired(time_point now, bool& emit) {
    emit = false;
    if (!first_) return std::nullopt;
    auto due = std::min(last_ + quiet_, *first_ + latest_);
    if (now < due) return due - now;
    emit = true;
    first_.reset();
    return std::nullopt;
  }
  bool pending() const { return first_.has_value(); }

 private:
  duration quiet_{}, latest_{};
  std::optional<time_point> first_;
  time_point last_{};
};

}  // namespace parley
