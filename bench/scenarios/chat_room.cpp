// The workload itself. See chat_room.hpp.
#include "scenarios/chat_room.hpp"

#include <algorithm>
#include <random>

namespace parley::bench {

using nlohmann::json;

std::string Workload::variant() const {
  std::string out;
  const auto add = [&](const std::string& word) { out += (out.empty() ? "" : ", ") + word; };
  if (population.passive > 0) add("passive " + std::to_string(population.passive));
  if (senders != 1) add("senders " + std::to_string(senders));
  if (population.rooms != 1) add("rooms " + std::to_string(population.rooms));
  if (population.members != 50) add("members " + std::to_string(population.members));
  if (mark_reads) add("reads");
  if (burst) add("burst");
  return out.empty() ? "base" : out;
}

json Workload::describe() const {
  return {{"rooms", population.rooms},
          {"members_per_room", population.members},
          {"sessions_per_room", population.sessions},
          {"passive_per_room", population.passive},
          {"offline_per_room", population.members - population.sessions},
          {"senders_per_room", senders},
          {"messages_per_room", messages},
          {"interval_ms", to_ms(interval)},
          {"burst", burst},
          {"rooms_aligned", aligned},
          {"mark_reads", mark_reads},
          {"text_bytes", text_bytes},
          {"receiving_threads", receivers}};
}

std::vector<PlannedSend> plan_sends(const Workload& w) {
  std::vector<PlannedSend> plan;
  const std::size_t per_room = w.population.sessions;
  for (std::size_t r = 0; r < w.population.rooms; ++r) {
    // Independent rooms do not send at the same instant, nor do independent people.
    const nanos room_phase = w.aligned || w.burst
                                 ? 0
                                 : w.interval * static_cast<nanos>(r) /
                                       static_cast<nanos>(w.population.rooms * w.senders);
    for (std::size_t k = 0; k < w.messages; ++k) {
      const std::size_t sender = k % w.senders;
      const auto turn = static_cast<nanos>(k / w.senders);
      const nanos sender_phase =
          w.interval * static_cast<nanos>(sender) / static_cast<nanos>(w.senders);
      const nanos after = w.burst ? 0 : turn * w.interval + sender_phase + room_phase;
      plan.push_back({after, static_cast<std::uint32_t>(r * per_room + sender)});
    }
  }
  std::stable_sort(plan.begin(), plan.end(),
                   [](const PlannedSend& a, const PlannedSend& b) { return a.after < b.after; });
  return plan;
}

RunResult run_chat_room(Target& target, const Prepared& prepared, const Workload& w,
                        std::uint32_t run) {
  RunResult result;
  result.target = target.name();
  result.variant = w.variant();
  EngineOptions options;
  options.receivers = w.receivers;
  options.run = run;
  options.text_bytes = w.text_bytes;
  options.mark_reads = w.mark_reads;
  options.inject_lag = w.inject_lag;
  const std::vector<PlannedSend> plan = plan_sends(w);
  Engine engine(target.endpoint(), target.protocol(), prepared.rooms, prepared.sessions, options);
  engine.open(60 * sec);
  result.connection_ms = to_ms(engine.times()[0].connected - engine.times()[0].dialled);
  result.session_ready_ms = to_ms(engine.times()[0].ready - engine.times()[0].dialled);

  result.before = target.metrics();
  const ServerCost cost_before = target.cost();
  const nanos cpu_before = process_cpu();
  const nanos from = now();
  engine.send(plan, now() + 20 * ms);
  const std::size_t active =
      w.population.sessions - std::min(w.population.passive, w.population.sessions);
  const std::uint64_t expected = plan.size() * active;
  const std::uint64_t acks = target.protocol()->acknowledges() ? plan.size() : 0;
  const std::uint64_t reads = w.mark_reads && target.protocol()->has_read_marks() ? expected : 0;
  // Passive sessions may be told up to a quarter of a second late; 600 ms also show a double.
  engine.settle(expected, acks, reads, 3 * sec, 600 * ms);
  result.window_s = to_s(now() - from);
  result.harness_cpu_s = to_s(process_cpu() - cpu_before);
  result.cost = target.cost();
  result.after = target.metrics();
  if (result.cost.cpu >= 0 && cost_before.cpu >= 0)
    result.cpu_s = to_s(result.cost.cpu - cost_before.cpu);
  if (result.cost.database_cpu >= 0 && cost_before.database_cpu >= 0)
    result.database_cpu_s = to_s(result.cost.database_cpu - cost_before.database_cpu);
  result.described = target.describe();
  result.no_result = target.no_result();

  const Recording recording = engine.finish();
  result.figures = analyse(recording, prepared.sessions, *target.protocol());
  result.errors = recording.errors;
  result.broken = recording.broken;
  result.backlogged = recording.backlogged;
  result.reads_sent = recording.reads_sent;
  const double length = result.figures.sent_at_s.empty() ? 0 : result.figures.sent_at_s.back();
  if (length >= 170) {
    result.p95_second_minute = p95_between(recording, prepared.sessions, 60, 120);
    result.p95_last_minute = p95_between(recording, prepared.sessions, length - 60, length + 1);
  }
  return result;
}

std::vector<RunResult> cold_run(Target& target, const Workload& w, int number, bool warm) {
  std::random_device random;
  std::vector<RunResult> out;
  target.start();
  Prepared prepared = target.prepare(w.population);
  const bool fresh = target.restart();
  out.push_back(run_chat_room(target, prepared, w, random()));
  out.back().cold = fresh;
  out.back().number = number;
  if (warm) {
    for (auto& s : prepared.sessions)
      if (!s.enter) s.unread_before += w.messages;
    out.push_back(run_chat_room(target, prepared, w, random()));
    out.back().cold = false;
    out.back().number = number;
  }
  target.stop();
  return out;
}

}  // namespace parley::bench
