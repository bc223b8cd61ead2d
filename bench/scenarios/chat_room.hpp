// The chat-room workload, over any target: connect, send by plan, settle, judge, ask the server
// what it cost. Called by the commands chat-room, floor, peers and self-test.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/stats.hpp"
#include "scenarios/target.hpp"

namespace parley::bench {

struct Workload {
  Population population;
  std::size_t senders = 1;    // per room
  std::size_t messages = 50;  // per room, over all its senders
  nanos interval = 200 * ms;  // of one sender
  bool burst = false;         // all messages at once
  bool aligned = false;       // rooms' senders at the same instants; else spread over the interval
  bool mark_reads = false;
  std::size_t text_bytes = 80;
  std::size_t receivers = 1;  // receiving threads
  nanos inject_lag = 0;       // self-test only

  std::string variant() const;  // "base", "burst", "members 5000", …
  nlohmann::json describe() const;
};

struct RunResult {
  std::string target;
  std::string variant;
  bool cold = true;
  int number = 0;
  Analysis figures;
  double connection_ms = 0;     // sender: dial to upgrade
  double session_ready_ms = 0;  // sender: dial to the last answer of opening
  double cpu_s = -1;            // the server's, over the measured window
  double database_cpu_s = -1;
  double harness_cpu_s = 0;
  double window_s = 0;
  double p95_second_minute = 0;  // with a duration of at least 3 minutes, else 0
  double p95_last_minute = 0;
  ServerCost cost;
  Metrics before;
  Metrics after;
  std::vector<std::string> errors;
  std::uint64_t broken = 0;
  std::uint64_t backlogged = 0;
  std::uint64_t reads_sent = 0;
  std::string no_result;     // empty, or why this figure is none
  nlohmann::json described;  // the target's settings and versions
  bool faulty() const { return figures.faulty() || broken > 0; }
};

/// One run against a started and prepared target. `run` marks the messages. Throws Failure when the
/// run cannot be made; faults of delivery are in the result.
RunResult run_chat_room(Target& target, const Prepared& prepared, const Workload& workload,
                        std::uint32_t run);

/// The sends of a workload, by time.
std::vector<PlannedSend> plan_sends(const Workload& workload);

/// Start, prepare, restart (cold), run; with `warm`, once more in the same process.
std::vector<RunResult> cold_run(Target& target, const Workload& workload, int number, bool warm);

}  // namespace parley::bench
