// The gate outward: what actors ask of the layer that owns the sockets. No CAF, no Asio.
// A connection is named by number and never pointed at: it lives and dies on its I/O thread alone.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "schemas/error.hpp"
#include "schemas/ids.hpp"
#include "schemas/wire/frame.hpp"

namespace parley {

using wire::frame_ptr;

/// A socket: the I/O thread that owns it, its slot there, and which use of the slot it is.
struct connection_id {
  std::uint32_t io = 0, slot = 0, generation = 0;
  bool operator==(const connection_id&) const = default;
};

/// A room as relays know it; the id's text is shared.
struct room_ref {
  room_key key{};
  std::shared_ptr<const std::string> id;
};

/// A member's numbers as of `last_seq`.
struct numbers {
  std::int64_t unread = 0, mentions = 0;
  seq_no last_seq = 0, read_seq = 0;
  bool operator==(const numbers&) const = default;
};

// ---- What a relay does, in the order in which it is told. Per room that order holds also where a
// fan-out is cut into slices: whatever concerns a room waits until the fan-out under way in it is
// done.

/// One frame to one connection. `answers`: it answers a request, so one leaves the in-flight
/// window.
struct deliver {
  connection_id to;
  frame_ptr frame;
  bool answers = false;
};
/// hello's answer: sent first; whatever was given to the connection before is sent behind it.
struct greet {
  connection_id to;
  frame_ptr frame;
};
/// `bye`, then the close. Nothing but the frame under way goes out any more; `done` (any thread)
/// when that holds, also where the connection is gone already.
struct close_connection {
  connection_id to;
  int code = 1000;
  std::string reason;
  std::optional<std::int64_t> retry_after_ms;
  std::function<void()> done;
};
/// The connection becomes passive in the room, with these numbers as its base; a later `publish`
/// counts on.
struct watch {
  room_ref room;
  connection_id conn;
  user_key user{};
  numbers base;
};
/// The answer of room.enter (null in hello, whose answer tells it): the connection is neither
/// passive nor active until `go_live`; replay pages come between.
struct begin_enter {
  room_ref room;
  connection_id conn;
  frame_ptr answer;
};
/// A page of a replay: whole frames, not counted against the outgoing bound. `drained` is called on
/// the I/O thread when the connection's queue has run empty; dropped where the connection is gone.
struct replay_page {
  room_key room{};
  connection_id conn;
  frame_ptr frames;
  std::function<void()> drained;
};
/// Active from here on, behind `tail` (null: nothing).
struct go_live {
  room_ref room;
  connection_id conn;
  user_key user{};
  frame_ptr tail;
};
/// room.exit: the answer, then passive with these numbers.
struct exit_room {
  room_ref room;
  connection_id conn;
  user_key user{};
  frame_ptr answer;
  numbers base;
};
/// Forgotten in the room (the connection closed, or its user left the room).
struct leave_room {
  room_key room{};
  connection_id conn;
};
/// One event or summary for a room's connections.
struct publication {
  room_ref room;
  frame_ptr active;  // to active connections; null: none
  std::vector<std::pair<user_key, frame_ptr>>
      variants;       // in its place for these users' active connections
  user_key skip{};    // an active user who gets nothing (typing); 0: nobody
  frame_ptr passive;  // to passive connections (room.updated); null: none
  // A message: adds one to the unread of passive connections but `sender`'s; their `unread` frame
  // follows, at once and then at most limits' number a second per connection, rooms gathered.
  bool counts = false;
  user_key sender{};
  seq_no seq = 0;
  std::vector<user_key> mentioned;  // whose mentions grow too
  std::int64_t committed_ns = 0;    // steady clock, for the delivery metrics; 0: none
};
struct publish {
  std::shared_ptr<const publication> what;
};
/// The numbers of a user's connections in a room, after anything but a new message. Passive ones
/// get `unread` by the usual gathering, active ones at once where `tell_active`; `except`
/// (generation 0: none) gets none.
struct set_numbers {
  room_key room{};
  user_key user{};
  numbers now;
  bool tell_active = false;
  connection_id except{};
};
/// The room has been put away: its passive connections stay silent until it wakes and watches them
/// again.
struct drop_room {
  room_key room{};
};

using relay_op = std::variant<deliver, greet, close_connection, watch, begin_enter, replay_page,
                              go_live, exit_room, leave_room, publish, set_numbers, drop_room>;

/// One I/O thread's inbox. Any thread may post; never blocks; order per poster holds. Its length is
/// bounded by what rooms may have proposed and sessions in flight (limits), and it is a metric.
class relay {
 public:
  virtual ~relay() = default;
  virtual void post(relay_op op) = 0;
};

/// What a valid token says.
struct claims {
  std::string user, jti, name;  // name: a foreign issuer's, for a new user; may be empty
  std::int64_t generation = 0;
  unix_ms issued_at = 0, expires_at = 0;
  bool foreign = false;  // of the configured issuer: the user is made when first seen
};

/// Verifies tokens; thread-safe, never blocks.
class token_checker {
 public:
  virtual ~token_checker() = default;
  virtual result<claims> check(std::string_view token) const = 0;
};

}  // namespace parley
