// The next layer under beast::websocket::stream: reading goes to the socket, writing into the
// connection's one queue. A thin adapter, included by ws_connection.cpp alone; what the queue
// promises stands in out_queue.hpp.
#pragma once
#include <boost/asio/async_result.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/async_base.hpp>
#include <boost/beast/core/bind_handler.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/core/role.hpp>
#include <memory>
#include <string>
#include <utility>

#include "net/frame_scanner.hpp"
#include "net/out_queue.hpp"

namespace parley::net {

/// A connection's socket: the queue outward, and what is known of the bytes inward.
struct ws_channel final : out_queue {
  struct reader {
    /// Bytes have come and were counted by `scanner`, before Beast sees them.
    virtual void on_bytes() = 0;

   protected:
    ~reader() = default;
  };
  using out_queue::out_queue;

  std::string prefix;  // came behind the head; served first
  std::uint64_t bytes_in = 0,
                mark = 0;          // mark: bytes_in at the last whole message or control frame
  std::uint64_t unframed_max = 0;  // read beyond the mark: reset. 0: no bound
  frame_scanner scanner;
  reader* listener = nullptr;
  traffic* totals = nullptr;

  /// False: too many bytes without a message.
  template <class Buffers> bool count(const Buffers& buffers, std::size_t n) {
    bytes_in += n;
    totals->bytes_in += static_cast<std::int64_t>(n);
    std::size_t left = n;
    for (auto piece : boost::beast::buffers_range_ref(buffers)) {
      const std::size_t part = left < piece.size() ? left : piece.size();
      scanner.feed(static_cast<const char*>(piece.data()), part);
      left -= part;
      if (left == 0) break;
    }
    if (unframed_max && bytes_in - mark > unframed_max) return false;
    if (listener) listener->on_bytes();
    return true;
  }
};

class ws_layer {
  using error_code = boost::system::error_code;

  template <class Handler> struct teardown_op final : out_queue::completion {
    Handler handler;
    explicit teardown_op(Handler&& h) : handler(std::move(h)) {}
    void run(error_code ec) override { handler(ec); }
  };
  template <class Handler, class Buffers>
  struct read_op : boost::beast::async_base<Handler, io_executor> {
    std::shared_ptr<ws_channel> channel;
    Buffers buffers;
    read_op(Handler&& h, std::shared_ptr<ws_channel> c, const Buffers& b)
        : boost::beast::async_base<Handler, io_executor>(std::move(h), c->socket().get_executor()),
          channel(std::move(c)), buffers(b) {}
    void operator()(error_code ec, std::size_t n) {
      if (!ec && !channel->count(buffers, n)) {
        channel->abort();
        ec = boost::asio::error::no_buffer_space;
        n = 0;
      }
      this->complete_now(ec, n);
    }
  };

 public:
  // ---- what Beast asks of a layer: two operations, two hooks. No synchronous calls and no
  // next_layer(), by which its time-outs would close the socket behind the queue's back.
  using executor_type = io_executor;

  explicit ws_layer(std::shared_ptr<ws_channel> channel) : channel_(std::move(channel)) {}
  ws_layer(ws_layer&&) = default;
  ~ws_layer() {
    if (!channel_) return;
    // Beast's operations hold the layer by weak pointers, so it may die with a wait of the queue's
    // pending.
    channel_->listener = nullptr;
    channel_->abandon();
  }
  executor_type get_executor() noexcept { return channel_->socket().get_executor(); }
  ws_channel& channel() { return *channel_; }

  template <class Buffers, class Handler>
  auto async_read_some(const Buffers& buffers, Handler&& handler) {
    return boost::asio::async_initiate<Handler, void(error_code, std::size_t)>(
        [this](auto&& h, const Buffers& b) {
          using handler_type = std::decay_t<decltype(h)>;
          if (auto& prefix = channel_->prefix; !prefix.empty()) {
            const std::size_t n = boost::asio::buffer_copy(b, boost::asio::buffer(prefix));
            prefix.erase(0, n);
            if (prefix.empty()) std::string().swap(prefix);
            error_code ec;
            if (!channel_->count(b, n)) {
              channel_->abort();
              ec = boost::asio::error::no_buffer_space;
            }
            boost::asio::post(get_executor(),
                              boost::beast::bind_front_handler(std::move(h), ec, ec ? 0 : n));
            return;
          }
          channel_->socket().async_read_some(
              b, read_op<handler_type, Buffers>(std::move(h), channel_, b));
        },
        handler, buffers);
  }

  /// Takes the whole sequence, so that no other frame gets between its parts, and completes when it
  /// is queued: were it to complete when written, Beast would read nothing while its pong waits.
  template <class Buffers, class Handler>
  auto async_write_some(const Buffers& buffers, Handler&& handler) {
    return boost::asio::async_initiate<Handler, void(error_code, std::size_t)>(
        [this](auto&& h, const Buffers& b) {
          std::size_t n = boost::asio::buffer_size(b);
          error_code ec;
          if (channel_->failed()) {
            ec = boost::asio::error::connection_reset;
          } else if (n > 0) {
            std::string bytes(n, '\0');
            boost::asio::buffer_copy(boost::asio::buffer(bytes), b);
            if (!channel_->push_control(std::move(bytes)))
              ec = boost::asio::error::connection_reset;
          }
          if (ec) n = 0;
          boost::asio::post(get_executor(),
                            boost::beast::bind_front_handler(std::move(h), ec, n));  // never inline
        },
        handler, buffers);
  }

  template <class Handler>
  friend void async_teardown(boost::beast::role_type, ws_layer& layer, Handler&& handler) {
    layer.channel_->tear_down(
        std::make_unique<teardown_op<std::decay_t<Handler>>>(std::forward<Handler>(handler)));
  }
  friend void beast_close_socket(ws_layer& layer) { layer.channel_->abort(); }

 private:
  std::shared_ptr<ws_channel> channel_;
};

}  // namespace parley::net
