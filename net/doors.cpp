#include "net/doors.hpp"

namespace parley::net {

door_ticket& door_ticket::operator=(door_ticket&& other) noexcept {
  if (this == &other) return *this;
  release();
  doors_ = std::exchange(other.doors_, nullptr);
  address_ = std::move(other.address_);
  return *this;
}

bool door_ticket::move_to(const std::string& address) {
  if (!doors_ || address == address_) return true;
  if (!doors_->move(address_, address)) return false;
  address_ = address;
  return true;
}

void door_ticket::release() noexcept {
  if (auto* d = std::exchange(doors_, nullptr)) d->leave(address_);
  address_.clear();
}

doors::verdict doors::enter(const std::string& address, bool count_address, door_ticket& ticket) {
  ticket.release();
  std::lock_guard hold(lock_);
  if (all_ >= max_all_) return verdict::all_full;
  if (count_address) {
    auto& n = by_address_[address];
    if (n >= max_address_) {
      if (n == 0) by_address_.erase(address);
      return verdict::address_full;
    }
    ++n;
  }
  ++all_;
  ticket.doors_ = this;
  ticket.address_ = count_address ? address : std::string();
  return verdict::open;
}

void doors::set_limits(std::int64_t all, std::int64_t per_address) {
  std::lock_guard hold(lock_);
  max_all_ = all;
  max_address_ = per_address;
}

std::int64_t doors::open() const {
  std::lock_guard hold(lock_);
  return all_;
}

std::int64_t doors::open_of(const std::string& address) const {
  std::lock_guard hold(lock_);
  const auto it = by_address_.find(address);
  return it == by_address_.end() ? 0 : it->second;
}

bool doors::move(const std::string& from, const std::string& to) {
  std::lock_guard hold(lock_);
  auto& n = by_address_[to];
  if (n >= max_address_) {
    if (n == 0) by_address_.erase(to);
    return false;
  }
  ++n;
  drop(from);
  return true;
}

void doors::leave(const std::string& address) noexcept {
  std::lock_guard hold(lock_);
  --all_;
  drop(address);
}

void doors::drop(const std::string& address) noexcept {
  if (address.empty()) return;
  const auto it = by_address_.find(address);
  if (it != by_address_.end() && --it->second <= 0) by_address_.erase(it);
}

}  // namespace parley::net
