// A network link with a set round trip between the harness and the server it measures: two network
// namespaces, joined by a veth pair with `tc netem`, or, where the kernel has no netem, by two TUN
// devices between which a thread of this process holds every packet for half the round trip.
// Called by the scenarios before any server or measuring thread starts. Needs root.
#pragma once

#include <memory>
#include <string>

#include "client/clock.hpp"
#include "client/fd.hpp"

namespace parley::bench {

/// While it lives, the calling thread makes sockets in another network namespace. -1 does nothing.
class NamespaceGuard {
 public:
  explicit NamespaceGuard(int netns);
  ~NamespaceGuard();
  NamespaceGuard(const NamespaceGuard&) = delete;
  NamespaceGuard& operator=(const NamespaceGuard&) = delete;

 private:
  Fd home_;
};

class Link {
 public:
  /// Throws Failure with the reason where the machine does not permit it.
  explicit Link(nanos round_trip);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// The namespace the server belongs in, and the address it listens on there.
  int server_netns() const;
  const std::string& server_address() const;
  /// The namespace from which measured connections are made.
  int client_netns() const;
  /// "netem" or "tun".
  const std::string& kind() const;
  /// CPU nanoseconds that holding packets back has cost this process (0 with netem).
  nanos cpu() const;
  /// Packets that had to be dropped because the bound on held packets was met; must be 0.
  std::uint64_t dropped() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace parley::bench
