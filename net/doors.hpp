// How many sockets are open, in all and per client address. The listener takes a ticket for each
// socket that it accepts; the ticket travels inside the socket and gives its place back when the
// socket is gone. Thread-safe; never blocks long.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace parley::net {

class doors;

/// One socket's place. Move-only; gives the place back when destroyed.
class door_ticket {
 public:
  door_ticket() = default;
  door_ticket(door_ticket&& other) noexcept
      : doors_(std::exchange(other.doors_, nullptr)), address_(std::move(other.address_)) {}
  door_ticket& operator=(door_ticket&& other) noexcept;
  ~door_ticket() { release(); }

  /// The client's address in text, without port; empty in a ticket that holds no place.
  const std::string& address() const { return address_; }
  /// Counts the socket under another address from now on: a trusted proxy has named its client.
  /// False: that address has as many as it may, the place stays where it was, and the answer is
  /// 429. Does nothing in a ticket without a place.
  bool move_to(const std::string& address);
  void release() noexcept;

 private:
  friend class doors;
  doors* doors_ = nullptr;
  std::string address_;
};

class doors {
 public:
  enum class verdict : std::uint8_t { open, address_full, all_full };

  /// A place for a socket of `address`. `count_address` false (a trusted proxy, whose clients are
  /// named later): it counts among all only.
  verdict enter(const std::string& address, bool count_address, door_ticket& ticket);
  /// New bounds; sockets that are open stay. From limits.connections and
  /// limits.connections_per_address.
  void set_limits(std::int64_t all, std::int64_t per_address);
  std::int64_t open() const;
  std::int64_t open_of(const std::string& address) const;

 private:
  friend class door_ticket;
  bool move(const std::string& from, const std::string& to);
  void leave(const std::string& address) noexcept;
  void drop(const std::string& address) noexcept;  // under the lock

  mutable std::mutex lock_;
  std::unordered_map<std::string, std::int64_t> by_address_;
  std::int64_t all_ = 0, max_all_ = 15000, max_address_ = 10000;
};

}  // namespace parley::net
