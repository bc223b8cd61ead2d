#include "net/listener.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <future>

#include "net/address.hpp"
#include "net/last_word.hpp"
#include "schemas/log.hpp"

namespace parley::net {

namespace {

using boost::system::error_code;

constexpr int backlog = 4096;  // the kernel cuts it at net.core.somaxconn
// What waits in the kernel counts for no bound of ours and grows to megabytes by itself: a client
// that reads too slowly would be noticed late, and its heart-beat would stand behind all of it. The
// kernel doubles this.
constexpr int send_buffer = 128 * 1024;
constexpr int accepts_per_turn = 64;
// Descriptors that sockets must leave to the database, the log and the admin listener.
constexpr std::uint64_t descriptors_kept = 64;
constexpr auto pause_for = std::chrono::milliseconds(200);
constexpr std::int64_t log_every_ns = 10'000'000'000;

/// An accepted descriptor on its way to its thread.
struct owned_fd {
  int fd = -1;
  explicit owned_fd(int f) : fd(f) {}
  owned_fd(owned_fd&& o) noexcept : fd(std::exchange(o.fd, -1)) {}
  ~owned_fd() {
    if (fd >= 0) ::close(fd);
  }
  int release() { return std::exchange(fd, -1); }
};

struct host_port {
  std::string host;
  std::uint16_t port = 0;
};
std::optional<host_port> split(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  host_port out;
  out.host = address.substr(0, colon);
  if (out.host.size() >= 2 && out.host.front() == '[' && out.host.back() == ']')
    out.host = out.host.substr(1, out.host.size() - 2);
  const char* begin = address.data() + colon + 1;
  const char* end = address.data() + address.size();
  const auto [at, ec] = std::from_chars(begin, end, out.port);
  if (ec != std::errc{} || at != end || begin == end) return std::nullopt;
  if (out.host == "localhost") out.host = "127.0.0.1";
  return out;
}

std::string text_of(const tcp::endpoint& e) {
  const std::string host = e.address().to_string();
  return (e.address().is_v6() ? "[" + host + "]" : host) + ":" + std::to_string(e.port());
}

}  // namespace

struct listener::state : std::enable_shared_from_this<listener::state> {
  state(io_thread& h, std::vector<io_thread*> t, doors& d, serve_fn s)
      : home(h), threads(std::move(t)), entrance(d), serve(std::move(s)), acceptor(h.context()),
        timer(h.context()) {}

  io_thread& home;
  std::vector<io_thread*> threads;
  doors& entrance;
  serve_fn serve;
  boost::asio::basic_socket_acceptor<tcp, io_executor> acceptor;
  boost::asio::steady_timer timer;
  std::size_t next = 0;
  std::int64_t logged_at = std::numeric_limits<std::int64_t>::min() / 2;
  std::int64_t paused_times = 0;
  std::uint64_t fd_limit = ~std::uint64_t{0};

  void wait() {
    acceptor.async_wait(tcp::acceptor::wait_read, [self = shared_from_this()](error_code ec) {
      if (ec || !self->acceptor.is_open()) return;
      self->take();
    });
  }

  void take() {
    const auto& l = home.settings().limits;
    entrance.set_limits(l.connections, l.connections_per_address);
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) fd_limit = limit.rlim_cur;
    for (int i = 0; i < accepts_per_turn; ++i) {
      sockaddr_storage peer{};
      socklen_t size = sizeof peer;
      const int fd = ::accept4(acceptor.native_handle(), reinterpret_cast<sockaddr*>(&peer), &size,
                               SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) return wait();
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
          return pause(errno);
        if (errno == EBADF || errno == EINVAL) return;  // closed
        continue;  // that peer is gone again, or the network hiccuped
      }
      accepted(owned_fd(fd), peer);
      if (static_cast<std::uint64_t>(fd) + descriptors_kept >= fd_limit) return pause(EMFILE);
    }
    // More may wait; sockets' own work has its turn first.
    boost::asio::post(home.context(), [self = shared_from_this()] {
      if (self->acceptor.is_open()) self->take();
    });
  }

  void accepted(owned_fd fd, const sockaddr_storage& peer) {
    ip_bytes ip{};
    tcp protocol = tcp::v4();
    if (peer.ss_family == AF_INET) {
      const auto& v4 = reinterpret_cast<const sockaddr_in&>(peer);
      ip[10] = ip[11] = 0xff;
      std::memcpy(ip.data() + 12, &v4.sin_addr, 4);
    } else {
      const auto& v6 = reinterpret_cast<const sockaddr_in6&>(peer);
      std::memcpy(ip.data(), &v6.sin6_addr, 16);
      protocol = tcp::v6();
    }
    std::string address = ip_text(ip);
    io_thread& io = *threads[next++ % threads.size()];
    door_ticket ticket;
    auto verdict = entrance.enter(address, !home.proxies().trusts(address), ticket);
    if (static_cast<std::uint64_t>(fd.fd) + descriptors_kept >= fd_limit)
      verdict = doors::verdict::all_full;
    io.post([self = shared_from_this(), &io, fd = std::move(fd), protocol,
             address = std::move(address), ticket = std::move(ticket), verdict]() mutable {
      tcp_socket socket(io.context());
      error_code ec;
      socket.assign(protocol, fd.fd, ec);
      if (ec) return;
      fd.release();
      socket.ticket = std::move(ticket);
      if (verdict == doors::verdict::open)
        return self->serve(io, std::move(socket), std::move(address));
      metrics& m = io.server().counters;
      failure why;
      if (verdict == doors::verdict::address_full) {
        m.rejected_rate_limited.add();
        why = {errc::rate_limited, "Too many connections from this address.", 5000};
      } else {
        m.rejected_overloaded.add();
        why = {errc::overloaded, "The server has as many connections as it may.", 2000};
        why.status = 503;
      }
      socket.ticket.release();
      say_and_close(io, std::move(socket), refusal(why));
    });
  }

  /// Those that are left wait in the kernel's backlog.
  void pause(int error) {
    ++paused_times;
    if (const auto now = steady_ns(); now - logged_at >= log_every_ns) {
      logged_at = now;
      log::warn("listener", "Out of descriptors or memory: not accepting for a while",
                {{"reason", std::strerror(error)}, {"open", std::to_string(entrance.open())}});
    }
    timer.expires_after(pause_for);
    timer.async_wait([self = shared_from_this()](error_code ec) {
      if (!ec && self->acceptor.is_open()) self->take();
    });
  }

  void close() {
    error_code ignored;
    timer.cancel();
    acceptor.close(ignored);
  }
};

result<std::shared_ptr<listener>> listener::open(const std::string& address, doors& entrance,
                                                 io_thread& home, std::vector<io_thread*> threads,
                                                 serve_fn serve) {
  const auto where = split(address);
  error_code ec;
  boost::asio::ip::address ip;
  if (where) ip = boost::asio::ip::make_address(where->host, ec);
  if (!where || ec)
    return fail(errc::bad_request,
                "\"" + address + "\" is no address to listen on: HOST:PORT is meant.");
  auto s = std::make_shared<state>(home, std::move(threads), entrance, std::move(serve));
  auto& a = s->acceptor;
  const tcp::endpoint endpoint(ip, where->port);
  const auto failed = [&] {
    return fail(errc::unavailable, "Cannot listen on " + address + ": " + ec.message() + ".");
  };
  if (a.open(endpoint.protocol(), ec); ec) return failed();
  if (a.set_option(tcp::acceptor::reuse_address(true), ec); ec) return failed();
  // Accepted sockets inherit both.
  if (a.set_option(tcp::no_delay(true), ec); ec) return failed();
  if (a.set_option(boost::asio::socket_base::send_buffer_size(send_buffer), ec); ec)
    return failed();
  if (a.bind(endpoint, ec); ec) return failed();
  if (a.listen(backlog, ec); ec) return failed();
  if (a.native_non_blocking(true, ec); ec) return failed();
  std::string authority = text_of(a.local_endpoint(ec));
  if (ec) return failed();
  boost::asio::post(home.context(), [s] {
    if (s->acceptor.is_open()) s->wait();
  });
  return std::shared_ptr<listener>(new listener(std::move(s), std::move(authority)));
}

listener::~listener() { close(); }

void listener::close() {
  auto& context = state_->home.context();
  if (context.stopped() || context.get_executor().running_in_this_thread()) return state_->close();
  auto done = std::make_shared<std::promise<void>>();
  auto closed = done->get_future();
  boost::asio::post(context, [s = state_, done] {
    s->close();
    done->set_value();
  });
  // Where the thread never ran, or ends just now, its context drops the closure and with it the
  // promise.
  while (closed.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout)
    if (context.stopped()) return;
}

}  // namespace parley::net
