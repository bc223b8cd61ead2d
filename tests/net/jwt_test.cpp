// Tokens at unit level: the vectors of RFC 7515 and RFC 8037, and every way in which a token may
// lie.
#include "net/auth/jwt.hpp"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace parley::net::auth {
namespace {

using json = nlohmann::json;

constexpr const char* rfc_payload = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leG"
                                    "FtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";

verify_key only_key(const std::string& jwk) {
  auto keys = parse_keys(jwk);
  EXPECT_TRUE(keys) << (keys ? "" : keys.error().message);
  return keys ? keys->at(0) : verify_key{};
}

bool holds(const verify_key& key, const std::string& input, const std::string& signature) {
  const auto raw = base64url_decode(signature);
  return raw && verify(key, input, *raw);
}

// RFC 7515 appendix A and RFC 8037 appendix A.
const std::string rs_key =
    R"({"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"})";
const std::string es_key =
    R"({"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"})";
const std::string ed_key =
    R"({"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"})";
const std::string hs_key =
    R"({"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"})";
const std::string rs_signature =
    "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_"
    "O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_"
    "nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-"
    "eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igc"
    "N_IoypGlUPQGe77Rw";
const std::string es_signature =
    "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

TEST(Keys, VerifyTheRfcVectors) {
  const std::string payload = rfc_payload;
  EXPECT_TRUE(holds(only_key(hs_key), "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9." + payload,
                    "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"));
  EXPECT_TRUE(holds(only_key(rs_key), "eyJhbGciOiJSUzI1NiJ9." + payload, rs_signature));
  EXPECT_TRUE(holds(only_key(es_key), "eyJhbGciOiJFUzI1NiJ9." + payload, es_signature));
  EXPECT_TRUE(holds(
      only_key(ed_key), "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
      "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"));
}

TEST(Keys, RefuseEveryChangedByte) {
  const std::string input = std::string("eyJhbGciOiJFUzI1NiJ9.") + rfc_payload;
  const auto good = *base64url_decode(es_signature);
  const auto key = only_key(es_key);
  for (std::size_t i = 0; i < good.size(); ++i) {
    auto bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    EXPECT_FALSE(verify(key, input, bad)) << i;
  }
  for (std::size_t n : {0u, 1u, 63u, 65u, 128u})
    EXPECT_FALSE(verify(key, input, std::string(n, '\0'))) << n;
  EXPECT_FALSE(verify(key, input + "x", good));
  for (const auto& jwk : {rs_key, es_key, ed_key, hs_key})
    for (std::size_t n : {0u, 1u, 32u, 64u, 256u})
      EXPECT_FALSE(verify(only_key(jwk), input, std::string(n, '\0')));
}

TEST(Keys, TakeWhatIsUsableOfASet) {
  const auto set = parse_keys(
      R"({"keys":[)" + rs_key + "," + es_key + "," + ed_key +
      R"(,{"kty":"EC","crv":"P-384","x":"a","y":"b"},{"kty":"new"},{"kty":"RSA","use":"enc","n":"AQAB","e":"AQAB"},5]})");
  ASSERT_TRUE(set);
  EXPECT_EQ(set->size(), 3u);
  EXPECT_EQ(set->at(0).alg, algorithm::rs256);
  EXPECT_EQ(set->at(1).alg, algorithm::es256);
  EXPECT_EQ(set->at(2).alg, algorithm::eddsa);
}

TEST(Keys, RefuseAFileWithoutAUsableKey) {
  for (
      const char* bad :
      {"", "{}", "[]", "x", R"({"keys":[]})", R"({"keys":5})", R"({"kty":"oct","k":"c2hvcnQ"})",
       R"({"kty":"RSA","n":"AQAB","e":"AQAB"})",               // too short
       R"({"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA"})",  // no point
       R"({"kty":"oct","alg":"HS512","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"})",
       "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
       "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
       R"({"kty":"OKP","crv":"Ed25519","d":"x","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"})"})
    EXPECT_FALSE(parse_keys(bad)) << bad;
}

TEST(Base64Url, IsCanonical) {
  EXPECT_EQ(base64url_decode(""), "");
  EXPECT_EQ(base64url_decode("YQ"), "a");
  EXPECT_EQ(base64url_encode("a"), "YQ");
  EXPECT_EQ(base64url_encode(std::string("\xff\xfe\xfd", 3)), "__79");
  for (const char* bad : {"Y", "YQ==", "YR", "Y Q", "+/", "YQ\n", "YWI=", "ab.c"})
    EXPECT_FALSE(base64url_decode(bad)) << bad;
}

// ---- whole tokens

constexpr unix_ms now = 1'800'000'000'000;
const std::string own_secret(32, 'k');
const std::string app_issuer = "https://app.example";

std::string part(const json& j) { return base64url_encode(j.dump()); }
std::string hs(const json& header, const json& payload, std::string_view secret) {
  const auto text = part(header) + "." + part(payload);
  return text + "." + base64url_encode(hmac_sha256(secret, text));
}
std::string own(const json& payload, std::string_view secret = own_secret) {
  return hs({{"alg", "HS256"}, {"typ", "JWT"}}, payload, secret);
}
json own_claims() {
  return {{"iss", "parley"}, {"sub", "u_1"},      {"jti", "j1"},
          {"gen", 3},        {"iat", now / 1000}, {"exp", now / 1000 + 60}};
}
json app_claims() {
  return {{"iss", app_issuer}, {"aud", "chat"}, {"sub", "app-1"}, {"exp", now / 1000 + 60}};
}

// A key pair of another application.
struct key_pair {
  explicit key_pair(EVP_PKEY* k, const char* name) : key(k, EVP_PKEY_free), alg(name) {}
  std::shared_ptr<EVP_PKEY> key;
  std::string alg;

  std::string pem() const {
    std::unique_ptr<BIO, int (*)(BIO*)> bio(BIO_new(BIO_s_mem()), BIO_free);
    PEM_write_bio_PUBKEY(bio.get(), key.get());
    char* text = nullptr;
    const auto n = BIO_get_mem_data(bio.get(), &text);
    return {text, static_cast<std::size_t>(n)};
  }
  std::string sign(const json& payload, json header = {}) const {
    if (header.is_null()) header = {{"alg", alg}};
    const auto text = part(header) + "." + part(payload);
    std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> ctx(EVP_MD_CTX_new(), EVP_MD_CTX_free);
    EVP_DigestSignInit(ctx.get(), nullptr, alg == "EdDSA" ? nullptr : EVP_sha256(), nullptr,
                       key.get());
    std::string out(512, '\0');
    auto n = out.size();
    EVP_DigestSign(ctx.get(), reinterpret_cast<unsigned char*>(out.data()), &n,
                   reinterpret_cast<const unsigned char*>(text.data()), text.size());
    out.resize(n);
    return text + "." + base64url_encode(out);
  }
};
const key_pair& rsa() {
  static const key_pair pair(
      EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", static_cast<std::size_t>(2048)), "RS256");
  return pair;
}
const key_pair& ed() {
  static const key_pair pair(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), "EdDSA");
  return pair;
}

jwt_checker checker(const std::string& keys = {}) {
  std::shared_ptr<const foreign_issuer> foreign;
  if (!keys.empty()) {
    auto parsed = parse_keys(keys);
    EXPECT_TRUE(parsed);
    foreign = std::make_shared<const foreign_issuer>(foreign_issuer{app_issuer, "chat", *parsed});
  }
  return jwt_checker(own_secret, foreign, [] { return now; });
}

bool good(const jwt_checker& c, const std::string& token) {
  const auto r = c.check(token);
  if (!r) {
    EXPECT_EQ(r.error().code, errc::unauthenticated);
  }
  return static_cast<bool>(r);
}

TEST(Jwt, OwnTokensComeBackAsTheyWereSigned) {
  const auto made = sign_token(own_secret, "u_1", 7, 60, now);
  EXPECT_EQ(made.expires_at, now + 60'000);
  const auto c = checker().check(made.token);
  ASSERT_TRUE(c);
  EXPECT_EQ(c->user, "u_1");
  EXPECT_EQ(c->generation, 7);
  EXPECT_EQ(c->expires_at, made.expires_at);
  EXPECT_EQ(c->issued_at, now);
  EXPECT_FALSE(c->foreign);
  EXPECT_GE(c->jti.size(), 16u);
  EXPECT_NE(made.token, sign_token(own_secret, "u_1", 7, 60, now).token);
}

TEST(Jwt, HeadersCannotChooseTheAlgorithm) {
  const auto c = checker();
  const auto claims = own_claims();
  ASSERT_TRUE(good(c, own(claims)));
  const auto payload = part(claims);
  for (const json& header : std::vector<json>{{{"alg", "none"}},
                                              {{"alg", "None"}},
                                              {{"alg", "nOnE"}},
                                              {{"alg", ""}},
                                              json::object()}) {
    EXPECT_FALSE(good(c, part(header) + "." + payload + ".")) << header;
    EXPECT_FALSE(good(c, part(header) + "." + payload)) << header;
    EXPECT_FALSE(good(c, hs(header, claims, own_secret)))
        << header;  // a right signature does not help
  }
  for (const json& header : std::vector<json>{{{"alg", "HS512"}},
                                              {{"alg", "RS256"}},
                                              {{"alg", "EdDSA"}},
                                              {{"alg", 5}},
                                              {{"alg", nullptr}},
                                              {{"alg", "HS256"}, {"crit", {"x"}}},
                                              {{"alg", "HS256"}, {"typ", "secevent+jwt"}},
                                              json::array(),
                                              5})
    EXPECT_FALSE(good(c, hs(header, claims, own_secret))) << header;
  // S122: a key id is only a name.
  for (const std::string& kid :
       {std::string("../../dev/null"), std::string("' OR 1=1"), std::string(5000, 'k')})
    EXPECT_FALSE(good(c, hs({{"alg", "HS256"}, {"kid", kid}}, claims, "")));
  EXPECT_FALSE(
      good(c, hs({{"alg", "HS256"}, {"kid", std::string(10240, 'k')}}, claims, own_secret)));
}

TEST(Jwt, FormsThatAreNoToken) {
  const auto c = checker();
  const auto token = own(own_claims());
  const auto dot = token.rfind('.');
  for (const auto& bad :
       {std::string(), std::string("."), std::string(".."), std::string("..."), "." + token,
        token + ".", token + "x", token + "=", token.substr(0, token.size() - 2),
        token.substr(0, dot), token.substr(0, dot + 1), " " + token,
        token.substr(0, dot) + "." + base64url_encode(std::string(32, '\0')),
        std::string(100'000, 'a'), base64url_encode(std::string(2000, '[')) + ".e30.AA"})
    EXPECT_FALSE(good(c, bad)) << bad.substr(0, 80);
  // Two readings of one name.
  const auto text = part({{"alg", "HS256"}}) + "." +
                    base64url_encode(own_claims().dump().insert(1, R"("sub":"u_2",)"));
  EXPECT_FALSE(good(c, text + "." + base64url_encode(hmac_sha256(own_secret, text))));
  for (const char* key : {"", "secret", "parley"})
    EXPECT_FALSE(good(c, own(own_claims(), key)));
  EXPECT_FALSE(good(c, own(own_claims(), std::string(32, '\0'))));
}

struct change {
  const char* name;
  json value;  // null: taken out
  bool good;
};

TEST(Jwt, ClaimsOfOurOwn) {
  const auto c = checker();
  const std::int64_t s = now / 1000;
  for (const auto& [name, value, expected] :
       std::vector<change>{{"exp", s - 1, false},
                           {"exp", s, false},
                           {"exp", s + 1, true},
                           {"exp", nullptr, false},
                           {"exp", std::to_string(s + 60), false},
                           {"exp", 1e300, false},
                           {"exp", s + 60.5, false},
                           {"exp", -5, false},
                           {"exp", true, false},
                           {"exp", json::array({s + 60}), false},
                           {"exp", UINT64_MAX, false},
                           {"exp", 253'402'300'801, false},
                           {"exp", 253'402'300'800, true},
                           {"nbf", s + 60, true},
                           {"nbf", s + 61, false},
                           {"nbf", "x", false},
                           {"nbf", s - 1000, true},
                           {"nbf", s + 0.5, true},
                           {"iat", s + 60, true},
                           {"iat", s + 61, false},
                           {"iat", nullptr, true},
                           {"iat", "x", false},
                           {"iat", -1, false},
                           {"iss", "evil", false},
                           {"iss", nullptr, false},
                           {"iss", 5, false},
                           {"iss", app_issuer, false},
                           {"sub", nullptr, false},
                           {"sub", "", false},
                           {"sub", 5, false},
                           {"sub", "a b", false},
                           {"sub", std::string(65, 'a'), false},
                           {"gen", nullptr, false},
                           {"gen", "3", false},
                           {"jti", nullptr, false},
                           {"jti", "", false},
                           {"unknown", json::object(), true}}) {
    auto claims = own_claims();
    if (value.is_null())
      claims.erase(name);
    else
      claims[name] = value;
    EXPECT_EQ(good(c, own(claims)), expected) << name << " " << value;
  }
}

TEST(Jwt, ForeignTokensNeedTheirIssuersKeyAndAudience) {
  const auto c = checker(rsa().pem());
  const auto& key = rsa();
  const auto found = c.check(key.sign(app_claims()));
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->foreign);
  EXPECT_EQ(found->user, "app-1");
  EXPECT_EQ(found->jti.substr(0, 7), "sha256.");
  EXPECT_TRUE(good(c, own(own_claims())));  // ours count beside them
  for (const auto& [name, value, expected] :
       std::vector<change>{{"aud", "other", false},
                           {"aud", nullptr, false},
                           {"aud", json::array(), false},
                           {"aud", {"a", "b"}, false},
                           {"aud", {"a", "chat"}, true},
                           {"aud", 5, false},
                           {"aud", "chatx", false},
                           {"iss", "https://app.example/", false},
                           {"iss", "parley", false},
                           {"exp", now / 1000, false},
                           {"exp", nullptr, false},
                           {"sub", nullptr, false}}) {
    auto claims = app_claims();
    if (value.is_null())
      claims.erase(name);
    else
      claims[name] = value;
    EXPECT_EQ(good(c, key.sign(claims)), expected) << name << " " << value;
  }
  // S121: the public key as a secret; and the keys the other way round.
  EXPECT_FALSE(good(c, hs({{"alg", "HS256"}}, app_claims(), key.pem())));
  EXPECT_FALSE(good(c, hs({{"alg", "RS256"}}, app_claims(), key.pem())));
  EXPECT_FALSE(good(c, own(app_claims())));
  EXPECT_FALSE(good(c, key.sign(own_claims())));
  EXPECT_FALSE(good(c, ed().sign(app_claims())));
  // Without a configured issuer nobody else's count.
  EXPECT_FALSE(good(checker(), key.sign(app_claims())));
}

TEST(Jwt, KeysAreChosenByIdAndSwappedAtAReload) {
  auto keys = *parse_keys(rsa().pem());
  keys[0].kid = "one";
  auto more = *parse_keys(ed().pem());
  more[0].kid = "two";
  keys.push_back(more[0]);
  jwt_checker c(own_secret,
                std::make_shared<const foreign_issuer>(foreign_issuer{app_issuer, "chat", keys}),
                [] { return now; });
  EXPECT_TRUE(good(c, rsa().sign(app_claims(), {{"alg", "RS256"}, {"kid", "one"}})));
  EXPECT_TRUE(good(c, ed().sign(app_claims(), {{"alg", "EdDSA"}, {"kid", "two"}})));
  EXPECT_TRUE(good(c, ed().sign(app_claims())));
  EXPECT_FALSE(good(c, ed().sign(app_claims(), {{"alg", "EdDSA"}, {"kid", "one"}})));
  EXPECT_FALSE(good(c, ed().sign(app_claims(), {{"alg", "EdDSA"}, {"kid", "three"}})));
  c.use(nullptr);
  EXPECT_FALSE(good(c, ed().sign(app_claims())));
}

TEST(Jwt, NamesOfForeignUsersAreTakenOnlyWhereTheyAreNames) {
  const auto c = checker(ed().pem());
  auto claims = app_claims();
  claims["name"] = "Jane Doe";
  EXPECT_EQ(c.check(ed().sign(claims))->name, "");  // a name has no space
  claims["preferred_username"] = "jane";
  EXPECT_EQ(c.check(ed().sign(claims))->name, "jane");
}

TEST(Issuer, IsConfiguredAsAWhole) {
  config::tokens_t t;
  EXPECT_TRUE(load_issuer(t));
  EXPECT_EQ(*load_issuer(t), nullptr);
  t.issuer = app_issuer;
  EXPECT_FALSE(load_issuer(t));
  t.audience = "chat";
  t.key_file = "/nonexistent/keys.json";
  EXPECT_FALSE(load_issuer(t));
  const auto path = std::filesystem::temp_directory_path() / ("parley-keys-" + make_id(""));
  std::ofstream(path) << es_key;
  t.key_file = path;
  EXPECT_TRUE(load_issuer(t));
  t.issuer = "parley";
  EXPECT_FALSE(load_issuer(t));
  std::filesystem::remove(path);
}

TEST(Secrets, AreMadeOnceAndWatched) {
  const auto dir = std::filesystem::temp_directory_path() / ("parley-secrets-" + make_id(""));
  const auto first = load_or_make_secrets(dir);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->token_secret.size(), 32u);
  EXPECT_TRUE(first->exposed.empty());
  for (const char* name : {"secret.key", "admin.token"}) {
    struct stat info {};
    ASSERT_EQ(::stat((dir / name).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u) << name;
  }
  const auto again = load_or_make_secrets(dir);
  EXPECT_EQ(again->token_secret, first->token_secret);
  EXPECT_EQ(again->admin_token, first->admin_token);
  EXPECT_EQ(*load_admin_token(dir), first->admin_token);
  ::chmod((dir / "secret.key").c_str(), 0644);
  EXPECT_EQ(load_or_make_secrets(dir)->exposed, (std::vector<std::string>{dir / "secret.key"}));
  std::ofstream(dir / "secret.key") << "not hex";
  EXPECT_FALSE(load_or_make_secrets(dir));
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace parley::net::auth
