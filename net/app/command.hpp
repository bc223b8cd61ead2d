// What the commands of parleyd share: the common options, how settings come about, how failures are
// told, and the one function per command that main.cpp chooses from. Exit codes: 0 done, 1 failed,
// 2 wrong usage or configuration.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/config.hpp"
#include "schemas/error.hpp"

namespace parley::app {

inline constexpr int done = 0, failed = 1, wrong = 2;

/// What every command takes.
struct common_options {
  std::string config_file, data, listen, admin_listen, db;  // empty: not given
  std::vector<std::string> sets;
};

/// File, environment and command line, the named options standing for their keys.
config_source source_of(const common_options& o);
/// The settings; where they are wrong, the reason has been told and nullopt comes back (exit with
/// `wrong`).
std::optional<config> settings_of(const common_options& o);
/// "parleyd: MESSAGE" on standard error; returns `code`.
int complain(const failure& why, int code = failed);
/// Whether standard output took all of the text.
bool print(std::string_view text);

// ---- the commands

int run_serve(const common_options& o);
int run_token(const common_options& o, const std::string& user, std::optional<std::int64_t> ttl_s);
int run_config(const common_options& o);
int run_check(const common_options& o);
int run_migrate(const common_options& o);
int run_version();

/// `parleyd user …`
struct user_command {
  std::string verb;  // list, add, passwd, suspend, unsuspend, invite
  std::string user;  // id or name; in list: what to look for
  std::string id, display_name, reason;
  bool with_password = false;  // add: reads one from standard input
};
int run_user(const common_options& o, const user_command& c);

// ---- the administrator's door

struct admin_answer {
  int status = 0;
  std::string body;
};
/// Answers the requests of the admin listener: the running server's, or, where none runs, the same
/// routes over a store that is opened (and locked) for as long as this object lives.
class admin_door {
 public:
  virtual ~admin_door() = default;
  /// Blocks, at most `timeout_ms`.
  virtual result<admin_answer> call(std::string_view method, std::string_view path,
                                    std::string_view body, std::int64_t timeout_ms = 35'000) = 0;
};
result<std::unique_ptr<admin_door>> open_admin_door(const config& c);
/// The running server's alone; nullptr where none runs.
result<std::unique_ptr<admin_door>> find_running_server(const config& c);
/// What a problem+json body says, else a sentence with the status.
failure failure_of(const admin_answer& a);

/// The file in the data folder that says where a running server listens.
std::string ports_file(const config& c);

}  // namespace parley::app
