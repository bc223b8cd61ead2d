// Prometheus' text exposition: the catalogue of schemas/metrics as it stands, the process's own
// figures under their usual names, and the actors' mailboxes by kind. No id is ever a label.
#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include "net/admin/routes.hpp"

namespace parley::net::http {
namespace {

void append_head(std::string& out, std::string_view name, std::string_view help,
                 std::string_view type) {
  out.append("# HELP ").append(name).append(" ");
  for (const char c : help) {
    if (c == '\\')
      out.append("\\\\");
    else if (c == '\n')
      out.append("\\n");
    else
      out.push_back(c);
  }
  out.append("\n# TYPE ").append(name).append(" ").append(type).append("\n");
}

void append_sample(std::string& out, std::string_view name, std::string_view suffix,
                   std::string_view labels, std::string_view value) {
  out.append(name).append(suffix);
  if (!labels.empty()) out.append("{").append(labels).append("}");
  out.append(" ").append(value).append("\n");
}

std::string number(double v) {
  // Shortest text that reads back the same; independent of the locale.
  char text[64];
  const auto [end, why] = std::to_chars(text, text + sizeof text, v);
  return why == std::errc() ? std::string(text, end) : "NaN";
}

void append_histogram(std::string& out, std::string_view name, const std::string& labels,
                      const metric_histogram& h, bool sizes) {
  const auto& edges = sizes ? metric_histogram::size_edges : metric_histogram::seconds_edges;
  const std::string before = labels.empty() ? "" : labels + ",";
  // The sum is read first: a value observed meanwhile is then in a bucket and not in the sum, never
  // the reverse.
  const auto sum = h.sum.load(std::memory_order_relaxed);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < metric_histogram::buckets; ++i) {
    total += h.count[i].load(std::memory_order_relaxed);
    append_sample(out, name, "_bucket", before + "le=\"" + std::string(edges[i]) + "\"",
                  std::to_string(total));
  }
  total += h.count[metric_histogram::buckets].load(std::memory_order_relaxed);
  append_sample(out, name, "_bucket", before + "le=\"+Inf\"", std::to_string(total));
  append_sample(out, name, "_sum", labels,
                sizes ? std::to_string(sum) : number(static_cast<double>(sum) / 1e9));
  append_sample(out, name, "_count", labels, std::to_string(total));
}

std::string label(std::string_view name, std::string_view value) {
  std::string out(name);
  out.append("=\"");
  for (const char c : value) {
    if (c == '\\' || c == '"') out.push_back('\\');
    out.push_back(c == '\n' ? ' ' : c);
  }
  out.push_back('"');
  return out;
}

void append_actors(std::string& out, const std::vector<actor_view>& actors) {
  struct sums {
    std::int64_t count = 0, mailbox = 0, handled = 0, longest_us = 0, busy_ms = 0;
  };
  std::map<std::string, sums> kinds;
  for (const auto& a : actors) {
    auto& k = kinds[a.kind];
    ++k.count;
    k.mailbox += a.mailbox;
    k.handled += a.handled;
    k.longest_us = std::max(k.longest_us, a.max_handler_us);
    k.busy_ms = std::max(k.busy_ms, a.busy_since_ms.value_or(0));
  }
  const auto family = [&](std::string_view name, std::string_view help, auto value) {
    append_head(out, name, help, "gauge");
    for (const auto& [kind, s] : kinds)
      append_sample(out, name, "", label("kind", kind), value(s));
  };
  family("chat_actors", "Living actors by kind.",
         [](const sums& s) { return std::to_string(s.count); });
  family("chat_actor_mailbox_messages", "Messages that wait in mailboxes, by kind of actor.",
         [](const sums& s) { return std::to_string(s.mailbox); });
  family("chat_actor_handled_messages", "Messages that the living actors have handled, by kind.",
         [](const sums& s) { return std::to_string(s.handled); });
  family("chat_actor_longest_handler_seconds", "The longest handler of a living actor, by kind.",
         [](const sums& s) { return number(static_cast<double>(s.longest_us) / 1e6); });
  family("chat_actor_busy_seconds",
         "How long the longest handler under way has been running, by kind.",
         [](const sums& s) { return number(static_cast<double>(s.busy_ms) / 1e3); });
}

std::string first_line(const char* path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

}  // namespace

process_figures read_process_figures() {
  process_figures p;
  const auto tick = static_cast<double>(::sysconf(_SC_CLK_TCK));
  // proc(5): the fields behind the command's closing bracket; utime and stime are 14 and 15,
  // starttime 22.
  const auto stat = first_line("/proc/self/stat");
  const auto bracket = stat.rfind(')');
  if (bracket != std::string::npos && tick > 0) {
    std::istringstream rest(stat.substr(bracket + 1));
    std::vector<std::string> f;
    for (std::string word; rest >> word;)
      f.push_back(word);
    if (f.size() > 21) {
      p.cpu_seconds = (std::atof(f[11].c_str()) + std::atof(f[12].c_str())) / tick;
      p.threads = std::atoll(f[17].c_str());
      p.virtual_bytes = std::atoll(f[20].c_str());
      p.resident_bytes = std::atoll(f[21].c_str()) * ::sysconf(_SC_PAGESIZE);
      std::ifstream all("/proc/stat");
      for (std::string line; std::getline(all, line);)
        if (line.rfind("btime ", 0) == 0)
          p.start_time = std::atof(line.c_str() + 6) + std::atof(f[19].c_str()) / tick;
    }
  }
  if (DIR* folder = ::opendir("/proc/self/fd")) {
    p.open_fds = -3;  // ".", ".." and the descriptor that reads
    while (::readdir(folder) != nullptr)
      ++p.open_fds;
    ::closedir(folder);
  }
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0)
    p.max_fds = static_cast<std::int64_t>(files.rlim_cur);
  return p;
}

std::string process_text(const process_figures& p) {
  std::string out;
  const auto family = [&](std::string_view name, std::string_view help, std::string_view type,
                          auto value, bool known) {
    if (!known) return;
    append_head(out, name, help, type);
    append_sample(out, name, "", "", value);
  };
  family("process_cpu_seconds_total", "CPU time, user and system.", "counter",
         number(p.cpu_seconds), p.cpu_seconds >= 0);
  family("process_resident_memory_bytes", "Resident memory.", "gauge",
         std::to_string(p.resident_bytes), p.resident_bytes >= 0);
  family("process_virtual_memory_bytes", "Virtual memory.", "gauge",
         std::to_string(p.virtual_bytes), p.virtual_bytes >= 0);
  family("process_open_fds", "Open file descriptors.", "gauge", std::to_string(p.open_fds),
         p.open_fds >= 0);
  family("process_max_fds", "Most file descriptors that may be open.", "gauge",
         std::to_string(p.max_fds), p.max_fds >= 0);
  family("process_threads", "Threads.", "gauge", std::to_string(p.threads), p.threads >= 0);
  family("process_start_time_seconds", "Start, in seconds since the Unix epoch.", "gauge",
         number(p.start_time), p.start_time >= 0);
  return out;
}

std::string metrics_text(const metrics& m, const std::vector<actor_view>& actors) {
  std::string out;
  out.reserve(32768);
  for (const auto& f : catalogue(m)) {
    append_head(out, f.name, f.help, f.type);
    for (const auto& s : f.samples)
      append_sample(out, f.name, "", s.labels, std::to_string(s.value));
    for (const auto& [labels, h] : f.histograms)
      append_histogram(out, f.name, labels, *h, f.sizes);
  }
  append_actors(out, actors);
  out += process_text(read_process_figures());
  return out;
}

}  // namespace parley::net::http
