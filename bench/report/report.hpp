// Turns results into a table, JSON and a plot, and holds them against the scenario's bars. Called
// by the commands once everything is measured.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scenarios/chat_room.hpp"

namespace parley::bench {

struct Bar {
  std::string what = {};
  std::string bar = {};  // as printed
  double value = 0;
  std::string unit = {};
  bool told = true;  // false: the figure could not be had ("n/a"), which is no pass
  bool pass = false;
};

/// `value <= most` (infinite never passes).
Bar at_most(std::string what, double value, double most, std::string unit);
Bar untold(std::string what, std::string bar);

/// Text table with a header row; columns are as wide as needed.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  void rule() { rows_.emplace_back(); }
  std::string text() const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

std::string number(double value, int digits = 2);  // "inf" for infinite

/// The runs of one target and variant and temperature, side by side with others.
std::string chat_table(const std::vector<RunResult>& results);
/// Server's own figures: stages, queues, database.
std::string server_table(const RunResult& result);
std::string bars_table(const std::vector<Bar>& bars);
bool all_pass(const std::vector<Bar>& bars);

nlohmann::json to_json(const RunResult& result);
nlohmann::json to_json(const std::vector<Bar>& bars);
nlohmann::json to_json(const Summary& summary);

/// Per message figures of the server: difference of two pages by the number of messages.
std::optional<double> per_message(const RunResult& result, const std::string& metric,
                                  const std::string& label = {});

/// Writes the file whole or not at all; throws Failure.
void write_file(const std::string& path, const std::string& content);

/// Self-contained SVG: latency per message and the cumulative distribution, legible in light and
/// dark.
std::string plot(const std::string& title, const std::vector<RunResult>& results);

double median(std::vector<double> values);

}  // namespace parley::bench
