// admin: does the admin listener answer while load runs? See commands.hpp.
#include <cstdio>
#include <thread>

#include "client/machine.hpp"
#include "scenarios/commands.hpp"

namespace parley::bench {

int admin_command(const CommonOptions& options, double seconds, Workload workload) {
  const auto target = make_parley_target(options.parley);
  nlohmann::json document{{"machine", describe_machine(options.source_folder)},
                          {"seconds", seconds}};
  target->start();
  const Prepared prepared = target->prepare(workload.population);
  target->restart();
  EngineOptions engine_options;
  engine_options.run = 11;
  Engine engine(target->endpoint(), target->protocol(), prepared.rooms, prepared.sessions,
                engine_options);
  engine.open(60 * sec);
  std::vector<std::uint32_t> senders;
  for (std::uint32_t r = 0; r < workload.population.rooms; ++r)
    senders.push_back(r * static_cast<std::uint32_t>(workload.population.sessions));
  const nanos until = now() + static_cast<nanos>(seconds * 1e9);
  std::vector<double> took;
  std::uint64_t wrong = 0;
  std::size_t bytes = 0;
  std::thread asker([&] {
    HttpClient client = target->admin();
    while (now() < until) {
      const nanos from = now();
      try {
        const HttpAnswer answer = client.call("GET", "/admin/actors");
        took.push_back(to_ms(now() - from));
        bytes = std::max(bytes, answer.body.size());
        if (answer.status != 200) ++wrong;
      } catch (const Failure&) {
        ++wrong;
      }
      sleep_until(from + 20 * ms);
    }
  });
  engine.send_closed_loop(senders, 8, until);
  asker.join();
  engine.settle(~std::uint64_t{0}, 0, 0, sec, 0);
  const std::uint64_t delivered = engine.delivered();
  const Recording recording = engine.finish();
  const Analysis figures = analyse(recording, prepared.sessions, *target->protocol());
  for (const auto& e : recording.errors)
    std::fprintf(stderr, "  %s\n", e.c_str());
  const Summary s = summarize(took, wrong);
  document["admin_actors"] = to_json(s);
  document["server"] = target->describe();
  Table table({"GET /admin/actors under load", "value"});
  table.row({"calls", std::to_string(s.count)});
  table.row({"not answered with 200", std::to_string(wrong)});
  table.row({"p50, ms", number(s.p50)});
  table.row({"p95, ms", number(s.p95)});
  table.row({"max, ms", number(s.max)});
  table.row({"largest answer, KiB", number(static_cast<double>(bytes) / 1024, 1)});
  table.row({"messages sent meanwhile", std::to_string(figures.sent)});
  table.row({"deliveries meanwhile", std::to_string(delivered)});
  std::printf("%s", table.text().c_str());
  return conclude(options, "admin", document,
                  {at_most("/admin/actors p95 under load", s.p95, 50, "ms")},
                  figures.faulty() || recording.broken > 0 || wrong > 0, "");
}

}  // namespace parley::bench
