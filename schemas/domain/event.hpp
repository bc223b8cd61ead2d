// What a room consists of and what happens in it, as plain values. Nothing here knows JSON or SQL.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schemas/ids.hpp"

namespace parley {

enum class room_kind : std::uint8_t { public_room = 1, private_room, direct };
enum class history_policy : std::uint8_t { all = 1, joined };
enum class role : std::uint8_t { member = 1, moderator, owner };
enum class membership : std::uint8_t { left = 0, invited = 1, joined = 2, banned = 3 };
enum class notify_level : std::uint8_t { all = 1, mentions, nothing };

std::string_view to_string(room_kind);
std::string_view to_string(history_policy);
std::string_view to_string(role);
std::string_view to_string(notify_level);
std::optional<room_kind> parse_room_kind(std::string_view);
std::optional<history_policy> parse_history_policy(std::string_view);
std::optional<role> parse_role(std::string_view);

/// A person as every payload that names one shows it.
struct profile {
  user_key key{};
  std::string id, name, display_name, picture;  // picture: empty where there is none
  bool deleted = false;
};

/// Kinds of events; the numbers stand in the database and never change.
enum class event_kind : std::uint8_t {
  message_created = 1,
  message_updated = 2,
  message_deleted = 3,
  message_pinned = 4,
  message_unpinned = 5,
  reaction_added = 6,
  reaction_removed = 7,
  member_joined = 10,
  member_left = 11,
  member_changed = 12,
  room_changed = 13,
  resource_changed = 14,
};

/// A message in its present state.
struct message {
  seq_no seq = 0;
  std::int64_t n = 0;  // ordinal among the room's messages, from 1
  unix_ms at = 0;
  user_key sender{};
  std::string sender_id;
  std::string text;  // empty where deleted
  std::optional<unix_ms> edited_at;
  bool deleted = false;
  std::optional<seq_no> reply_to;
  std::string nonce;  // shown to the sender's own sessions alone
};

/// What a room.changed event or a room.change request names; only what changed is set.
struct room_settings {
  std::optional<std::string> name, topic;
  std::optional<std::int64_t> slow_mode_s, retention_days;  // retention_days 0: off
  std::optional<history_policy> history;
};

/// One durable change in a room, as replays and live sessions get it.
struct event {
  seq_no seq = 0;
  event_kind kind = event_kind::message_created;
  unix_ms at = 0;
  user_key sender{};      // who did it
  std::string sender_id;  // its id on the wire
  seq_no target = 0;      // the message's seq where the event concerns one
  message msg;            // message_created (and the present text of its target for updates)
  profile user;           // member_*: whom it concerns
  std::string
      role_name;      // member_*: "owner", "moderator", "member", "invited", "banned"; may be empty
  std::string by_id;  // member_*: who did it, where another did
  std::string reason;      // member_left by kick or ban
  room_settings settings;  // room_changed
};

/// The last message of a room, as room lists show it.
struct last_message {
  seq_no seq = 0;
  user_key sender{};
  std::string sender_id;
  std::string text;  // cut at 100 code points
  unix_ms at = 0;
};

/// One row of a user's room list: the fields of room.updated, unread and room.mine together.
struct room_summary {
  room_key key{};
  std::string id, name, topic;
  room_kind kind = room_kind::public_room;
  history_policy history = history_policy::all;
  seq_no last_seq = 0;
  std::int64_t members = 0, online = 0;  // online is filled in by the session, not by the database
  std::optional<last_message> last;
  std::int64_t unread = 0, mentions = 0;
  seq_no read_seq = 0;
  role my_role = role::member;
  membership my_membership = membership::joined;
  std::optional<unix_ms> muted_until;
  notify_level level = notify_level::all;
  bool pinned = false;
  std::int64_t order = 0;
  unix_ms last_at = 0;  // of the last event: the list's order
};

}  // namespace parley
