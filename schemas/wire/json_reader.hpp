// One strict pass over client JSON: what is known at the top level lands in a flat table of fields,
// the rest is only checked. Private to json_decode.cpp, which makes requests of the table.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schemas/error.hpp"

namespace parley::wire::detail {

/// Fields that some op knows.
enum name : std::uint8_t {
  n_op,
  n_id,
  n_room,
  n_nonce,
  n_text,
  n_seq,
  n_reply_to,
  n_media,
  n_token,
  n_client,
  n_epoch,
  n_enter,
  n_cursor,
  n_limit,
  n_users,
  n_name,
  n_kind,
  n_members,
  n_place,
  n_history,
  n_user,
  n_topic,
  n_slow_mode_s,
  n_retention_days,
  n_after_seq,
  n_before_seq,
  n_on,
  n_count
};
constexpr std::array<std::string_view, n_count> names = {
    "op",    "id",          "room",           "nonce",     "text",       "seq",     "reply_to",
    "media", "token",       "client",         "epoch",     "enter",      "cursor",  "limit",
    "users", "name",        "kind",           "members",   "place",      "history", "user",
    "topic", "slow_mode_s", "retention_days", "after_seq", "before_seq", "on"};

enum class shape : std::uint8_t {
  absent,
  null,
  boolean,
  integer,
  other_number,
  string,
  array,
  object
};

struct value {
  shape is = shape::absent;
  bool flag = false;
  std::int64_t number = 0;
  std::string text;  // of a string; of a number that is no 64-bit integer, as it was written
};

/// What the parser saw of a frame's top level.
struct table {
  std::array<value, n_count> at;
  std::array<std::vector<value>, 3> lists;           // users, members, media
  std::vector<std::pair<std::string, value>> enter;  // room and after_seq, in the frame's order
  std::size_t entered = 0;
};

/// The field of that name, or n_count.
name find_name(std::string_view key);
/// Where the strings of a field that is a list stand; null for other fields.
std::vector<value>* list_of(table& t, name n);
/// Whether a number is written without fraction and exponent.
bool is_integral(std::string_view number);

/// One reading: the table's error, if any, and whether the text is a JSON object at all.
struct reading {
  std::optional<failure> error;
  bool broken = false, id_repeated = false;
};

/// Reads `text` into `out`; with a null `out` it only checks, and ends at the first error. Never
/// throws but for memory.
reading read(std::string_view text, table* out);

}  // namespace parley::wire::detail
