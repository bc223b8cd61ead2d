// The gate inward: CAF hidden behind plain calls. I/O threads open sessions, submit requests and
// ask on behalf of HTTP; the admin listener reads snapshots, which ask no actor and so answer while
// one is stuck.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "actors/ports.hpp"
#include "schemas/config.hpp"
#include "schemas/domain/event.hpp"
#include "schemas/metrics.hpp"
#include "schemas/time.hpp"
#include "schemas/wire/requests.hpp"

namespace parley {

/// The answer of a request made over HTTP: `fields` is the inside of the JSON object, or `error`.
struct answer {
  std::string fields;
  std::optional<failure> error;
};
/// Called once, on any thread. Never called where a commit's outcome stays unknown: then
/// `abandoned` is set and the connection is to be closed without an answer.
struct reply {
  answer what;
  bool abandoned = false;
};
using reply_fn = std::function<void(reply)>;

/// What the admin listener shows of a session; filled by the session actor and its connection, read
/// by anybody.
struct session_card {
  std::string session, address;  // set before it is shared
  unix_ms connected_at = 0;
  std::atomic<std::int64_t> in_flight{0}, queued_bytes{0}, queued_frames{0}, rooms_entered{0};
  std::atomic<bool> greeted{false};
  // The user's id, set once by the session actor before `greeted`.
  std::string user;
};

struct session_handle;  // a session actor; defined in actors/
using session_ref = std::shared_ptr<session_handle>;

// ---- accounts, as HTTP asks for them
struct register_user {
  std::string name, password, display_name, invitation, address;
};
struct login {
  std::string name, password, address, device;
};  // device: an opaque token the client kept, or empty
struct change_password {
  claims who;
  std::string password, new_password, address;
};
struct logout {
  claims who;
};
struct renew {
  claims who;
};  // answers the account; the caller signs
struct get_me {
  claims who;
};
struct patch_me {
  claims who;
  std::optional<std::string> display_name, picture;
};
// by the administrator
struct admin_add_user {
  std::string id, name, display_name, password;
};  // id, password may be empty; an existing id answers it
struct admin_find_users {
  std::string query;
};
struct admin_set_password {
  std::string user, password;
};
struct admin_suspend {
  std::string user;
  bool on = true;
  std::optional<unix_ms> until;
  std::string reason;
};
struct admin_invite {};  // makes a registration code
using account_request =
    std::variant<register_user, login, change_password, logout, renew, get_me, patch_me,
                 admin_add_user, admin_find_users, admin_set_password, admin_suspend, admin_invite>;
/// What an account request gives: the user and the generation for a token, or text fields.
struct account_answer {
  profile who;
  std::int64_t generation = 1;
  std::string code;            // admin_invite
  std::vector<profile> found;  // admin_find_users
  std::vector<bool> found_suspended;
  std::string device;  // login: keep it, it names this device as known
};
using account_fn = std::function<void(result<account_answer>)>;

// ---- snapshots for the admin listener
struct actor_view {
  std::string kind, id;
  std::int64_t mailbox = 0, handled = 0;
  std::optional<std::int64_t> busy_since_ms;  // how long its handler has been running
  std::string busy_with;
  std::int64_t max_handler_us = 0;
};
struct room_view {
  std::string room;
  std::string state;  // loading, awake, passivating
  std::int64_t members = 0, online = 0, active = 0, passive = 0, last_seq = 0, queued = 0,
               mailbox = 0;
};
struct session_view {
  std::string session, user, address;
  std::int64_t rooms = 0, in_flight = 0, queued_bytes = 0, queued_frames = 0, mailbox = 0;
  unix_ms connected_at = 0;
};
struct storage_view {
  std::string state;  // ok, slow (in one commit for over 1 s), away
  std::string durability, epoch;
  std::int64_t schema_version = 0, queue = 0, queue_max = 0, batches = 0, last_batch = 0,
               commit_us_last = 0;
  std::optional<std::int64_t> busy_ms;  // how long the present commit has been running
  struct reader {
    std::int64_t queue = 0, handled = 0;
    std::optional<std::int64_t> busy_ms;
  };
  std::vector<reader> readers;
  std::int64_t reader_queue_max = 0;
};

struct runtime_options {
  std::shared_ptr<const config> settings;
  metrics* counters = nullptr;
  const token_checker* tokens = nullptr;
  std::vector<relay*> relays;  // one per I/O thread, by connection_id::io
  wall_clock now = system_now_ms;
};

class runtime {
 public:
  virtual ~runtime() = default;

  // ---- sessions. Called on the connection's I/O thread; never block.
  /// The first frame was `hello` and its token valid. The answer comes by the relay as `greet`, or
  /// a close.
  virtual session_ref open_session(connection_id conn, std::shared_ptr<session_card> card,
                                   claims who, std::string wire_id, wire::hello request) = 0;
  /// A request; its answer comes by the relay as `deliver{answers}`. `parse_ns`: steady time before
  /// decoding.
  virtual void submit(const session_ref& s, std::string wire_id, wire::request r,
                      std::int64_t parse_ns) = 0;
  /// The socket is gone.
  virtual void closed(const session_ref& s) = 0;

  // ---- HTTP
  /// A request in the user's name; the token has been checked, whether it is revoked is checked
  /// here. Answered within `deadline` where it is a read; a change once its outcome is known.
  virtual void ask(claims who, wire::request r, std::chrono::milliseconds deadline,
                   reply_fn then) = 0;
  virtual void account(account_request r, account_fn then) = 0;

  // ---- admin; snapshots read atomics and ask nobody
  virtual std::vector<actor_view> actors() const = 0;
  virtual std::vector<room_view> rooms() const = 0;
  virtual std::vector<session_view> sessions() const = 0;
  virtual storage_view storage() const = 0;
  /// Closes a session (1008 "closed by the administrator"); false where there is none.
  virtual bool end_session(const std::string& session) = 0;
  /// Puts a room away now if no session is active in it. Answers ok with `"passivated":true|false`,
  /// or not_found.
  virtual void passivate(const std::string& room, reply_fn then) = 0;
  virtual void reload(std::shared_ptr<const config> settings) = 0;

  // ---- health
  /// Whether a write is accepted now: nullopt, or why not. Never blocks.
  virtual std::optional<std::string> not_ready() const = 0;
  virtual const std::string& epoch() const = 0;

  // ---- stopping
  /// No new requests: each is answered `unavailable` with retry_after_ms; what was accepted is
  /// finished. Returns when all is committed or `deadline` has passed (false).
  virtual bool drain(std::chrono::milliseconds deadline) = 0;
  /// Ends all actors, flushes the writer, closes the store cleanly. False when `deadline` passed
  /// first.
  virtual bool stop(std::chrono::milliseconds deadline) = 0;
};

/// Opens the store (takes its lock, migrates) and starts the actors. Blocks.
result<std::unique_ptr<runtime>> start_runtime(runtime_options options);

}  // namespace parley
