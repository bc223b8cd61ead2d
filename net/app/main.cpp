// The program's command line: options to one of the commands in command.hpp. No logic of its own.
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <csignal>

#include "net/app/command.hpp"

namespace {

using parley::app::common_options;

void add_common(CLI::App& command, common_options& o) {
  command.add_option("--config", o.config_file, "TOML file with settings")->type_name("FILE");
  command.add_option("--data", o.data, "Data folder (./parley-data)")->type_name("DIR");
  command.add_option("--db", o.db, "Database: sqlite:PATH or mysql://USER:PASSWORD@HOST:PORT/NAME")
      ->type_name("URL");
  command.add_option("--set", o.sets, "One setting, e.g. limits.in_flight=16; may be repeated")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace parley::app;
  // Few arenas: what one thread frees another can use again, which keeps the resident memory of
  // many sockets low.
  ::mallopt(M_ARENA_MAX, 2);
  std::signal(SIGPIPE, SIG_IGN);

  CLI::App app{"Parley: a chat server for your own machine"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "parleyd " PARLEY_VERSION);
  common_options o;
  int code = failed;

  auto* serve = app.add_subcommand("serve", "Run the server");
  add_common(*serve, o);
  serve
      ->add_option("--listen", o.listen,
                   "Where to listen (127.0.0.1:8080); port 0 lets the kernel choose")
      ->type_name("ADDR:PORT");
  serve
      ->add_option("--admin-listen", o.admin_listen,
                   "Where the admin listener listens (127.0.0.1:8081)")
      ->type_name("ADDR:PORT");
  serve->callback([&] { code = run_serve(o); });

  auto* token = app.add_subcommand("token", "Print a token for a user, who is made if missing");
  add_common(*token, o);
  std::string token_user;
  std::optional<std::int64_t> ttl_s;
  token->add_option("user", token_user, "The user's id or name")->required();
  token->add_option("--ttl", ttl_s, "Lifetime in seconds")
      ->type_name("SECONDS")
      ->check(CLI::PositiveNumber);
  token->callback([&] { code = run_token(o, token_user, ttl_s); });

  auto* user = app.add_subcommand("user", "Manage users");
  user->require_subcommand(1);
  user_command uc;
  const auto verb = [&](const char* name, const char* what, const char* argument, bool needed) {
    auto* v = user->add_subcommand(name, what);
    add_common(*v, o);
    if (argument != nullptr) v->add_option("user", uc.user, argument)->required(needed);
    v->callback([&, name] {
      uc.verb = name;
      code = run_user(o, uc);
    });
    return v;
  };
  verb("list", "List users: id, name, display name", "What the name must contain", false);
  auto* add = verb("add", "Make a user and print the id", "The user's name", true);
  add->add_option("--id", uc.id, "The id to give it; else one is made");
  add->add_option("--display-name", uc.display_name, "What people read");
  add->add_flag("--password", uc.with_password, "Read a password from standard input");
  verb("passwd", "Set a password, read from standard input; ends the user's sessions",
       "The user's id or name", true);
  auto* suspend = verb("suspend", "Shut a user out", "The user's id or name", true);
  suspend->add_option("--reason", uc.reason, "Why");
  verb("unsuspend", "Let a user in again", "The user's id or name", true);
  verb("invite", "Print a code that lets one person register", nullptr, false);

  auto* config =
      app.add_subcommand("config", "Print the effective configuration with a comment per key");
  add_common(*config, o);
  config->add_option("--listen", o.listen)->type_name("ADDR:PORT");
  config->add_option("--admin-listen", o.admin_listen)->type_name("ADDR:PORT");
  config->callback([&] { code = run_config(o); });

  auto* check = app.add_subcommand("check", "Check the integrity of the whole store");
  add_common(*check, o);
  check->callback([&] { code = run_check(o); });

  auto* migrate = app.add_subcommand("migrate", "Bring the database to the current schema");
  add_common(*migrate, o);
  migrate->callback([&] { code = run_migrate(o); });

  app.add_subcommand("version", "Print the version")->callback([&] { code = run_version(); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    // --help and --version come this way too, with 0; all else is wrong usage.
    return app.exit(e) == 0 ? done : wrong;
  }
  return code;
}
