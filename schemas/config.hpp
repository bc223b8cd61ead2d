// The typed settings: field = default + unit + documentation. Merge order: file (TOML), environment
// (PARLEY_SECTION_KEY), command line (--set section.key=value). A reload makes a new immutable
// object which is sent to the parts that use it; keys marked "restart" in the reference keep their
// old value until then.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schemas/error.hpp"

namespace parley {

struct limits {
  std::int64_t frame_bytes = 65536;  // one message from a client, all fragments together
  std::int64_t fragments = 1024;     // fragments of one message
  std::int64_t message_ms = 30000;   // from a message's first fragment to its last
  std::int64_t text_code_points = 4000;
  std::int64_t in_flight = 64;           // requests of one session that wait for an answer
  std::int64_t outgoing_bytes = 262144;  // queued towards one client
  std::int64_t outgoing_frames = 1000;
  std::int64_t outgoing_age_ms = 5000;  // none queued for longer
  std::int64_t messages_per_s = 20;     // per user
  std::int64_t messages_burst = 60;
  std::int64_t connections_per_address = 10000;
  std::int64_t connections = 15000;   // sockets in all; below the process's limit of open files
  std::int64_t pings_per_s = 20;      // answered; bursts of as many
  std::int64_t ping_interval_s = 30;  // heart-beat
  std::int64_t ping_timeout_s = 5;    // after the second unanswered one
  std::int64_t hello_timeout_ms = 10000;
  std::int64_t head_timeout_ms = 10000;
  std::int64_t body_timeout_ms = 30000;
  std::int64_t body_bytes = 65536;
  std::int64_t room_queue = 10000;       // proposed and not yet committed changes of one room
  std::int64_t session_queue = 1000;     // requests of one session that wait for their room
  std::int64_t writer_queue = 20000;     // changes that wait for a commit, all rooms together
  std::int64_t reader_queue = 1000;      // reads that wait, per reader
  std::int64_t read_deadline_ms = 5000;  // a read that waited longer is answered `unavailable`
  std::int64_t replay_events = 1000;     // more missed ones are a gap `far`
  std::int64_t replay_page_bytes = 65536;
  std::int64_t hash_queue = 64;                  // passwords that wait to be hashed
  std::int64_t login_failures_per_account = 10;  // in 15 minutes
  std::int64_t login_failures_per_address = 100;
  std::int64_t http_in_flight = 16;   // pipelined requests of one HTTP connection
  std::int64_t http_waiting = 20000;  // requests over HTTP that wait for an answer, all together
};

struct config {
  struct server_t {
    std::string listen = "127.0.0.1:8080", admin_listen = "127.0.0.1:8081";
    std::string public_url;  // e.g. https://chat.example; empty: what the listener has
    // Addresses or CIDR blocks whose forwarded addresses are believed.
    std::vector<std::string> trusted_proxies;
    std::vector<std::string> allowed_origins;  // browsers' origins beside public_url
    std::int64_t io_threads = 2;
    std::int64_t workers = 2;      // actor scheduler threads
    std::int64_t drain_ms = 8000;  // over which a stopping server spreads its closes
  } server;
  struct storage_t {
    std::string data = "./parley-data", url;  // url empty: sqlite:DATA/parley.db
    std::string durability = "full";          // or relaxed
    std::int64_t readers = 4;                 // 1 to 8
    std::int64_t cache_kib = 16384;           // the writer's page cache
    std::int64_t room_idle_s = 60;  // a room without active sessions is put away after this
    bool migrate = true;            // bring the schema up to date at the start
  } storage;
  struct accounts_t {
    std::string registration = "open";  // or invitation, closed
    std::int64_t hash_memory_kib = 19456, hash_passes = 2, hash_parallel = 2;
  } accounts;
  struct tokens_t {
    std::int64_t ttl_s = 2592000;            // of own tokens
    std::string issuer, audience, key_file;  // a foreign issuer: iss, aud, JWKS or PEM file
  } tokens;
  struct presence_t {
    std::int64_t grace_ms = 10000;  // without a session until offline
  } presence;
  struct timers_t {
    std::int64_t room_updated_quiet_ms = 300, room_updated_latest_ms = 1000;
    std::int64_t unread_per_s = 4, read_marks_ms = 500, presence_ms = 1000, typing_ms = 5000,
                 sync_ms = 25000;
    // Online members above which presence, typing and read name nobody.
    std::int64_t name_nobody_above = 200;
    std::int64_t slow_handler_ms = 1000;  // a handler over this is a warning
  } timers;
  struct log_t {
    std::string level = "info";
    std::string format = "auto";  // or json, text
  } log;
  parley::limits limits;
};

/// One key's documentation, for `parleyd config` and the checks.
struct config_key {
  std::string name;      // "server.listen"
  std::string value;     // effective, as TOML
  std::string doc;       // one line with unit
  bool restart = false;  // takes effect at the next start only
};

struct config_source {
  std::string file;                                              // empty: none
  std::vector<std::pair<std::string, std::string>> environment;  // PARLEY_SECTION_KEY=value pairs
  std::vector<std::string> sets;                                 // section.key=value
};

/// Merges and checks. The error names the key and, for a file, its line: unknown, ill-typed or
/// contradictory.
result<config> load_config(const config_source& from);
/// Every key with its effective value, in the reference's order.
std::vector<config_key> describe(const config& c);
/// The reference page: TOML with a comment per key (secrets masked).
std::string print_config(const config& c);

/// What a reload makes of a newly loaded config: keys that need a restart keep the running value.
config reloaded(const config& running, const config& loaded);
/// The keys that differ and take effect at the next start only.
std::vector<std::string> waiting_for_restart(const config& running, const config& loaded);

}  // namespace parley
