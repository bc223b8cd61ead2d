// See keys.hpp. OpenSSL 3 does the cryptography; nothing here decides who may do what.
#include "net/auth/keys.hpp"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "schemas/wire/json_decode.hpp"

namespace parley::net::auth {
namespace {

using json = nlohmann::json;

struct free_bio {
  void operator()(BIO* p) const { BIO_free(p); }
};
struct free_bn {
  void operator()(BIGNUM* p) const { BN_free(p); }
};
struct free_bld {
  void operator()(OSSL_PARAM_BLD* p) const { OSSL_PARAM_BLD_free(p); }
};
struct free_params {
  void operator()(OSSL_PARAM* p) const { OSSL_PARAM_free(p); }
};
struct free_ctx {
  void operator()(EVP_PKEY_CTX* p) const { EVP_PKEY_CTX_free(p); }
};
struct free_md {
  void operator()(EVP_MD_CTX* p) const { EVP_MD_CTX_free(p); }
};
struct free_sig {
  void operator()(ECDSA_SIG* p) const { ECDSA_SIG_free(p); }
};
using bn_ptr = std::unique_ptr<BIGNUM, free_bn>;
using pkey_ptr = std::shared_ptr<EVP_PKEY>;

const unsigned char* bytes(std::string_view t) {
  return reinterpret_cast<const unsigned char*>(t.data());
}

bn_ptr number(std::string_view big_endian) {
  return bn_ptr(BN_bin2bn(bytes(big_endian), static_cast<int>(big_endian.size()), nullptr));
}

pkey_ptr from_params(const char* type, OSSL_PARAM_BLD* bld) {
  std::unique_ptr<OSSL_PARAM, free_params> params(OSSL_PARAM_BLD_to_param(bld));
  std::unique_ptr<EVP_PKEY_CTX, free_ctx> ctx(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* key = nullptr;
  if (!params || !ctx || EVP_PKEY_fromdata_init(ctx.get()) != 1 ||
      EVP_PKEY_fromdata(ctx.get(), &key, EVP_PKEY_PUBLIC_KEY, params.get()) != 1) {
    ERR_clear_error();
    return nullptr;
  }
  return pkey_ptr(key, EVP_PKEY_free);
}

// Which algorithm a public key is good for; nullopt: none of ours.
std::optional<algorithm> algorithm_of(EVP_PKEY* key) {
  switch (EVP_PKEY_get_base_id(key)) {
  case EVP_PKEY_RSA:
    if (EVP_PKEY_get_bits(key) < 2048) return std::nullopt;
    return algorithm::rs256;
  case EVP_PKEY_EC: {
    std::array<char, 64> name{};
    std::size_t n = 0;
    if (EVP_PKEY_get_group_name(key, name.data(), name.size(), &n) != 1) return std::nullopt;
    if (std::string_view(name.data()) != "prime256v1") return std::nullopt;
    return algorithm::es256;
  }
  case EVP_PKEY_ED25519:
    return algorithm::eddsa;
  default:
    return std::nullopt;
  }
}

std::string text_of(const json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

// One JWK; nullopt where it is of a kind that we do not use.
std::optional<verify_key> from_jwk(const json& jwk) {
  if (!jwk.is_object()) return std::nullopt;
  const auto kty = text_of(jwk, "kty"), use = text_of(jwk, "use"), alg = text_of(jwk, "alg");
  if (!use.empty() && use != "sig") return std::nullopt;
  verify_key out;
  out.kid = text_of(jwk, "kid");
  if (kty == "oct") {
    auto secret = base64url_decode(text_of(jwk, "k"));
    if (!secret || secret->size() < 32 || (!alg.empty() && alg != "HS256")) return std::nullopt;
    out.alg = algorithm::hs256;
    out.secret = std::move(*secret);
    return out;
  }
  std::unique_ptr<OSSL_PARAM_BLD, free_bld> bld(OSSL_PARAM_BLD_new());
  if (kty == "RSA") {
    const auto n = base64url_decode(text_of(jwk, "n")), e = base64url_decode(text_of(jwk, "e"));
    if (!n || !e || n->empty() || e->empty() || n->size() > 2048 || e->size() > 8)
      return std::nullopt;
    const auto bn = number(*n), be = number(*e);
    if (!bn || !be || OSSL_PARAM_BLD_push_BN(bld.get(), OSSL_PKEY_PARAM_RSA_N, bn.get()) != 1 ||
        OSSL_PARAM_BLD_push_BN(bld.get(), OSSL_PKEY_PARAM_RSA_E, be.get()) != 1)
      return std::nullopt;
    out.public_key = from_params("RSA", bld.get());
  } else if (kty == "EC" && text_of(jwk, "crv") == "P-256") {
    const auto x = base64url_decode(text_of(jwk, "x")), y = base64url_decode(text_of(jwk, "y"));
    if (!x || !y || x->size() != 32 || y->size() != 32) return std::nullopt;
    const std::string point = "\x04" + *x + *y;
    if (OSSL_PARAM_BLD_push_utf8_string(bld.get(), OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) !=
            1 ||
        OSSL_PARAM_BLD_push_octet_string(bld.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                         point.size()) != 1)
      return std::nullopt;
    out.public_key = from_params("EC", bld.get());
  } else if (kty == "OKP" && text_of(jwk, "crv") == "Ed25519") {
    const auto x = base64url_decode(text_of(jwk, "x"));
    if (!x || x->size() != 32) return std::nullopt;
    out.public_key =
        pkey_ptr(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes(*x), x->size()),
                 EVP_PKEY_free);
  }
  if (!out.public_key) return std::nullopt;
  const auto kind = algorithm_of(out.public_key.get());
  if (!kind || (!alg.empty() && alg != to_string(*kind))) return std::nullopt;
  out.alg = *kind;
  return out;
}

// JWKS or a lone JWK.
result<std::vector<verify_key>> from_jwks(std::string_view text) {
  const auto parsed = wire::parse_strict(text);
  if (!parsed) return fail(errc::bad_request, "the key file is neither PEM nor a JSON Web Key Set");
  const json& doc = *parsed;
  std::vector<verify_key> out;
  const auto keys = doc.is_object() ? doc.find("keys") : doc.end();
  const bool set = doc.is_object() && keys != doc.end() && keys->is_array();
  const json list = set ? *keys : json::array({doc});
  for (const auto& jwk : list) {
    if (jwk.is_object() && jwk.contains("d"))
      return fail(errc::bad_request, "the key file holds a private key");
    if (auto key = from_jwk(jwk)) out.push_back(std::move(*key));
    if (out.size() > 64) return fail(errc::bad_request, "the key file holds more than 64 keys");
  }
  return out;
}

result<std::vector<verify_key>> from_pem(std::string_view text) {
  if (text.find("PRIVATE KEY-----") != std::string_view::npos)
    return fail(errc::bad_request, "the key file holds a private key");
  std::vector<verify_key> out;
  std::unique_ptr<BIO, free_bio> bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  while (bio) {
    // No pass phrase can be asked for: the callback refuses.
    pkey_ptr key(PEM_read_bio_PUBKEY(
                     bio.get(), nullptr, [](char*, int, int, void*) { return -1; }, nullptr),
                 EVP_PKEY_free);
    if (!key) break;
    verify_key one;
    const auto kind = algorithm_of(key.get());
    if (!kind) continue;
    one.alg = *kind;
    one.public_key = std::move(key);
    out.push_back(std::move(one));
    if (out.size() > 64) return fail(errc::bad_request, "the key file holds more than 64 keys");
  }
  ERR_clear_error();
  return out;
}

failure file_failure(const std::string& what, const std::string& path) {
  return fail(errc::internal, "cannot " + what + " " + path + ": " + std::strerror(errno));
}

struct descriptor {
  int fd = -1;
  explicit descriptor(int f) : fd(f) {}
  ~descriptor() {
    if (fd >= 0) ::close(fd);
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
};

// nullopt: there is no such file.
result<std::optional<std::string>> read_small(const std::string& path, std::size_t max) {
  descriptor f(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (f.fd < 0) {
    if (errno == ENOENT) return std::optional<std::string>();
    return file_failure("read", path);
  }
  std::string out;
  std::array<char, 4096> piece{};
  while (true) {
    const auto n = ::read(f.fd, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file_failure("read", path);
    if (n == 0) return std::optional(std::move(out));
    out.append(piece.data(), static_cast<std::size_t>(n));
    if (out.size() > max) return fail(errc::internal, path + " is too large");
  }
}

// Writes a new file whole or not at all, durable before it returns. A file that appeared meanwhile
// is left alone.
std::optional<failure> write_new(const std::string& path, std::string_view text) {
  const auto temporary = path + ".new";
  ::unlink(temporary.c_str());
  {
    descriptor f(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (f.fd < 0) return file_failure("write", temporary);
    for (std::size_t done = 0; done < text.size();) {
      const auto n = ::write(f.fd, text.data() + done, text.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return file_failure("write", temporary);
      done += static_cast<std::size_t>(n);
    }
    if (::fsync(f.fd) != 0) return file_failure("write", temporary);
  }
  if (::link(temporary.c_str(), path.c_str()) != 0 && errno != EEXIST)
    return file_failure("write", path);
  ::unlink(temporary.c_str());
  descriptor folder(::open(std::filesystem::path(path).parent_path().c_str(),
                           O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.fd >= 0) ::fsync(folder.fd);
  return std::nullopt;
}

std::string trimmed(std::string text) {
  const auto blank = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
  while (!text.empty() && blank(text.back()))
    text.pop_back();
  std::size_t i = 0;
  while (i < text.size() && blank(text[i]))
    ++i;
  return text.substr(i);
}

std::string hex(std::string_view in) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (const char c : in) {
    out.push_back(digits[static_cast<unsigned char>(c) >> 4]);
    out.push_back(digits[static_cast<unsigned char>(c) & 15]);
  }
  return out;
}

std::optional<std::string> unhex(std::string_view in) {
  if (in.size() % 2 != 0) return std::nullopt;
  const auto value = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string out;
  for (std::size_t i = 0; i < in.size(); i += 2) {
    const int high = value(in[i]), low = value(in[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out.push_back(static_cast<char>(high * 16 + low));
  }
  return out;
}

result<std::string> random_hex() {
  std::array<unsigned char, 32> raw{};
  if (RAND_bytes(raw.data(), static_cast<int>(raw.size())) != 1)
    return fail(errc::internal, "no random numbers");
  return hex({reinterpret_cast<const char*>(raw.data()), raw.size()});
}

// Reads a secret, made first where it is missing.
result<std::string> secret_file(const std::string& path, std::vector<std::string>& exposed) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto found = read_small(path, 4096);
    if (!found) return found.error();
    if (found->has_value()) {
      struct stat info {};
      if (::stat(path.c_str(), &info) == 0 && (info.st_mode & 077) != 0) exposed.push_back(path);
      return trimmed(std::move(**found));
    }
    auto fresh = random_hex();
    if (!fresh) return fresh.error();
    if (auto bad = write_new(path, *fresh + "\n")) return *std::move(bad);
  }
  return fail(errc::internal, "cannot make " + path);
}

}  // namespace

std::string_view to_string(algorithm a) {
  switch (a) {
  case algorithm::hs256:
    return "HS256";
  case algorithm::rs256:
    return "RS256";
  case algorithm::es256:
    return "ES256";
  case algorithm::eddsa:
    return "EdDSA";
  }
  return "";
}

std::string hmac_sha256(std::string_view secret, std::string_view data) {
  std::array<unsigned char, 32> out{};
  unsigned int n = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), bytes(data), data.size(),
       out.data(), &n);
  return {reinterpret_cast<const char*>(out.data()), n};
}

std::string sha256_hex(std::string_view data) {
  std::array<unsigned char, 32> out{};
  unsigned int n = 0;
  EVP_Digest(data.data(), data.size(), out.data(), &n, EVP_sha256(), nullptr);
  return hex({reinterpret_cast<const char*>(out.data()), n});
}

bool equal_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool verify(const verify_key& key, std::string_view data, std::string_view signature) {
  if (key.alg == algorithm::hs256) return equal_secret(hmac_sha256(key.secret, data), signature);
  std::string der;
  if (key.alg == algorithm::es256) {
    // RFC 7518 3.4: R and S, 32 bytes each; OpenSSL wants DER.
    if (signature.size() != 64) return false;
    std::unique_ptr<ECDSA_SIG, free_sig> pair(ECDSA_SIG_new());
    auto r = number(signature.substr(0, 32)), s = number(signature.substr(32));
    if (!pair || !r || !s || ECDSA_SIG_set0(pair.get(), r.get(), s.get()) != 1) return false;
    (void)r.release();
    (void)s.release();
    unsigned char* raw = nullptr;
    const int n = i2d_ECDSA_SIG(pair.get(), &raw);
    if (n <= 0) return false;
    der.assign(reinterpret_cast<const char*>(raw), static_cast<std::size_t>(n));
    OPENSSL_free(raw);
    signature = der;
  }
  std::unique_ptr<EVP_MD_CTX, free_md> ctx(EVP_MD_CTX_new());
  const EVP_MD* md = key.alg == algorithm::eddsa ? nullptr : EVP_sha256();
  const bool good =
      ctx && EVP_DigestVerifyInit(ctx.get(), nullptr, md, nullptr, key.public_key.get()) == 1 &&
      EVP_DigestVerify(ctx.get(), bytes(signature), signature.size(), bytes(data), data.size()) ==
          1;
  if (!good) ERR_clear_error();
  return good;
}

std::optional<std::string> base64url_decode(std::string_view text) {
  if (text.size() % 4 == 1) return std::nullopt;
  std::string out;
  out.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    int v = -1;
    if (c >= 'A' && c <= 'Z')
      v = c - 'A';
    else if (c >= 'a' && c <= 'z')
      v = c - 'a' + 26;
    else if (c >= '0' && c <= '9')
      v = c - '0' + 52;
    else if (c == '-')
      v = 62;
    else if (c == '_')
      v = 63;
    if (v < 0) return std::nullopt;
    bits = (bits << 6) | static_cast<std::uint32_t>(v);
    have += 6;
    if (have >= 8) {
      have -= 8;
      out.push_back(static_cast<char>((bits >> have) & 0xff));
    }
  }
  // Left-over bits must be zero, or one signature would have several spellings.
  if (have > 0 && (bits & ((1u << have) - 1)) != 0) return std::nullopt;
  return out;
}

std::string base64url_encode(std::string_view in) {
  static constexpr char digits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string out;
  std::uint32_t bits = 0;
  int have = 0;
  for (const char c : in) {
    bits = (bits << 8) | static_cast<unsigned char>(c);
    have += 8;
    while (have >= 6) {
      have -= 6;
      out.push_back(digits[(bits >> have) & 63]);
    }
  }
  if (have > 0) out.push_back(digits[(bits << (6 - have)) & 63]);
  return out;
}

result<std::vector<verify_key>> parse_keys(std::string_view text) {
  auto keys = text.find("-----BEGIN ") != std::string_view::npos ? from_pem(text) : from_jwks(text);
  if (keys && keys->empty())
    return fail(errc::bad_request, "the key file holds no usable key (RSA of at least 2048 bits, "
                                   "EC P-256, Ed25519, oct of at least 256 bits)");
  return keys;
}

result<std::vector<verify_key>> load_key_file(const std::string& path) {
  auto text = read_small(path, 1 << 20);
  if (!text) return text.error();
  if (!text->has_value())
    return fail(errc::bad_request, "tokens.key_file: there is no file " + path);
  auto keys = parse_keys(**text);
  if (!keys)
    return fail(keys.error().code, "tokens.key_file " + path + ": " + keys.error().message);
  return keys;
}

result<data_secrets> load_or_make_secrets(const std::string& data_dir) {
  std::error_code why;
  std::filesystem::create_directories(data_dir, why);
  if (why)
    return fail(errc::internal, "cannot make the data folder " + data_dir + ": " + why.message());
  data_secrets out;
  auto key = secret_file(data_dir + "/secret.key", out.exposed);
  if (!key) return key.error();
  auto raw = unhex(*key);
  if (!raw || raw->size() != 32)
    return fail(errc::internal, data_dir + "/secret.key is not 32 bytes in hex");
  out.token_secret = std::move(*raw);
  auto token = secret_file(data_dir + "/admin.token", out.exposed);
  if (!token) return token.error();
  if (token->size() < 16)
    return fail(errc::internal, data_dir + "/admin.token is shorter than 16 characters");
  out.admin_token = std::move(*token);
  return out;
}

result<std::string> load_admin_token(const std::string& data_dir) {
  auto text = read_small(data_dir + "/admin.token", 4096);
  if (!text) return text.error();
  if (!text->has_value()) return fail(errc::internal, "there is no " + data_dir + "/admin.token");
  return trimmed(std::move(**text));
}

}  // namespace parley::net::auth
