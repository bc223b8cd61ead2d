// start: from exec to ready over a store that holds many messages. See commands.hpp.
#include <cstdio>

#include "client/machine.hpp"
#include "scenarios/commands.hpp"

namespace parley::bench {

int start_command(const CommonOptions& options, std::size_t messages) {
  const auto target = make_parley_target(options.parley);
  nlohmann::json document{{"machine", describe_machine(options.source_folder)},
                          {"messages", messages}};
  target->start();
  document["empty_ms"] = to_ms(target->last_start_took());
  Population people;
  people.rooms = 50;
  people.members = 4;
  people.sessions = 1;
  const Prepared prepared = target->prepare(people);
  EngineOptions engine_options;
  engine_options.run = 7;
  Engine engine(target->endpoint(), target->protocol(), prepared.rooms, prepared.sessions,
                engine_options);
  engine.open(60 * sec);
  const nanos from = now();
  // Half of what a session may have unanswered, so that the server never has to stop reading.
  std::vector<std::uint32_t> senders;
  for (std::uint32_t i = 0; i < prepared.sessions.size(); ++i)
    senders.push_back(i);
  std::uint64_t filled = 0;
  while (filled < messages) {
    engine.send_closed_loop(senders, 32, now() + 200 * ms);
    // Everything must be answered before the senders get their credit anew, else it adds up.
    if (!engine.settle(engine.sent(), engine.sent(), 0, 20 * sec, 0))
      throw Failure("the server left messages unanswered for 20 s while the store was filled");
    filled = engine.delivered();
    if (now() - from > 600 * sec) throw Failure("filling the store took over 10 minutes");
  }
  const double fill_s = to_s(now() - from);
  const Recording recording = engine.finish();
  const Analysis figures = analyse(recording, prepared.sessions, *target->protocol());
  for (const auto& e : recording.errors)
    std::fprintf(stderr, "  %s\n", e.c_str());

  std::vector<double> took;
  for (int i = 0; i < std::max(3, options.runs); ++i) {
    target->restart();
    took.push_back(to_ms(target->last_start_took()));
    document["start_ms"].push_back(took.back());
  }
  document["filled"] = filled;
  document["fill_s"] = fill_s;
  document["server"] = target->describe();
  Table table({"start", "value"});
  table.row({"messages in the store", std::to_string(filled)});
  table.row({"stored per second while filling", number(static_cast<double>(filled) / fill_s, 0)});
  table.row({"exec to ready, empty store, ms", number(document["empty_ms"].get<double>(), 1)});
  table.row(
      {"exec to ready, ms, median of " + std::to_string(took.size()), number(median(took), 1)});
  std::printf("%s", table.text().c_str());
  return conclude(options, "start", document,
                  {at_most("start to ready on " + std::to_string(filled) + " messages",
                           median(took) / 1000, 1, "s")},
                  figures.faulty() || recording.broken > 0, "");
}

}  // namespace parley::bench
