// `parleyd user list|add|passwd|suspend|unsuspend|invite`. A password is read from standard input
// and never from the command line, which others on the machine can see.
#include <termios.h>
#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "net/app/command.hpp"

namespace parley::app {
namespace {

using json = nlohmann::json;

std::string dump(const json& j) { return j.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string encoded(std::string_view text) {
  static constexpr char digits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto b = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain)
      out.push_back(c);
    else
      (out.append(1, '%').append(1, digits[b >> 4])).push_back(digits[b & 15]);
  }
  return out;
}

// One line of standard input; on a terminal asked for and not shown.
std::optional<std::string> read_password() {
  const bool terminal = ::isatty(STDIN_FILENO) == 1;
  termios before{};
  if (terminal) {
    std::cerr << "Password: " << std::flush;
    if (::tcgetattr(STDIN_FILENO, &before) == 0) {
      auto quiet = before;
      quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO);
      ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
    }
  }
  std::string line;
  const bool got = static_cast<bool>(std::getline(std::cin, line));
  if (terminal) {
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    std::cerr << "\n";
  }
  if (!got) return std::nullopt;
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return line;
}

json parsed(const admin_answer& a) { return json::parse(a.body, nullptr, false); }

// The id of the user of that very name or id; empty where there is none.
result<std::string> id_of(admin_door& door, const std::string& user) {
  const auto answer = door.call("GET", "/admin/users?limit=1000&q=" + encoded(user), {});
  if (!answer) return answer.error();
  if (answer->status != 200) return failure_of(*answer);
  const auto doc = parsed(*answer);
  std::string by_name;
  for (const auto& u : doc.value("users", json::array())) {
    if (u.value("user", "") == user) return user;
    if (u.value("name", "") == user) by_name = u.value("user", "");
  }
  return by_name;
}

int list(admin_door& door, const user_command& c) {
  const auto answer = door.call("GET", "/admin/users?limit=1000&q=" + encoded(c.user), {});
  if (!answer) return complain(answer.error());
  if (answer->status != 200) return complain(failure_of(*answer));
  std::string out;
  const auto doc = parsed(*answer);
  for (const auto& u : doc.value("users", json::array())) {
    out += u.value("user", "") + "\t" + u.value("name", "") + "\t" + u.value("display_name", "");
    out += u.value("suspended", false) ? "\tsuspended\n" : "\n";
  }
  return print(out) ? done : failed;
}

int add(admin_door& door, const user_command& c) {
  json body = {{"name", c.user}};
  if (!c.id.empty()) body["user"] = c.id;
  if (!c.display_name.empty()) body["display_name"] = c.display_name;
  if (c.with_password) {
    const auto password = read_password();
    if (!password) return complain(fail(errc::bad_request, "no password on standard input"));
    body["password"] = *password;
  }
  const auto answer = door.call("POST", "/admin/users", dump(body));
  if (!answer) return complain(answer.error());
  if (answer->status != 201) return complain(failure_of(*answer));
  return print(parsed(*answer).value("user", "") + "\n") ? done : failed;
}

int invite(admin_door& door) {
  const auto answer = door.call("POST", "/admin/invitations", "{}");
  if (!answer) return complain(answer.error());
  if (answer->status != 201) return complain(failure_of(*answer));
  return print(parsed(*answer).value("invitation", "") + "\n") ? done : failed;
}

// suspend, unsuspend, passwd: an action on one user, named by id or else by name.
int act(admin_door& door, const user_command& c) {
  json body = json::object();
  std::string action = c.verb;
  if (c.verb == "passwd") {
    const auto password = read_password();
    if (!password) return complain(fail(errc::bad_request, "no password on standard input"));
    body["password"] = *password;
    action = "password";
  } else if (c.verb == "suspend" && !c.reason.empty()) {
    body["reason"] = c.reason;
  }
  auto id = id_of(door, c.user);
  if (!id) return complain(id.error());
  const auto answer = door.call(
      "POST", "/admin/users/" + encoded(id->empty() ? c.user : *id) + "/" + action, dump(body));
  if (!answer) return complain(answer.error());
  return answer->status == 200 ? done : complain(failure_of(*answer));
}

}  // namespace

int run_user(const common_options& o, const user_command& c) {
  const auto settings = settings_of(o);
  if (!settings) return wrong;
  auto door = open_admin_door(*settings);
  if (!door) return complain(door.error());
  if (c.verb == "list") return list(**door, c);
  if (c.verb == "add") return add(**door, c);
  if (c.verb == "invite") return invite(**door);
  return act(**door, c);
}

}  // namespace parley::app
