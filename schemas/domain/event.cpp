// The words that stand for the domain's enumerations, on the wire and in the database.
#include "schemas/domain/event.hpp"

namespace parley {

std::string_view to_string(room_kind k) {
  switch (k) {
  case room_kind::public_room:
    return "public";
  case room_kind::private_room:
    return "private";
  case room_kind::direct:
    return "direct";
  }
  return "private";  // a number from outside the enumeration must not open a room
}

std::string_view to_string(history_policy p) {
  switch (p) {
  case history_policy::all:
    return "all";
  case history_policy::joined:
    return "joined";
  }
  return "joined";
}

std::string_view to_string(role r) {
  switch (r) {
  case role::member:
    return "member";
  case role::moderator:
    return "moderator";
  case role::owner:
    return "owner";
  }
  return "member";
}

std::string_view to_string(notify_level l) {
  switch (l) {
  case notify_level::all:
    return "all";
  case notify_level::mentions:
    return "mentions";
  case notify_level::nothing:
    return "nothing";
  }
  return "all";
}

std::optional<room_kind> parse_room_kind(std::string_view text) {
  for (auto k : {room_kind::public_room, room_kind::private_room, room_kind::direct})
    if (to_string(k) == text) return k;
  return std::nullopt;
}

std::optional<history_policy> parse_history_policy(std::string_view text) {
  for (auto p : {history_policy::all, history_policy::joined})
    if (to_string(p) == text) return p;
  return std::nullopt;
}

std::optional<role> parse_role(std::string_view text) {
  for (auto r : {role::member, role::moderator, role::owner})
    if (to_string(r) == text) return r;
  return std::nullopt;
}

}  // namespace parley
