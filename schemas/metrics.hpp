// The catalogue of metrics: name, unit, help, kind, and the atomics that are bumped. The exposition
// text stands in net/admin/metrics_text. Prometheus' naming rules; no user, room or connection id
// is ever a label.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace parley {

/// A counter or gauge cell; relaxed atomics, readable from any thread.
struct metric_cell {
  std::atomic<std::int64_t> v{0};
  void add(std::int64_t by = 1) { v.fetch_add(by, std::memory_order_relaxed); }
  void set(std::int64_t to) { v.store(to, std::memory_order_relaxed); }
  void peak(std::int64_t to) {
    auto old = v.load(std::memory_order_relaxed);
    while (old < to && !v.compare_exchange_weak(old, to, std::memory_order_relaxed)) {
    }
  }
  std::int64_t get() const { return v.load(std::memory_order_relaxed); }
};

/// Durations in seconds with the buckets 0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05
/// 0.1 0.25 0.5 1 2.5 5 10 (the record's targets 0.1, 0.5 and 1 s are edges); sizes use the same
/// count of buckets in powers of two.
struct metric_histogram {
  static constexpr std::size_t buckets = 16;
  /// Upper edges as the exposition writes them (`le`), for seconds and for sizes; +Inf is the cell
  /// behind them.
  static constexpr std::array<std::string_view, buckets> seconds_edges = {
      "0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025",
      "0.05",   "0.1",     "0.25",   "0.5",   "1",      "2.5",   "5",    "10"};
  static constexpr std::array<std::string_view, buckets> size_edges = {
      "1",   "2",   "4",    "8",    "16",   "32",   "64",    "128",
      "256", "512", "1024", "2048", "4096", "8192", "16384", "32768"};
  std::array<std::atomic<std::int64_t>, buckets + 1> count{};  // per bucket, not cumulative
  std::atomic<std::int64_t> sum{0};                            // nanoseconds, or units
  void observe_ns(std::int64_t ns);
  void observe_size(std::int64_t n);  // edges 1 2 4 … 32768
};

/// Stages of a send, in order; the sum of a message's stages is about its whole.
enum class stage : std::uint8_t {
  parse,
  session,
  room,
  queue,
  store,
  committed,
  encode,
  fanout,
  count_
};
std::string_view to_string(stage s);

/// Everything that is counted. One instance per process (passed by reference from the composition
/// root; tests make their own).
struct metrics {
  // the record's timers
  metric_histogram ws_send, message_send_ok, message_send_failed, message_read,
      message_response_build, event_message_sent, broadcast_room;
  std::array<metric_histogram, static_cast<std::size_t>(stage::count_)> stages;
  // sockets
  metric_cell connections_ws, connections_http, connections_total, handshakes_refused, frames_in,
      frames_out, bytes_in, bytes_out, resumes_full, resumes_gap, resumes_reset, bad_requests;
  std::array<metric_cell, 12> disconnects;  // by close code, see disconnect_codes
  // rejections by reason
  metric_cell rejected_rate_limited, rejected_overloaded, rejected_unavailable;
  // storage
  metric_cell statements, commits, commit_failures, rows_written, rows_read, batches, checkpoints;
  metric_histogram commit_seconds, read_seconds, group_size;
  // queues: present depth and the peak since the start
  metric_cell writer_queue, writer_queue_peak, reader_queue, reader_queue_peak, room_queue_peak,
      hash_queue, outgoing_peak_bytes;
  // rooms and people
  metric_cell rooms_awake, sessions, users_online, rooms_loaded, rooms_passivated, nonce_hits,
      nonce_lookups, members_cache_hits, members_cache_misses;
  // HTTP
  metric_histogram http_seconds;
  std::array<metric_cell, 6> http_status;  // by hundreds
};

inline constexpr std::array<int, 12> disconnect_codes = {1000, 1001, 1002, 1003, 1007, 1008,
                                                         1009, 1011, 4001, 4003, 4008, 4009};

/// One time series family, ready to be printed: name, help, type, samples.
struct metric_sample {
  std::string labels;
  std::int64_t value;
};
struct metric_family {
  std::string name, help, type;        // type: counter, gauge, histogram
  std::vector<metric_sample> samples;  // counter, gauge
  std::vector<std::pair<std::string, const metric_histogram*>> histograms;  // labels, data
  bool sizes = false;  // histogram of sizes, not of seconds
};
/// The whole catalogue over one instance; names as `promtool check metrics` wants them.
std::vector<metric_family> catalogue(const metrics& m);

}  // namespace parley
