// The pure parts: debounce, rate, meters.
#include <gtest/gtest.h>

#include "actors/debounce.hpp"
#include "actors/meter.hpp"
#include "actors/rate_bucket.hpp"

namespace parley {
namespace {

using std::chrono::milliseconds;

TEST(debounce, fires_quiet_after_the_last_change_and_never_later_than_latest_after_the_first) {
  for (int gap = 10; gap <= 400; gap += 10) {
    debounce d(milliseconds(300), milliseconds(1000));
    debounce::time_point now{}, due{}, first{}, last{};
    bool armed = false;
    std::vector<debounce::time_point> fired;
    for (int t = 0; t <= 5000; t += 10) {
      now = debounce::time_point{milliseconds(t)};
      if (armed && now >= due) {
        bool emit = false;
        auto again = d.fired(now, emit);
        armed = again.has_value();
        if (again) due = now + *again;
        if (emit) {
          EXPECT_LE(now - first, milliseconds(1010)) << gap;
          EXPECT_TRUE(now - last >= milliseconds(300) || now - first >= milliseconds(1000)) << gap;
          fired.push_back(now);
        }
      }
      if (t <= 3000 && t % gap == 0) {
        if (!d.pending()) first = now;
        last = now;
        if (auto after = d.change(now)) {
          ASSERT_FALSE(armed) << "one tick in flight at most";
          armed = true;
          due = now + *after;
        }
      }
    }
    EXPECT_FALSE(fired.empty());
    EXPECT_FALSE(d.pending()) << "the last change is told too";
  }
}

TEST(rate_bucket, grants_a_burst_and_then_the_rate) {
  rate_bucket b;
  std::int64_t now = 1'000'000'000;
  int granted = 0;
  while (b.take(now, 20, 60) == 0)
    ++granted;
  EXPECT_EQ(granted, 60);
  EXPECT_EQ(b.take(now, 20, 60), 51) << "50 ms until the next one, told generously";
  granted = 0;
  for (int ms = 0; ms < 1000; ++ms) {
    now += 1'000'000;
    granted += b.take(now, 20, 60) == 0 ? 1 : 0;
  }
  EXPECT_EQ(granted, 20);
}

TEST(meter_table, an_entry_leaves_with_its_actor) {
  meter_table table;
  auto a = table.add("room", "a");
  auto b = table.add("room", "b");
  EXPECT_EQ(table.snapshot().size(), 2u);
  a.reset();
  auto left = table.snapshot();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].id, "b");
}

}  // namespace
}  // namespace parley
