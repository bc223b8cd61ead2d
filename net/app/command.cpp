// Settings and messages for all commands; see command.hpp.
#include "net/app/command.hpp"

#include <cstdio>
#include <string_view>

extern "C" char** environ;

namespace parley::app {

config_source source_of(const common_options& o) {
  config_source from;
  from.file = o.config_file;
  for (char** e = environ; e != nullptr && *e != nullptr; ++e) {
    const std::string_view entry = *e;
    const auto equals = entry.find('=');
    if (entry.substr(0, 7) != "PARLEY_" || equals == std::string_view::npos) continue;
    from.environment.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  const auto named = [&](const char* key, const std::string& value) {
    if (!value.empty()) from.sets.push_back(std::string(key) + "=" + value);
  };
  named("storage.data", o.data);
  named("server.listen", o.listen);
  named("server.admin_listen", o.admin_listen);
  named("storage.url", o.db);
  from.sets.insert(from.sets.end(), o.sets.begin(), o.sets.end());
  return from;
}

std::optional<config> settings_of(const common_options& o) {
  auto c = load_config(source_of(o));
  if (c) return std::move(*c);
  complain(c.error(), wrong);
  return std::nullopt;
}

int complain(const failure& why, int code) {
  std::fprintf(stderr, "parleyd: %s\n", why.message.c_str());
  return code;
}

bool print(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
         std::fflush(stdout) == 0;
}

std::string ports_file(const config& c) { return c.storage.data + "/parleyd.ports"; }

}  // namespace parley::app
