#include "actors/storage_writer.hpp"

#include <caf/actor_system.hpp>
#include <caf/spawn_options.hpp>

#include <unordered_map>

#include "actors/metered.hpp"
#include "storage/faults.hpp"

namespace parley {
namespace {

class writer final : public metered<writer_actor::base> {
 public:
  writer(caf::actor_config& cfg, meter_table& meters,
         std::shared_ptr<std::unique_ptr<storage::writer_store>> store,
         std::shared_ptr<writer_gate> gate, metrics& counters)
      : metered(cfg, meters, "writer", "writer"), store_(std::move(*store)), gate_(std::move(gate)),
        metrics_(counters) {}

  behavior_type make_behavior() override {
    arm_idle(idle_first_ms);
    return {
        [this](const proposal& p, const room_link_ptr& from) { on_proposal(p, from); },
        [this](const flush_now&) {
          flush_armed_ = false;
          flush();
        },
        [this](const writer_idle&) {
          auto next = store_->idle();
          gate_->healthy.store(store_->healthy(), std::memory_order_relaxed);
          arm_idle(next);
        },
        [this](const apply_account& a) -> account_result {
          flush();  // in the order in which things came
          mark_busy scope(*gate_);
          auto r = store_->apply(*a.what);
          gate_->healthy.store(store_->healthy(), std::memory_order_relaxed);
          return account_result{std::make_shared<result<storage::account>>(std::move(r))};
        },
        [this](const flush_all&) -> flushed {
          flush();
          return {};
        },
    };
  }

 private:
  static constexpr std::int64_t idle_first_ms = 1000;

  struct mark_busy {
    writer_gate& gate;
    explicit mark_busy(writer_gate& g) : gate(g) { gate.commit_since_ns.store(steady_ns()); }
    ~mark_busy() { gate.commit_since_ns.store(0); }
  };
  // All that one room proposed for the coming commit.
  struct entry {
    room_link_ptr from;
    std::uint64_t generation = 0;
    std::vector<std::int64_t> proposed_ns;
    bool told = false;  // by a fault
  };

  /// The fault ack_before_commit: what a server does that takes a wish for a commit. The checkers
  /// must see it.
  void lie(const std::vector<storage::room_share>& run, const std::vector<std::size_t>& which,
           std::vector<entry>& entries) {
    for (std::size_t k = 0; k < run.size(); ++k) {
      bool messages = true;
      for (const auto& c : run[k].changes)
        messages &= std::holds_alternative<storage::append_message>(c.what);
      if (!messages) continue;
      auto results = std::make_shared<std::vector<storage::change_result>>(run[k].changes.size());
      auto& e = entries[which[k]];
      e.told = true;
      send(e.from->actor, commit_done{e.generation, std::move(results), steady_ns()});
    }
  }

  void on_proposal(const proposal& p, const room_link_ptr& from) {
    if (p.share->changes.empty()) return;
    // The same room's proposals join one share as long as they were decided on the same line of
    // state.
    auto at = p.room == room_key{} ? index_.end() : index_.find(p.room);
    if (at != index_.end() && entries_[at->second].generation == p.generation) {
      auto& share = shares_[at->second];
      for (auto& c : p.share->changes)
        share.changes.push_back(std::move(c));
      entries_[at->second].proposed_ns.push_back(p.proposed_ns);
    } else {
      if (at != index_.end()) flush();  // another generation: the old one's result first
      if (p.room != room_key{}) index_[p.room] = shares_.size();
      shares_.push_back(std::move(*p.share));
      entries_.push_back(entry{from, p.generation, {p.proposed_ns}});
    }
    pending_ += shares_.empty() ? 0 : 1;
    if (pending_ >= max_batch_changes) return flush();
    if (!flush_armed_) {
      // Behind everything that has queued up while the last commit ran.
      flush_armed_ = true;
      send(this, flush_now{});
    }
  }

  void flush() {
    if (shares_.empty()) return;
    auto shares = std::move(shares_);
    auto entries = std::move(entries_);
    shares_.clear();
    entries_.clear();
    index_.clear();
    pending_ = 0;
    // A generation that met a duplicate or a refusal is over: what its room proposed behind it is
    // void.
    std::vector<storage::room_share> run;
    std::vector<std::size_t> which;
    std::int64_t changes = 0;
    std::vector<storage::share_result> results(shares.size());
    for (std::size_t i = 0; i < shares.size(); ++i) {
      changes += static_cast<std::int64_t>(shares[i].changes.size());
      auto ended = over_.find(shares[i].room);
      if (shares[i].room != room_key{} && ended != over_.end()) {
        if (entries[i].generation <= ended->second) {
          for (std::size_t k = 0; k < shares[i].changes.size(); ++k) {
            storage::change_result r;
            r.what = storage::outcome::superseded;
            results[i].results.push_back(std::move(r));
          }
          continue;
        }
        over_.erase(ended);
      }
      which.push_back(i);
      run.push_back(std::move(shares[i]));
    }
    auto started = steady_ns();
    if constexpr (storage::faults_built_in)
      if (faults_.ack_before_commit != 0) lie(run, which, entries);
    if (!run.empty()) {
      mark_busy scope(*gate_);
      for (auto i : which)
        for (auto at : entries[i].proposed_ns)
          metrics_.stages[static_cast<std::size_t>(stage::queue)].observe_ns(started - at);
      auto done = store_->commit(run);
      for (std::size_t k = 0; k < which.size(); ++k) {
        results[which[k]] = std::move(done[k]);
        for (const auto& r : results[which[k]].results)
          if (r.what != storage::outcome::committed && run[k].room != room_key{}) {
            over_[run[k].room] = entries[which[k]].generation;
            break;
          }
      }
      gate_->healthy.store(store_->healthy(), std::memory_order_relaxed);
    }
    auto ended = steady_ns();
    gate_->batches.fetch_add(1);
    gate_->last_batch.store(changes);
    gate_->commit_us_last.store((ended - started) / 1000);
    metrics_.stages[static_cast<std::size_t>(stage::store)].observe_ns(ended - started);
    gate_->depth.fetch_sub(changes);
    metrics_.writer_queue.set(gate_->depth.load());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].told) continue;
      send(entries[i].from->actor,
           commit_done{
               entries[i].generation,
               std::make_shared<std::vector<storage::change_result>>(std::move(results[i].results)),
               ended});
    }
  }

  void arm_idle(std::int64_t ms) {
    delayed_send(this, std::chrono::milliseconds(ms < 100 ? 100 : ms), writer_idle{});
  }

  storage::faults faults_ = storage::read_faults();
  std::unique_ptr<storage::writer_store> store_;
  std::shared_ptr<writer_gate> gate_;
  metrics& metrics_;
  std::vector<storage::room_share> shares_;
  std::vector<entry> entries_;
  std::unordered_map<room_key, std::size_t> index_;
  std::unordered_map<room_key, std::uint64_t>
      over_;  // rooms whose generation ended and that have not proposed anew
  std::size_t pending_ = 0;
  bool flush_armed_ = false;
};

}  // namespace

writer_actor spawn_writer(caf::actor_system& system, meter_table& meters,
                          std::unique_ptr<storage::writer_store> store,
                          std::shared_ptr<writer_gate> gate, metrics& counters, bool detached) {
  auto box = std::make_shared<std::unique_ptr<storage::writer_store>>(std::move(store));
  if (detached)
    return system.spawn<writer, caf::detached>(std::ref(meters), std::move(box), std::move(gate),
                                               std::ref(counters));
  return system.spawn<writer>(std::ref(meters), std::move(box), std::move(gate),
                              std::ref(counters));
}

}  // namespace parley
