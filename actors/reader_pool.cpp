#include "actors/reader_pool.hpp"

#include <caf/actor_system.hpp>
#include <caf/spawn_options.hpp>

#include "actors/metered.hpp"

namespace parley {
namespace {

class reader final : public metered<reader_actor::base> {
 public:
  reader(caf::actor_config& cfg, meter_table& meters, store_opener open, std::size_t index)
      : metered(cfg, meters, "reader", "reader-" + std::to_string(index)), open_(std::move(open)) {}

  behavior_type make_behavior() override {
    return {[this](const read_job& job) -> read_done {
      if (steady_ns() > job.what->deadline_ns) {
        job.what->fail(
            failure{errc::unavailable, "the read waited longer than its deadline", 1000});
        return {};
      }
      // Opened in the thread that uses it; opened anew after a failure.
      if (!store_) {
        auto opened = open_();
        if (!opened) {
          job.what->fail(opened.error());
          return {};
        }
        store_ = std::move(*opened);
      }
      try {
        job.what->run(*store_);
      } catch (const std::exception& e) {
        log::error("storage", "a read failed", {{"error", e.what()}});
        store_.reset();
        job.what->fail(failure{errc::unavailable, "the database does not answer", 1000});
      }
      return {};
    }};
  }

 private:
  store_opener open_;
  std::unique_ptr<storage::reader_store> store_;
};

}  // namespace

reader_actor spawn_reader(caf::actor_system& system, meter_table& meters, store_opener open,
                          std::size_t index, bool detached) {
  if (detached)
    return system.spawn<reader, caf::detached>(std::ref(meters), std::move(open), index);
  return system.spawn<reader>(std::ref(meters), std::move(open), index);
}

}  // namespace parley
