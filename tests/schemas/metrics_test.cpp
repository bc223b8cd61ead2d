// The buckets, and that the catalogue follows Prometheus' rules.
#include "schemas/metrics.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <thread>

namespace parley {
namespace {

const metric_family* find(const std::vector<metric_family>& all, std::string_view name) {
  for (const auto& f : all)
    if (f.name == name) return &f;
  return nullptr;
}

std::size_t bucket_of(const metric_histogram& h) {
  for (std::size_t i = 0; i < h.count.size(); ++i)
    if (h.count[i] == 1) return i;
  return 99;
}
std::size_t bucket_of_ns(std::int64_t ns) {
  metric_histogram h;
  h.observe_ns(ns);
  return bucket_of(h);
}
std::size_t bucket_of_size(std::int64_t n) {
  metric_histogram h;
  h.observe_size(n);
  return bucket_of(h);
}

TEST(metrics, a_duration_falls_into_the_bucket_whose_edge_it_does_not_exceed) {
  for (std::size_t i = 0; i < metric_histogram::buckets; ++i) {
    const auto edge = static_cast<std::int64_t>(
        std::stod(std::string(metric_histogram::seconds_edges[i])) * 1e9 + 0.5);
    EXPECT_EQ(bucket_of_ns(edge), i) << metric_histogram::seconds_edges[i];
    EXPECT_EQ(bucket_of_ns(edge + 1), i + 1) << metric_histogram::seconds_edges[i];
  }
  EXPECT_EQ(bucket_of_ns(0), 0U);
  EXPECT_EQ(bucket_of_ns(-5), 0U);
  EXPECT_EQ(bucket_of_ns(INT64_MAX), metric_histogram::buckets);
}

TEST(metrics, a_size_falls_into_the_bucket_whose_edge_it_does_not_exceed) {
  for (std::size_t i = 0; i < metric_histogram::buckets; ++i) {
    const auto edge = std::stoll(std::string(metric_histogram::size_edges[i]));
    EXPECT_EQ(bucket_of_size(edge), i);
    EXPECT_EQ(bucket_of_size(edge + 1), i + 1);
  }
  EXPECT_EQ(bucket_of_size(0), 0U);
  EXPECT_EQ(bucket_of_size(-1), 0U);
  EXPECT_EQ(bucket_of_size(INT64_MAX), metric_histogram::buckets);
}

TEST(metrics, a_peak_keeps_the_highest_value_of_all_threads) {
  metric_cell peak;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&peak, t] {
      for (int i = 0; i < 10000; ++i)
        peak.peak(i * 4 + t);
    });
  for (auto& t : threads)
    t.join();
  EXPECT_EQ(peak.get(), 9999 * 4 + 3);
}

TEST(metrics, the_catalogue_has_every_name_that_was_promised) {
  const metrics m;
  const auto all = catalogue(m);
  for (const std::string name : {"chat_ws_send_seconds",
                                 "chat_message_send_seconds",
                                 "chat_message_read_seconds",
                                 "chat_message_response_build_seconds",
                                 "chat_event_message_sent_seconds",
                                 "chat_broadcast_room_seconds",
                                 "chat_stage_seconds",
                                 "chat_db_statements_total",
                                 "chat_db_commits_total",
                                 "chat_db_rows_total",
                                 "chat_db_group_size",
                                 "chat_commit_seconds",
                                 "chat_queue_depth",
                                 "chat_queue_peak",
                                 "chat_connections",
                                 "chat_sessions",
                                 "chat_rooms_active",
                                 "chat_rejected_total",
                                 "chat_resume_total",
                                 "chat_disconnects_total",
                                 "chat_cache_requests_total",
                                 "chat_http_request_seconds",
                                 "chat_http_responses_total",
                                 "chat_build_info"})
    EXPECT_NE(find(all, name), nullptr) << name;
}

TEST(metrics, names_help_and_types_follow_the_rules) {
  const metrics m;
  const std::regex snake("chat_[a-z0-9_]+");
  const std::regex labels(R"re(([a-z]+="[A-Za-z0-9_.]+"(,[a-z]+="[A-Za-z0-9_.]+")*)?)re");
  std::set<std::string> names;
  for (const auto& f : catalogue(m)) {
    EXPECT_TRUE(names.insert(f.name).second) << f.name;
    EXPECT_TRUE(std::regex_match(f.name, snake)) << f.name;
    EXPECT_FALSE(f.help.empty()) << f.name;
    EXPECT_EQ(f.help.find('\n'), std::string::npos) << f.name;
    EXPECT_EQ(f.type == "counter", f.name.ends_with("_total")) << f.name;
    EXPECT_EQ(f.type == "histogram" && !f.sizes, f.name.ends_with("_seconds")) << f.name;
    EXPECT_EQ(f.type == "histogram", f.samples.empty()) << f.name;
    EXPECT_EQ(f.type == "histogram", !f.histograms.empty()) << f.name;
    std::set<std::string> series;
    for (const auto& s : f.samples)
      EXPECT_TRUE(series.insert(s.labels).second && std::regex_match(s.labels, labels))
          << f.name << s.labels;
    for (const auto& h : f.histograms)
      EXPECT_TRUE(series.insert(h.first).second && std::regex_match(h.first, labels))
          << f.name << h.first;
  }
}

TEST(metrics, what_is_counted_shows_in_its_family) {
  metrics m;
  m.commits.add(3);
  m.rejected_overloaded.add();
  m.disconnects[10].add(2);
  m.http_status[2].add(5);
  m.message_send_ok.observe_ns(1);
  const auto all = catalogue(m);
  EXPECT_EQ(find(all, "chat_db_commits_total")->samples.at(0).value, 3);
  const auto value = [&all](std::string_view family, std::string_view labels) {
    for (const auto& s : find(all, family)->samples)
      if (s.labels == labels) return s.value;
    return std::int64_t{-1};
  };
  EXPECT_EQ(value("chat_rejected_total", R"(reason="overloaded")"), 1);
  EXPECT_EQ(value("chat_disconnects_total", R"(code="4008")"), 2);
  EXPECT_EQ(value("chat_http_responses_total", R"(class="2xx")"), 5);
  EXPECT_EQ(value("chat_build_info", R"(version=")" PARLEY_VERSION R"(")"), 1);
  EXPECT_EQ(find(all, "chat_message_send_seconds")->histograms.at(0).first, R"(outcome="ok")");
  EXPECT_EQ(find(all, "chat_message_send_seconds")->histograms.at(0).second->count[0], 1);
}

TEST(metrics, every_stage_has_its_name) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < static_cast<std::size_t>(stage::count_); ++i)
    names.insert(to_string(static_cast<stage>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(stage::count_));
  EXPECT_EQ(to_string(stage::parse), "parse");
  EXPECT_EQ(to_string(stage::fanout), "fanout");
}

TEST(metrics, promtool_has_nothing_to_say) {
  if (std::system("command -v promtool >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "promtool is not installed";
  const metrics m;
  std::string name = std::filesystem::temp_directory_path() / "parley-metrics-XXXXXX";
  const int fd = mkstemp(name.data());
  ASSERT_GE(fd, 0);
  close(fd);
  std::ofstream out(name);
  for (const auto& f : catalogue(m)) {
    out << "# HELP " << f.name << " " << f.help << "\n# TYPE " << f.name << " " << f.type << "\n";
    for (const auto& s : f.samples)
      out << f.name << (s.labels.empty() ? "" : "{" + s.labels + "}") << " " << s.value << "\n";
    for (const auto& [labels, data] : f.histograms) {
      const auto& edges = f.sizes ? metric_histogram::size_edges : metric_histogram::seconds_edges;
      const auto lead = labels.empty() ? "" : labels + ",";
      for (const auto& edge : edges)
        out << f.name << "_bucket{" << lead << "le=\"" << edge << "\"} 0\n";
      out << f.name << "_bucket{" << lead << "le=\"+Inf\"} " << data->count[0] << "\n";
      const auto braces = labels.empty() ? "" : "{" + labels + "}";
      out << f.name << "_sum" << braces << " 0\n" << f.name << "_count" << braces << " 0\n";
    }
  }
  out.close();
  FILE* tool = popen(("promtool check metrics < " + name + " 2>&1").c_str(), "r");
  ASSERT_NE(tool, nullptr);
  std::string said;
  for (int c = fgetc(tool); c != EOF; c = fgetc(tool))
    said.push_back(static_cast<char>(c));
  EXPECT_EQ(pclose(tool), 0) << said;
  EXPECT_EQ(said, "");
  std::filesystem::remove(name);
}

}  // namespace
}  // namespace parley
