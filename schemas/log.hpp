// Log set-up over spdlog: standard error, one JSON object per line (or text on a terminal) with
// level, at (RFC 3339, UTC, ms), component, msg and ids. Never tokens, passwords or message text.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace parley::log {

enum class level { debug, info, warn, error };
/// level: "debug", "info", "warn" or "error"; another word changes nothing. format: "json", "text"
/// or "auto" (text where standard error is a terminal). Also at a reload.
void setup(std::string_view level, std::string_view format);
using field = std::pair<std::string_view, std::string>;
/// One line, from any thread; does not wait for standard error. Fields' values are escaped; those
/// named token, password, secret and the like are not written.
void write(level l, std::string_view component, std::string_view msg,
           std::initializer_list<field> fields = {});
inline void debug(std::string_view c, std::string_view m, std::initializer_list<field> f = {}) {
  write(level::debug, c, m, f);
}
inline void info(std::string_view c, std::string_view m, std::initializer_list<field> f = {}) {
  write(level::info, c, m, f);
}
inline void warn(std::string_view c, std::string_view m, std::initializer_list<field> f = {}) {
  write(level::warn, c, m, f);
}
inline void error(std::string_view c, std::string_view m, std::initializer_list<field> f = {}) {
  write(level::error, c, m, f);
}

/// The line as it is written, without its end.
std::string format_line(level l, std::string_view component, std::string_view msg,
                        std::span<const field> fields, bool text);
/// Lines lost since the start because standard error was not read fast enough.
std::uint64_t dropped();

}  // namespace parley::log
