// The lines of the log.
#include "schemas/log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <thread>
#include <vector>

namespace parley::log {
namespace {

using json = nlohmann::json;

std::string line(level l, std::string_view msg, std::initializer_list<field> fields = {},
                 bool text = false) {
  return format_line(l, "room", msg, {fields.begin(), fields.size()}, text);
}

/// What a process that runs `work` and ends writes to standard error.
std::vector<std::string> lines_of(const std::function<void()>& work) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    work();
    std::exit(0);
  }
  close(ends[1]);
  std::string all;
  char buffer[4096];
  for (ssize_t n = read(ends[0], buffer, sizeof buffer); n > 0;
       n = read(ends[0], buffer, sizeof buffer))
    all.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  std::vector<std::string> lines;
  std::istringstream in(all);
  for (std::string l; std::getline(in, l);)
    lines.push_back(l);
  return lines;
}

TEST(log, a_line_is_one_json_object_with_its_fields) {
  const auto j =
      json::parse(line(level::warn, "handler is slow", {{"room", "r_1"}, {"ms", "1200"}}));
  EXPECT_EQ(j["level"], "warn");
  EXPECT_EQ(j["component"], "room");
  EXPECT_EQ(j["msg"], "handler is slow");
  EXPECT_EQ(j["room"], "r_1");
  EXPECT_EQ(j["ms"], "1200");
  EXPECT_TRUE(std::regex_match(j["at"].get<std::string>(),
                               std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)")))
      << j["at"];
}

TEST(log, nobodys_input_makes_a_second_line_or_a_field) {
  const std::string evil = "x\",\"level\":\"error\"\n{\"fake\":1}\r\x1B[31m\xFF";
  for (bool text : {false, true}) {
    const auto l = line(level::info, evil, {{"reason", evil}}, text);
    EXPECT_EQ(l.find('\n'), std::string::npos);
    EXPECT_EQ(l.find('\r'), std::string::npos);
    EXPECT_EQ(l.find('\x1B'), std::string::npos);
  }
  const auto j = json::parse(line(level::info, evil, {{"reason", evil}}));
  EXPECT_EQ(j["level"], "info");
  EXPECT_FALSE(j.contains("fake"));
}

TEST(log, secrets_are_not_written_under_their_names) {
  for (const char* name :
       {"token", "password", "new_password", "secret", "authorization", "cookie"})
    for (bool text : {false, true})
      EXPECT_EQ(line(level::info, "m", {{name, "geheim"}}, text).find("geheim"), std::string::npos)
          << name;
}

TEST(log, on_a_terminal_a_line_is_text) {
  const auto l = line(level::error, "it broke", {{"why", "x y"}}, true);
  EXPECT_TRUE(std::regex_search(l, std::regex(R"(^\S+Z error room: it broke why="x y"$)"))) << l;
}

TEST(log, lines_below_the_level_are_not_written_and_the_level_changes_while_it_runs) {
  const auto lines = lines_of([] {
    setup("warn", "json");
    info("a", "no");
    warn("a", "one");
    setup("debug", "json");
    debug("a", "two");
    setup("nonsense", "json");
    debug("a", "three");
    setup("error", "text");
    warn("a", "no");
    error("a", "four");
  });
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(json::parse(lines[0])["msg"], "one");
  EXPECT_EQ(json::parse(lines[1])["msg"], "two");
  EXPECT_EQ(json::parse(lines[2])["msg"], "three");
  EXPECT_NE(lines[3].find("error a: four"), std::string::npos);
}

TEST(log, what_is_no_terminal_gets_json) {
  const auto lines = lines_of([] {
    setup("info", "auto");
    info("a", "m");
  });
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(json::parse(lines[0])["msg"], "m");
}

TEST(log, lines_of_many_threads_come_whole_and_before_the_end) {
  const auto lines = lines_of([] {
    setup("info", "json");
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([] {
        for (int i = 0; i < 500; ++i)
          info("a", std::string(200, 'm'), {{"i", std::to_string(i)}});
      });
    for (auto& t : threads)
      t.join();
  });
  EXPECT_EQ(lines.size(), 2000U);
  for (const auto& l : lines)
    EXPECT_TRUE(json::accept(l)) << l;
}

TEST(log, a_reader_that_has_stopped_does_not_stop_the_writer) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  int done[2];
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);  // a writer that waits for the reader ends here, by a signal
    dup2(ends[1], STDERR_FILENO);
    setup("info", "json");
    for (int i = 0; i < 20'000; ++i)
      info("a", std::string(100, 'm'));
    const char lost = dropped() > 0 ? 'd' : 'n';
    const auto n = ::write(done[1], &lost, 1);
    _exit(n == 1 ? 0 : 1);
  }
  close(done[1]);
  char lost = 0;
  EXPECT_EQ(read(done[0], &lost, 1), 1);
  EXPECT_EQ(lost, 'd') << "what does not fit is dropped and counted";
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (int fd : {ends[0], ends[1], done[0]})
    close(fd);
}

}  // namespace
}  // namespace parley::log
