// Names of people, rooms and sessions, and the numbers inside a room. On the wire an id is an
// opaque string of at most 64 bytes of [A-Za-z0-9_.:-]; inside, people and rooms are 64-bit keys.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace parley {

/// The database's key of a user or room; 0 names nobody.
enum class user_key : std::int64_t {};
enum class room_key : std::int64_t {};

constexpr std::int64_t raw(user_key k) { return static_cast<std::int64_t>(k); }
constexpr std::int64_t raw(room_key k) { return static_cast<std::int64_t>(k); }

/// The number of an event in its room: 1, 2, 3, … without a gap. 0 stands before the first.
using seq_no = std::int64_t;
/// Milliseconds since the Unix epoch by the server's clock.
using unix_ms = std::int64_t;

/// 1 to 64 bytes of [A-Za-z0-9_.:-].
bool is_id(std::string_view text);
/// 1 to 64 bytes of [A-Za-z0-9_-].
bool is_nonce(std::string_view text);

/// A fresh random id: the prefix ("u_", "r_", "s_") and 16 characters of [a-z0-9] (82 random bits).
std::string make_id(std::string_view prefix);

}  // namespace parley
