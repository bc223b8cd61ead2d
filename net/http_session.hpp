// HTTP over one accepted socket: heads through the strict gate, bodies with bounds and deadlines,
// answers in order, and `/ws` handed over. The listener calls start_http on the socket's own I/O
// thread; nothing here blocks.
#pragma once
#include <string>

#include "net/io_thread.hpp"  // io_thread, tcp_socket

namespace parley::net {

/// Takes a freshly accepted socket and serves HTTP/1.1 on it until either side closes.
/// `peer_address` is the socket's own peer in text without port; a trusted proxy's X-Forwarded-For
/// is looked at per request. `admin`: the socket came by the admin listener, so the admin routes
/// are served and not the API. Call on the thread of `io`.
void start_http(io_thread& io, tcp_socket socket, std::string peer_address, bool admin);

}  // namespace parley::net
