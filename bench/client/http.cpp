// Sockets and blocking HTTP with deadlines. See http.hpp.
#include "client/http.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include <array>
#include <charconv>
#include <cstring>

#include "client/link.hpp"
#include "client/ws_codec.hpp"

namespace parley::bench {

Endpoint parse_endpoint(std::string_view text) {
  constexpr std::string_view scheme = "http://";
  if (text.substr(0, scheme.size()) == scheme) text.remove_prefix(scheme.size());
  const std::size_t colon = text.rfind(':');
  Endpoint out;
  const std::string_view port = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (error != std::errc{} || end != port.data() + port.size() || out.port <= 0 || out.port > 65535)
    throw Failure("not HOST:PORT: " + std::string(text));
  out.host = std::string(text.substr(0, colon));
  if (out.host == "localhost") out.host = "127.0.0.1";
  in_addr check{};
  if (inet_pton(AF_INET, out.host.c_str(), &check) != 1)
    throw Failure("the host must be an IPv4 address or localhost: " + out.host);
  return out;
}

Fd dial_async(const Endpoint& to) {
  const NamespaceGuard inside(to.netns);
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) throw Failure(std::string("socket: ") + std::strerror(errno));
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(to.port));
  inet_pton(AF_INET, to.host.c_str(), &address.sin_addr);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 &&
      errno != EINPROGRESS)
    throw Failure("cannot connect to " + to.text() + ": " + std::strerror(errno));
  return fd;
}

namespace {
// Waits for `events` until the deadline; false on timeout.
bool wait_for(int fd, short events, nanos deadline) {
  for (;;) {
    const nanos left = deadline - now();
    if (left <= 0) return false;
    pollfd p{fd, events, 0};
    const int n = ::poll(&p, 1, static_cast<int>(left / ms) + 1);
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}
}  // namespace

Fd dial(const Endpoint& to, nanos timeout) {
  Fd fd = dial_async(to);
  if (!wait_for(fd.get(), POLLOUT, now() + timeout))
    throw Failure("no connection to " + to.text() + " within " + std::to_string(timeout / ms) +
                  " ms");
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) throw Failure("cannot connect to " + to.text() + ": " + std::strerror(error));
  return fd;
}

HttpAnswer HttpClient::call(std::string_view method, std::string_view target,
                            std::string_view body) {
  return call_as(bearer_, method, target, body);
}

HttpAnswer HttpClient::call_as(std::string_view bearer, std::string_view method,
                               std::string_view target, std::string_view body) {
  std::string request(method);
  request.append(" ")
      .append(target)
      .append(" HTTP/1.1\r\nHost: ")
      .append(to_.text())
      .append("\r\n");
  if (!bearer.empty()) request.append("Authorization: Bearer ").append(bearer).append("\r\n");
  if (!body.empty() || method == "POST" || method == "PUT" || method == "PATCH")
    request.append("Content-Type: application/json\r\nContent-Length: ")
        .append(std::to_string(body.size()))
        .append("\r\n");
  request.append("\r\n").append(body);
  HttpAnswer out;
  const bool reused = static_cast<bool>(fd_);
  if (!fd_) fd_ = dial(to_, timeout_);
  if (try_call(request, out, method == "HEAD")) return out;
  fd_.reset();
  // A kept connection may have been closed by the server meanwhile; only then is a retry right.
  if (reused) {
    fd_ = dial(to_, timeout_);
    if (try_call(request, out, method == "HEAD")) return out;
    fd_.reset();
  }
  throw Failure("no answer to " + std::string(method) + " " + std::string(target) + " from " +
                to_.text());
}

bool HttpClient::try_call(const std::string& request, HttpAnswer& out, bool head_only) {
  const nanos deadline = now() + timeout_;
  std::size_t sent = 0;
  while (sent < request.size()) {
    const ssize_t n = ::send(fd_.get(), request.data() + sent, request.size() - sent,
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0)
      sent += static_cast<std::size_t>(n);
    else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (!wait_for(fd_.get(), POLLOUT, deadline)) return false;
    } else
      return false;
  }
  std::string data;
  bool closed = false;
  const auto more = [&] {
    if (!wait_for(fd_.get(), POLLIN, deadline)) return false;
    std::array<char, 16384> chunk{};
    const ssize_t n = ::recv(fd_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (n > 0)
      data.append(chunk.data(), static_cast<std::size_t>(n));
    else if (n == 0)
      closed = true;
    else if (errno != EAGAIN && errno != EINTR)
      closed = true;
    return !closed;
  };
  std::size_t head_end = 0;
  for (;;) {
    head_end = data.find("\r\n\r\n");
    if (head_end == std::string::npos) {
      if (!more()) return false;
      continue;
    }
    out.head = data.substr(0, head_end + 2);
    data.erase(0, head_end + 4);
    out.status = out.head.size() > 12 ? std::atoi(out.head.c_str() + 9) : 0;
    if (out.status != 100) break;
  }
  out.body.clear();
  if (head_only || out.status == 204 || out.status == 304) return true;
  if (header_value(out.head, "Transfer-Encoding") == "chunked") {
    for (;;) {
      std::size_t line = 0;
      while ((line = data.find("\r\n")) == std::string::npos)
        if (!more()) return false;
      const auto size = static_cast<std::size_t>(std::strtoul(data.c_str(), nullptr, 16));
      data.erase(0, line + 2);
      while (data.size() < size + 2)
        if (!more()) return false;
      out.body.append(data, 0, size);
      data.erase(0, size + 2);
      if (size == 0) break;
    }
  } else if (const auto length = header_value(out.head, "Content-Length"); !length.empty()) {
    const auto size =
        static_cast<std::size_t>(std::strtoul(std::string(length).c_str(), nullptr, 10));
    while (data.size() < size)
      if (!more()) return false;
    out.body = data.substr(0, size);
  } else {
    while (more()) {
    }
    out.body = data;
    fd_.reset();
  }
  if (header_value(out.head, "Connection") == "close") fd_.reset();
  return true;
}

}  // namespace parley::bench
