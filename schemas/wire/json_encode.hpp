// Structs -> JSON text: every answer and event of the server has its named constructor here, so
// that no handler writes JSON. Text is written as is (UTF-8, no \u escapes but those JSON needs).
// "Fields" functions return the inside of an object without braces (`"seq":1,"at":2`); an answer is
// made of fields by ok_frame (WebSocket) or by braces around (HTTP).
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schemas/domain/event.hpp"
#include "schemas/error.hpp"

namespace parley::wire {

/// A JSON string literal with its quotes.
std::string quoted(std::string_view text);

// ---- frames of answers. `id` is the JSON text of the client's id, or `null`.
std::string ok_frame(std::string_view id, std::string_view fields);  // {"re":ID,"ok":true,FIELDS}
std::string error_frame(std::string_view id, const failure& why);
/// application/problem+json (RFC 9457): type, title, status, detail, code, retry_after_ms?
std::string problem_body(const failure& why);

// ---- fields of answers
std::string seq_fields(seq_no seq, bool duplicate = false);  // room.join, leave, change …
std::string sent_fields(seq_no seq, unix_ms at, bool duplicate, bool deleted = false);
std::string created_fields(std::string_view room, seq_no seq, bool duplicate = false);
std::string read_fields(seq_no read_seq, std::int64_t unread, std::int64_t mentions);
std::string users_fields(std::span<const profile> users);
std::string profile_object(const profile& p);  // {"user":…,"name":…,…}
struct member_view {
  profile who;
  role r = role::member;
  bool online = false;
  seq_no read_seq = 0;
};
/// What room.enter adds: last_seq, read_seq, members, gap?, reset?
struct gap {
  seq_no from = 0, to = 0;
  std::string_view why;  // far, purged, not_yours
};
std::string enter_fields(seq_no last_seq, seq_no read_seq, std::span<const member_view> members,
                         std::span<const gap> gaps, bool reset);
/// `next` empty: there are no more.
std::string members_fields(std::span<const member_view> members, std::string_view next);
std::string presence_fields(std::span<const member_view> users);
/// "rooms":[…],"rooms_next"?
std::string rooms_fields(std::span<const room_summary> rooms, std::string_view next);
/// One room as HTTP GET answers it; to one who is no member the card alone.
std::string room_fields(const room_summary& room);
/// A message as history tells it. Its nonce is told by message.created alone; `reader` is for what
/// is the reader's own.
std::string message_object(const message& m, user_key reader);
struct history_page {
  std::vector<message> messages;
  seq_no as_of = 0;
  bool more = false;
  std::vector<gap> gaps{};
};
std::string history_fields(const history_page& page, user_key reader);
struct events_page {
  std::vector<event> events;
  bool more = false;
  std::vector<gap> gaps;
};
std::string events_fields(std::string_view room, const events_page& page, user_key reader);
std::string expires_fields(unix_ms expires_at);  // milliseconds, as `at`

struct limits_view {
  std::int64_t frame_bytes, text_code_points, in_flight, messages_per_s, messages_burst;
};
struct entered {
  std::string room;
  seq_no last_seq = 0;
  std::vector<gap> gaps;
  bool reset = false;
  std::optional<failure> error;
};
/// What hello adds. `notifications` is empty until there are any.
struct hello_view {
  profile user;
  std::string session, epoch, durability;
  unix_ms now = 0;
  std::vector<room_summary> rooms;
  std::string rooms_next;
  std::vector<entered> entered_rooms;
  limits_view limits{};
};
std::string hello_fields(const hello_view& h);

// ---- events (whole frames)
/// Any event with a seq, for `reader` (the nonce shows to the sender's own sessions alone).
std::string event_frame(std::string_view room, const event& e, user_key reader);
std::string members_changed(std::string_view room, seq_no from, seq_no to, std::int64_t joined,
                            std::int64_t left);
struct unread_view {
  std::string_view room;
  std::int64_t unread = 0, mentions = 0;
  seq_no last_seq = 0, read_seq = 0;
};
std::string unread_frame(std::span<const unread_view> rooms);
std::string room_updated(const room_summary& room);  // last: {seq, sender, text, at}
std::string room_mine(const room_summary& room);     // role, muted_until?, level, pinned, order
std::string room_gone(std::string_view room);        // room.mine with gone
std::string read_marks(std::string_view room,
                       std::span<const std::pair<std::string, seq_no>> marks);
std::string typing_frame(std::string_view room, std::string_view user, bool on);
struct presence_view {
  std::string user;
  bool online = false;
  std::optional<unix_ms> last_seen;
};
std::string presence_frame(std::string_view room, std::span<const presence_view> users);
std::string user_updated(std::span<const profile> users);
std::string token_expiring(unix_ms expires_at);
std::string sync_frame(std::span<const std::pair<std::string, seq_no>> rooms);
std::string bye_frame(int code, std::string_view reason,
                      std::optional<std::int64_t> retry_after_ms);

}  // namespace parley::wire
