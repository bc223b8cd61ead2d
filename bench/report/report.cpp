// Tables and JSON. See report.hpp.
#include "report/report.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

namespace parley::bench {

using nlohmann::json;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

std::string number(double value, int digits) {
  if (std::isinf(value)) return "inf";
  if (std::isnan(value)) return "n/a";
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

Bar at_most(std::string what, double value, double most, std::string unit) {
  Bar b{std::move(what), "<= " + number(most, most == std::floor(most) ? 0 : 2), value,
        std::move(unit)};
  b.pass = value <= most;
  return b;
}

Bar untold(std::string what, std::string bar) {
  Bar b{std::move(what), std::move(bar)};
  b.told = false;
  return b;
}

namespace {
// Columns on the screen, not bytes.
std::size_t width(const std::string& s) {
  return static_cast<std::size_t>(std::count_if(
      s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}
}  // namespace

std::string Table::text() const {
  std::vector<std::size_t> widths(header_.size(), 0);
  const auto fit = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], width(row[i]));
  };
  fit(header_);
  for (const auto& row : rows_)
    fit(row);
  std::string out;
  const auto put = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i) {
      const std::string pad(widths[i] - width(row[i]), ' ');
      out += i == 0 ? row[i] + pad : "  " + pad + row[i];
    }
    while (!out.empty() && out.back() == ' ')
      out.pop_back();
    out += "\n";
  };
  std::size_t total = 0;
  for (const std::size_t w : widths)
    total += w + 2;
  put(header_);
  out += std::string(total - 2, '-') + "\n";
  for (const auto& row : rows_) {
    if (row.empty())
      out += std::string(total - 2, '-') + "\n";
    else
      put(row);
  }
  return out;
}

std::optional<double> per_message(const RunResult& r, const std::string& metric,
                                  const std::string& label) {
  if (r.figures.sent == 0) return std::nullopt;
  const auto d = difference(r.before, r.after, metric, label);
  if (!d) return std::nullopt;
  return *d / static_cast<double>(r.figures.sent);
}

std::string chat_table(const std::vector<RunResult>& results) {
  // One column per target, variant and temperature: the median over its runs, worst for faults.
  std::vector<std::pair<std::string, std::vector<const RunResult*>>> columns;
  for (const auto& r : results) {
    const std::string key = r.target + (r.variant == "base" ? "" : " [" + r.variant + "]") +
                            (r.cold ? " cold" : " warm");
    auto at =
        std::find_if(columns.begin(), columns.end(), [&](const auto& c) { return c.first == key; });
    if (at == columns.end()) at = columns.insert(columns.end(), {key, {}});
    at->second.push_back(&r);
  }
  std::vector<std::string> header{"ms unless said"};
  for (const auto& [key, list] : columns)
    header.push_back(key + (list.size() > 1 ? " x" + std::to_string(list.size()) : ""));
  Table table(header);
  using Get = std::function<double(const RunResult&)>;
  const auto line = [&](const std::string& name, const Get& get, int digits = 2) {
    std::vector<std::string> row{name};
    for (const auto& [key, list] : columns) {
      std::vector<double> values;
      for (const auto* r : list)
        values.push_back(get(*r));
      row.push_back(number(median(values), digits));
    }
    table.row(row);
  };
  const auto total = [&](const std::string& name,
                         const std::function<std::uint64_t(const RunResult&)>& get) {
    std::vector<std::string> row{name};
    for (const auto& [key, list] : columns) {
      std::uint64_t sum = 0;
      for (const auto* r : list)
        sum += get(*r);
      row.push_back(std::to_string(sum));
    }
    table.row(row);
  };
  const auto optional_line = [&](const std::string& name,
                                 const std::function<std::optional<double>(const RunResult&)>& get,
                                 int digits = 2) {
    line(
        name, [&](const RunResult& r) { return get(r).value_or(std::nan("")); }, digits);
  };
  line("all receivers p50", [](const RunResult& r) { return r.figures.all.p50; });
  line("all receivers p95", [](const RunResult& r) { return r.figures.all.p95; });
  line("all receivers p99", [](const RunResult& r) { return r.figures.all.p99; });
  line("all receivers max", [](const RunResult& r) { return r.figures.all.max; });
  line("listeners p95", [](const RunResult& r) { return r.figures.listeners.p95; });
  line("fanout_skew p50", [](const RunResult& r) { return r.figures.skew.p50; });
  line("fanout_skew p95", [](const RunResult& r) { return r.figures.skew.p95; });
  line("send to ok p95", [](const RunResult& r) {
    return r.figures.ack.count > 0 ? r.figures.ack.p95 : std::nan("");
  });
  const bool passive = std::any_of(results.begin(), results.end(),
                                   [](const auto& r) { return r.figures.unread.count > 0; });
  if (passive) {
    line("unread told p50", [](const RunResult& r) { return r.figures.unread.p50; });
    line("unread told p95", [](const RunResult& r) { return r.figures.unread.p95; });
  }
  const bool reads =
      std::any_of(results.begin(), results.end(), [](const auto& r) { return r.reads_sent > 0; });
  if (reads) line("read mark answered p95", [](const RunResult& r) { return r.figures.reads.p95; });
  table.rule();
  line("rtt_avg (echo)", [](const RunResult& r) { return r.figures.echo.avg; });
  line("rtt_min", [](const RunResult& r) { return r.figures.echo.min; });
  line("rtt_p95", [](const RunResult& r) { return r.figures.echo.p95; });
  line("rtt_max", [](const RunResult& r) { return r.figures.echo.max; });
  line("first_5_avg", [](const RunResult& r) { return r.figures.first_5_avg; });
  line("last_5_avg", [](const RunResult& r) { return r.figures.last_5_avg; });
  line(
      "total_duration", [](const RunResult& r) { return r.figures.total_ms; }, 0);
  line("connection_time", [](const RunResult& r) { return r.connection_ms; });
  line("session ready", [](const RunResult& r) { return r.session_ready_ms; });
  line("error_rate, %", [](const RunResult& r) { return r.figures.error_rate * 100; });
  const bool minutes = std::any_of(results.begin(), results.end(),
                                   [](const auto& r) { return r.p95_last_minute > 0; });
  if (minutes) {
    line("p95 of the second minute", [](const RunResult& r) { return r.p95_second_minute; });
    line("p95 of the last minute", [](const RunResult& r) { return r.p95_last_minute; });
  }
  table.rule();
  total("messages_sent", [](const RunResult& r) { return r.figures.sent; });
  total("messages_received (echo)",
        [](const RunResult& r) { return r.figures.echo.count - r.figures.echo.missing; });
  total("messages_lost (echo)", [](const RunResult& r) { return r.figures.echo_faults.lost; });
  total("deliveries expected", [](const RunResult& r) { return r.figures.expected; });
  total("deliveries received", [](const RunResult& r) { return r.figures.received; });
  total("lost: echo", [](const RunResult& r) { return r.figures.echo_faults.lost; });
  total("lost: listeners", [](const RunResult& r) { return r.figures.listener_faults.lost; });
  total("duplicate: echo", [](const RunResult& r) { return r.figures.echo_faults.duplicate; });
  total("duplicate: listeners",
        [](const RunResult& r) { return r.figures.listener_faults.duplicate; });
  total("out of order: echo",
        [](const RunResult& r) { return r.figures.echo_faults.out_of_order; });
  total("out of order: listeners",
        [](const RunResult& r) { return r.figures.listener_faults.out_of_order; });
  total("misrouted: echo", [](const RunResult& r) { return r.figures.echo_faults.misrouted; });
  total("misrouted: listeners",
        [](const RunResult& r) { return r.figures.listener_faults.misrouted; });
  total("other events missing", [](const RunResult& r) { return r.figures.events_missing; });
  if (passive)
    total("passive with wrong counters",
          [](const RunResult& r) { return r.figures.passive_wrong; });
  total("refused, not sent, broken",
        [](const RunResult& r) { return r.figures.refused + r.figures.unsent + r.broken; });
  table.rule();
  line(
      "server CPU, s", [](const RunResult& r) { return r.cpu_s >= 0 ? r.cpu_s : std::nan(""); }, 3);
  line(
      "server CPU per delivery, us",
      [](const RunResult& r) {
        return r.cpu_s >= 0 && r.figures.received > 0
                   ? r.cpu_s * 1e6 / static_cast<double>(r.figures.received)
                   : std::nan("");
      },
      1);
  line(
      "server peak memory, MiB",
      [](const RunResult& r) {
        return r.cost.rss_kib >= 0 ? static_cast<double>(r.cost.rss_kib) / 1024 : std::nan("");
      },
      1);
  if (std::any_of(results.begin(), results.end(),
                  [](const auto& r) { return r.database_cpu_s >= 0; })) {
    line(
        "database CPU, s", [](const RunResult& r) { return r.database_cpu_s; }, 3);
    line(
        "database peak memory, MiB",
        [](const RunResult& r) { return static_cast<double>(r.cost.database_rss_kib) / 1024; }, 1);
  }
  optional_line("statements per message",
                [](const RunResult& r) { return per_message(r, "chat_db_statements_total"); });
  optional_line("commits per message",
                [](const RunResult& r) { return per_message(r, "chat_db_commits_total"); });
  optional_line("rows per message",
                [](const RunResult& r) { return per_message(r, "chat_db_rows_total"); });
  optional_line("round trips per message",
                [](const RunResult& r) { return per_message(r, "chat_db_round_trips_total"); });
  table.rule();
  line(
      "instrument lag p50", [](const RunResult& r) { return r.figures.lag.p50; }, 3);
  line(
      "instrument lag p99", [](const RunResult& r) { return r.figures.lag.p99; }, 3);
  line(
      "sent late p99", [](const RunResult& r) { return r.figures.late.p99; }, 3);
  line(
      "harness CPU, s", [](const RunResult& r) { return r.harness_cpu_s; }, 3);
  total("runs that are instrument-bound",
        [](const RunResult& r) { return r.figures.instrument_bound ? 1U : 0U; });
  return table.text();
}

namespace {
// Queues, caches, pools, refusals as the server tells them: counters as what the run added, the
// rest (peaks, depths) as it stood at the end; nothing that is 0.
std::map<std::string, double> notable(const RunResult& r) {
  std::map<std::string, double> out;
  for (const char* part :
       {"queue", "peak", "cache", "pool", "push", "rejected", "disconnects", "failures"}) {
    const auto earlier = r.before.matching({part});
    for (const auto& [name, value] : r.after.matching({part})) {
      if (name.find("_bucket") != std::string::npos || name.find("_seconds") != std::string::npos)
        continue;
      const auto at = earlier.find(name);
      const bool counter = name.find("_total") != std::string::npos && at != earlier.end();
      const double shown = counter ? value - at->second : value;
      if (shown != 0) out[name] = shown;
    }
  }
  return out;
}
}  // namespace

std::string server_table(const RunResult& r) {
  if (r.after.empty()) return "The server told no figures of its own.\n";
  Table table({"server's own, " + r.target, "count", "mean ms", "p50 ms", "p95 ms"});
  bool any_histogram = false;
  for (const auto& name : r.after.histogram_names()) {
    const bool seconds = name.size() > 8 && name.compare(name.size() - 8, 8, "_seconds") == 0;
    for (const auto& h : r.after.histograms(name, r.before)) {
      if (h.count <= 0) continue;
      const double scale = seconds ? 1000 : 1;
      any_histogram = true;
      table.row(
          {name + (h.labels.empty() ? "" : "{" + h.labels + "}") + (seconds ? "" : " (no time)"),
           number(h.count, 0), number(h.mean() * scale, 3), number(h.quantile(0.5) * scale, 3),
           number(h.quantile(0.95) * scale, 3)});
    }
  }
  std::string out = any_histogram ? table.text() : "";
  const auto rest = notable(r);
  if (rest.empty()) return out;
  Table others({"queues, caches, pools, what was refused", "value"});
  for (const auto& [name, value] : rest)
    others.row({name, number(value, value == std::floor(value) ? 0 : 3)});
  return out + "\n" + others.text();
}

std::string bars_table(const std::vector<Bar>& bars) {
  Table table({"must show", "measured", "bar", ""});
  for (const auto& b : bars)
    table.row({b.what, b.told ? number(b.value) + (b.unit.empty() ? "" : " " + b.unit) : "n/a",
               b.bar + (b.unit.empty() || !b.told ? "" : " " + b.unit),
               !b.told  ? "no figure"
               : b.pass ? "pass"
                        : "FAIL"});
  return table.text();
}

bool all_pass(const std::vector<Bar>& bars) {
  return std::all_of(bars.begin(), bars.end(), [](const Bar& b) { return b.told && b.pass; });
}

namespace {
// JSON has no infinity; a figure that is one says so in words.
json finite(double v) {
  if (std::isinf(v)) return "infinite";
  if (std::isnan(v)) return nullptr;
  return std::round(v * 1e6) / 1e6;
}
json series(const std::vector<double>& values) {
  json out = json::array();
  for (const double v : values)
    out.push_back(finite(v));
  return out;
}
json to_json(const Faults& f) {
  return {{"lost", f.lost},
          {"duplicate", f.duplicate},
          {"out_of_order", f.out_of_order},
          {"misrouted", f.misrouted}};
}
json told(std::optional<double> v) { return v ? finite(*v) : json("n/a"); }
}  // namespace

json to_json(const Summary& s) {
  return {{"count", s.count},        {"missing", s.missing},    {"avg_ms", finite(s.avg)},
          {"min_ms", finite(s.min)}, {"p50_ms", finite(s.p50)}, {"p95_ms", finite(s.p95)},
          {"p99_ms", finite(s.p99)}, {"max_ms", finite(s.max)}};
}

json to_json(const std::vector<Bar>& bars) {
  json out = json::array();
  for (const auto& b : bars)
    out.push_back({{"what", b.what},
                   {"bar", b.bar},
                   {"unit", b.unit},
                   {"value", b.told ? finite(b.value) : json("n/a")},
                   {"pass", b.told && b.pass}});
  return out;
}

json to_json(const RunResult& r) {
  const Analysis& f = r.figures;
  json stages = json::object();
  for (const auto& name : r.after.histogram_names())
    for (const auto& h : r.after.histograms(name, r.before))
      if (h.count > 0)
        stages[name + (h.labels.empty() ? "" : "{" + h.labels + "}")] = {
            {"count", h.count},
            {"mean", finite(h.mean())},
            {"p50", finite(h.quantile(0.5))},
            {"p95", finite(h.quantile(0.95))}};
  json queues = json::object();
  for (const auto& [name, value] : notable(r))
    queues[name] = finite(value);
  json memory{{"server_peak_kib", r.cost.rss_kib}};
  if (r.cost.database_rss_kib >= 0) memory["database_peak_kib"] = r.cost.database_rss_kib;
  return {{"target", r.target},
          {"variant", r.variant},
          {"temperature", r.cold ? "cold" : "warm"},
          {"run", r.number},
          {"no_result", r.no_result},
          {"latency",
           {{"all", to_json(f.all)},
            {"echo", to_json(f.echo)},
            {"listeners", to_json(f.listeners)},
            {"ok", to_json(f.ack)},
            {"unread", to_json(f.unread)},
            {"read_marks", to_json(f.reads)}}},
          {"rtt_avg", finite(f.echo.avg)},
          {"rtt_min", finite(f.echo.min)},
          {"rtt_p95", finite(f.echo.p95)},
          {"rtt_max", finite(f.echo.max)},
          {"first_5_avg", finite(f.first_5_avg)},
          {"last_5_avg", finite(f.last_5_avg)},
          {"total_duration", finite(f.total_ms)},
          {"error_rate", finite(f.error_rate)},
          {"messages_sent", f.sent},
          {"messages_received", f.echo.count - f.echo.missing},
          {"messages_lost", f.echo_faults.lost},
          {"connection_time", finite(r.connection_ms)},
          {"session_ready", finite(r.session_ready_ms)},
          {"fanout_skew", to_json(f.skew)},
          {"deliveries", {{"expected", f.expected}, {"received", f.received}}},
          {"faults",
           {{"echo", to_json(f.echo_faults)},
            {"listeners", to_json(f.listener_faults)},
            {"other_events_missing", f.events_missing},
            {"passive_with_wrong_counters", f.passive_wrong},
            {"refused", f.refused},
            {"not_sent", f.unsent},
            {"broken_connections", r.broken},
            {"errors", r.errors}}},
          {"instrument",
           {{"lag", to_json(f.lag)},
            {"late", to_json(f.late)},
            {"cpu_s", finite(r.harness_cpu_s)},
            {"window_s", finite(r.window_s)},
            {"backlogged_writes", r.backlogged},
            {"instrument_bound", f.instrument_bound}}},
          {"server",
           {{"cpu_s", finite(r.cpu_s)},
            {"database_cpu_s", r.database_cpu_s >= 0 ? finite(r.database_cpu_s) : json(nullptr)},
            {"memory", memory},
            {"per_message",
             {{"statements", told(per_message(r, "chat_db_statements_total"))},
              {"commits", told(per_message(r, "chat_db_commits_total"))},
              {"rows", told(per_message(r, "chat_db_rows_total"))},
              {"round_trips", told(per_message(r, "chat_db_round_trips_total"))}}},
            {"stages_s", stages},
            {"queues_caches_pools", queues},
            {"described", r.described}}},
          {"minutes",
           {{"second_p95_ms", finite(r.p95_second_minute)},
            {"last_p95_ms", finite(r.p95_last_minute)}}},
          {"series",
           {{"sent_at_s", series(f.sent_at_s)},
            {"echo_ms", series(f.echo_series)},
            {"first_receiver_ms", series(f.first_series)},
            {"last_receiver_ms", series(f.last_series)}}}};
}

void write_file(const std::string& path, const std::string& content) {
  const std::filesystem::path target(path);
  std::error_code error;
  if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path(), error);
  const std::string temporary = path + "." + std::to_string(::getpid());
  std::ofstream out(temporary, std::ios::binary);
  out << content;
  out.close();
  if (!out) throw Failure("cannot write " + path);
  std::filesystem::rename(temporary, target, error);
  if (error) throw Failure("cannot write " + path + ": " + error.message());
}

}  // namespace parley::bench
