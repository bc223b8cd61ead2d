// `parleyd check`: the integrity of the whole store, by the running server where there is one. Ends
// with 1 where anything was found.
#include <nlohmann/json.hpp>

#include "net/app/command.hpp"
#include "storage/store.hpp"

namespace parley::app {
namespace {

constexpr std::int64_t check_ms = 3'600'000;  // it reads every row of a store of any size

int tell(const std::vector<std::string>& findings) {
  if (findings.empty()) return print("ok\n") ? done : failed;
  std::string out;
  for (const auto& f : findings)
    out += f + "\n";
  print(out);
  return failed;
}

}  // namespace

int run_check(const common_options& o) {
  const auto settings = settings_of(o);
  if (!settings) return wrong;
  auto running = find_running_server(*settings);
  if (!running) return complain(running.error());
  if (!*running) {
    const auto findings = storage::check_store(*settings);
    return findings ? tell(*findings) : complain(findings.error());
  }
  const auto answer = (*running)->call("POST", "/admin/check", "{}", check_ms);
  if (!answer) return complain(answer.error());
  const auto doc = nlohmann::json::parse(answer->body, nullptr, false);
  if (answer->status != 200 || !doc.is_object() || !doc.contains("problems"))
    return complain(failure_of(*answer));
  return tell(doc["problems"].get<std::vector<std::string>>());
}

}  // namespace parley::app
