// saturate: as much as goes, by senders that keep a number of messages unanswered. See
// commands.hpp.
#include <cstdio>

#include "client/machine.hpp"
#include "scenarios/commands.hpp"

namespace parley::bench {

int saturate_command(const CommonOptions& options, std::size_t rooms, unsigned outstanding,
                     double seconds, std::size_t receivers) {
  const auto target = make_parley_target(options.parley);
  nlohmann::json document{{"machine", describe_machine(options.source_folder)},
                          {"rooms", rooms},
                          {"outstanding", outstanding},
                          {"seconds", seconds}};
  Population people;
  people.rooms = rooms;
  people.members = 20;
  people.sessions = 20;
  target->start();
  const Prepared prepared = target->prepare(people);
  target->restart();
  EngineOptions engine_options;
  engine_options.run = 13;
  engine_options.receivers = receivers;
  Engine engine(target->endpoint(), target->protocol(), prepared.rooms, prepared.sessions,
                engine_options);
  engine.open(60 * sec);
  std::vector<std::uint32_t> senders;
  for (std::uint32_t r = 0; r < rooms; ++r)
    senders.push_back(r * 20);
  const Metrics before = target->metrics();
  const nanos cpu_before = target->cost().cpu;
  const nanos own_before = process_cpu();
  const nanos from = now();
  engine.send_closed_loop(senders, outstanding, from + static_cast<nanos>(seconds * 1e9));
  const double window = to_s(now() - from);
  const std::uint64_t in_window = engine.delivered();
  engine.settle(~std::uint64_t{0}, 0, 0, sec, 0);
  const double cpu = target->cost().cpu >= 0 ? to_s(target->cost().cpu - cpu_before) : -1;
  const double own = to_s(process_cpu() - own_before);
  const Metrics after = target->metrics();
  const Recording recording = engine.finish();
  const Analysis f = analyse(recording, prepared.sessions, *target->protocol());
  for (const auto& e : recording.errors)
    std::fprintf(stderr, "  %s\n", e.c_str());
  const double persisted = static_cast<double>(f.accepted) / window;
  Table table({"saturate, " + std::to_string(rooms) + " rooms x 20, " +
                   std::to_string(outstanding) + " outstanding",
               "value"});
  table.row({"persisted messages/s", number(persisted, 0)});
  table.row({"deliveries/s", number(static_cast<double>(in_window) / window, 0)});
  table.row({"deliveries per server CPU second",
             cpu > 0 ? number(static_cast<double>(f.received) / cpu, 0) : "n/a"});
  table.row({"latency p50, ms", number(f.all.p50)});
  table.row({"latency p95, ms", number(f.all.p95)});
  table.row({"lost, doubled, out of order, misrouted",
             std::to_string(f.echo_faults.lost + f.listener_faults.lost) + ", " +
                 std::to_string(f.echo_faults.duplicate + f.listener_faults.duplicate) + ", " +
                 std::to_string(f.echo_faults.out_of_order + f.listener_faults.out_of_order) +
                 ", " + std::to_string(f.echo_faults.misrouted + f.listener_faults.misrouted)});
  const auto each = [&](const char* name) {
    const auto d = difference(before, after, name);
    return d && f.sent > 0 ? number(*d / static_cast<double>(f.sent), 3) : std::string("n/a");
  };
  table.row({"statements per message", each("chat_db_statements_total")});
  table.row({"commits per message", each("chat_db_commits_total")});
  table.row({"server CPU, s", number(cpu)});
  table.row({"harness CPU, s", number(own)});
  table.row({"instrument lag p99, ms",
             number(f.lag.p99, 3) +
                 (f.instrument_bound ? " (instrument-bound: latencies are no result)" : "")});
  table.row(
      {"server peak memory, MiB", number(static_cast<double>(target->cost().rss_kib) / 1024, 1)});
  std::printf("%s", table.text().c_str());
  document["persisted_per_s"] = persisted;
  document["deliveries_per_s"] = static_cast<double>(in_window) / window;
  document["server_cpu_s"] = cpu;
  document["harness_cpu_s"] = own;
  document["deliveries_per_cpu_s"] = cpu > 0 ? static_cast<double>(f.received) / cpu : 0;
  document["latency"] = to_json(f.all);
  document["lag"] = to_json(f.lag);
  document["instrument_bound"] = f.instrument_bound;
  document["server"] = target->describe();
  std::vector<Bar> bars;
  Bar rate{rooms == 1 ? "one room of 20 alone: persisted messages/s" : "persisted messages/s",
           rooms == 1                     ? ">= 5000"
           : options.parley.db == "mysql" ? ">= 10000"
                                          : ">= 15000",
           persisted, ""};
  rate.pass = persisted >= (rooms == 1 ? 5000 : options.parley.db == "mysql" ? 10000 : 15000);
  bars.push_back(rate);
  return conclude(options, "saturate", document, bars, f.faulty() || recording.broken > 0, "");
}

}  // namespace parley::bench
