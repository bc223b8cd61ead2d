// idle: what the server costs while nobody does anything. See commands.hpp.
#include <cstdio>

#include "client/machine.hpp"
#include "scenarios/commands.hpp"

namespace parley::bench {

int idle_command(const CommonOptions& options, double seconds, std::size_t sessions) {
  const auto target = make_parley_target(options.parley);
  nlohmann::json document{{"machine", describe_machine(options.source_folder)},
                          {"seconds", seconds}};
  target->start();
  if (target->cost().cpu < 0) throw Failure("idle needs a server that it started itself");
  std::vector<Bar> bars;
  Table table({"idle", "sessions", "CPU ms", "% of one core", "peak memory, MiB"});
  const auto measure = [&](std::size_t with, double bar) {
    sleep_until(now() + 2 * sec);  // what starting and connecting set going has come to rest
    const nanos cpu = target->cost().cpu;
    const nanos from = now();
    sleep_until(from + static_cast<nanos>(seconds * 1e9));
    const nanos used = target->cost().cpu - cpu;
    const double percent = 100.0 * static_cast<double>(used) / static_cast<double>(now() - from);
    const double rss = static_cast<double>(target->cost().rss_kib) / 1024;
    table.row({number(seconds, 0) + " s", std::to_string(with), number(to_ms(used), 1),
               number(percent, 3), number(rss, 1)});
    document["idle"].push_back(
        {{"sessions", with}, {"cpu_percent", percent}, {"cpu_ms", to_ms(used)}, {"peak_mib", rss}});
    bars.push_back(at_most(with == 0 ? "idle server: CPU"
                                     : "with " + std::to_string(with) + " idle sessions: CPU",
                           percent, bar, "%"));
  };
  bool faulty = false;
  measure(0, 0.2);
  if (sessions > 0) {
    Population people;
    people.members = 50;
    people.sessions = 50;
    people.rooms = (sessions + 49) / 50;
    Prepared prepared = target->prepare(people);
    prepared.sessions.resize(sessions);
    target->restart();
    {
      Engine engine(target->endpoint(), target->protocol(), prepared.rooms, prepared.sessions, {});
      engine.open(120 * sec);
      measure(sessions, 0.5);
      const Recording recording = engine.finish();
      for (const auto& e : recording.errors)
        std::fprintf(stderr, "  %s\n", e.c_str());
      faulty = recording.broken > 0;
    }
  }
  document["server"] = target->describe();
  std::printf("%s", table.text().c_str());
  return conclude(options, "idle", document, bars, faulty, "");
}

}  // namespace parley::bench
