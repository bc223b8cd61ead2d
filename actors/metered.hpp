// Counts what an actor gets and does, from outside: mailbox length, handled, busy since and with
// what. It overrides enqueue and consume of CAF 0.17's scheduled_actor; consume stands in that
// header's private documentation, so a change of CAF must keep tests/actors/meter_test.cpp green.
// Every actor of ours derives from metered<its base>.
#pragma once
#include <caf/event_based_actor.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <exception>

#include "actors/meter.hpp"
#include "schemas/log.hpp"
#include "schemas/time.hpp"

namespace parley {

template <class Base> class metered : public Base {
 public:
  metered(caf::actor_config& cfg, meter_table& table, const char* kind, std::string id)
      : Base(cfg), meter_(table.add(kind, std::move(id))), slow_ns_(&table.slow_ns) {
    // CAF's defaults print to standard output; ours log. A handler that throws ends its actor.
    this->set_exception_handler(
        [m = meter_](caf::scheduled_actor*, std::exception_ptr& e) -> caf::error {
          std::string what = "unknown";
          try {
            std::rethrow_exception(e);
          } catch (const std::exception& x) {
            what = x.what();
          } catch (...) {
            what = "not a std::exception";
          }
          log::error("actor", "a handler threw",
                     {{"actor", std::string(m->kind) + " " + m->id}, {"error", what}});
          return caf::exit_reason::unhandled_exception;
        });
    this->set_down_handler([](caf::scheduled_actor*, caf::down_msg&) {});
  }
  const meter_ptr& own_meter() const { return meter_; }

  using Base::enqueue;
  void enqueue(caf::mailbox_element_ptr m, caf::execution_unit* unit) override {
    meter_->in.fetch_add(1, std::memory_order_relaxed);
    Base::enqueue(std::move(m), unit);
  }
  caf::invoke_message_result consume(caf::mailbox_element& m) override {
    struct scope {
      meter& of;
      std::int64_t started = steady_ns(), slow;
      scope(meter& x, const std::type_info* type, std::int64_t slow_ns) : of(x), slow(slow_ns) {
        of.busy_with.store(type, std::memory_order_relaxed);
        of.busy_since_ns.store(started, std::memory_order_release);
      }
      bool finished = true;
      ~scope() {
        auto took = steady_ns() - started;
        of.busy_since_ns.store(0, std::memory_order_release);
        if (!finished) return;
        of.done.fetch_add(1, std::memory_order_relaxed);
        of.handled.fetch_add(1, std::memory_order_relaxed);
        if (took > of.max_ns.load(std::memory_order_relaxed))
          of.max_ns.store(took, std::memory_order_relaxed);
        if (took > slow)
          log::warn("actor", "slow handler",
                    {{"actor", std::string(of.kind) + " " + of.id},
                     {"message", message_name(of.busy_with.load(std::memory_order_relaxed))},
                     {"ms", std::to_string(took / 1'000'000)}});
      }
    };
    const auto& content = m.content();
    scope busy(*meter_, content.empty() ? nullptr : content.type(0).second,
               slow_ns_->load(std::memory_order_relaxed));
    auto r = Base::consume(m);
    if (r == caf::invoke_message_result::skipped) busy.finished = false;
    return r;
  }

 private:
  meter_ptr meter_;
  const std::atomic<std::int64_t>* slow_ns_;
};

}  // namespace parley
