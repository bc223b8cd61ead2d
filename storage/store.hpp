// The abstract store: what the actors ask of a database. Every function blocks; one object belongs
// to one thread. `writer_store` commits batches and account changes (exactly one per process);
// `reader_store` reads, several per process. Errors: `failure` with unavailable (the database is
// away), internal, or the op's own codes.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "schemas/config.hpp"
#include "schemas/domain/event.hpp"
#include "schemas/error.hpp"
#include "schemas/ids.hpp"
#include "schemas/metrics.hpp"
#include "schemas/wire/json_encode.hpp"

namespace parley::storage {

// ---- what a room loads

/// One membership row: invited, joined and banned people, and those who left and have messages in
/// the room, so that their own count goes on when they come back.
struct member_row {
  profile who;
  role r = role::member;
  membership state = membership::joined;
  seq_no joined_seq = 0;  // seq of the latest join
  unix_ms joined_at = 0;
  seq_no read_seq = 0;        // the read mark
  std::int64_t read_n = 0;    // ordinal n of the last message at or before the mark
  std::int64_t read_own = 0;  // the member's own messages up to the mark
  std::int64_t own_n = 0;     // the member's own messages in the room
  std::optional<unix_ms> muted_until;
  notify_level level = notify_level::all;
  bool pinned = false;
  std::int64_t order = 0;
};

struct room_row {
  room_key key{};
  std::string id, name, topic;
  room_kind kind = room_kind::public_room;
  history_policy history = history_policy::all;
  std::int64_t slow_mode_s = 0, retention_days = 0;
  seq_no head_seq = 0;      // the last event
  std::int64_t head_n = 0;  // the last message's ordinal
  std::int64_t term = 1;    // of the owner; checked in the statement that writes
  unix_ms last_at = 0;
  std::optional<last_message> last;
};

/// Everything a room needs to wake: a constant number of statements, whatever its size.
struct room_load {
  room_row room;
  std::vector<member_row> members;
};

// ---- changes that a room proposes; each is decided by the room, the store applies it as it is

struct append_message {
  seq_no seq = 0;
  std::int64_t n = 0, own_n = 0;  // ordinal in the room; the sender's own ordinal
  unix_ms at = 0;
  user_key sender{};
  std::string nonce, request_hash, text;
  std::optional<seq_no> reply_to;
  // It moves the sender's mark to itself in the same transaction.
};
struct append_member {
  seq_no seq = 0;
  unix_ms at = 0;
  event_kind kind = event_kind::member_joined;  // member_joined, member_left, member_changed
  user_key user{}, by{};
  membership state = membership::joined;  // after it
  role r = role::member;                  // after it
  std::string role_name, reason;          // as the event tells them
  std::int64_t head_n = 0;                // a join's mark: (seq, head_n, own)
  // A leave by the last owner is followed by an append_member of the new one (kind member_changed).
};
struct append_room_change {
  seq_no seq = 0;
  unix_ms at = 0;
  user_key by{};
  room_settings settings;
};
/// Moves a read mark. forward: never back, clamped to the last seq. backward (message.unread): to
/// seq - 1; a seq that is no live message is not_found (refused; what stands behind it is then
/// superseded, since it rests on no number of this one).
struct set_read {
  user_key user{};
  seq_no seq = 0;
  bool backward = false;
};
/// Looks whether (sender, nonce) is known, in the order of the room's changes; writes nothing. With
/// the change's `nonce` set it looks among the ops that are no messages instead.
struct find_nonce {
  user_key sender{};
  std::string nonce;
};
/// Makes a room with its first members, the creator as owner; events member.joined with seqs 1..k.
struct create_room {
  std::string id, name, topic;
  room_kind kind = room_kind::public_room;
  history_policy history = history_policy::all;
  user_key creator{};
  std::vector<user_key> members;  // the creator first, without repeats
  unix_ms at = 0;
  std::string nonce;  // of the creator, unique per user; empty: none
};

/// The nonce of an op that makes an event other than a message (join, leave, invite, change):
/// (user, nonce) and the op's hash, kept per room with the event's seq; a known one makes the
/// change a duplicate.
struct op_nonce {
  user_key user{};
  std::string nonce, request_hash;
};

struct change {
  std::variant<append_message, append_member, append_room_change, set_read, find_nonce, create_room>
      what;
  std::optional<op_nonce> nonce;
};

enum class outcome : std::uint8_t {
  committed = 1,  // durable as the durability names
  duplicate,      // its nonce is known: seq, at, request_hash, deleted are the first one's
  superseded,  // not tried, since one before it was a duplicate: number it anew and propose again
  refused,     // did not happen: `why`
  unknown,     // the database went away in COMMIT and did not come back in time
};

struct change_result {
  outcome what = outcome::committed;
  // duplicate; create_room: also of the committed one
  seq_no seq = 0;
  unix_ms at = 0;
  std::string request_hash;
  bool deleted = false;
  bool found = false;  // find_nonce
  // set_read: the mark after it
  seq_no read_seq = 0;
  std::int64_t read_n = 0, read_own = 0;
  // create_room
  room_key room{};
  std::string room_id;  // direct: maybe the one that the pair had already (then duplicate)
  failure why{};
};

/// One room's share of a group commit, in the order in which the room decided it.
struct room_share {
  room_key room{};  // 0 for create_room
  std::int64_t term = 1;
  seq_no expected_head = 0;  // head_seq on which the first change was decided
  std::vector<change> changes;
};

/// What the store says of one share: one result per change, in order.
struct share_result {
  std::vector<change_result> results;
};

// ---- accounts (written by people's requests through the writer)

struct new_user {
  std::string id, name, folded_name, display_name,
      password_hash;  // password_hash empty: none (token users)
  unix_ms at = 0;
  std::string invitation;  // a code to be used up in the same transaction
};
struct update_profile {
  user_key user{};
  std::optional<std::string> display_name, picture;
};
struct set_password {
  user_key user{};
  std::string password_hash;
  bool end_sessions = true;
};  // end_sessions: generation + 1
struct revoke_token {
  user_key user{};
  std::string jti;
  unix_ms expires_at = 0;
};
struct suspend_user {
  user_key user{};
  bool on = true;
  std::optional<unix_ms> until;
  std::string reason;
  unix_ms at = 0;
};
struct touch_seen {
  std::vector<std::pair<user_key, unix_ms>> last_seen;
};
struct make_invitation {
  std::string code;
  unix_ms at = 0, expires_at = 0;
};
struct remember_device {
  user_key user{};
  std::string device_hash;
  unix_ms at = 0;
};  // logged in from before
using account_change = std::variant<new_user, update_profile, set_password, revoke_token,
                                    suspend_user, touch_seen, make_invitation, remember_device>;

/// A user as `people` keeps it.
struct account {
  profile who;
  std::int64_t generation = 1;  // tokens of another generation are no longer valid
  bool suspended = false;
  std::optional<unix_ms> suspended_until;
  std::string suspended_reason;
  std::vector<std::string> revoked;  // jtis not yet expired
  std::optional<unix_ms> last_seen;
};
struct credentials {
  account who;
  std::string password_hash;
  std::vector<std::string> devices;
};

class writer_store {
 public:
  virtual ~writer_store() = default;
  /// One transaction for all shares, each under a savepoint (none where there is one share): a
  /// share's failure touches no other's. Returns one result per share. Waits out an unknown COMMIT
  /// by reopening and reading the heads, at most `unknown_ms` (60 s).
  virtual std::vector<share_result> commit(const std::vector<room_share>& shares) = 0;
  /// One transaction. new_user: a taken name or id is `conflict`, an unknown invitation
  /// `forbidden`.
  virtual result<account> apply(const account_change& c) = 0;
  /// Housekeeping between batches, when idle: WAL checkpoint, expired revocations. Returns ms until
  /// it wants to be called again.
  virtual std::int64_t idle() = 0;
  /// True where a write would be accepted now (readyz).
  virtual bool healthy() = 0;
};

class reader_store {
 public:
  virtual ~reader_store() = default;
  virtual result<room_load> load_room(std::string_view room_id) = 0;  // not_found
  /// Messages in their present state in one snapshot; `first_visible` bounds `history: joined`.
  virtual result<wire::history_page> history(room_key room, std::optional<seq_no> before,
                                             std::optional<seq_no> after, std::int64_t limit,
                                             seq_no first_visible) = 0;
  /// Events with seq > after, at most `limit` and `max_bytes` (of text), with present texts.
  virtual result<wire::events_page> events(room_key room, seq_no after, std::int64_t limit,
                                           std::int64_t max_bytes) = 0;
  /// A page of the user's rooms by last activity, with exact counters: a constant number of
  /// statements.
  struct room_page {
    std::vector<room_summary> rooms;
    std::string next;
    std::vector<room_key> all;
  };
  virtual result<room_page> room_list(user_key user, std::string_view cursor,
                                      std::int64_t limit) = 0;
  /// Keys and ids of all rooms the user is joined in.
  virtual result<std::vector<std::pair<room_key, std::string>>> rooms_of(user_key user) = 0;
  virtual result<std::vector<profile>>
  users_by_id(const std::vector<std::string>& ids) = 0;            // unknown ones are left out
  virtual result<account> account_by_id(std::string_view id) = 0;  // not_found
  virtual result<credentials> credentials_by_name(std::string_view folded_name) = 0;  // not_found
  virtual result<std::vector<account>> list_users(std::string_view query, std::int64_t limit) = 0;
};

/// Integrity of the whole store: the findings, empty where all is well. Seqs gapless, n gapless,
/// what is derived equal to a recount, the database's own check.
result<std::vector<std::string>> check_store(const config& c);

/// Opens by config.storage (url, data, durability): the only factory. `open_writer` takes the lock
/// (one owner), migrates where configured, and refuses a newer schema.
struct opened {
  std::unique_ptr<writer_store> writer;
  std::string epoch;  // of the store; made anew where numbers could name other events than before
  std::int64_t schema_version = 0;
  std::shared_ptr<void> lock;  // held until dropped
};
result<opened> open_writer(const config& c, metrics& m);
result<std::unique_ptr<reader_store>> open_reader(const config& c, metrics& m);
/// `parleyd migrate`: from, to.
result<std::pair<std::int64_t, std::int64_t>> migrate_store(const config& c);

}  // namespace parley::storage
