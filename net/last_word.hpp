// An answer to a socket that is not served further: sent whole, then our end, then the peer's is
// waited for, so that no reset overtakes the answer. Used by the listener and the handshake.
// Bounded in bytes, time and number.
#pragma once
#include <string>

#include "net/io_thread.hpp"
#include "schemas/error.hpp"

namespace parley::net {

/// An HTTP/1.1 answer as problem+json with `Connection: close`. `status` 0: the failure's own, else
/// its code's. `extra`: further header lines, each with CRLF. Retry-After comes from
/// retry_after_ms, rounded up to seconds.
std::string refusal(const failure& why, const std::string& extra = {});

/// Sends `answer` on the thread of `io` and closes. At most 2 s and 64 KiB of what the peer still
/// sends; where over 256 sockets are in this state already, it is closed at once.
void say_and_close(io_thread& io, tcp_socket socket, std::string answer);

}  // namespace parley::net
