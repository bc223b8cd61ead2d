// The exposition is what Prometheus reads: each family once, samples behind their head, histograms
// cumulative.
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "net/admin/routes.hpp"

namespace parley::net::http {
namespace {

actor_view actor(const char* kind, const char* id, std::int64_t mailbox) {
  actor_view a;
  a.kind = kind;
  a.id = id;
  a.mailbox = mailbox;
  a.handled = 10;
  a.max_handler_us = 1500;
  return a;
}

TEST(MetricsText, IsWellFormed) {
  metrics m;
  m.http_seconds.observe_ns(3'000'000);
  m.commit_seconds.observe_ns(20'000'000'000);
  const auto text = metrics_text(
      m, {actor("room", "room-1", 2), actor("room", "room-2", 3), actor("people", "p-1", 0)});
  const std::regex sample(
      R"(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{([a-z_]+="[^"]*")(,[a-z_]+="[^"]*")*\})? (-?[0-9.e+-]+|\+Inf|NaN))");
  std::istringstream lines(text);
  std::string family, type;
  std::set<std::string> families, series;
  for (std::string line; std::getline(lines, line);) {
    ASSERT_FALSE(line.empty());
    if (line.rfind("# HELP ", 0) == 0) {
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(families.insert(family).second) << family << " twice";
      continue;
    }
    if (line.rfind("# TYPE ", 0) == 0) {
      EXPECT_EQ(line.substr(7, family.size()), family);
      type = line.substr(8 + family.size());
      EXPECT_TRUE(type == "counter" || type == "gauge" || type == "histogram") << line;
      if (type == "counter") {
        EXPECT_EQ(family.substr(family.size() - 6), "_total") << family;
      }
      continue;
    }
    std::smatch parts;
    ASSERT_TRUE(std::regex_match(line, parts, sample)) << line;
    EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << line << " twice";
    auto name = parts[1].str();
    if (type == "histogram")
      for (const char* end : {"_bucket", "_sum", "_count"})
        if (name.ends_with(end)) name.resize(name.size() - std::string(end).size());
    EXPECT_EQ(name, family);
  }
  EXPECT_TRUE(families.contains("process_resident_memory_bytes"));
  EXPECT_TRUE(families.contains("process_cpu_seconds_total"));
  EXPECT_TRUE(families.contains("process_open_fds"));
  EXPECT_EQ(text.back(), '\n');
}

TEST(MetricsText, HistogramsAreCumulativeAndInSeconds) {
  metrics m;
  m.http_seconds.observe_ns(3'000'000);
  m.http_seconds.observe_ns(3'000'000);
  m.http_seconds.observe_ns(20'000'000'000);
  const auto text = metrics_text(m, {});
  for (const char* line :
       {"chat_http_request_seconds_bucket{le=\"0.0025\"} 0\n",
        "chat_http_request_seconds_bucket{le=\"0.005\"} 2\n",
        "chat_http_request_seconds_bucket{le=\"10\"} 2\n",
        "chat_http_request_seconds_bucket{le=\"+Inf\"} 3\n",
        "chat_http_request_seconds_sum 20.006\n", "chat_http_request_seconds_count 3\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
}

TEST(MetricsText, ActorsAreSummedByKindAndNeverNamed) {
  metrics m;
  const auto text = metrics_text(m, {actor("room", "room-secret", 2), actor("room", "room-2", 3)});
  EXPECT_NE(text.find("chat_actors{kind=\"room\"} 2\n"), std::string::npos);
  EXPECT_NE(text.find("chat_actor_mailbox_messages{kind=\"room\"} 5\n"), std::string::npos);
  EXPECT_NE(text.find("chat_actor_longest_handler_seconds{kind=\"room\"} 0.0015\n"),
            std::string::npos);
  EXPECT_EQ(text.find("secret"), std::string::npos);
}

TEST(MetricsText, TheProcessKnowsItself) {
  const auto p = read_process_figures();
  EXPECT_GT(p.resident_bytes, 1 << 20);
  EXPECT_GE(p.cpu_seconds, 0);
  EXPECT_GT(p.open_fds, 2);
  EXPECT_GE(p.max_fds, p.open_fds);
  EXPECT_GE(p.threads, 1);
  EXPECT_GT(p.start_time, 1e9);
}

}  // namespace
}  // namespace parley::net::http
