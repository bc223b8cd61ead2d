// The rows of the table of keys, and the grammar of the values that have one.
#include "schemas/config_keys.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <optional>

namespace parley::detail {

namespace {

constexpr std::int64_t most_bytes = 1LL << 30;  // 1 GiB
constexpr std::int64_t most_count = 100'000'000;
constexpr std::int64_t most_ms = 24LL * 3600 * 1000;  // a day
constexpr std::int64_t most_s = 24LL * 3600;

bool is_address(std::string_view text) {
  std::array<unsigned char, sizeof(in6_addr)> raw{};
  const std::string zero_ended(text);
  return inet_pton(AF_INET, zero_ended.c_str(), raw.data()) == 1 ||
         inet_pton(AF_INET6, zero_ended.c_str(), raw.data()) == 1;
}

std::optional<int> number_up_to(std::string_view text, int most) {
  int n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size() || n < 0 || n > most)
    return std::nullopt;
  return n;
}

/// ADDRESS:PORT or [ADDRESS6]:PORT; port 0 lets the kernel choose.
std::string check_listen(std::string_view text) {
  constexpr auto wanted = "must be ADDRESS:PORT or [ADDRESS6]:PORT, with a numeric address";
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return wanted;
  auto host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (!is_address(host) || (host.find(':') != std::string_view::npos) != bracketed) return wanted;
  if (!number_up_to(text.substr(colon + 1), 65535)) return "must have a port from 0 to 65535";
  return {};
}

/// What a browser sends as Origin: scheme, host, port, and nothing behind it.
std::string check_origin(std::string_view text) {
  constexpr auto wanted = "must be http://HOST or https://HOST, with a :PORT where it is not the "
                          "usual one, and no path";
  std::size_t scheme = 0;
  for (const std::string_view s : {"http://", "https://"})
    if (text.starts_with(s)) scheme = s.size();
  if (scheme == 0) return wanted;
  auto rest = text.substr(scheme);
  std::string_view port;
  if (const auto colon = rest.rfind(':');
      colon != std::string_view::npos && rest.find(']', colon) == std::string_view::npos) {
    port = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
    if (!number_up_to(port, 65535) || port.empty()) return wanted;
  }
  const bool bracketed = rest.size() > 2 && rest.front() == '[' && rest.back() == ']';
  if (bracketed) return is_address(rest.substr(1, rest.size() - 2)) ? std::string() : wanted;
  const bool plain = !rest.empty() && std::all_of(rest.begin(), rest.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '-';
  });
  return plain ? std::string() : wanted;
}

std::string check_public_url(std::string_view text) {
  return text.empty() ? std::string() : check_origin(text);
}
std::string check_allowed_origin(std::string_view text) {
  return text == "null" ? std::string() : check_origin(text);
}

/// An address or a CIDR block.
std::string check_proxy(std::string_view text) {
  const auto slash = text.find('/');
  const auto address = text.substr(0, slash);
  if (!is_address(address)) return "must be addresses or CIDR blocks such as 10.0.0.0/8";
  const int bits = address.find(':') == std::string_view::npos ? 32 : 128;
  if (slash != std::string_view::npos && !number_up_to(text.substr(slash + 1), bits))
    return "must have a prefix length from 0 to " + std::to_string(bits);
  return {};
}

std::string check_storage_url(std::string_view text) {
  if (text.empty() || (text.starts_with("sqlite:") && text.size() > 7)) return {};
  const bool mysql = text.starts_with("mysql://");
  const auto rest = mysql ? text.substr(8) : std::string_view();
  const auto slash = rest.find('/');
  if (mysql && slash != std::string_view::npos && slash + 1 < rest.size()) return {};
  return "must be sqlite:PATH or mysql://USER:PASSWORD@HOST:PORT/NAME";
}

template <const auto& Words> std::string check_word(std::string_view text) {
  if (std::find(Words.begin(), Words.end(), text) != Words.end()) return {};
  std::string wanted = "must be one of";
  for (std::size_t i = 0; i < Words.size(); ++i)
    wanted.append(i == 0 ? " " : ", ").append(Words[i]);
  return wanted;
}
constexpr std::array<std::string_view, 2> durabilities = {"full", "relaxed"};
constexpr std::array<std::string_view, 3> registrations = {"open", "invitation", "closed"};
constexpr std::array<std::string_view, 4> log_levels = {"debug", "info", "warn", "error"};
constexpr std::array<std::string_view, 3> log_formats = {"auto", "json", "text"};

std::string check_not_empty(std::string_view text) {
  return text.empty() ? "must not be empty" : "";
}

// clang-format off: one key, one row
// A slot: the address of section.key in a given config.
#define PARLEY_SLOT(section, key) [](config& c) { return &c.section.key; }
#define PARLEY_INT(section, key, least, most, restart, doc)                                        \
  config_row { #section, #key, +PARLEY_SLOT(section, key), doc, restart, least, most, nullptr }
#define PARLEY_VALUE(section, key, check, restart, doc)                                            \
  config_row { #section, #key, +PARLEY_SLOT(section, key), doc, restart, 0, 0, check }

// Sections stand together; this is the order of the printed reference.
const std::array rows = {
    PARLEY_VALUE(server, listen, check_listen, true,
                 "Address and port of the main listener; port 0 lets the kernel choose."),
    PARLEY_VALUE(server, admin_listen, check_listen, true,
                 "Address and port of the admin listener."),
    PARLEY_VALUE(server, public_url, check_public_url, false,
                 "Where browsers reach the server, e.g. https://chat.example; empty: what the "
                 "listener has."),
    PARLEY_VALUE(server, trusted_proxies, check_proxy, false,
                 "Addresses or CIDR blocks whose forwarded addresses are believed."),
    PARLEY_VALUE(server, allowed_origins, check_allowed_origin, false,
                 "Browsers' origins that may connect, beside public_url."),
    PARLEY_INT(server, io_threads, 1, 64, true, "Threads that serve sockets."),
    PARLEY_INT(server, workers, 1, 64, true, "Threads that run actors."),
    PARLEY_INT(server, drain_ms, 0, 9'000, false,
               "Milliseconds over which a stopping server spreads its closes."),
    PARLEY_VALUE(storage, data, check_not_empty, true, "The data folder: database, secrets, lock."),
    PARLEY_VALUE(
        storage, url, check_storage_url, true,
        "sqlite:PATH or mysql://USER:PASSWORD@HOST:PORT/NAME; empty: sqlite:DATA/parley.db."),
    PARLEY_VALUE(storage, durability, check_word<durabilities>, true,
                 "full: an ok survives power loss. relaxed: it survives the death of the process."),
    PARLEY_INT(storage, readers, 1, 8, true, "Database connections for reading."),
    PARLEY_INT(storage, cache_kib, 64, 16'777'216, true, "KiB of page cache of the writer."),
    PARLEY_INT(storage, room_idle_s, 1, most_s, false,
               "Seconds after which a room without active sessions is put away."),
    PARLEY_VALUE(storage, migrate, nullptr, true,
                 "Bring the database's schema up to date at the start."),
    PARLEY_VALUE(accounts, registration, check_word<registrations>, false,
                 "Who may register: open, invitation or closed."),
    PARLEY_INT(accounts, hash_memory_kib, 8, 4'194'304, false,
               "KiB of memory that hashing a password takes."),
    PARLEY_INT(accounts, hash_passes, 1, 1'000, false, "Passes over that memory."),
    PARLEY_INT(accounts, hash_parallel, 1, 64, true, "Passwords hashed at the same time."),
    PARLEY_INT(tokens, ttl_s, 1, 315'360'000, false, "Seconds that own tokens are valid."),
    PARLEY_VALUE(tokens, issuer, nullptr, false,
                 "The iss of a foreign issuer whose tokens are accepted; empty: none."),
    PARLEY_VALUE(tokens, audience, nullptr, false,
                 "The aud that such tokens must have; empty: any."),
    PARLEY_VALUE(tokens, key_file, nullptr, false, "File with that issuer's keys, JWKS or PEM."),
    PARLEY_INT(presence, grace_ms, 0, most_ms, false,
               "Milliseconds without a session until a user is offline."),
    PARLEY_INT(timers, room_updated_quiet_ms, 0, most_ms, false,
               "Milliseconds of quiet before room.updated is sent."),
    PARLEY_INT(timers, room_updated_latest_ms, 0, most_ms, false,
               "Milliseconds after the first change when room.updated is sent at the latest."),
    PARLEY_INT(timers, unread_per_s, 1, 1'000, false, "Frames of unread a second per session."),
    PARLEY_INT(timers, read_marks_ms, 1, most_ms, false,
               "Milliseconds between two read events of a room."),
    PARLEY_INT(timers, presence_ms, 1, most_ms, false,
               "Milliseconds between two presence events of a room."),
    PARLEY_INT(timers, typing_ms, 1, most_ms, false,
               "Milliseconds after which typing ends by itself."),
    PARLEY_INT(timers, sync_ms, 1, most_ms, false,
               "Milliseconds without an event after which sync is sent."),
    PARLEY_INT(timers, name_nobody_above, 0, most_count, false,
               "Members online above which presence, typing and read name nobody."),
    PARLEY_INT(timers, slow_handler_ms, 1, most_ms, false,
               "Milliseconds over which a handler's run is a warning in the log."),
    PARLEY_VALUE(log, level, check_word<log_levels>, false, "debug, info, warn or error."),
    PARLEY_VALUE(log, format, check_word<log_formats>, false,
                 "json, text, or auto: text where standard error is a terminal."),
    PARLEY_INT(limits, frame_bytes, 1, most_bytes, false,
               "Bytes of one message from a client, all fragments together."),
    PARLEY_INT(limits, fragments, 1, most_count, false, "Fragments of one message from a client."),
    PARLEY_INT(limits, message_ms, 1, most_ms, false,
               "Milliseconds from a message's first fragment to its last."),
    PARLEY_INT(limits, text_code_points, 1, most_count, false, "Code points of a message's text."),
    PARLEY_INT(
        limits, in_flight, 1, most_count, false,
        "Requests of one session that wait for an answer; beyond it the server stops reading."),
    PARLEY_INT(limits, outgoing_bytes, 1, most_bytes, false,
               "Bytes queued towards one client before it is closed with 4008."),
    PARLEY_INT(limits, outgoing_frames, 1, most_count, false, "Frames queued towards one client."),
    PARLEY_INT(limits, outgoing_age_ms, 1, most_ms, false,
               "Milliseconds that the oldest queued frame may wait."),
    PARLEY_INT(limits, messages_per_s, 1, most_count, false, "Messages a second per user."),
    PARLEY_INT(limits, messages_burst, 1, most_count, false,
               "Messages that a user may send at once."),
    PARLEY_INT(limits, connections_per_address, 1, most_count, false,
               "Connections from one address."),
    PARLEY_INT(limits, connections, 1, most_count, false,
               "Connections in all; must fit below the process's limit of open files."),
    PARLEY_INT(
        limits, pings_per_s, 1, most_count, false,
        "A client's pings answered a second, in bursts of as many; more is closed with 1008."),
    PARLEY_INT(limits, ping_interval_s, 1, most_s, false, "Seconds between the server's pings."),
    PARLEY_INT(limits, ping_timeout_s, 1, most_s, false,
               "Seconds after the second unanswered ping until the connection is dead."),
    PARLEY_INT(limits, hello_timeout_ms, 1, most_ms, false,
               "Milliseconds from the handshake to hello."),
    PARLEY_INT(limits, head_timeout_ms, 1, most_ms, false,
               "Milliseconds for the head of an HTTP request."),
    PARLEY_INT(limits, body_timeout_ms, 1, most_ms, false,
               "Milliseconds for the body of an HTTP request."),
    PARLEY_INT(limits, body_bytes, 1, most_bytes, false, "Bytes of an HTTP request's body."),
    PARLEY_INT(limits, room_queue, 1, most_count, false,
               "Changes of one room that are proposed and not yet committed."),
    PARLEY_INT(limits, session_queue, 1, most_count, false,
               "Requests of one session that wait for their room."),
    PARLEY_INT(limits, writer_queue, 1, most_count, false,
               "Changes of all rooms that wait for a commit."),
    PARLEY_INT(limits, reader_queue, 1, most_count, false, "Reads that wait, per reader."),
    PARLEY_INT(limits, read_deadline_ms, 1, most_ms, false,
               "Milliseconds that a read may wait before it is answered unavailable."),
    PARLEY_INT(limits, replay_events, 1, most_count, false,
               "Missed events that are replayed; before them is a gap (far)."),
    PARLEY_INT(limits, replay_page_bytes, 1, most_bytes, false, "Bytes of one page of a replay."),
    PARLEY_INT(limits, hash_queue, 1, most_count, false, "Passwords that wait to be hashed."),
    PARLEY_INT(limits, login_failures_per_account, 1, most_count, false,
               "Wrong passwords for one account in 15 minutes."),
    PARLEY_INT(limits, login_failures_per_address, 1, most_count, false,
               "Wrong passwords from one address in 15 minutes."),
    PARLEY_INT(limits, http_waiting, 1, most_count, false,
               "Requests over HTTP that wait for an answer, of all connections together."),
    PARLEY_INT(limits, http_in_flight, 1, most_count, false,
               "Pipelined requests of one HTTP connection."),
};
// clang-format on

#undef PARLEY_VALUE
#undef PARLEY_INT
#undef PARLEY_SLOT

/// Levenshtein's distance, in one row.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    auto diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const auto above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::span<const config_row> config_rows() { return rows; }

bool is_section(std::string_view name) {
  return std::any_of(rows.begin(), rows.end(),
                     [name](const config_row& r) { return r.section == name; });
}

std::string name_of(const config_row& row) {
  return std::string(row.section) + "." + std::string(row.key);
}

const config_row* find_row(std::string_view section, std::string_view key) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const config_row& r) {
    return r.section == section && r.key == key;
  });
  return row == rows.end() ? nullptr : &*row;
}

std::string suggestion(std::string_view wrong) {
  if (wrong.size() > 100) return {};
  const auto key_of = [](std::string_view name) { return name.substr(name.rfind('.') + 1); };
  std::string closest;
  auto best = std::max<std::size_t>(3, key_of(wrong).size() / 3) + 1;
  for (const auto& row : rows) {
    const auto name = name_of(row);
    // The right key in a wrong section is as close as one slip of the pen.
    const auto far = row.key == key_of(wrong) ? std::size_t{1} : distance(wrong, name);
    if (far < best) {
      best = far;
      closest = name;
    }
  }
  return closest.empty() ? std::string() : " (did you mean \"" + closest + "\"?)";
}

std::string masked_url(std::string_view url) {
  const auto from = url.find("://");
  const auto at = url.rfind('@');
  if (from == std::string_view::npos || at == std::string_view::npos || at < from)
    return std::string(url);
  const auto colon = url.find(':', from + 3);
  if (colon == std::string_view::npos || colon > at) return std::string(url);
  return std::string(url.substr(0, colon + 1)) + "***" + std::string(url.substr(at));
}

}  // namespace parley::detail
