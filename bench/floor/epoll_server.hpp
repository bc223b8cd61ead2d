// A bare single-threaded epoll server: accepts, answers small HTTP requests, upgrades to WebSocket,
// hands over text frames, sends bytes. The base of the floor and of the fake server; it knows no
// protocol and stores nothing. Never used by anything that is a product.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/clock.hpp"
#include "client/fd.hpp"
#include "client/ws_codec.hpp"

namespace parley::bench {

class EpollServer {
 public:
  struct Conn {
    Fd fd;
    std::uint32_t index = 0;
    bool upgraded = false;
    bool dead = false;
    std::string in;  // HTTP bytes before the upgrade
    std::string target;
    FrameReader reader{true};
    std::string pending;    // what the socket did not take
    std::uint32_t tag = 0;  // free for the subclass
    std::string name;       // free for the subclass
  };

  /// Listens on `address`; port 0 lets the kernel choose. Throws Failure.
  explicit EpollServer(const std::string& address);
  virtual ~EpollServer();
  EpollServer(const EpollServer&) = delete;
  EpollServer& operator=(const EpollServer&) = delete;

  int port() const { return port_; }
  /// Serves until SIGTERM or SIGINT.
  void run();

 protected:
  /// An HTTP request other than an upgrade: the status, and a body.
  virtual int on_http(std::string_view method, std::string_view target, std::string_view head,
                      std::string_view body, std::string& answer) = 0;
  /// The subprotocol to choose (may be empty) for an upgrade.
  virtual std::string on_upgrade(Conn& conn) = 0;
  virtual void on_text(Conn& conn, std::string_view payload) = 0;
  virtual void on_gone(Conn&) {}
  virtual void on_turn_end() {}
  /// When on_timer wants to be called next; 0 for never.
  virtual nanos next_timer() const { return 0; }
  virtual void on_timer() {}

  void send(Conn& conn, std::string_view bytes);
  std::vector<std::unique_ptr<Conn>>& connections() { return conns_; }

 private:
  void accept_all();
  void read(Conn& conn);
  void handle_http(Conn& conn);
  void drop(Conn& conn);

  Fd listener_;
  Fd epoll_;
  Fd timer_;
  Fd signals_;
  int port_ = 0;
  std::vector<std::unique_ptr<Conn>> conns_;
  std::vector<std::uint32_t> free_;
  std::vector<char> buffer_;
};

}  // namespace parley::bench
