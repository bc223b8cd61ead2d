// Reads the configuration: file, environment and command line over the defaults, in this order,
// each value checked by its row of the table; then what must hold between keys. Called at the start
// and at a reload; keeps no state.
#include "schemas/config.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <toml++/toml.h>

#include "schemas/config_keys.hpp"
#include "schemas/text.hpp"

namespace parley {

namespace {

using detail::config_row;

/// A setting before its check, by the type that it was written in; plain text comes from outside
/// the file.
using raw_value = std::variant<std::int64_t, bool, std::string, std::vector<std::string>>;

using problem = std::optional<std::string>;  // what is wrong; nothing: all is well

problem store(config& into, const config_row& row, std::int64_t value) {
  if (value < row.least || value > row.most)
    return "must be from " + std::to_string(row.least) + " to " + std::to_string(row.most) +
           ", not " + std::to_string(value);
  *std::get<0>(row.slot)(into) = value;
  return std::nullopt;
}

problem check(const config_row& row, const std::string& value) {
  if (!is_clean_utf8(value)) return "must be UTF-8 without U+0000";
  auto wrong = row.check != nullptr ? row.check(value) : std::string();
  if (wrong.empty()) return std::nullopt;
  return wrong;
}

/// Puts a value that was read from the file where its row says.
problem store_typed(config& into, const config_row& row, raw_value value) {
  if (row.slot.index() == 0) {
    const auto* number = std::get_if<std::int64_t>(&value);
    return number != nullptr ? store(into, row, *number) : problem("must be an integer");
  }
  if (row.slot.index() == 1) {
    auto* text = std::get_if<std::string>(&value);
    if (text == nullptr) return "must be a string";
    if (auto wrong = check(row, *text)) return wrong;
    *std::get<1>(row.slot)(into) = std::move(*text);
    return std::nullopt;
  }
  if (row.slot.index() == 2) {
    const auto* flag = std::get_if<bool>(&value);
    if (flag == nullptr) return "must be true or false";
    *std::get<2>(row.slot)(into) = *flag;
    return std::nullopt;
  }
  auto* list = std::get_if<std::vector<std::string>>(&value);
  if (list == nullptr) return "must be a list of strings";
  for (const auto& entry : *list)
    if (auto wrong = check(row, entry)) return wrong;
  *std::get<3>(row.slot)(into) = std::move(*list);
  return std::nullopt;
}

std::vector<std::string> split_commas(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const auto comma = std::min(text.find(','), text.size());
    auto part = text.substr(0, comma);
    while (!part.empty() && part.front() == ' ')
      part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ')
      part.remove_suffix(1);
    if (!part.empty()) parts.emplace_back(part);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

/// The same for a value from the environment or the command line, which is text; a list has commas.
problem store_text(config& into, const config_row& row, const std::string& text) {
  switch (row.slot.index()) {
  case 0: {
    std::int64_t number = 0;
    const auto* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, number);
    if (error != std::errc{} || end != last) return "must be an integer";
    return store(into, row, number);
  }
  case 1:
    return store_typed(into, row, text);
  case 2:
    if (text != "true" && text != "false") return "must be true or false";
    return store_typed(into, row, text == "true");
  default:
    return store_typed(into, row, split_commas(text));
  }
}

failure wrong(const std::string& where, const std::string& key, const std::string& what) {
  return failure{errc::bad_request, where + key + " " + what, std::nullopt, 0, key};
}

std::string quoted_name(std::string_view name) {
  return "\"" + std::string(first_code_points(name, 100)) + "\"";
}

failure unknown(const std::string& where, std::string_view name) {
  return failure{errc::bad_request,
                 where + "unknown key " + quoted_name(name) + detail::suggestion(name),
                 std::nullopt, 0, std::string(name)};
}

// ---- the file

std::string at_line(const std::string& file, const toml::source_region& at) {
  return file + ":" + std::to_string(at.begin.line) + ": ";
}

/// A TOML value as raw_value; nothing where it is of no type that a key may have.
std::optional<raw_value> from_toml(const toml::node& node) {
  if (const auto* number = node.as_integer()) return number->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* list = node.as_array()) {
    std::vector<std::string> entries;
    for (const auto& entry : *list) {
      const auto* text = entry.as_string();
      if (text == nullptr) return std::nullopt;
      entries.push_back(text->get());
    }
    return entries;
  }
  return std::nullopt;
}

std::string wanted(const config_row& row) {
  switch (row.slot.index()) {
  case 0:
    return "must be an integer";
  case 1:
    return "must be a string";
  case 2:
    return "must be true or false";
  default:
    return "must be a list of strings";
  }
}

/// What stands in the file where, for errors that concern several keys.
using lines = std::vector<std::pair<std::string, std::string>>;  // key, "FILE:LINE: "

std::optional<failure> read_section(config& into, const std::string& file, std::string_view section,
                                    const toml::table& keys, lines& seen) {
  for (const auto& [key, node] : keys) {
    const auto name = std::string(section) + "." + std::string(key.str());
    const auto where = at_line(file, key.source());
    const auto* row = detail::find_row(section, key.str());
    if (row == nullptr) return unknown(where, name);
    auto value = from_toml(node);
    if (!value) return wrong(where, name, wanted(*row));
    if (auto what = store_typed(into, *row, std::move(*value))) return wrong(where, name, *what);
    seen.emplace_back(name, where);
  }
  return std::nullopt;
}

std::optional<failure> read_file(config& into, const std::string& file, lines& seen) {
  constexpr std::size_t most_file_bytes = 1 << 20;
  std::ifstream in(file, std::ios::binary);
  std::string text;
  if (in) {
    text.resize(most_file_bytes + 1);
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
  }
  if (!in.is_open() || in.bad())
    return fail(errc::bad_request, "cannot read the configuration file " + file);
  if (text.size() > most_file_bytes)
    return fail(errc::bad_request, file + " is over 1 MiB, no configuration file");
  try {
    const toml::table root = toml::parse(text, file);
    for (const auto& [section, node] : root) {
      const auto where = at_line(file, section.source());
      const auto* keys = node.as_table();
      if (keys == nullptr && !detail::is_section(section.str()))
        return unknown(where, section.str());
      if (!detail::is_section(section.str()))
        return fail(errc::bad_request, where + "unknown section " +
                                           quoted_name("[" + std::string(section.str()) + "]"));
      if (keys == nullptr)
        return wrong(where, std::string(section.str()),
                     "must be a section: [" + std::string(section.str()) + "]");
      if (auto why = read_section(into, file, section.str(), *keys, seen)) return why;
    }
  } catch (const toml::parse_error& why) {
    return fail(errc::bad_request, at_line(file, why.source()) + std::string(why.description()));
  }
  return std::nullopt;
}

// ---- environment and command line

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

/// PARLEY_SECTION_KEY where the section is one of ours; other variables that begin so are somebody
/// else's.
std::optional<failure> read_variable(config& into, const std::string& variable,
                                     const std::string& value, lines& seen) {
  constexpr std::string_view prefix = "PARLEY_";
  if (!variable.starts_with(prefix)) return std::nullopt;
  const auto rest = lower(std::string_view(variable).substr(prefix.size()));
  const auto underscore = rest.find('_');
  if (underscore == std::string::npos) return std::nullopt;
  const auto section = rest.substr(0, underscore), key = rest.substr(underscore + 1);
  if (!detail::is_section(section)) return std::nullopt;
  const auto where = "environment " + variable + ": ";
  const auto* row = detail::find_row(section, key);
  if (row == nullptr) return unknown(where, section + "." + key);
  if (auto what = store_text(into, *row, value)) return wrong(where, detail::name_of(*row), *what);
  seen.emplace_back(detail::name_of(*row), where);
  return std::nullopt;
}

std::optional<failure> read_set(config& into, const std::string& set, lines& seen) {
  const auto equals = set.find('=');
  if (equals == std::string::npos)
    return fail(errc::bad_request, "--set " + std::string(first_code_points(set, 100)) +
                                       ": must be SECTION.KEY=VALUE");
  const auto name = set.substr(0, equals);
  const auto where = "--set " + std::string(first_code_points(name, 100)) + ": ";
  const auto dot = name.find('.');
  const auto* row = dot == std::string::npos
                        ? nullptr
                        : detail::find_row(name.substr(0, dot), name.substr(dot + 1));
  if (row == nullptr) return unknown(where, name);
  if (auto what = store_text(into, *row, set.substr(equals + 1))) return wrong(where, name, *what);
  seen.emplace_back(name, where);
  return std::nullopt;
}

// ---- what must hold between keys

std::optional<failure> contradiction(const config& c, const lines& seen) {
  // Blames the key that was set last, where it was set.
  const auto clash = [&seen](const char* key, const std::string& what, const char* other) {
    std::string where;
    for (const auto& [name, line] : seen)
      if (name == key || name == other) where = line;
    return wrong(where, key, what);
  };
  if (c.limits.ping_timeout_s > c.limits.ping_interval_s)
    return clash("limits.ping_timeout_s", "must not be greater than limits.ping_interval_s",
                 "limits.ping_interval_s");
  if (c.timers.room_updated_quiet_ms > c.timers.room_updated_latest_ms)
    return clash("timers.room_updated_quiet_ms",
                 "must not be greater than timers.room_updated_latest_ms",
                 "timers.room_updated_latest_ms");
  if (c.server.listen == c.server.admin_listen && !c.server.listen.ends_with(":0"))
    return clash("server.admin_listen", "must not be the same as server.listen", "server.listen");
  if (c.tokens.issuer.empty() != c.tokens.key_file.empty())
    return clash("tokens.issuer", "and tokens.key_file need each other", "tokens.key_file");
  if (!c.tokens.audience.empty() && c.tokens.issuer.empty())
    return clash("tokens.audience", "needs tokens.issuer", "tokens.issuer");
  return std::nullopt;
}

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.append(1, '\\').append(1, c);
    } else if (byte < 0x20 || byte == 0x7F) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04X", byte);
      out += escape;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string toml_value(config& c, const config_row& row) {
  switch (row.slot.index()) {
  case 0:
    return std::to_string(*std::get<0>(row.slot)(c));
  case 1:
    return toml_string(detail::masked_url(*std::get<1>(row.slot)(c)));
  case 2:
    return *std::get<2>(row.slot)(c) ? "true" : "false";
  default: {
    std::string out = "[";
    for (const auto& entry : *std::get<3>(row.slot)(c))
      out.append(out.size() > 1 ? ", " : "").append(toml_string(entry));
    return out + "]";
  }
  }
}

}  // namespace

result<config> load_config(const config_source& from) {
  config c;
  lines seen;
  if (!from.file.empty())
    if (auto why = read_file(c, from.file, seen)) return *why;
  for (const auto& [variable, value] : from.environment)
    if (auto why = read_variable(c, variable, value, seen)) return *why;
  for (const auto& set : from.sets)
    if (auto why = read_set(c, set, seen)) return *why;
  if (auto why = contradiction(c, seen)) return *why;
  return c;
}

std::vector<config_key> describe(const config& c) {
  config copy = c;  // slots give places to write to
  std::vector<config_key> keys;
  for (const auto& row : detail::config_rows())
    keys.push_back(
        {detail::name_of(row), toml_value(copy, row), std::string(row.doc), row.restart});
  return keys;
}

std::string print_config(const config& c) {
  config copy = c;
  std::string out;
  std::string_view section;
  for (const auto& row : detail::config_rows()) {
    if (row.section != section) {
      if (!out.empty()) out += "\n";
      section = row.section;
      out.append("[").append(section).append("]\n");
    }
    out.append("# ").append(row.doc).append(row.restart ? " Takes effect at the next start.\n"
                                                        : "\n");
    out.append(row.key).append(" = ").append(toml_value(copy, row)).append("\n");
  }
  return out;
}

config reloaded(const config& running, const config& loaded) {
  config kept = running, next = loaded;
  for (const auto& row : detail::config_rows()) {
    if (!row.restart) continue;
    std::visit([&](auto place) { *place(next) = *place(kept); }, row.slot);
  }
  return next;
}

std::vector<std::string> waiting_for_restart(const config& running, const config& loaded) {
  config before = running, after = loaded;
  std::vector<std::string> names;
  for (const auto& row : detail::config_rows()) {
    const bool changed =
        std::visit([&](auto place) { return *place(before) != *place(after); }, row.slot);
    if (row.restart && changed) names.push_back(detail::name_of(row));
  }
  return names;
}

}  // namespace parley
