#include "net/last_word.hpp"

#include <array>
#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <memory>

#include "schemas/wire/json_encode.hpp"

namespace parley::net {

namespace {

using boost::system::error_code;
constexpr int lingering_max = 256;
constexpr std::size_t discard_max = 65536;
constexpr auto patience = std::chrono::seconds(2);
std::atomic<int> lingering{0};

struct last_word : std::enable_shared_from_this<last_word> {
  tcp_socket socket;
  boost::asio::steady_timer timer;
  std::string text;
  std::array<char, 1024> rest;
  std::size_t discarded = 0;

  last_word(tcp_socket s, std::string t)
      : socket(std::move(s)), timer(socket.get_executor()), text(std::move(t)) {
    lingering.fetch_add(1, std::memory_order_relaxed);
  }
  ~last_word() { lingering.fetch_sub(1, std::memory_order_relaxed); }

  void run() {
    timer.expires_after(patience);
    timer.async_wait([self = shared_from_this()](error_code ec) {
      if (!ec) self->end();
    });
    boost::asio::async_write(socket, boost::asio::buffer(text),
                             [self = shared_from_this()](error_code ec, std::size_t) {
                               if (ec) return self->end();
                               self->socket.shutdown(tcp_socket::shutdown_send, ec);
                               if (ec) return self->end();
                               self->discard();
                             });
  }
  void discard() {
    socket.async_read_some(boost::asio::buffer(rest),
                           [self = shared_from_this()](error_code ec, std::size_t n) {
                             self->discarded += n;
                             if (ec || self->discarded > discard_max) return self->end();
                             self->discard();
                           });
  }
  void end() {
    error_code ignored;
    timer.cancel();
    socket.close(ignored);
  }
};

std::string_view reason_of(int status) {
  switch (status) {
  case 400:
    return "Bad Request";
  case 401:
    return "Unauthorized";
  case 403:
    return "Forbidden";
  case 404:
    return "Not Found";
  case 426:
    return "Upgrade Required";
  case 429:
    return "Too Many Requests";
  case 503:
    return "Service Unavailable";
  default:
    return "Error";
  }
}

}  // namespace

std::string refusal(const failure& why, const std::string& extra) {
  const int status = why.status ? why.status : http_status(why.code);
  const std::string body = wire::problem_body(why);
  std::string out = "HTTP/1.1 " + std::to_string(status) + ' ';
  out.append(reason_of(status)).append("\r\n");
  if (why.retry_after_ms)
    out += "Retry-After: " + std::to_string((*why.retry_after_ms + 999) / 1000) + "\r\n";
  out += extra;
  out += "Content-Type: application/problem+json\r\nCache-Control: no-store\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body;
  return out;
}

void say_and_close(io_thread&, tcp_socket socket, std::string answer) {
  if (lingering.load(std::memory_order_relaxed) >= lingering_max)
    return;  // closed by its end of scope
  std::make_shared<last_word>(std::move(socket), std::move(answer))->run();
}

}  // namespace parley::net
