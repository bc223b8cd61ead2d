// Keys and secrets: the files in the data folder (secret.key, admin.token) and a foreign issuer's
// public keys. Called at the start and at a reload. Never logs or repeats a secret; errors name the
// file alone.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/error.hpp"

struct evp_pkey_st;  // OpenSSL's EVP_PKEY

namespace parley::net::auth {

/// What signs or verifies tokens; the algorithm belongs to the key and never comes from a token.
enum class algorithm : std::uint8_t { hs256 = 1, rs256, es256, eddsa };
std::string_view to_string(algorithm a);

struct verify_key {
  std::string kid;  // empty: any token's
  algorithm alg = algorithm::hs256;
  std::string secret;                       // hs256: at least 32 bytes
  std::shared_ptr<evp_pkey_st> public_key;  // the others
};

/// Whether `signature` is that of `data` under the key; in constant time for hs256. False for any
/// odd size.
bool verify(const verify_key& key, std::string_view data, std::string_view signature);
/// HMAC-SHA-256, 32 bytes.
std::string hmac_sha256(std::string_view secret, std::string_view data);
/// SHA-256 in lower-case hex.
std::string sha256_hex(std::string_view data);
/// Equal, compared in constant time for equal lengths.
bool equal_secret(std::string_view a, std::string_view b);

/// base64url without padding (RFC 7515 2), canonical: nullopt for padding, foreign characters or
/// stray bits.
std::optional<std::string> base64url_decode(std::string_view text);
std::string base64url_encode(std::string_view bytes);

/// The keys of a foreign issuer: a JWKS (RFC 7517: RSA of at least 2,048 bits, EC P-256, OKP
/// Ed25519, oct of at least 256 bits; others are left out) or PEM public keys. An error where none
/// is usable or a private key is among them.
result<std::vector<verify_key>> parse_keys(std::string_view text);
result<std::vector<verify_key>> load_key_file(const std::string& path);

/// The two secrets of the data folder. `secret.key`: 32 bytes as hex, signs our tokens.
/// `admin.token`: what the admin listener asks for.
struct data_secrets {
  std::string token_secret;  // 32 bytes
  std::string admin_token;
  std::vector<std::string> exposed;  // files that others than the owner may read
};
/// Reads both; makes what is missing (mode 600, durable before it is used). Makes the folder too.
result<data_secrets> load_or_make_secrets(const std::string& data_dir);
/// Reads `admin.token` alone, for commands beside a running server.
result<std::string> load_admin_token(const std::string& data_dir);

}  // namespace parley::net::auth
