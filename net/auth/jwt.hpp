// Tokens: signs our own and verifies them and a configured issuer's. The I/O threads call check()
// at every hello and HTTP request; it never blocks. Whether a token was revoked is not known here
// but in actors.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/ports.hpp"
#include "net/auth/keys.hpp"
#include "schemas/config.hpp"
#include "schemas/time.hpp"

namespace parley::net::auth {

/// `iss` of our own tokens.
inline constexpr std::string_view own_issuer = "parley";
/// Longer tokens are refused unread.
inline constexpr std::size_t token_bytes_max = 8192;

/// A foreign issuer as configured: what `iss` and `aud` must be, and its keys.
struct foreign_issuer {
  std::string issuer, audience;
  std::vector<verify_key> keys;
};
/// From tokens.*; nullptr where no issuer is configured. An error where its key file cannot be
/// used, or where only a part of issuer, audience and key_file is set.
result<std::shared_ptr<const foreign_issuer>> load_issuer(const config::tokens_t& tokens);

/// Verifies compact JWS tokens (RFC 7515, 7519). The algorithm belongs to the key; `exp` is
/// required, an integer and without leeway; `nbf` and `iat` have 60 s. Errors are
/// `unauthenticated`.
class jwt_checker final : public token_checker {
 public:
  jwt_checker(std::string own_secret, std::shared_ptr<const foreign_issuer> foreign,
              wall_clock now = system_now_ms)
      : own_{{}, algorithm::hs256, std::move(own_secret), nullptr}, foreign_(std::move(foreign)),
        now_(std::move(now)) {}
  result<claims> check(std::string_view token) const override;
  /// At a reload; any thread.
  void use(std::shared_ptr<const foreign_issuer> foreign) { foreign_.store(std::move(foreign)); }

 private:
  verify_key own_;
  std::atomic<std::shared_ptr<const foreign_issuer>> foreign_;
  wall_clock now_;
};

struct signed_token {
  std::string token;
  unix_ms expires_at = 0;
};
/// A token of our own for `user` at its present generation, good for `ttl_s` seconds from `now`.
signed_token sign_token(std::string_view secret, std::string_view user, std::int64_t generation,
                        std::int64_t ttl_s, unix_ms now);

}  // namespace parley::net::auth
