// Log set-up over spdlog: standard error, one JSON object per line (or text on a terminal) with level, at (RFC 3339,
// UTC, ms), component, msg and ids. Never tokens, passwords or message text.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace parley::log {

enum class level { debug, info, warn, error };
/// format: "json", "text" or "auto" (text where standard error is a terminal). Also at a reload.
void setup(std::string_view level, std::string_view format);
/// One line. Fields' values are escaped.
using field = std::pair<std::string_view, std::string>;
void write(level l, std::string_view component, std::string_view msg, std::initializer_list<field> fields = {});
inline void debug(std::string_view c, std::string_view m, std::initializer_list<field> f = {}) { write(level::debug, c, m, f); }
inline void info(std::string_view c, std::string_view m, std::initializer_list<field> f = {}) { write(level::info, c, m, f); }
inline void warn(std::string_view c, std::string_view m, std::initializer_list<field> f = {}) { write(level::warn, c, m, f); }
inline void error(std::string_view c, std::string_view m, std::initializer_list<field> f = {}) { write(level::error, c, m, f); }

}  // namespace parley::log
