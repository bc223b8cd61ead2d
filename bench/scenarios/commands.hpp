// The commands of parley-bench. Called by main only; each returns the process' exit status:
// 0 all well, 1 a fault of delivery, a failed bar under --check, or a run that could not be made.
#pragma once

#include <string>
#include <vector>

#include "report/report.hpp"
#include "scenarios/chat_room.hpp"
#include "scenarios/target.hpp"

namespace parley::bench {

struct CommonOptions {
  ParleyOptions parley;
  std::string peers_folder;   // bench/peers
  std::string source_folder;  // the checkout, for the commit and --keep
  double link_ms = 0;
  int runs = 1;
  bool warm = false;        // a warm run after each cold one
  bool peers_only = false;  // leave Parley out
  bool check = false;
  bool keep = false;
  std::string json_path;
  std::string plot_path;
};

enum class Beside { nothing, floor, peers };

int chat_room_command(CommonOptions options, Workload workload, Beside beside, bool gather);
int idle_command(const CommonOptions& options, double seconds, std::size_t sessions);
int start_command(const CommonOptions& options, std::size_t messages);
int admin_command(const CommonOptions& options, double seconds, Workload workload);
int saturate_command(const CommonOptions& options, std::size_t rooms, unsigned outstanding,
                     double seconds, std::size_t receivers);
int ten_thousand_command(const CommonOptions& options, std::size_t sessions);
int self_test_command();

/// Prints the bars, writes JSON and plot where asked to, gives the exit status.
int conclude(const CommonOptions& options, const std::string& scenario, nlohmann::json document,
             const std::vector<Bar>& bars, bool faulty, const std::string& svg);

}  // namespace parley::bench
