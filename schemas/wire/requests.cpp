// Names and rooms of requests.
#include "schemas/wire/requests.hpp"

#include <array>

namespace parley::wire {

namespace {

// In the order of the variant's alternatives.
constexpr std::array<std::string_view, 21> names = {
    "hello",          "rooms",        "users",        "room.create", "room.join",    "room.leave",
    "room.invite",    "room.change",  "room.enter",   "room.exit",   "message.send", "message.read",
    "message.unread", "typing",       "history",      "events",      "token.renew",  "ping",
    "room.get",       "room.members", "room.presence"};
static_assert(std::variant_size_v<request> == names.size(), "every request has its name");

}  // namespace

std::string_view op_name(const request& r) { return names[r.index()]; }

std::string_view room_of(const request& r) {
  return std::visit(
      [](const auto& op) -> std::string_view {
        // room.create's `room` is a wish, not a room that exists.
        constexpr bool wish = std::is_same_v<std::decay_t<decltype(op)>, room_create>;
        if constexpr (!wish && requires { op.room; })
          return op.room;
        else
          return {};
      },
      r);
}

}  // namespace parley::wire
