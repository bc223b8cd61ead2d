#include "net/io_thread.hpp"

#include <chrono>

#include "net/address.hpp"
#include "net/relay.hpp"
#include "net/ws_handshake.hpp"

namespace parley::net {

namespace {
// Deadlines are kept to within this; and an idle thread without sockets need not wake as often.
constexpr auto tick_busy = std::chrono::milliseconds(100);
constexpr auto tick_idle = std::chrono::milliseconds(500);
}  // namespace

io_thread::io_thread(std::uint32_t index, server_context& server, clock_fn now)
    : index_(index), server_(server), now_(std::move(now)), work_(context_.get_executor()),
      timer_(context_) {
  take_settings();
  relay_ = std::make_unique<relay_loop>(*this);
}

io_thread::~io_thread() { stop(); }

relay& io_thread::inbox() { return *relay_; }

void io_thread::start() {
  thread_ = std::thread([this] {
    last_turn_.store(steady_ns(), std::memory_order_relaxed);
    arm_tick();
    context_.run();
    relay_->drop_all();
  });
}

void io_thread::stop() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

void io_thread::close_all(int code, std::string reason, std::int64_t spread_ms,
                          std::function<void()> done) {
  post([this, code, reason = std::move(reason), spread_ms, done = std::move(done)]() mutable {
    relay_->close_all(code, std::move(reason), spread_ms * 1'000'000, std::move(done));
  });
}

void io_thread::take_settings() {
  const auto version = server_.settings.version();
  if (version == settings_version_) return;
  settings_version_ = version;
  settings_ = server_.settings.get();
  origins_ = std::make_unique<origin_policy>(settings_->server.public_url,
                                             settings_->server.allowed_origins);
  proxies_ = std::make_unique<proxy_list>(settings_->server.trusted_proxies);
  if (relay_) relay_->settings_changed();
}

void io_thread::tick() {
  last_turn_.store(steady_ns(), std::memory_order_relaxed);
  take_settings();
  relay_->tick(now_());
}

void io_thread::arm_tick() {
  timer_.expires_after(relay_->connections() > 0 ? tick_busy : tick_idle);
  timer_.async_wait([this](boost::system::error_code ec) {
    if (ec) return;
    tick();
    arm_tick();
  });
}

}  // namespace parley::net
