// The floor: what delivering costs with nothing but the kernel in the way. One thread; a connection
// joins the room its target names; every text frame is made one frame and written to each
// connection of that room. Stores nothing, orders nothing, checks nobody. Called by main.
#pragma once

#include <string>

namespace parley::bench {

/// Serves until SIGTERM. `gather`: what one turn of the loop has for a room leaves in one write.
int serve_floor(const std::string& address, bool gather);

}  // namespace parley::bench
