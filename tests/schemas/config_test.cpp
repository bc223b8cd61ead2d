// Where settings come from, in which order, and what is wrong with them.
#include "schemas/config.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

namespace parley {
namespace {

/// A configuration file for one test.
class config_file : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "parley-config-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  config_source with(const std::string& text) {
    config_source from;
    from.file = folder_ / "parley.toml";
    std::ofstream(from.file, std::ios::binary) << text;
    return from;
  }
  /// The error's words for a file with this text.
  std::string error_of(const std::string& text) {
    const auto c = load_config(with(text));
    return c ? "" : c.error().message;
  }
  std::filesystem::path folder_;
};

config_source sets(std::vector<std::string> list) { return {"", {}, std::move(list)}; }
config_source environment(const std::string& name, const std::string& value) {
  return {"", {{name, value}}, {}};
}

std::string error_of(const config_source& from) {
  const auto c = load_config(from);
  return c ? "" : c.error().message;
}

void expect_says(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << "\"" << message << "\"";
}

TEST(config, without_any_source_the_defaults_hold) {
  const auto c = load_config({});
  ASSERT_TRUE(c);
  EXPECT_EQ(c->server.listen, "127.0.0.1:8080");
  EXPECT_EQ(c->server.admin_listen, "127.0.0.1:8081");
  EXPECT_EQ(c->storage.durability, "full");
  EXPECT_EQ(c->limits.frame_bytes, 65536);
  EXPECT_EQ(c->limits.text_code_points, 4000);
  EXPECT_EQ(c->limits.connections_per_address, 10000);
}

TEST(config, every_default_is_within_its_own_bounds) {
  std::vector<std::string> list;
  for (const auto& key : describe(config{})) {
    auto value = key.value;
    if (value.starts_with('"')) value = value.substr(1, value.size() - 2);
    if (value == "[]") value = "";
    list.push_back(key.name + "=" + value);
  }
  EXPECT_EQ(error_of(sets(list)), "");
}

TEST_F(config_file, all_types_are_read) {
  const auto c = load_config(with(R"(
[server]
listen = "0.0.0.0:9000"
trusted_proxies = ["10.0.0.0/8", "::1"]
[storage]
readers = 8
migrate = false
[limits]
frame_bytes = 1_024
)"));
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->server.listen, "0.0.0.0:9000");
  EXPECT_EQ(c->server.trusted_proxies, (std::vector<std::string>{"10.0.0.0/8", "::1"}));
  EXPECT_EQ(c->storage.readers, 8);
  EXPECT_FALSE(c->storage.migrate);
  EXPECT_EQ(c->limits.frame_bytes, 1024);
  EXPECT_EQ(c->limits.in_flight, 64) << "what is not named keeps its default";
}

TEST_F(config_file, the_environment_goes_over_the_file_and_the_command_line_over_both) {
  auto from = with("[limits]\nin_flight = 1\nroom_queue = 1\nwriter_queue = 1\n");
  from.environment = {{"PARLEY_LIMITS_ROOM_QUEUE", "2"}, {"PARLEY_LIMITS_WRITER_QUEUE", "2"}};
  from.sets = {"limits.writer_queue=3"};
  const auto c = load_config(from);
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->limits.in_flight, 1);
  EXPECT_EQ(c->limits.room_queue, 2);
  EXPECT_EQ(c->limits.writer_queue, 3);
}

TEST_F(config_file, an_unknown_key_stops_with_its_line_and_the_closest_one) {
  const auto message = error_of("[limits]\n\nin_flght = 3\n");
  expect_says(message, "parley.toml:3: ");
  expect_says(message, "limits.in_flght");
  expect_says(message, "did you mean \"limits.in_flight\"?");
}

TEST_F(config_file, a_key_in_the_wrong_section_is_pointed_to_the_right_one) {
  expect_says(error_of("[server]\nreaders = 3\n"), "did you mean \"storage.readers\"?");
  expect_says(error_of("readers = 3\n"), "parley.toml:1: ");
}

TEST_F(config_file, an_unknown_section_stops_with_its_line) {
  const auto message = error_of("[server]\n[cluster]\nname = \"x\"\n");
  expect_says(message, "parley.toml:2: ");
  expect_says(message, "[cluster]");
}

TEST_F(config_file, what_resembles_nothing_gets_no_suggestion) {
  EXPECT_EQ(error_of("[limits]\nqqqqqqqqqqqqqqqqqqqqq = 3\n").find("did you mean"),
            std::string::npos);
}

TEST_F(config_file, an_ill_typed_value_stops_with_its_line) {
  expect_says(error_of("[limits]\nin_flight = \"3\"\n"), ":2: limits.in_flight must be an integer");
  expect_says(error_of("[limits]\nin_flight = 3.5\n"), "must be an integer");
  expect_says(error_of("[server]\nlisten = 8080\n"), "server.listen must be a string");
  expect_says(error_of("[server]\ntrusted_proxies = \"10.0.0.1\"\n"), "must be a list of strings");
  expect_says(error_of("[server]\ntrusted_proxies = [1]\n"), "must be a list of strings");
  expect_says(error_of("[storage]\nmigrate = 1\n"), "must be true or false");
  expect_says(error_of("[storage]\nmigrate = 2026-01-01\n"), "must be true or false");
  expect_says(error_of("server = 1\n"), "must be a section");
  expect_says(error_of("[server.listen]\nport = 1\n"), "server.listen must be a string");
}

TEST_F(config_file, a_syntax_error_stops_with_its_line) {
  expect_says(error_of("[server]\nlisten = \n"), "parley.toml:2: ");
  expect_says(error_of("[server]\nlisten = \"127.0.0.1:1\"\nlisten = \"127.0.0.1:2\"\n"),
              "parley.toml:3: ");
}

TEST_F(config_file, a_file_that_is_not_there_or_no_file_is_said) {
  expect_says(parley::error_of(config_source{folder_ / "none.toml", {}, {}}),
              "cannot read the configuration file");
  expect_says(parley::error_of(config_source{folder_, {}, {}}),
              "cannot read the configuration file");
}

TEST_F(config_file, a_huge_file_is_refused) {
  expect_says(error_of(std::string(2 << 20, '#')), "over 1 MiB");
}

TEST_F(config_file, contradictions_name_the_place_that_made_them) {
  expect_says(error_of("[limits]\nping_interval_s = 4\n"),
              ":2: limits.ping_timeout_s must not be greater than limits.ping_interval_s");
  auto from = with("[limits]\nping_timeout_s = 20\n");
  from.sets = {"limits.ping_interval_s=10"};
  expect_says(parley::error_of(from), "--set limits.ping_interval_s: ");
}

TEST(config, contradictory_keys_stop_the_start) {
  expect_says(error_of(sets({"limits.ping_timeout_s=31"})),
              "limits.ping_timeout_s must not be greater");
  expect_says(error_of(sets({"timers.room_updated_quiet_ms=2000"})),
              "timers.room_updated_latest_ms");
  expect_says(error_of(sets({"server.admin_listen=127.0.0.1:8080"})),
              "server.admin_listen must not be the same");
  expect_says(error_of(sets({"tokens.issuer=https://id.example"})), "tokens.key_file");
  expect_says(error_of(sets({"tokens.audience=chat"})), "tokens.audience needs tokens.issuer");
  EXPECT_EQ(error_of(sets({"server.listen=127.0.0.1:0", "server.admin_listen=127.0.0.1:0"})), "")
      << "the kernel chooses two ports";
  EXPECT_EQ(error_of(sets({"tokens.issuer=https://id.example", "tokens.key_file=keys.json"})), "");
}

TEST(config, numbers_have_bounds) {
  expect_says(error_of(sets({"storage.readers=0"})), "storage.readers must be from 1 to 8, not 0");
  expect_says(error_of(sets({"storage.readers=9"})), "storage.readers must be from 1 to 8, not 9");
  EXPECT_EQ(error_of(sets({"storage.readers=1"})), "");
  EXPECT_EQ(error_of(sets({"storage.readers=8"})), "");
  expect_says(error_of(sets({"limits.frame_bytes=-1"})), "limits.frame_bytes must be from 1");
  expect_says(error_of(sets({"limits.frame_bytes=99999999999999999999"})), "must be an integer");
  expect_says(error_of(sets({"limits.frame_bytes=12x"})), "must be an integer");
  expect_says(error_of(sets({"limits.frame_bytes="})), "must be an integer");
}

TEST(config, every_limit_can_be_set_to_one) {
  for (const auto& key : describe(config{})) {
    if (!key.name.starts_with("limits.")) continue;
    std::vector<std::string> list = {"limits.ping_timeout_s=1", key.name + "=1"};
    EXPECT_EQ(error_of(sets(list)), "") << key.name;
    EXPECT_FALSE(key.restart) << key.name << " is reloadable by the contract";
  }
}

TEST(config, a_listener_is_a_numeric_address_and_a_port) {
  for (const std::string good : {"127.0.0.1:0", "0.0.0.0:65535", "[::1]:80", "[::]:8080"})
    EXPECT_EQ(error_of(sets({"server.listen=" + good})), "") << good;
  for (const std::string bad : {"", "8080", ":8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
                                "127.0.0.1:-1", "127.0.0.1:8x", "localhost:80", "::1:80", "[::1]",
                                "[127.0.0.1]:80", "1.2.3:80", "127.0.0.1:80 "})
    expect_says(error_of(sets({"server.listen=" + bad})), "server.listen must");
}

TEST(config, words_are_of_their_list) {
  expect_says(error_of(sets({"storage.durability=fulll"})),
              "storage.durability must be one of full, relaxed");
  expect_says(error_of(sets({"accounts.registration=Open"})),
              "must be one of open, invitation, closed");
  expect_says(error_of(sets({"log.level=verbose"})), "must be one of debug, info, warn, error");
  expect_says(error_of(sets({"log.format=xml"})), "must be one of auto, json, text");
}

TEST(config, origins_and_urls_have_no_path) {
  for (const std::string good :
       {"https://chat.example", "http://127.0.0.1:8080", "https://[::1]:8443", "http://localhost"})
    EXPECT_EQ(error_of(sets({"server.public_url=" + good, "server.allowed_origins=" + good})), "")
        << good;
  for (const std::string bad : {"chat.example", "https://", "https://chat.example/",
                                "https://chat.example/x", "ws://chat.example", "https://a b",
                                "https://x:0y", "https://x:70000", "https://user@x", "https://*"})
    expect_says(error_of(sets({"server.public_url=" + bad})), "server.public_url must be http");
  EXPECT_EQ(error_of(sets({"server.public_url="})), "");
  EXPECT_EQ(error_of(sets({"server.allowed_origins=null"})), "");
}

TEST(config, proxies_are_addresses_or_blocks) {
  EXPECT_EQ(error_of(sets({"server.trusted_proxies=10.0.0.0/8, 192.168.1.1,fd00::/8"})), "");
  for (const std::string bad :
       {"proxy.example", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/x", "10.0.0.0/-1"})
    expect_says(error_of(sets({"server.trusted_proxies=" + bad})), "server.trusted_proxies must");
}

TEST(config, database_urls_have_their_form) {
  for (const std::string good : {"", "sqlite:/tmp/x.db", "mysql://u:p@127.0.0.1:3306/chat",
                                 "mysql://u:p@localhost/chat?socket=/run/x"})
    EXPECT_EQ(error_of(sets({"storage.url=" + good})), "") << good;
  for (const std::string bad :
       {"sqlite:", "postgres://x/y", "mysql://u:p@host", "mysql://u:p@host/", "x.db"})
    expect_says(error_of(sets({"storage.url=" + bad})),
                "storage.url must be sqlite:PATH or mysql://");
}

TEST(config, a_list_from_outside_the_file_has_commas) {
  const auto c = load_config(
      environment("PARLEY_SERVER_ALLOWED_ORIGINS", "https://a.example, https://b.example"));
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->server.allowed_origins,
            (std::vector<std::string>{"https://a.example", "https://b.example"}));
  EXPECT_TRUE(load_config(sets({"server.allowed_origins="}))->server.allowed_origins.empty());
}

TEST(config, a_set_names_a_known_key_and_a_value) {
  expect_says(error_of(sets({"limits.in_flight"})), "must be SECTION.KEY=VALUE");
  expect_says(error_of(sets({"in_flight=3"})), "did you mean \"limits.in_flight\"?");
  expect_says(error_of(sets({"limits.in_flite=3"})), "did you mean \"limits.in_flight\"?");
  expect_says(error_of(sets({"=3"})), "unknown key");
  EXPECT_EQ(load_config(sets({"storage.url=sqlite:/tmp/a=b.db"}))->storage.url,
            "sqlite:/tmp/a=b.db");
}

TEST(config, a_variable_of_a_known_section_must_be_a_key) {
  EXPECT_EQ(load_config(environment("PARLEY_SERVER_LISTEN", "127.0.0.1:9"))->server.listen,
            "127.0.0.1:9");
  const auto message = error_of(environment("PARLEY_SERVER_LISTN", "x"));
  expect_says(message, "environment PARLEY_SERVER_LISTN: ");
  expect_says(message, "did you mean \"server.listen\"?");
  expect_says(error_of(environment("PARLEY_STORAGE_READERS", "many")),
              "storage.readers must be an integer");
}

TEST(config, variables_of_no_section_are_somebody_elses) {
  for (const std::string name : {"PARLEY_FAULTS", "PARLEY_RECORD", "PARLEY_SHOTS", "PARLEYD",
                                 "PARLEY_", "PARLEY_FAULTS_COMMIT", "PATH", "PARLEY_SERVER"})
    EXPECT_EQ(error_of(environment(name, "x")), "") << name;
}

TEST(config, values_with_zero_bytes_or_bad_utf8_are_refused) {
  expect_says(error_of(sets({"storage.data=a\xFF"})), "storage.data must be UTF-8");
  expect_says(error_of(sets({std::string("storage.data=a\0b", 16)})), "storage.data must be UTF-8");
  expect_says(error_of(sets({"storage.data="})), "storage.data must not be empty");
}

TEST(config, every_key_is_described_once_with_a_sentence) {
  std::set<std::string> names;
  for (const auto& key : describe(config{})) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_FALSE(key.doc.empty()) << key.name;
    EXPECT_TRUE(key.doc.ends_with(".")) << key.name;
    EXPECT_FALSE(key.value.empty()) << key.name;
  }
  for (const std::string wanted : {"server.listen", "storage.durability", "accounts.registration",
                                   "tokens.ttl_s", "log.level", "limits.connections_per_address"})
    EXPECT_TRUE(names.contains(wanted)) << wanted;
}

TEST(config, every_member_of_the_settings_has_its_key) {
  // 8-byte integers, strings of 32, lists of 24 and one padded flag: a member without a row changes
  // this sum.
  std::size_t bytes = 0;
  for (const auto& key : describe(config{}))
    bytes += key.value.starts_with('"')   ? sizeof(std::string)
             : key.value.starts_with('[') ? sizeof(std::vector<std::string>)
                                          : sizeof(std::int64_t);
  EXPECT_EQ(bytes, sizeof(config));
}

TEST_F(config_file, the_printed_reference_reads_back_as_the_same_settings) {
  const auto c = load_config(sets({"server.allowed_origins=https://a.example,https://b.example",
                                   "storage.data=a \"b\"\\ \t日", "limits.in_flight=5"}));
  ASSERT_TRUE(c);
  const auto page = print_config(*c);
  const auto again = load_config(with(page));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(print_config(*again), page);
  EXPECT_EQ(again->storage.data, c->storage.data);
  EXPECT_EQ(again->limits.in_flight, 5);
  expect_says(page, "# Requests of one session that wait for an answer");
  expect_says(page, "[limits]\n");
}

TEST(config, the_database_password_is_never_printed) {
  for (const std::string url :
       {"mysql://chat:geheim@127.0.0.1:3306/chat", "mysql://chat:geh@geheim@127.0.0.1/chat",
        "mysql://chat:geheim/x@h/chat"}) {
    const auto c = load_config(sets({"storage.url=" + url}));
    ASSERT_TRUE(c) << c.error().message;
    EXPECT_EQ(print_config(*c).find("geheim"), std::string::npos) << url;
    EXPECT_EQ(c->storage.url, url);
  }
  EXPECT_EQ(error_of(sets({"storage.url=postgres://u:geheim@h/x"})).find("geheim"),
            std::string::npos);
}

TEST(config, a_reload_keeps_what_needs_a_restart) {
  const config running;
  const auto loaded =
      load_config(sets({"server.listen=127.0.0.1:9", "limits.in_flight=5", "log.level=debug"}));
  ASSERT_TRUE(loaded);
  const auto next = reloaded(running, *loaded);
  EXPECT_EQ(next.server.listen, running.server.listen);
  EXPECT_EQ(next.limits.in_flight, 5);
  EXPECT_EQ(next.log.level, "debug");
  EXPECT_EQ(waiting_for_restart(running, *loaded), std::vector<std::string>{"server.listen"});
}

}  // namespace
}  // namespace parley
