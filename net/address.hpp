// Whose word about a client's address is believed: server.trusted_proxies, and X-Forwarded-For
// behind them. Pure; used by the listener (who counts) and by http_session (who knows the head).
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace parley::net {

/// An IPv4 (mapped) or IPv6 address as 16 bytes.
using ip_bytes = std::array<std::uint8_t, 16>;
/// Numeric forms only; "::ffff:1.2.3.4" equals "1.2.3.4". A zone, a port or a name is no address.
std::optional<ip_bytes> parse_ip(std::string_view text);
/// The shortest form; IPv4 for mapped ones.
std::string ip_text(const ip_bytes& address);

class proxy_list {
 public:
  /// Entries "10.0.0.1", "10.0.0.0/8", "fd00::/8". What is none of these matches nothing (the
  /// configuration check refuses it at the start).
  explicit proxy_list(const std::vector<std::string>& entries);
  bool trusts(std::string_view address) const;
  bool empty() const { return nets_.empty(); }
  /// The client's address: the peer, unless it is trusted; then the last entry of the
  /// X-Forwarded-For values (in the order of the head) that no trusted proxy wrote about another.
  /// An entry that is no address ends the walk at the proxy that sent it.
  std::string client_of(std::string_view peer,
                        std::span<const std::string_view> forwarded_for) const;

 private:
  struct net {
    ip_bytes base;
    int bits;
  };
  std::vector<net> nets_;
};

}  // namespace parley::net
