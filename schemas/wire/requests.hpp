// One struct per operation a client may ask for, and the variant of them all.
// The decoder fills them (wire/json_decode), HTTP handlers make the same structs.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "schemas/domain/event.hpp"
#include "schemas/error.hpp"
#include "schemas/ids.hpp"

namespace parley::wire {

struct hello {
  std::optional<std::string> token, client, epoch;
  enum class enter_mode : std::uint8_t { none, all, listed } enter = enter_mode::none;
  /// listed: room id and after_seq, in the frame's order
  std::vector<std::pair<std::string, seq_no>> enter_rooms;
};
struct rooms {
  std::optional<std::string> cursor;
  std::optional<std::int64_t> limit;
};
struct users {
  std::vector<std::string> users;
};

struct room_create {
  std::string name;
  room_kind kind = room_kind::public_room;
  std::vector<std::string> members;  // user ids
  std::optional<std::string> place;
  history_policy history = history_policy::all;
  std::string nonce;  // empty: none
  std::string room;   // an id of the administrator's choosing; empty on the wire
};
struct room_join {
  std::string room, nonce;
};
struct room_leave {
  std::string room, nonce;
};
struct room_invite {
  std::string room, user, nonce;
};
struct room_change {
  std::string room, nonce;
  room_settings settings;
};
struct room_enter {
  std::string room;
  std::optional<seq_no> after_seq;
  std::optional<std::string> epoch;
};
struct room_exit {
  std::string room;
};
struct message_send {
  std::string room, nonce, text;
  std::optional<seq_no> reply_to;
  std::vector<std::string> media;
};
struct message_read {
  std::string room;
  seq_no seq = 0;
};
struct message_unread {
  std::string room;
  seq_no seq = 0;
};
struct typing {
  std::string room;
  bool on = true;
};
struct history {
  std::string room;
  std::optional<seq_no> before_seq, after_seq;
  std::int64_t limit = 50;
};
struct events {
  std::string room;
  seq_no after_seq = 0;
  std::int64_t limit = 200;
};
struct token_renew {
  std::string token;
};
struct ping {};
// HTTP only, of a room: its card, its members, who is online.
struct room_get {
  std::string room;
};
struct room_members {
  std::string room;
  std::optional<std::string> cursor;
  std::int64_t limit = 100;
};
struct room_presence {
  std::string room;
};

using request =
    std::variant<hello, rooms, users, room_create, room_join, room_leave, room_invite, room_change,
                 room_enter, room_exit, message_send, message_read, message_unread, typing, history,
                 events, token_renew, ping, room_get, room_members, room_presence>;

/// The op's name as it stands on the wire, e.g. "room.enter".
std::string_view op_name(const request& r);
/// The room a request concerns; empty where it concerns none.
std::string_view room_of(const request& r);

/// A decoded frame. `id` is the JSON text of the client's id (`"a"` or `7`), empty where none was
/// given; where the id was unusable it is `null` and `error` is set.
struct decoded {
  std::string id;
  std::variant<request, failure> body;
};

}  // namespace parley::wire
