#include "net/address.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace parley::net {

namespace {
constexpr std::array<std::uint8_t, 12> mapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool is_mapped(const ip_bytes& a) { return std::equal(mapped.begin(), mapped.end(), a.begin()); }

std::string_view trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t'))
    s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t'))
    s.remove_suffix(1);
  return s;
}
}  // namespace

std::optional<ip_bytes> parse_ip(std::string_view text) {
  if (text.empty() || text.size() >= INET6_ADDRSTRLEN) return std::nullopt;
  const std::string z(text);  // inet_pton wants the zero
  ip_bytes out{};
  if (::inet_pton(AF_INET, z.c_str(), out.data() + 12) == 1) {
    std::copy(mapped.begin(), mapped.end(), out.begin());
    return out;
  }
  if (::inet_pton(AF_INET6, z.c_str(), out.data()) == 1) return out;
  return std::nullopt;
}

std::string ip_text(const ip_bytes& address) {
  char text[INET6_ADDRSTRLEN];
  if (is_mapped(address))
    ::inet_ntop(AF_INET, address.data() + 12, text, sizeof text);
  else
    ::inet_ntop(AF_INET6, address.data(), text, sizeof text);
  return text;
}

proxy_list::proxy_list(const std::vector<std::string>& entries) {
  for (const std::string& entry : entries) {
    const std::string_view text = trim(entry);
    const auto slash = text.find('/');
    const auto base = parse_ip(text.substr(0, slash));
    if (!base) continue;
    const int offset = is_mapped(*base) ? 96 : 0;
    int bits = 128 - offset;
    if (slash != std::string_view::npos) {
      const std::string_view digits = text.substr(slash + 1);
      int given = -1;
      const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), given);
      if (ec != std::errc{} || end != digits.data() + digits.size() || given < 0 || given > bits)
        continue;
      bits = given;
    }
    nets_.push_back({*base, bits + offset});
  }
}

bool proxy_list::trusts(std::string_view address) const {
  if (nets_.empty()) return false;
  const auto ip = parse_ip(trim(address));
  if (!ip) return false;
  return std::any_of(nets_.begin(), nets_.end(), [&](const net& n) {
    const auto whole = static_cast<std::size_t>(n.bits / 8);
    if (std::memcmp(n.base.data(), ip->data(), whole) != 0) return false;
    const int rest = n.bits % 8;
    if (rest == 0) return true;
    const auto mask = static_cast<std::uint8_t>(0xff << (8 - rest));
    return (n.base[whole] & mask) == ((*ip)[whole] & mask);
  });
}

std::string proxy_list::client_of(std::string_view peer,
                                  std::span<const std::string_view> forwarded_for) const {
  std::string client(peer);
  if (!trusts(peer)) return client;
  for (auto value = forwarded_for.rbegin(); value != forwarded_for.rend(); ++value) {
    std::string_view rest = *value;
    while (true) {
      const auto comma = rest.rfind(',');
      std::string_view item = trim(comma == std::string_view::npos ? rest : rest.substr(comma + 1));
      const auto ip = parse_ip(item);
      if (!ip) return client;
      client = ip_text(*ip);
      if (!trusts(client)) return client;
      if (comma == std::string_view::npos) break;
      rest = rest.substr(0, comma);
    }
  }
  return client;
}

}  // namespace parley::net
