// The harness tested against a server with a known delay and known faults: each must be reported,
// exactly, and nothing else. See commands.hpp.
#include <cmath>
#include <cstdio>
#include <functional>

#include "client/json_scan.hpp"
#include "scenarios/commands.hpp"

namespace parley::bench {

namespace {

struct Case {
  std::string name;
  std::vector<std::string> fake;  // arguments of the fake server
  std::function<void(Workload&)> shape;
  std::function<void(const RunResult&, std::vector<std::string>&)> judge;
};

void expect(std::vector<std::string>& wrong, const std::string& what, double got, double want) {
  if (got != want) wrong.push_back(what + " is " + number(got, 3) + ", must be " + number(want, 3));
}
void between(std::vector<std::string>& wrong, const std::string& what, double got, double low,
             double high) {
  if (!(got >= low && got <= high))
    wrong.push_back(what + " is " + number(got, 3) + ", must be within " + number(low, 3) +
                    " and " + number(high, 3));
}

// What a busy machine may add to a latency, judged by what it did to the harness itself meanwhile:
// nothing takes away from a known delay, so lower bounds need no such slack.
double slack(const RunResult& r) { return 30 + 4 * (r.figures.late.max + r.figures.lag.max); }

struct WantedFaults {
  double lost = 0, duplicate = 0, out_of_order = 0, misrouted = 0;
  double echo_lost = 0;
  double events = 0, passive = 0, refused = 0;
};

void faults(const RunResult& r, std::vector<std::string>& wrong, const WantedFaults& want) {
  const Analysis& f = r.figures;
  expect(wrong, "listeners: lost", static_cast<double>(f.listener_faults.lost), want.lost);
  expect(wrong, "listeners: duplicate", static_cast<double>(f.listener_faults.duplicate),
         want.duplicate);
  expect(wrong, "listeners: out of order", static_cast<double>(f.listener_faults.out_of_order),
         want.out_of_order);
  expect(wrong, "listeners: misrouted", static_cast<double>(f.listener_faults.misrouted),
         want.misrouted);
  expect(wrong, "echo: lost", static_cast<double>(f.echo_faults.lost), want.echo_lost);
  expect(wrong, "echo: duplicate, out of order, misrouted",
         static_cast<double>(f.echo_faults.duplicate + f.echo_faults.out_of_order +
                             f.echo_faults.misrouted),
         0);
  expect(wrong, "other events missing", static_cast<double>(f.events_missing), want.events);
  expect(wrong, "passive with wrong counters", static_cast<double>(f.passive_wrong), want.passive);
  expect(wrong, "refused", static_cast<double>(f.refused), want.refused);
  expect(wrong, "broken connections", static_cast<double>(r.broken), 0);
  const bool any = want.lost + want.duplicate + want.out_of_order + want.misrouted +
                       want.echo_lost + want.events + want.passive + want.refused >
                   0;
  expect(wrong, "faulty", r.faulty() ? 1 : 0, any ? 1 : 0);
}

std::vector<Case> cases() {
  const auto plain = [](Workload&) {};
  // The floor of the machine is unknown, so a known delay is bounded from below exactly and from
  // above generously: a busy machine adds, nothing takes away.
  const auto delayed = [](double delay) {
    return [delay](const RunResult& r, std::vector<std::string>& wrong) {
      faults(r, wrong, {});
      between(wrong, "p50", r.figures.all.p50, delay, delay + slack(r));
      // The quickest of 120 tells delays of 5 and 20 ms apart however busy the machine is.
      between(wrong, "fastest", r.figures.all.min, delay, delay + 14);
      between(wrong, "echo p50", r.figures.echo.p50, delay, delay + slack(r));
      expect(wrong, "expected deliveries", static_cast<double>(r.figures.expected), 20 * 6);
      expect(wrong, "received deliveries", static_cast<double>(r.figures.received), 20 * 6);
      expect(wrong, "messages answered", static_cast<double>(r.figures.accepted), 20);
      expect(wrong, "statements per message",
             per_message(r, "chat_db_statements_total").value_or(-1), 3);
      expect(wrong, "commits per message", per_message(r, "chat_db_commits_total").value_or(-1), 1);
      expect(wrong, "a metric that is missing is told",
             per_message(r, "chat_db_round_trips_total") ? 1 : 0, 0);
    };
  };
  const auto only = [](WantedFaults want) {
    return [want](const RunResult& r, std::vector<std::string>& wrong) {
      faults(r, wrong, want);
      if (want.lost > 0) {
        expect(wrong, "max is infinite", std::isinf(r.figures.all.max) ? 1 : 0, 1);
        expect(wrong, "listeners' average is infinite", std::isinf(r.figures.listeners.avg) ? 1 : 0,
               1);
        expect(wrong, "echo's max is infinite", std::isinf(r.figures.echo.max) ? 1 : 0,
               want.echo_lost > 0 ? 1 : 0);
      }
    };
  };
  WantedFaults lost;
  lost.lost = 1;
  WantedFaults echo_lost;
  echo_lost.echo_lost = 1;
  WantedFaults duplicate;
  duplicate.duplicate = 1;
  WantedFaults swapped;
  swapped.out_of_order = 1;
  WantedFaults misrouted;
  misrouted.misrouted = 1;
  WantedFaults refused;
  refused.refused = 1;
  refused.lost = 5;
  refused.echo_lost = 1;
  WantedFaults event;
  event.events = 1;
  WantedFaults miscounted;
  miscounted.passive = 3;
  WantedFaults all;
  all.lost = 1;
  all.duplicate = 1;
  all.out_of_order = 1;
  const auto two_rooms = [](Workload& w) {
    w.population.rooms = 2;
    w.messages = 10;
  };
  const auto some_passive = [](Workload& w) { w.population.passive = 3; };
  return {
      {"delay 5 ms", {"--delay-ms", "5"}, plain, delayed(5)},
      {"delay 20 ms", {"--delay-ms", "20"}, plain, delayed(20)},
      {"no fault, two rooms", {}, two_rooms, only({})},
      {"no fault, burst", {}, [](Workload& w) { w.burst = true; }, only({})},
      {"no fault, passive sessions",
       {"--delay-ms", "1"},
       some_passive,
       [](const RunResult& r, std::vector<std::string>& wrong) {
         faults(r, wrong, {});
         expect(wrong, "unread notices timed", static_cast<double>(r.figures.unread.count), 20 * 3);
         expect(wrong, "unread notices missing", static_cast<double>(r.figures.unread.missing), 0);
         between(wrong, "unread p50", r.figures.unread.p50, 1, 1 + slack(r));
       }},
      {"no fault, read marks",
       {},
       [](Workload& w) { w.mark_reads = true; },
       [](const RunResult& r, std::vector<std::string>& wrong) {
         faults(r, wrong, {});
         expect(wrong, "marks sent", static_cast<double>(r.reads_sent), 20 * 6);
         expect(wrong, "marks answered",
                static_cast<double>(r.figures.reads.count - r.figures.reads.missing), 20 * 6);
       }},
      {"drops one", {"--drop", "7:3"}, plain, only(lost)},
      {"loses six of a hundred, so p95 is infinite",
       {"--drop", "7:3", "--refuse", "9:1"},
       plain,
       [](const RunResult& r, std::vector<std::string>& wrong) {
         expect(wrong, "listeners: lost", static_cast<double>(r.figures.listener_faults.lost), 6);
         expect(wrong, "listeners' p95 is infinite", std::isinf(r.figures.listeners.p95) ? 1 : 0,
                1);
         expect(wrong, "listeners' p50 is infinite", std::isinf(r.figures.listeners.p50) ? 1 : 0,
                0);
       }},
      {"drops the echo", {"--drop", "7:1"}, plain, only(echo_lost)},
      {"doubles one", {"--duplicate", "8:4"}, plain, only(duplicate)},
      {"swaps two", {"--swap", "9:2"}, plain, only(swapped)},
      {"misroutes one", {"--misroute", "5:1"}, two_rooms, only(misrouted)},
      {"refuses one", {"--refuse", "6:1"}, plain, only(refused)},
      {"hides another event", {"--drop-event", "6:3"}, plain, only(event)},
      {"miscounts for passive sessions", {"--miscount", "15:1"}, some_passive, only(miscounted)},
      {"three faults at once",
       {"--drop", "3:2", "--duplicate", "9:5", "--swap", "14:4"},
       plain,
       only(all)},
      {"stalls 300 ms",
       {"--stall", "10:300"},
       plain,
       [](const RunResult& r, std::vector<std::string>& wrong) {
         faults(r, wrong, {});
         // 5 ms apart: while the server stands still the sender must go on, so that the stall shows
         // in many messages, not in one. A harness that waits for answers would hide it.
         between(wrong, "echo of the stalled message", r.figures.echo_series[9], 300,
                 400 + slack(r));
         between(wrong, "echo of the one sent 5 ms later", r.figures.echo_series[10],
                 290 - r.figures.late.max, 400 + slack(r));
         between(wrong, "echo of the one sent 50 ms later", r.figures.echo_series[19],
                 240 - r.figures.late.max, 400 + slack(r));
         between(wrong, "lateness of half the sends", r.figures.late.p50, 0, 250);
       }},
      {"an instrument that lags 3 ms",
       {},
       [](Workload& w) { w.inject_lag = 3 * ms; },
       [](const RunResult& r, std::vector<std::string>& wrong) {
         faults(r, wrong, {});
         between(wrong, "lag p50", r.figures.lag.p50, 2.5, 3 + slack(r));
         expect(wrong, "marked instrument-bound", r.figures.instrument_bound ? 1 : 0, 1);
       }},
      {"a quick instrument beside a slow server",
       {"--delay-ms", "100"},
       plain,
       [](const RunResult& r, std::vector<std::string>& wrong) {
         faults(r, wrong, {});
         between(wrong, "p50", r.figures.all.p50, 100, 100 + slack(r));
         // Marked or not is by the rule alone, on what was measured.
         const bool rule = r.figures.lag.p99 > std::max(r.figures.all.p95 / 10, 0.1);
         expect(wrong, "the mark follows the rule", r.figures.instrument_bound ? 1 : 0,
                rule ? 1 : 0);
         expect(wrong, "reads with a kernel stamp exist", r.figures.lag.count > 0 ? 1 : 0, 1);
       }},
  };
}

}  // namespace

int self_test_command() {
  int failed = 0;
  std::uint32_t run = 1;
  for (const auto& c : cases()) {
    std::vector<std::string> wrong;
    try {
      TempFolder folder;
      std::vector<std::string> args{self_path(), "fake"};
      args.insert(args.end(), c.fake.begin(), c.fake.end());
      Child fake(args, folder.path() + "/fake.log");
      const Endpoint at = wait_for_port(fake, 10 * sec);
      ParleyOptions options;
      options.connect = at.text();
      options.admin = at.text();
      options.admin_token = "x";
      const auto target = make_parley(options);
      Workload w;
      w.population.members = 8;
      w.population.sessions = 6;
      w.messages = 20;
      w.interval = 5 * ms;
      c.shape(w);
      const Prepared prepared = target->prepare(w.population);
      const RunResult r = run_chat_room(*target, prepared, w, run++);
      c.judge(r, wrong);
      for (const auto& e : r.errors)
        if (!wrong.empty()) wrong.push_back("  (" + e + ")");
    } catch (const std::exception& e) {
      wrong.push_back(std::string("could not be run: ") + e.what());
    }
    std::printf("%s  %s\n", wrong.empty() ? "ok  " : "FAIL", c.name.c_str());
    for (const auto& line : wrong)
      std::printf("        %s\n", line.c_str());
    failed += wrong.empty() ? 0 : 1;
  }
  std::printf(failed == 0 ? "The harness reports what is so.\n" : "%d cases failed.\n", failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace parley::bench
