// The way from HTTP to WebSocket. http_session calls accept_websocket once it has read a whole head
// that asks for an upgrade of /ws; from there the socket is the WebSocket layer's. Beast stays
// behind this header.
#pragma once
#include <string>

#include "net/io_thread.hpp"

namespace parley::net {

/// A head as it came, already past the strict gate (CRLF lines, no folding, at most 8 KiB and 100
/// fields, method and target well-formed).
struct upgrade_request {
  std::string raw_head;  // the request line, the fields and the empty line
  std::string
      address;  // the client's, a trusted proxy's word believed; for session_card and the log
};

/// Checks the handshake and answers it: 101 and the connection lives on by itself, or the error
/// (400, 403, 426, 503) as problem+json and the socket is closed. `leftover`: bytes that came
/// behind the head. Call on the thread of `io`.
void accept_websocket(io_thread& io, tcp_socket socket, upgrade_request request,
                      std::string leftover);

}  // namespace parley::net
