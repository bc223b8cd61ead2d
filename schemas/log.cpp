// The process's log: formats a line, hands it to spdlog's queue; one thread writes to standard
// error. A full queue drops its oldest lines and counts them, since a reader of the log that has
// stopped must not stop the chat.
#include "schemas/log.hpp"

#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>

#include "schemas/wire/json_encode.hpp"

namespace parley::log {

namespace {

constexpr std::size_t queue_lines = 8192;

std::atomic<level> threshold{level::info};
std::atomic<bool> as_text{false};

/// Made at the first line. Its destructor, at the process's end, writes what still waits.
class sink {
 public:
  sink()
      : pool_(std::make_shared<spdlog::details::thread_pool>(queue_lines, 1)),
        logger_(std::make_shared<spdlog::async_logger>(
            "parley", std::make_shared<spdlog::sinks::stderr_sink_mt>(), pool_,
            spdlog::async_overflow_policy::overrun_oldest)) {
    logger_->set_pattern("%v");
    logger_->set_level(spdlog::level::trace);  // the threshold above has decided already
    logger_->flush_on(spdlog::level::trace);
    // A closed standard error must not end the process, and there is nowhere to say it.
    logger_->set_error_handler([](const std::string&) {});
  }
  void put(const std::string& line) { logger_->log(spdlog::level::info, line); }
  std::size_t dropped() { return pool_->overrun_counter(); }

 private:
  std::shared_ptr<spdlog::details::thread_pool> pool_;
  std::shared_ptr<spdlog::async_logger> logger_;
};

sink& the_sink() {
  static sink one;
  return one;
}

std::string_view word(level l) {
  switch (l) {
  case level::debug:
    return "debug";
  case level::info:
    return "info";
  case level::warn:
    return "warn";
  case level::error:
    break;
  }
  return "error";
}

/// RFC 3339 in UTC with milliseconds.
std::string timestamp() {
  using namespace std::chrono;
  const auto now = duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
  const auto seconds = static_cast<std::time_t>(now / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
                parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min,
                parts.tm_sec, static_cast<int>(now % 1000));
  return text.data();
}

/// A last net for what must never be written, whoever calls.
bool is_secret(std::string_view name) {
  static constexpr std::array<std::string_view, 6> secrets = {
      "token", "password", "new_password", "secret", "authorization", "cookie"};
  return std::find(secrets.begin(), secrets.end(), name) != secrets.end();
}
constexpr std::string_view redacted = "[redacted]";

}  // namespace

std::string format_line(level l, std::string_view component, std::string_view msg,
                        std::span<const field> fields, bool text) {
  std::string line;
  line.reserve(128 + msg.size());
  if (text) {
    line.append(timestamp()).append(" ").append(word(l)).append(" ").append(component).append(": ");
    // Quoted where it is more than a plain line, so that nobody's input makes a second one.
    const auto plain = [](std::string_view s) {
      return std::none_of(s.begin(), s.end(),
                          [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
    };
    line.append(plain(msg) ? std::string(msg) : wire::quoted(msg));
    for (const auto& [name, value] : fields)
      line.append(" ").append(name).append("=").append(is_secret(name) ? std::string(redacted)
                                                                       : wire::quoted(value));
    return line;
  }
  line.append(R"({"level":)").append(wire::quoted(word(l)));
  line.append(R"(,"at":)").append(wire::quoted(timestamp()));
  line.append(R"(,"component":)").append(wire::quoted(component));
  line.append(R"(,"msg":)").append(wire::quoted(msg));
  for (const auto& [name, value] : fields)
    line.append(",")
        .append(wire::quoted(name))
        .append(":")
        .append(wire::quoted(is_secret(name) ? redacted : value));
  line.append("}");
  return line;
}

void setup(std::string_view level_name, std::string_view format) {
  for (auto l : {level::debug, level::info, level::warn, level::error})
    if (word(l) == level_name) threshold = l;
  as_text = format == "text" || (format == "auto" && isatty(STDERR_FILENO) == 1);
}

void write(level l, std::string_view component, std::string_view msg,
           std::initializer_list<field> fields) {
  if (l < threshold.load(std::memory_order_relaxed)) return;
  const bool text = as_text.load(std::memory_order_relaxed);
  try {
    the_sink().put(format_line(l, component, msg, {fields.begin(), fields.size()}, text));
  } catch (const std::exception&) {
    // Out of memory or threads: the work that is logged goes on without its line.
    return;
  }
}

std::uint64_t dropped() { return the_sink().dropped(); }

}  // namespace parley::log
