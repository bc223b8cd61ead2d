// What everything on the network side is given: the gate to the actors, the token checker, the
// counters, the settings. Made by the composition root before the I/O threads; outlives them.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "actors/ports.hpp"
#include "net/doors.hpp"
#include "schemas/config.hpp"
#include "schemas/metrics.hpp"
#include "schemas/time.hpp"

namespace parley {
class runtime;
}

namespace parley::net {

namespace http {
struct services;  // net/http/services.hpp
}

/// The present settings; a reload swaps the whole object. Any thread.
class live_settings {
 public:
  explicit live_settings(std::shared_ptr<const config> first) : now_(std::move(first)) {}
  std::shared_ptr<const config> get() const {
    std::lock_guard hold(lock_);
    return now_;
  }
  /// I/O threads see it at their next tick (io_thread::settings).
  void set(std::shared_ptr<const config> next) {
    std::lock_guard hold(lock_);
    now_ = std::move(next);
    version_.fetch_add(1, std::memory_order_release);
  }
  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  mutable std::mutex lock_;
  std::shared_ptr<const config> now_;
  std::atomic<std::uint64_t> version_{1};
};

struct server_context {
  server_context(const token_checker& t, metrics& m, std::shared_ptr<const config> c)
      : tokens(t), counters(m), settings(std::move(c)) {}

  // The actors. Null until the composition root sets it, which is after the relays exist (the
  // runtime is started with them) and before the I/O threads run.
  runtime* rt = nullptr;
  const token_checker& tokens;
  metrics& counters;
  live_settings settings;
  doors entrance;                  // of the main listener; the admin listener has one of its own
  wall_clock now = system_now_ms;  // for token expiry and `at`
  std::string listen_authority;  // what the main listener is bound to, "127.0.0.1:8080"; set before
                                 // it accepts
  http::services* http = nullptr;     // routes and secrets of the HTTP side; set before it accepts
  std::atomic<bool> stopping{false};  // the listener is closed; new upgrades are answered 503
};

}  // namespace parley::net
