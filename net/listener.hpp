// Takes connections from the kernel and gives each to an I/O thread, in turn. Refuses over the
// bounds (503 in all, 429 per address, with Retry-After), and pauses where the process has no
// descriptors left. It reads nothing from a socket.
#pragma once
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/io_thread.hpp"
#include "schemas/error.hpp"

namespace parley::net {

class listener {
 public:
  /// What becomes of an accepted socket; called on the thread of `io`. The peer's address is the
  /// ticket's.
  using serve_fn = std::function<void(io_thread& io, tcp_socket socket, std::string peer_address)>;

  /// Binds and listens on "HOST:PORT" ("[v6]:PORT"; port 0: the kernel chooses) and accepts on the
  /// thread of `home`; sockets go round-robin to `threads`. The error names the address and the
  /// reason.
  static result<std::shared_ptr<listener>> open(const std::string& address, doors& entrance,
                                                io_thread& home, std::vector<io_thread*> threads,
                                                serve_fn serve);
  ~listener();

  /// "127.0.0.1:43210": where it listens.
  const std::string& authority() const { return authority_; }
  /// Stops accepting; sockets that were accepted live on. Any thread; returns when the port is
  /// closed.
  void close();

 private:
  struct state;
  explicit listener(std::shared_ptr<state> s, std::string authority)
      : state_(std::move(s)), authority_(std::move(authority)) {}
  std::shared_ptr<state> state_;
  std::string authority_;
};

}  // namespace parley::net
