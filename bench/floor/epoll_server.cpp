// The bare loop. See epoll_server.hpp.
#include "floor/epoll_server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <array>
#include <cstring>

#include "client/http.hpp"

namespace parley::bench {

namespace {
constexpr std::uint64_t listen_tag = ~std::uint64_t{0};
constexpr std::uint64_t timer_tag = listen_tag - 1;
constexpr std::uint64_t signal_tag = listen_tag - 2;
constexpr std::size_t pending_bound = 4U << 20U;

void add(int epoll, int fd, std::uint64_t tag, std::uint32_t events) {
  epoll_event e{};
  e.events = events;
  e.data.u64 = tag;
  ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}
}  // namespace

EpollServer::EpollServer(const std::string& address) : buffer_(65536) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) throw Failure("not HOST:PORT: " + address);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(std::atoi(address.c_str() + colon + 1)));
  if (inet_pton(AF_INET, address.substr(0, colon).c_str(), &at.sin_addr) != 1)
    throw Failure("not an IPv4 address: " + address);
  listener_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 ||
      ::listen(listener_.get(), 4096) != 0)
    throw Failure("cannot listen on " + address + ": " + std::strerror(errno));
  socklen_t size = sizeof at;
  ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&at), &size);
  port_ = ntohs(at.sin_port);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = Fd(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  timer_ = Fd(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  add(epoll_.get(), listener_.get(), listen_tag, EPOLLIN);
  add(epoll_.get(), timer_.get(), timer_tag, EPOLLIN);
  add(epoll_.get(), signals_.get(), signal_tag, EPOLLIN);
}

EpollServer::~EpollServer() = default;

void EpollServer::run() {
  prctl(PR_SET_TIMERSLACK, 1);
  std::array<epoll_event, 512> events{};
  nanos armed = 0;
  for (;;) {
    const nanos want = next_timer();
    if (want != armed) {
      itimerspec t{};
      t.it_value.tv_sec = want / sec;
      t.it_value.tv_nsec = want % sec;
      ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &t, nullptr);
      armed = want;
    }
    const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < n; ++i) {
      const epoll_event& e = events[static_cast<std::size_t>(i)];
      if (e.data.u64 == signal_tag) return;
      if (e.data.u64 == listen_tag) {
        accept_all();
      } else if (e.data.u64 == timer_tag) {
        std::uint64_t times = 0;
        if (::read(timer_.get(), &times, sizeof times) > 0) armed = 0;
        on_timer();
      } else {
        Conn* conn = conns_[static_cast<std::size_t>(e.data.u64)].get();
        if (conn == nullptr || conn->dead) continue;
        if ((e.events & EPOLLOUT) != 0 && !conn->pending.empty()) {
          std::string rest;
          rest.swap(conn->pending);
          send(*conn, rest);
          if (conn->pending.empty()) {
            epoll_event again{};
            again.events = EPOLLIN;
            again.data.u64 = conn->index;
            ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, conn->fd.get(), &again);
          }
        }
        if ((e.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read(*conn);
      }
    }
    on_turn_end();
    for (int i = 0; i < n; ++i) {
      const std::uint64_t tag = events[static_cast<std::size_t>(i)].data.u64;
      if (tag < conns_.size() && conns_[tag] && conns_[tag]->dead) {
        free_.push_back(conns_[tag]->index);
        conns_[tag].reset();
      }
    }
  }
}

void EpollServer::accept_all() {
  for (;;) {
    Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) return;
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    std::uint32_t index = 0;
    if (free_.empty()) {
      index = static_cast<std::uint32_t>(conns_.size());
      conns_.emplace_back();
    } else {
      index = free_.back();
      free_.pop_back();
    }
    conns_[index] = std::make_unique<Conn>();
    conns_[index]->index = index;
    conns_[index]->fd = std::move(fd);
    add(epoll_.get(), conns_[index]->fd.get(), index, EPOLLIN);
  }
}

void EpollServer::drop(Conn& conn) {
  if (conn.dead) return;
  conn.dead = true;
  on_gone(conn);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, conn.fd.get(), nullptr);
  conn.fd.reset();
}

void EpollServer::send(Conn& conn, std::string_view bytes) {
  if (conn.dead) return;
  std::size_t done = 0;
  if (conn.pending.empty()) {
    const ssize_t n =
        ::send(conn.fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0) done = static_cast<std::size_t>(n);
    if (done == bytes.size()) return;
    epoll_event e{};
    e.events = EPOLLIN | EPOLLOUT;
    e.data.u64 = conn.index;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, conn.fd.get(), &e);
  }
  if (conn.pending.size() < pending_bound) conn.pending.append(bytes.substr(done));
}

void EpollServer::read(Conn& conn) {
  const ssize_t n = ::recv(conn.fd.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return drop(conn);
  if (!conn.upgraded) {
    conn.in.append(buffer_.data(), static_cast<std::size_t>(n));
    handle_http(conn);
    if (!conn.upgraded) return;
  } else {
    conn.reader.feed(buffer_.data(), static_cast<std::size_t>(n));
  }
  Frame frame;
  while (!conn.dead && conn.reader.next(frame)) {
    if (frame.op == Opcode::text)
      on_text(conn, frame.payload);
    else if (frame.op == Opcode::ping)
      send(conn, server_frame(Opcode::pong, frame.payload));
    else if (frame.op == Opcode::close)
      return drop(conn);
  }
  if (conn.reader.failed()) drop(conn);
}

void EpollServer::handle_http(Conn& conn) {
  while (!conn.upgraded) {
    const std::size_t end = conn.in.find("\r\n\r\n");
    if (end == std::string::npos) return;
    const std::string head = conn.in.substr(0, end + 2);
    const std::string length(header_value(head, "Content-Length"));
    const std::size_t body = length.empty() ? 0 : std::strtoul(length.c_str(), nullptr, 10);
    if (conn.in.size() < end + 4 + body) return;
    const std::string content = conn.in.substr(end + 4, body);
    conn.in.erase(0, end + 4 + body);
    const std::size_t first = head.find(' ');
    const std::size_t second = head.find(' ', first + 1);
    const std::string method = head.substr(0, first);
    conn.target = head.substr(first + 1, second - first - 1);
    if (!header_value(head, "Sec-WebSocket-Key").empty()) {
      conn.upgraded = true;
      const std::string chosen = on_upgrade(conn);
      std::string answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                           "Connection: Upgrade\r\nSec-WebSocket-Accept: " +
                           accept_key(header_value(head, "Sec-WebSocket-Key")) + "\r\n";
      if (!chosen.empty()) answer += "Sec-WebSocket-Protocol: " + chosen + "\r\n";
      send(conn, answer + "\r\n");
      conn.reader.feed(conn.in.data(), conn.in.size());
      conn.in = {};
      return;
    }
    std::string answer;
    const int status = on_http(method, conn.target, head, content, answer);
    send(conn, "HTTP/1.1 " + std::to_string(status) +
                   " X\r\nContent-Length: " + std::to_string(answer.size()) + "\r\n\r\n" + answer);
  }
}

}  // namespace parley::bench
