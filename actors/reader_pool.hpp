// Up to 8 readers, each a detached actor with its own connection, a bounded queue and a deadline
// for every read. Anyone may read; the answer comes as a continuation in the asking actor.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "actors/interfaces.hpp"
#include "schemas/metrics.hpp"
#include "schemas/time.hpp"

namespace parley {

using store_opener = std::function<result<std::unique_ptr<storage::reader_store>>()>;

/// Spawns one reader. `detached`: on a thread of its own (tests run it on the coordinator).
reader_actor spawn_reader(caf::actor_system& system, meter_table& meters, store_opener open,
                          std::size_t index, bool detached);

class reader_pool {
 public:
  struct slot {
    reader_actor actor;
    std::atomic<std::int64_t> depth{0}, handled{0};
  };
  reader_pool(std::vector<reader_actor> readers, std::int64_t bound,
              std::chrono::milliseconds deadline, metrics& m)
      : bound_(bound), deadline_(deadline), metrics_(m) {
    for (auto& r : readers) {
      slots_.push_back(std::make_unique<slot>());
      slots_.back()->actor = std::move(r);
    }
  }

  /// Runs `fn(store)` on a reader and gives its result<T> to `then` in `self`. `overloaded` at once
  /// where every queue is full; `unavailable` where the deadline passed first.
  template <class T, class Self, class Fn, class Then> void read(Self* self, Fn fn, Then then) {
    auto* s = least();
    if (s == nullptr) {
      metrics_.rejected_overloaded.add();
      then(result<T>(failure{errc::overloaded, "too many reads wait", retry_ms}));
      return;
    }
    struct job final : read_job_base {
      job(Fn&& f, slot& s, metrics& m) : fn(std::move(f)), of(s), counters(m) {}
      ~job() override {
        of.depth.fetch_sub(1, std::memory_order_relaxed);
        of.handled.fetch_add(1, std::memory_order_relaxed);
        counters.reader_queue.add(-1);
      }
      void run(storage::reader_store& store) override { value.emplace(fn(store)); }
      void fail(failure why) override { value.emplace(std::move(why)); }
      Fn fn;
      slot& of;
      metrics& counters;
      std::optional<result<T>> value;
    };
    s->depth.fetch_add(1, std::memory_order_relaxed);
    metrics_.reader_queue.add(1);
    metrics_.reader_queue_peak.peak(metrics_.reader_queue.get());
    auto j = std::make_shared<job>(std::move(fn), *s, metrics_);
    j->deadline_ns = steady_ns() + std::chrono::nanoseconds(deadline_).count();
    auto next = std::make_shared<Then>(std::move(then));
    self->request(s->actor, caf::duration{deadline_ + std::chrono::milliseconds(500)}, read_job{j})
        .then([j, next](const read_done&) { (*next)(std::move(*j->value)); },
              [next](const caf::error&) {
                (*next)(result<T>(
                    failure{errc::unavailable, "the database did not answer in time", retry_ms}));
              });
  }

  const std::vector<std::unique_ptr<slot>>& slots() const { return slots_; }
  std::int64_t bound() const { return bound_; }

 private:
  static constexpr std::int64_t retry_ms = 1000;
  slot* least() {
    slot* best = nullptr;
    std::int64_t depth = bound_;
    for (auto& s : slots_)
      if (auto d = s->depth.load(std::memory_order_relaxed); d < depth) {
        best = s.get();
        depth = d;
      }
    return best;
  }
  std::vector<std::unique_ptr<slot>> slots_;
  std::int64_t bound_;
  std::chrono::milliseconds deadline_;
  metrics& metrics_;
};

}  // namespace parley
