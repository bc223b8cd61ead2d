// Buckets of the histograms and the catalogue: the one list of names, kinds and help texts.
#include "schemas/metrics.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace parley {

namespace {

constexpr std::array<std::int64_t, metric_histogram::buckets> edges_ns = {
    100'000,       250'000,       500'000,       1'000'000,     2'500'000,   5'000'000,
    10'000'000,    25'000'000,    50'000'000,    100'000'000,   250'000'000, 500'000'000,
    1'000'000'000, 2'500'000'000, 5'000'000'000, 10'000'000'000};

constexpr std::array<std::string_view, static_cast<std::size_t>(stage::count_)> stage_names = {
    "parse", "session", "room", "queue", "store", "committed", "encode", "fanout"};

/// `key="value"`; the values are words of ours, so that nothing needs an escape.
std::string label(std::string_view key, std::string_view value) {
  std::string text(key);
  text.append("=\"").append(value).append("\"");
  return text;
}

metric_family counter(std::string name, std::string help, std::vector<metric_sample> samples) {
  return {std::move(name), std::move(help), "counter", std::move(samples), {}, false};
}
metric_family gauge(std::string name, std::string help, std::vector<metric_sample> samples) {
  return {std::move(name), std::move(help), "gauge", std::move(samples), {}, false};
}
metric_family histogram(std::string name, std::string help, const metric_histogram& data,
                        bool sizes = false) {
  return {std::move(name), std::move(help), "histogram", {}, {{std::string(), &data}}, sizes};
}

void add_record_timers(std::vector<metric_family>& out, const metrics& m) {
  out.push_back(histogram("chat_ws_send_seconds",
                          "Writing one gathered batch of frames to a socket.", m.ws_send));
  auto send = histogram("chat_message_send_seconds",
                        "A message's send, from its frame to the answer, by what it came to.",
                        m.message_send_ok);
  send.histograms = {{label("outcome", "ok"), &m.message_send_ok},
                     {label("outcome", "failed"), &m.message_send_failed}};
  out.push_back(std::move(send));
  out.push_back(histogram("chat_message_read_seconds", "Moving a read mark, until its answer.",
                          m.message_read));
  out.push_back(histogram("chat_message_response_build_seconds",
                          "Building the JSON of an answer or event.", m.message_response_build));
  out.push_back(histogram("chat_event_message_sent_seconds",
                          "From a message's commit until its event was handed to all relays.",
                          m.event_message_sent));
  out.push_back(histogram("chat_broadcast_room_seconds",
                          "From a message's commit until one I/O thread had written it to the last "
                          "of its connections.",
                          m.broadcast_room));
  metric_family stages{"chat_stage_seconds",
                       "The stages of a message's send, in order.",
                       "histogram",
                       {},
                       {},
                       false};
  for (std::size_t i = 0; i < m.stages.size(); ++i)
    stages.histograms.emplace_back(label("stage", stage_names[i]), &m.stages[i]);
  out.push_back(std::move(stages));
}

void add_sockets(std::vector<metric_family>& out, const metrics& m) {
  out.push_back(gauge("chat_connections", "Open connections by protocol.",
                      {{label("proto", "ws"), m.connections_ws.get()},
                       {label("proto", "http"), m.connections_http.get()}}));
  out.push_back(counter("chat_connections_accepted_total", "Connections accepted since the start.",
                        {{"", m.connections_total.get()}}));
  out.push_back(counter("chat_handshakes_refused_total", "WebSocket handshakes that were refused.",
                        {{"", m.handshakes_refused.get()}}));
  out.push_back(counter("chat_frames_total", "WebSocket frames by direction.",
                        {{label("direction", "in"), m.frames_in.get()},
                         {label("direction", "out"), m.frames_out.get()}}));
  out.push_back(counter("chat_socket_bytes_total", "Bytes on sockets by direction.",
                        {{label("direction", "in"), m.bytes_in.get()},
                         {label("direction", "out"), m.bytes_out.get()}}));
  out.push_back(counter("chat_resume_total",
                        "Rooms entered with after_seq, by what could be replayed.",
                        {{label("result", "full"), m.resumes_full.get()},
                         {label("result", "gap"), m.resumes_gap.get()},
                         {label("result", "reset"), m.resumes_reset.get()}}));
  out.push_back(counter("chat_bad_requests_total", "Requests that broke a rule of the contract.",
                        {{"", m.bad_requests.get()}}));
  auto closes =
      counter("chat_disconnects_total", "WebSocket connections that ended, by close code.", {});
  for (std::size_t i = 0; i < m.disconnects.size(); ++i)
    closes.samples.push_back(
        {label("code", std::to_string(disconnect_codes[i])), m.disconnects[i].get()});
  out.push_back(std::move(closes));
  out.push_back(counter("chat_rejected_total",
                        "Requests refused before they were accepted, by reason.",
                        {{label("reason", "rate_limited"), m.rejected_rate_limited.get()},
                         {label("reason", "overloaded"), m.rejected_overloaded.get()},
                         {label("reason", "unavailable"), m.rejected_unavailable.get()}}));
}

void add_storage(std::vector<metric_family>& out, const metrics& m) {
  out.push_back(
      counter("chat_db_statements_total", "SQL statements run.", {{"", m.statements.get()}}));
  out.push_back(
      counter("chat_db_commits_total", "Transactions committed.", {{"", m.commits.get()}}));
  out.push_back(counter("chat_db_commit_failures_total", "Transactions that failed.",
                        {{"", m.commit_failures.get()}}));
  out.push_back(counter(
      "chat_db_rows_total", "Rows by what was done with them.",
      {{label("op", "written"), m.rows_written.get()}, {label("op", "read"), m.rows_read.get()}}));
  out.push_back(counter("chat_db_batches_total", "Groups of changes handed to the writer.",
                        {{"", m.batches.get()}}));
  out.push_back(counter("chat_db_checkpoints_total", "Checkpoints of the write-ahead log.",
                        {{"", m.checkpoints.get()}}));
  out.push_back(histogram("chat_commit_seconds",
                          "One group commit, from its begin until it is durable.",
                          m.commit_seconds));
  out.push_back(histogram("chat_db_read_seconds", "One read, without its wait in the queue.",
                          m.read_seconds));
  out.push_back(
      histogram("chat_db_group_size", "Changes that shared one commit.", m.group_size, true));
}

void add_queues(std::vector<metric_family>& out, const metrics& m) {
  out.push_back(gauge("chat_queue_depth", "Entries that wait now, by queue.",
                      {{label("queue", "writer"), m.writer_queue.get()},
                       {label("queue", "reader"), m.reader_queue.get()},
                       {label("queue", "hash"), m.hash_queue.get()}}));
  out.push_back(gauge("chat_queue_peak", "Most entries that ever waited since the start, by queue.",
                      {{label("queue", "writer"), m.writer_queue_peak.get()},
                       {label("queue", "reader"), m.reader_queue_peak.get()},
                       {label("queue", "room"), m.room_queue_peak.get()}}));
  out.push_back(gauge("chat_outgoing_peak_bytes", "Most bytes that ever waited towards one client.",
                      {{"", m.outgoing_peak_bytes.get()}}));
}

void add_rooms_and_people(std::vector<metric_family>& out, const metrics& m) {
  out.push_back(gauge("chat_rooms_active", "Rooms that are awake.", {{"", m.rooms_awake.get()}}));
  out.push_back(gauge("chat_sessions", "Sessions after hello.", {{"", m.sessions.get()}}));
  out.push_back(gauge("chat_users_online", "Users with a session.", {{"", m.users_online.get()}}));
  out.push_back(counter("chat_rooms_loaded_total", "Rooms woken from the database.",
                        {{"", m.rooms_loaded.get()}}));
  out.push_back(counter("chat_rooms_passivated_total", "Idle rooms put away.",
                        {{"", m.rooms_passivated.get()}}));
  out.push_back(counter(
      "chat_cache_requests_total", "Look-ups in memory, and whether the database had to answer.",
      {{label("cache", "nonces") + "," + label("result", "hit"), m.nonce_hits.get()},
       {label("cache", "nonces") + "," + label("result", "miss"), m.nonce_lookups.get()},
       {label("cache", "members") + "," + label("result", "hit"), m.members_cache_hits.get()},
       {label("cache", "members") + "," + label("result", "miss"), m.members_cache_misses.get()}}));
}

void add_http(std::vector<metric_family>& out, const metrics& m) {
  out.push_back(histogram("chat_http_request_seconds",
                          "One HTTP request, from its head to the answer's last byte.",
                          m.http_seconds));
  auto responses = counter("chat_http_responses_total", "HTTP answers by class of status.", {});
  for (std::size_t i = 0; i < m.http_status.size(); ++i) {
    const auto name = i == 0 ? std::string("other") : std::to_string(i) + "xx";
    responses.samples.push_back({label("class", name), m.http_status[i].get()});
  }
  out.push_back(std::move(responses));
}

}  // namespace

std::string_view to_string(stage s) {
  const auto i = static_cast<std::size_t>(s);
  return i < stage_names.size() ? stage_names[i] : std::string_view("other");
}

void metric_histogram::observe_ns(std::int64_t ns) {
  const auto edge = std::lower_bound(edges_ns.begin(), edges_ns.end(), ns);
  count[static_cast<std::size_t>(edge - edges_ns.begin())].fetch_add(1, std::memory_order_relaxed);
  sum.fetch_add(std::max<std::int64_t>(ns, 0), std::memory_order_relaxed);
}

void metric_histogram::observe_size(std::int64_t n) {
  // The edges are 2^0 to 2^15: the smallest power of two that is not below n.
  const auto width = n <= 1 ? 0 : std::bit_width(static_cast<std::uint64_t>(n - 1));
  count[std::min(static_cast<std::size_t>(width), buckets)].fetch_add(1, std::memory_order_relaxed);
  sum.fetch_add(std::max<std::int64_t>(n, 0), std::memory_order_relaxed);
}

std::vector<metric_family> catalogue(const metrics& m) {
  std::vector<metric_family> out;
  out.push_back(
      gauge("chat_build_info", "The version that runs.", {{label("version", PARLEY_VERSION), 1}}));
  add_record_timers(out, m);
  add_sockets(out, m);
  add_storage(out, m);
  add_queues(out, m);
  add_rooms_and_people(out, m);
  add_http(out, m);
  return out;
}

}  // namespace parley
