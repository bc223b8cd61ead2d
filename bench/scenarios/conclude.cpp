// What every command does at its end. See commands.hpp.
#include <array>
#include <cstdio>
#include <ctime>

#include "client/machine.hpp"
#include "scenarios/commands.hpp"

namespace parley::bench {

int conclude(const CommonOptions& options, const std::string& scenario, nlohmann::json document,
             const std::vector<Bar>& bars, bool faulty, const std::string& svg) {
  if (!bars.empty()) std::printf("\n%s", bars_table(bars).c_str());
  std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> stamp{};
  std::strftime(stamp.data(), stamp.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  document["scenario"] = scenario;
  document["taken_at"] = stamp.data();
  document["bars"] = to_json(bars);
  document["faulty"] = faulty;
  std::string json_path = options.json_path;
  std::string plot_path = options.plot_path;
  if (options.keep) {
    std::strftime(stamp.data(), stamp.size(), "%Y%m%d-%H%M%S", &parts);
    const std::string base =
        options.source_folder + "/bench/results/" + stamp.data() + "-" + scenario;
    if (json_path.empty()) json_path = base + ".json";
    if (plot_path.empty() && !svg.empty()) plot_path = base + ".svg";
  }
  if (!json_path.empty()) {
    write_file(json_path, document.dump(1) + "\n");
    std::printf("JSON: %s\n", json_path.c_str());
  }
  if (!plot_path.empty() && !svg.empty()) {
    write_file(plot_path, svg);
    std::printf("plot: %s\n", plot_path.c_str());
  }
  if (faulty) {
    std::printf(
        "FAULTY: something was lost, doubled, out of order, misrouted, miscounted or refused.\n");
    return 1;
  }
  if (options.check && !all_pass(bars)) {
    std::printf("A bar was not met.\n");
    return 1;
  }
  return 0;
}

}  // namespace parley::bench
