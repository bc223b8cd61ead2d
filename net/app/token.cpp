// `parleyd token USER`: one token on standard output, for trying things and for scripts; makes the
// user if missing.
#include <nlohmann/json.hpp>

#include "net/app/command.hpp"

namespace parley::app {

int run_token(const common_options& o, const std::string& user, std::optional<std::int64_t> ttl_s) {
  const auto settings = settings_of(o);
  if (!settings) return wrong;
  auto door = open_admin_door(*settings);
  if (!door) return complain(door.error());
  nlohmann::json body = {{"user", user}};
  if (ttl_s) body["ttl_s"] = *ttl_s;
  // The user comes from the command line, so it may be any bytes; a broken character becomes a
  // visible error there.
  const auto text = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const auto answer = (*door)->call("POST", "/admin/tokens", text);
  if (!answer) return complain(answer.error());
  if (answer->status != 201) return complain(failure_of(*answer));
  const auto doc = nlohmann::json::parse(answer->body, nullptr, false);
  if (!doc.is_object() || !doc.contains("token")) return complain(failure_of(*answer));
  return print(doc["token"].get<std::string>() + "\n") ? done : failed;
}

}  // namespace parley::app
