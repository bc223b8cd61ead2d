// ten-thousand: many authenticated sessions, in one room and in a hundred. What stands here is the
// scenario's fan-out, hold and resume; the mixed load needs shared resources. See commands.hpp.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <unordered_map>

#include "client/machine.hpp"
#include "scenarios/commands.hpp"

namespace parley::bench {

using nlohmann::json;

namespace {

struct Span {
  std::size_t from = 0;
  std::size_t to = 0;
};

struct Outcome {
  std::string target;
  double ready_s = 0;
  Summary events;                   // one a second
  double last_ms = 0;               // median time to the last receiver, of those
  Summary hold;                     // back to back
  Summary resumed;                  // events sent live after the resume
  std::uint64_t away_expected = 0;  // deliveries due to the sessions that were away
  std::uint64_t away_received = 0;
  Summary many_rooms;
  Summary many_rooms_idle;
  Summary many_rooms_again;
  double peak_mib = -1;
  double cpu_per_delivery_us = -1;
  bool faulty = false;
  std::uint64_t expected = 0;
  std::uint64_t received = 0;
  std::vector<std::string> errors;
};

// Two descriptors of every connection are in one machine, one of them in this process.
void raise_descriptors(std::size_t need) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= need) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, need);
  if (limit.rlim_cur < need || ::setrlimit(RLIMIT_NOFILE, &limit) != 0)
    throw Failure("needs " + std::to_string(need) + " descriptors, the limit is " +
                  std::to_string(limit.rlim_max));
}

// Latencies of the messages of a span over the active sessions, those in `without` left out.
Summary latencies(const Recording& rec, const std::vector<SessionPlan>& sessions, Span span,
                  std::size_t without_from, std::vector<double>* last = nullptr) {
  std::unordered_map<std::uint32_t, std::size_t> receivers;
  for (std::size_t i = 0; i < without_from; ++i)
    ++receivers[sessions[i].room];
  std::vector<double> took;
  std::vector<nanos> last_at(span.to - span.from, 0);
  for (const auto& d : rec.deliveries) {
    if (d.message == no_message || d.message < span.from || d.message >= span.to ||
        d.session >= without_from)
      continue;
    const nanos t = d.at - rec.sent[d.message].at;
    took.push_back(to_ms(t));
    last_at[d.message - span.from] = std::max(last_at[d.message - span.from], t);
  }
  std::size_t expected = 0;
  for (std::size_t m = span.from; m < span.to; ++m)
    expected += receivers[rec.sent[m].room];
  if (last != nullptr)
    for (const nanos t : last_at)
      last->push_back(to_ms(t));
  const std::size_t missing = expected > took.size() ? expected - took.size() : 0;
  return summarize(std::move(took), missing);
}

Span send_some(Engine& engine, const std::vector<std::uint32_t>& senders, std::size_t count,
               nanos apart, std::size_t& sent) {
  std::vector<PlannedSend> plan;
  for (std::size_t k = 0; k < count; ++k)
    for (const auto s : senders)
      plan.push_back({static_cast<nanos>(k) * apart, s});
  const Span span{sent, sent + plan.size()};
  engine.send(plan, now() + ms);
  sent = span.to;
  return span;
}

void one_room(Target& target, std::size_t n, Outcome& out) {
  Population people;
  people.members = n;
  people.sessions = n;
  target.start();
  const Prepared prepared = target.prepare(people);
  target.restart();
  EngineOptions options;
  options.run = 17;
  options.connect_window = 512;
  const nanos from = now();
  Engine engine(target.endpoint(), target.protocol(), prepared.rooms, prepared.sessions, options);
  engine.open(120 * sec);
  nanos ready = 0;
  for (const auto& t : engine.times())
    ready = std::max(ready, t.ready);
  out.ready_s = to_s(ready - from);
  sleep_until(now() + 2 * sec);

  const nanos cpu = target.cost().cpu;
  std::size_t sent = 0;
  std::uint64_t expected = 0;
  const auto settle = [&](std::size_t receivers, std::size_t messages) {
    expected += receivers * messages;
    engine.settle(expected, 0, 0, 5 * sec, 0);
  };
  const Span seconds = send_some(engine, {0}, 10, sec, sent);
  settle(n, 10);
  const std::size_t hold_from = sent;
  for (int round = 0; round < 12; ++round) {
    send_some(engine, {0}, 10, 0, sent);
    settle(n, 10);
    sleep_until(now() + 5 * sec);
  }
  const Span hold{hold_from, sent};
  out.cpu_per_delivery_us =
      cpu >= 0 ? static_cast<double>(target.cost().cpu - cpu) / 1000 / static_cast<double>(n * 130)
               : -1;
  Span away;
  Span live;
  const bool resumes = target.protocol()->numbers_events() && target.protocol()->name() == "parley";
  if (resumes) {
    std::vector<std::uint32_t> gone;
    for (std::size_t i = n - 100; i < n; ++i)
      gone.push_back(static_cast<std::uint32_t>(i));
    engine.cut(gone);
    away = send_some(engine, {0}, 10, 50 * ms, sent);
    settle(n - 100, 10);
    engine.reopen(gone, 60 * sec);
    settle(100, 10);
    live = send_some(engine, {0}, 10, sec, sent);
    settle(n, 10);
  }
  sleep_until(now() + sec);
  out.peak_mib = static_cast<double>(target.cost().rss_kib) / 1024;
  const Recording rec = engine.finish();
  const Analysis a = analyse(rec, prepared.sessions, *target.protocol());
  out.expected += a.expected;
  out.received += a.received;
  out.faulty = out.faulty || a.faulty() || rec.broken > 0;
  out.errors.insert(out.errors.end(), rec.errors.begin(), rec.errors.end());
  std::vector<double> last;
  out.events = latencies(rec, prepared.sessions, seconds, n, &last);
  out.last_ms = median(last);
  out.hold = latencies(rec, prepared.sessions, hold, n);
  if (resumes) {
    out.resumed = latencies(rec, prepared.sessions, live, n);
    out.away_expected = 100 * 10;
    for (const auto& d : rec.deliveries)
      if (d.session >= n - 100 && d.message >= away.from && d.message < away.to)
        ++out.away_received;
  }
  target.stop();
}

void hundred_rooms(Target& target, std::size_t n, Outcome& out) {
  Population people;
  people.rooms = 100;
  people.members = n / 100;
  people.sessions = n / 100;
  target.start();
  const Prepared prepared = target.prepare(people);
  target.restart();
  EngineOptions options;
  options.run = 19;
  options.connect_window = 512;
  Engine engine(target.endpoint(), target.protocol(), prepared.rooms, prepared.sessions, options);
  engine.open(120 * sec);
  sleep_until(now() + 2 * sec);
  std::vector<std::uint32_t> senders;
  for (std::uint32_t r = 0; r < 100; ++r)
    senders.push_back(r * static_cast<std::uint32_t>(people.sessions));
  std::size_t sent = 0;
  const Span first = send_some(engine, senders, 10, sec, sent);
  engine.settle(n * 10, 0, 0, 5 * sec, 0);
  sleep_until(now() + 20 * sec);
  const Span idle = send_some(engine, senders, 10, sec, sent);
  engine.settle(n * 20, 0, 0, 5 * sec, 0);
  Span again{sent, sent};
  if (target.protocol()->name() == "parley") {
    std::vector<std::uint32_t> gone;
    for (std::uint32_t r = 0; r < 100; ++r)
      gone.push_back(r * static_cast<std::uint32_t>(people.sessions) + 1);
    engine.cut(gone);
    engine.reopen(gone, 60 * sec);
    again = send_some(engine, senders, 10, sec, sent);
    engine.settle(n * 30, 0, 0, 5 * sec, 0);
  }
  const Recording rec = engine.finish();
  const Analysis a = analyse(rec, prepared.sessions, *target.protocol());
  out.expected += a.expected;
  out.received += a.received;
  out.faulty = out.faulty || a.faulty() || rec.broken > 0;
  out.errors.insert(out.errors.end(), rec.errors.begin(), rec.errors.end());
  out.many_rooms = latencies(rec, prepared.sessions, first, n);
  out.many_rooms_idle = latencies(rec, prepared.sessions, idle, n);
  out.many_rooms_again = latencies(rec, prepared.sessions, again, n);
  target.stop();
}

}  // namespace

int ten_thousand_command(const CommonOptions& options, std::size_t n) {
  n = n / 100 * 100;
  raise_descriptors(n + 500);
  json document{{"machine", describe_machine(options.source_folder)}, {"sessions", n}};
  std::vector<std::unique_ptr<Target>> targets;
  targets.push_back(make_parley(options.parley));
  targets.push_back(make_floor(false, nullptr));
  std::vector<Outcome> outcomes;
  for (const auto& target : targets) {
    Outcome out;
    out.target = target->name();
    std::fprintf(stderr, "%s: %zu sessions in one room\n", out.target.c_str(), n);
    one_room(*target, n, out);
    std::fprintf(stderr, "%s: %zu sessions in 100 rooms\n", out.target.c_str(), n);
    hundred_rooms(*target, n, out);
    for (const auto& e : out.errors)
      std::fprintf(stderr, "  %s\n", e.c_str());
    outcomes.push_back(std::move(out));
  }
  Table table(
      {"ten-thousand, " + std::to_string(n) + " sessions", outcomes[0].target, outcomes[1].target});
  const auto line = [&](const std::string& what, auto get) {
    table.row({what, get(outcomes[0]), get(outcomes[1])});
  };
  line("ready, s", [](const Outcome& o) { return number(o.ready_s); });
  line("one event a second: p50, ms", [](const Outcome& o) { return number(o.events.p50, 1); });
  line("one event a second: p95, ms", [](const Outcome& o) { return number(o.events.p95, 1); });
  line("to the last receiver, median, ms", [](const Outcome& o) { return number(o.last_ms, 1); });
  line("12 x 10 back to back: p95, ms", [](const Outcome& o) { return number(o.hold.p95, 1); });
  line("after the resume: p95, ms",
       [](const Outcome& o) { return o.away_expected > 0 ? number(o.resumed.p95, 1) : "n/a"; });
  line("missed while away, got on resume", [](const Outcome& o) {
    return o.away_expected > 0
               ? std::to_string(o.away_received) + " of " + std::to_string(o.away_expected)
               : "n/a";
  });
  line("100 rooms: p95, ms", [](const Outcome& o) { return number(o.many_rooms.p95, 1); });
  line("100 rooms after 20 s idle: p95, ms",
       [](const Outcome& o) { return number(o.many_rooms_idle.p95, 1); });
  line("100 rooms after 100 reconnects: p95, ms", [](const Outcome& o) {
    return o.many_rooms_again.count > 0 ? number(o.many_rooms_again.p95, 1) : "n/a";
  });
  line("server CPU per delivery, us",
       [](const Outcome& o) { return number(o.cpu_per_delivery_us, 1); });
  line("server peak memory, MiB", [](const Outcome& o) { return number(o.peak_mib, 1); });
  line("deliveries received of expected", [](const Outcome& o) {
    return std::to_string(o.received) + " of " + std::to_string(o.expected);
  });
  std::printf("%s", table.text().c_str());
  for (const auto& o : outcomes)
    document["targets"].push_back({{"target", o.target},
                                   {"ready_s", o.ready_s},
                                   {"events", to_json(o.events)},
                                   {"last_receiver_ms", o.last_ms},
                                   {"hold", to_json(o.hold)},
                                   {"resumed", to_json(o.resumed)},
                                   {"hundred_rooms", to_json(o.many_rooms)},
                                   {"hundred_rooms_idle", to_json(o.many_rooms_idle)},
                                   {"hundred_rooms_reconnected", to_json(o.many_rooms_again)},
                                   {"peak_mib", o.peak_mib},
                                   {"cpu_per_delivery_us", o.cpu_per_delivery_us},
                                   {"faulty", o.faulty},
                                   {"errors", o.errors}});
  const Outcome& p = outcomes[0];
  std::vector<Bar> bars{
      at_most("ready", p.ready_s, 2.66, "s"), at_most("event p95", p.events.p95, 150, "ms"),
      at_most("time to the last receiver against the floor's", p.last_ms / outcomes[1].last_ms, 1.3,
              "x"),
      at_most("peak memory", p.peak_mib, 110, "MiB"),
      at_most("deliveries missing", static_cast<double>(p.expected - p.received), 0, "")};
  return conclude(options, "ten-thousand", document, bars, p.faulty, "");
}

}  // namespace parley::bench
