// The socket layer over a fake runtime, on a real loopback port, with a clock that tests move.
#pragma once
#include <atomic>
#include <boost/asio/read_until.hpp>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/io_thread.hpp"
#include "net/listener.hpp"
#include "net/relay.hpp"
#include "net/ws_connection.hpp"
#include "tests/support/fake_runtime.hpp"
#include "tests/support/raw_ws_client.hpp"

namespace parley::test {

inline constexpr std::int64_t ms_ns = 1'000'000;

class ws_server {
 public:
  explicit ws_server(config settings = {}, std::uint32_t threads = 1)
      : context(tokens, counters, std::make_shared<const config>(std::move(settings))) {
    for (std::uint32_t i = 0; i < threads; ++i) {
      ios.push_back(std::make_unique<net::io_thread>(i, context, [this] { return clock.load(); }));
      rt.relays.push_back(&ios.back()->inbox());
    }
    context.rt = &rt;
    std::vector<net::io_thread*> all;
    for (auto& io : ios)
      all.push_back(io.get());
    auto opened =
        net::listener::open("127.0.0.1:0", context.entrance, *ios[0], all,
                            [](net::io_thread& io, net::tcp_socket socket, std::string peer) {
                              read_head(io, std::move(socket), std::move(peer));
                            });
    if (!opened) throw std::runtime_error(opened.error().message);
    door = *opened;
    for (auto& io : ios)
      io->start();
    port = static_cast<std::uint16_t>(
        std::stoi(door->authority().substr(door->authority().rfind(':') + 1)));
  }
  ~ws_server() {
    door->close();
    for (auto& io : ios)
      io->stop();
  }

  /// Runs `f` on the thread and waits for it.
  template <class F> void on_thread(F&& f, std::size_t i = 0) {
    std::promise<void> done;
    ios[i]->post([&] {
      f();
      done.set_value();
    });
    done.get_future().wait();
  }
  /// Moves the clock, in steps short enough that no tick seems late, with a tick after each.
  void advance_ms(std::int64_t ms, std::int64_t step_ms = 500) {
    while (ms > 0) {
      const auto step = std::min(ms, step_ms);
      ms -= step;
      clock += step * ms_ns;
      for (std::size_t i = 0; i < ios.size(); ++i)
        on_thread([&] { ios[i]->tick(); }, i);
    }
  }
  std::size_t connections() {
    std::size_t n = 0;
    for (std::size_t i = 0; i < ios.size(); ++i)
      on_thread([&] { n += ios[i]->sockets().connections(); }, i);
    return n;
  }
  /// Whether all connections are gone, without moving the clock; false after 10 s.
  bool wait_gone(std::size_t left = 0) {
    const auto by = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (connections() > left)
      if (std::chrono::steady_clock::now() > by) return false;
    return true;
  }
  /// Reads the client to its end, as raw_ws_client::read_close does, moving the clock: for closes
  /// that wait for a client which cannot answer them. At most 12 s of the server's time.
  int close_of(raw_ws_client& c) {
    for (int i = 0; i < 120; ++i) {
      if (const int code = c.read_close(i < 2 ? 200 : 5); code != -4) return code;
      advance_ms(100);
    }
    return -4;
  }
  raw_ws_client connect(int buffer = 0) {
    raw_ws_client c(port, buffer);
    if (c.upgrade() != 101) throw std::runtime_error("no 101: " + c.head);
    return c;
  }
  /// Connected and greeted; its connection's number in `conn`.
  raw_ws_client greeted(connection_id* conn = nullptr, int buffer = 0,
                        const std::string& user = "ann") {
    auto c = connect(buffer);
    const auto n = rt.opened();
    c.send_text(R"({"op":"hello","id":1,"token":"good-)" + user + "\"}");
    if (!rt.wait_opened(n + 1)) throw std::runtime_error("no session");
    if (conn) *conn = rt.session_at(n)->conn;
    const auto answer = c.next_data();
    if (!answer.is_text()) throw std::runtime_error("no answer to hello");
    return c;
  }
  void post(const connection_id& conn, relay_op op) { rt.to(conn, std::move(op)); }
  void say(const connection_id& conn, const std::string& text) {
    post(conn, deliver{conn, wire::make_frame(text), false});
  }

  std::atomic<std::int64_t> clock{1'000'000'000'000};
  fake_tokens tokens;
  metrics counters;
  fake_runtime rt;
  net::server_context context;
  std::vector<std::unique_ptr<net::io_thread>> ios;
  std::shared_ptr<net::listener> door;
  std::uint16_t port = 0;

 private:
  // As the HTTP side does, without its care: a head, and what came behind it.
  static void read_head(net::io_thread& io, net::tcp_socket socket, std::string peer) {
    struct pending {
      net::tcp_socket socket;
      std::string in;
    };
    auto p = std::make_shared<pending>(pending{std::move(socket), {}});
    boost::asio::async_read_until(p->socket, boost::asio::dynamic_buffer(p->in), "\r\n\r\n",
                                  [&io, p, peer](boost::system::error_code ec, std::size_t n) {
                                    if (ec) return;
                                    net::accept_websocket(io, std::move(p->socket),
                                                          {p->in.substr(0, n), peer},
                                                          p->in.substr(n));
                                  });
  }
};

/// A text payload's frame, as the server sends it.
inline std::string text_frame(std::string_view text) { return *wire::make_frame(text); }

}  // namespace parley::test
