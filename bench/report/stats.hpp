// Percentiles and what a workload's recording says: latencies with a missing delivery as infinite,
// and every fault of delivery. Called by the scenarios and the self-test. Pure: no clock, no
// socket.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "client/engine.hpp"

namespace parley::bench {

inline constexpr double infinite = std::numeric_limits<double>::infinity();

struct Summary {
  std::size_t count = 0;                                        // with the missing ones
  std::size_t missing = 0;                                      // each counted as infinite
  double avg = 0, min = 0, p50 = 0, p95 = 0, p99 = 0, max = 0;  // ms
};

/// `values` in ms; `missing` more are taken as infinite. Nearest rank.
Summary summarize(std::vector<double> values, std::size_t missing = 0);

/// Nearest-rank percentile of sorted values, `missing` infinite ones behind them.
double percentile(const std::vector<double>& sorted, std::size_t missing, double q);

struct Faults {
  std::uint64_t lost = 0;
  std::uint64_t duplicate = 0;
  std::uint64_t out_of_order = 0;
  std::uint64_t misrouted = 0;
  bool any() const { return lost + duplicate + out_of_order + misrouted > 0; }
};

/// What an active session should have got, and what it did.
struct Analysis {
  Summary all;   // every receiver, the sender's echo included
  Summary echo;  // the sender's own
  Summary listeners;
  Summary ack;     // send to answer
  Summary late;    // planned to actual send
  Summary skew;    // last receiver less the first, per message
  Summary lag;     // kernel's stamp to ours, per read
  Summary unread;  // send to the first counter frame that accounts for the message, passive ones
  Summary reads;   // not measured per mark on the client; filled when marks are answered
  Faults echo_faults;
  Faults listener_faults;
  std::uint64_t events_missing = 0;  // numbered events other than messages that a session never got
  std::uint64_t passive_wrong = 0;   // passive sessions whose last counters are not exact
  std::uint64_t expected = 0;
  std::uint64_t received = 0;  // distinct deliveries of those
  std::uint64_t sent = 0;
  std::uint64_t unsent = 0;
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;
  double error_rate = 0;
  double first_5_avg = 0, last_5_avg = 0;  // echo, ms
  double total_ms = 0;                     // first send to the last delivery
  std::vector<double> echo_series;         // per message, ms
  std::vector<double> first_series;        // first receiver
  std::vector<double> last_series;         // last receiver
  std::vector<double> sent_at_s;           // since the first send
  std::vector<double> sorted_all;          // ms, without the missing ones
  bool instrument_bound = false;
  bool faulty() const {
    return echo_faults.any() || listener_faults.any() || events_missing > 0 || passive_wrong > 0 ||
           unsent > 0 || refused > 0;
  }
};

Analysis analyse(const Recording& recording, const std::vector<SessionPlan>& sessions,
                 const Protocol& protocol);

/// p95 of all deliveries whose send lies in [from_s, to_s) after the first; infinite when one is
/// missing.
double p95_between(const Recording& recording, const std::vector<SessionPlan>& sessions,
                   double from_s, double to_s);

}  // namespace parley::bench
