// One I/O thread: its io_context, its relay, its tick. Sockets live and die on the thread that they
// were given to; other threads reach one by post() or by the relay. Made and joined by the
// composition root (net/app), or by a test.
#pragma once
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "net/doors.hpp"
#include "net/server_context.hpp"

namespace parley::net {

using tcp = boost::asio::ip::tcp;
using io_executor = boost::asio::io_context::executor_type;  // not any_io_executor: it costs an
                                                             // allocation per handler

/// A socket with its place among the open ones: wherever it is moved, the ticket goes along.
struct tcp_socket : boost::asio::basic_stream_socket<tcp, io_executor> {
  using base = boost::asio::basic_stream_socket<tcp, io_executor>;
  using base::base;
  tcp_socket(tcp_socket&&) = default;
  tcp_socket& operator=(tcp_socket&&) = default;
  door_ticket ticket;
};

class relay_loop;     // net/relay.hpp
class origin_policy;  // net/ws_handshake.hpp
class proxy_list;     // net/address.hpp

class io_thread {
 public:
  /// Nanoseconds of a steady clock; tests drive their own.
  using clock_fn = std::function<std::int64_t()>;

  io_thread(std::uint32_t index, server_context& server, clock_fn now = steady_ns);
  ~io_thread();  // stops and joins
  io_thread(const io_thread&) = delete;
  io_thread& operator=(const io_thread&) = delete;

  // ---- any thread
  std::uint32_t index() const { return index_; }
  server_context& server() { return server_; }
  boost::asio::io_context& context() { return context_; }
  io_executor executor() { return context_.get_executor(); }
  /// The inbox of this thread's sockets.
  relay& inbox();
  template <class F> void post(F&& f) { boost::asio::post(context_, std::forward<F>(f)); }
  /// When the loop last came round (steady_ns, never the tests' clock); it comes round at least
  /// every 500 ms, so an older one means that a handler is stuck. 0 before the start.
  std::int64_t last_turn_ns() const { return last_turn_.load(std::memory_order_relaxed); }
  void start();
  /// Ends the loop and joins the thread; what is still open is closed without a word. Not from this
  /// thread itself.
  void stop();
  /// Says `bye` to every WebSocket of this thread and closes it, spread evenly over `spread_ms`,
  /// each with a retry_after_ms of its own; new upgrades are refused from now on. `done` on this
  /// thread when all are gone or have been reset, at most spread_ms + 6 s later.
  void close_all(int code, std::string reason, std::int64_t spread_ms, std::function<void()> done);

  // ---- this thread only
  std::int64_t now() const { return now_(); }
  /// The settings as of the last tick; the reference holds until control returns to the loop.
  const config& settings() const { return *settings_; }
  const origin_policy& origins() const { return *origins_; }
  const proxy_list& proxies() const { return *proxies_; }
  relay_loop& sockets() { return *relay_; }
  /// Looks at every deadline once, as the timer does every 100 ms (tests: after moving their
  /// clock).
  void tick();

 private:
  void arm_tick();
  void take_settings();

  const std::uint32_t index_;
  server_context& server_;
  clock_fn now_;
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<io_executor> work_;
  boost::asio::steady_timer timer_;
  std::uint64_t settings_version_ = 0;
  std::shared_ptr<const config> settings_;
  std::unique_ptr<origin_policy> origins_;
  std::unique_ptr<proxy_list> proxies_;
  std::unique_ptr<relay_loop> relay_;
  std::atomic<std::int64_t> last_turn_{0};
  std::thread thread_;
};

}  // namespace parley::net
