// chat-room, floor and peers: the same workload over one or several targets, interleaved, and the
// bars of the scenario. See commands.hpp.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "client/machine.hpp"
#include "scenarios/commands.hpp"

namespace parley::bench {

using nlohmann::json;

namespace {

using Get = std::function<double(const RunResult&)>;

// Median over the runs of one target and variant that are results; nullopt when there is none. Of
// latencies only cold runs with an instrument that kept up.
std::optional<double> over(const std::vector<RunResult>& results, const std::string& target,
                           const std::string& variant, bool latency, const Get& get) {
  std::vector<double> values;
  for (const auto& r : results) {
    if (r.target != target || r.variant != variant || !r.no_result.empty()) continue;
    if (latency && (!r.cold || r.figures.instrument_bound)) continue;
    const double v = get(r);
    if (!std::isnan(v)) values.push_back(v);
  }
  if (values.empty()) return std::nullopt;
  return median(values);
}

void put(std::vector<Bar>& bars, const std::string& what, std::optional<double> value, double most,
         const std::string& unit) {
  if (value)
    bars.push_back(at_most(what, *value, most, unit));
  else
    bars.push_back(untold(what, at_most(what, 0, most, unit).bar));
}

std::vector<Bar> chat_bars(const CommonOptions& options, const Workload& w,
                           const std::vector<RunResult>& results, const std::string& parley) {
  std::vector<Bar> bars;
  const std::string v = w.variant();
  const bool mysql = options.parley.db == "mysql";
  const Get p95 = [](const RunResult& r) { return r.figures.all.p95; };
  const bool scaled = w.population.members != 50 || w.population.rooms != 1;
  if (w.burst) {
    const auto per = [](const char* name) {
      return [name](const RunResult& r) { return per_message(r, name).value_or(std::nan("")); };
    };
    if (mysql) {
      put(bars, "burst: round trips per message",
          over(results, parley, v, false, per("chat_db_round_trips_total")), 0.5, "");
    } else {
      put(bars, "burst: commits per message",
          over(results, parley, v, false, per("chat_db_commits_total")), 0.2, "");
      put(bars, "burst: statements per message",
          over(results, parley, v, false, per("chat_db_statements_total")), 4, "");
    }
  } else {
    double most = mysql ? 3 : w.mark_reads ? 2.5 : 2;
    if (options.link_ms > 0) most = options.link_ms + 5;
    put(bars, "p95 over all receivers, cold", over(results, parley, v, true, p95), most, "ms");
    if (options.link_ms == 0)
      put(bars, "first_5_avg / last_5_avg, cold",
          over(results, parley, v, true,
               [](const RunResult& r) {
                 return r.figures.last_5_avg > 0 ? r.figures.first_5_avg / r.figures.last_5_avg
                                                 : std::nan("");
               }),
          2, "x");
    if (!w.mark_reads && w.population.rooms == 1 && w.senders == 1)
      put(bars, "alone: statements per message, BEGIN and COMMIT counted",
          over(results, parley, v, false,
               [](const RunResult& r) {
                 return per_message(r, "chat_db_statements_total").value_or(std::nan(""));
               }),
          8, "");
  }
  if (scaled) {
    const auto base = over(results, parley, "base", true, p95);
    const auto here = over(results, parley, v, true, p95);
    put(bars, "p95 against 50 members in one room, same run",
        base && here && *base > 0 ? std::optional(*here / *base) : std::nullopt, 1.5, "x");
  }
  const auto socketio = over(results, "socket.io", v, true, p95);
  if (std::any_of(results.begin(), results.end(),
                  [](const auto& r) { return r.target == "socket.io"; })) {
    const auto here = over(results, parley, v, true, p95);
    put(bars, "p95 against Socket.IO's, same run",
        socketio && here && *socketio > 0 ? std::optional(*here / *socketio) : std::nullopt, 1,
        "x");
  }
  put(bars, mysql ? "peak memory with MariaDB, both together" : "peak memory",
      over(results, parley, v, false,
           [&](const RunResult& r) {
             if (r.cost.rss_kib < 0) return std::nan("");
             return static_cast<double>(r.cost.rss_kib + (mysql ? r.cost.database_rss_kib : 0)) /
                    1024;
           }),
      mysql ? 600 : 50, "MiB");
  if (results.front().p95_last_minute > 0)
    put(bars, "last minute's p95 against the second's",
        over(results, parley, v, true,
             [](const RunResult& r) { return r.p95_last_minute / r.p95_second_minute; }),
        1.2, "x");
  std::uint64_t expected = 0;
  std::uint64_t received = 0;
  for (const auto& r : results)
    if (r.target == parley) {
      expected += r.figures.expected;
      received += r.figures.received;
    }
  put(bars, "deliveries missing of " + std::to_string(expected),
      static_cast<double>(expected - received), 0, "");
  return bars;
}

// What stands between each target and the floor or the peer, in the same run.
std::string ratio_table(const std::vector<RunResult>& results, const std::string& parley) {
  std::vector<std::string> targets;
  for (const auto& r : results)
    if (std::find(targets.begin(), targets.end(), r.target) == targets.end())
      targets.push_back(r.target);
  if (targets.size() < 2) return {};
  std::vector<std::string> header{"ratio, " + parley + " to"};
  std::vector<std::string> others;
  for (const auto& t : targets)
    if (t != parley) {
      header.push_back(t);
      others.push_back(t);
    }
  Table table(header);
  const std::string v = results.back().variant;
  const auto line = [&](const std::string& name, bool latency, const Get& get) {
    std::vector<std::string> row{name};
    const auto mine = over(results, parley, v, latency, get);
    for (const auto& o : others) {
      const auto theirs = over(results, o, v, latency, get);
      row.push_back(mine && theirs && *theirs > 0 ? number(*mine / *theirs) + " x" : "n/a");
    }
    table.row(row);
  };
  line("p50", true, [](const RunResult& r) { return r.figures.all.p50; });
  line("p95", true, [](const RunResult& r) { return r.figures.all.p95; });
  line("p99", true, [](const RunResult& r) { return r.figures.all.p99; });
  line("fanout_skew p95", true, [](const RunResult& r) { return r.figures.skew.p95; });
  line("server CPU per delivery", false, [](const RunResult& r) {
    return r.cpu_s > 0 && r.figures.received > 0 ? r.cpu_s / static_cast<double>(r.figures.received)
                                                 : std::nan("");
  });
  line("peak memory", false, [](const RunResult& r) {
    return r.cost.rss_kib > 0 ? static_cast<double>(r.cost.rss_kib) : std::nan("");
  });
  return table.text();
}

}  // namespace

int chat_room_command(CommonOptions options, Workload workload, Beside beside, bool gather) {
  const Population& p = workload.population;
  if (p.sessions > p.members) throw Failure("a room cannot have more sessions than members");
  if (p.passive >= p.sessions) throw Failure("--passive leaves no session that has entered");
  if (workload.senders + p.passive > p.sessions) throw Failure("more senders than active sessions");
  std::unique_ptr<Link> link;
  if (options.link_ms > 0) {
    if (!options.parley.connect.empty())
      throw Failure("--link lays the link itself: not with --connect");
    link = std::make_unique<Link>(static_cast<nanos>(options.link_ms * 1e6));
    options.parley.link = link.get();
  }
  json document{{"workload", workload.describe()},
                {"machine", describe_machine(options.source_folder)}};
  if (link) document["link"] = {{"round_trip_ms", options.link_ms}, {"made_by", link->kind()}};

  std::vector<std::unique_ptr<Target>> targets;
  if (!options.peers_only) targets.push_back(make_parley(options.parley));
  const std::string parley = options.peers_only ? "parley" : targets.front()->name();
  if (beside == Beside::peers)
    targets.push_back(make_socketio(options.peers_folder + "/socketio", link.get()));
  if (beside != Beside::nothing)
    targets.push_back(make_floor(beside == Beside::floor && gather, link.get()));
  std::vector<Workload> workloads;
  if (p.members != 50 || p.rooms != 1) {
    Workload base = workload;
    base.population.rooms = 1;
    base.population.members = 50;
    // The reference sends as long as the variant does, so both see as many of the machine's
    // hiccups.
    workloads.push_back(base);
  }
  workloads.push_back(workload);

  std::vector<RunResult> results;
  bool faulty = false;
  for (int i = 0; i < options.runs; ++i)
    for (const auto& w : workloads)
      for (const auto& target : targets) {
        std::fprintf(stderr, "run %d of %d: %s, %s\n", i + 1, options.runs, target->name().c_str(),
                     w.variant().c_str());
        for (auto& r : cold_run(*target, w, i + 1, options.warm)) {
          faulty = faulty || r.faulty();
          for (const auto& e : r.errors)
            std::fprintf(stderr, "  %s\n", e.c_str());
          results.push_back(std::move(r));
        }
      }

  const json& machine = document["machine"];
  std::printf("%s, %d cores, %s, load %s at the start", machine["cpu"].get<std::string>().c_str(),
              machine["cores"].get<int>(), machine["kernel"].get<std::string>().c_str(),
              machine.contains("load_average")
                  ? number(machine["load_average"][0].get<double>()).c_str()
                  : "unknown");
  for (const auto& r : results)
    if (const json& d = r.described; d.contains("fdatasync") && d["fdatasync"].is_object()) {
      std::printf(", %s, fdatasync p50 %s ms", d.value("data_file_system", "").c_str(),
                  number(d["fdatasync"]["p50_ms"].get<double>()).c_str());
      break;
    }
  if (link)
    std::printf(", %s ms link by %s", number(options.link_ms, 0).c_str(), link->kind().c_str());
  std::printf("\n\n%s", chat_table(results).c_str());
  const std::string ratios = ratio_table(results, parley);
  if (!ratios.empty()) std::printf("\n%s", ratios.c_str());
  for (auto at = results.rbegin(); at != results.rend(); ++at)
    if (at->target == parley) {
      std::printf("\n%s", server_table(*at).c_str());
      break;
    }
  for (const auto& r : results) {
    if (!r.no_result.empty())
      std::printf("NO RESULT: %s: %s\n", r.target.c_str(), r.no_result.c_str());
    if (r.figures.instrument_bound)
      std::printf("INSTRUMENT-BOUND: %s run %d: lag p99 %s ms is over the larger of a tenth of p95 "
                  "(%s ms) and 0.1 ms: no result.\n",
                  r.target.c_str(), r.number, number(r.figures.lag.p99, 3).c_str(),
                  number(r.figures.all.p95, 3).c_str());
  }
  if (link && link->dropped() > 0)
    std::printf("the link dropped %llu packets\n",
                static_cast<unsigned long long>(link->dropped()));
  document["runs"] = json::array();
  for (const auto& r : results)
    document["runs"].push_back(to_json(r));
  const std::string scenario = beside == Beside::floor   ? "floor"
                               : beside == Beside::peers ? "peers-chat-room"
                                                         : "chat-room";
  std::vector<Bar> bars;
  if (!options.peers_only) bars = chat_bars(options, workload, results, parley);
  std::string title = "chat-room: " + workload.variant();
  if (options.link_ms > 0) title += ", " + number(options.link_ms, 0) + " ms link";
  return conclude(options, scenario, document, bars, faulty, plot(title, results));
}

}  // namespace parley::bench
