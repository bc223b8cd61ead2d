// Facts from /proc, uname and a short disk test. See machine.hpp.
#include "client/machine.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <vector>

#include "client/process.hpp"

namespace parley::bench {

std::string file_system_of(const std::string& folder) {
  std::error_code error;
  std::string path = std::filesystem::canonical(folder, error).string();
  if (error) path = folder;
  std::ifstream in("/proc/self/mounts");
  std::string line;
  std::string best_point;
  std::string best_type = "unknown";
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string device;
    std::string point;
    std::string type;
    words >> device >> point >> type;
    const bool inside = path.rfind(point, 0) == 0 &&
                        (point == "/" || path.size() == point.size() || path[point.size()] == '/');
    if (inside && point.size() >= best_point.size()) {
      best_point = point;
      best_type = type;
    }
  }
  return best_type;
}

bool in_memory(const std::string& folder) {
  const std::string type = file_system_of(folder);
  return type == "tmpfs" || type == "ramfs" || type == "devtmpfs";
}

nlohmann::json fdatasync_of(const std::string& folder) {
  const std::string path = folder + "/fdatasync-probe";
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) return nullptr;
  const std::array<char, 4096> block{};
  std::vector<double> took;
  for (int i = 0; i < 200; ++i) {
    if (::write(fd.get(), block.data(), block.size()) < 0) break;
    const nanos from = now();
    if (::fdatasync(fd.get()) != 0) break;
    took.push_back(to_ms(now() - from));
  }
  ::unlink(path.c_str());
  if (took.empty()) return nullptr;
  std::sort(took.begin(), took.end());
  return {{"p50_ms", took[took.size() / 2]}, {"p99_ms", took[took.size() * 99 / 100]}};
}

nlohmann::json describe_machine(const std::string& source_folder) {
  nlohmann::json out;
  std::ifstream cpu("/proc/cpuinfo");
  std::string line;
  out["cpu"] = "unknown";
  while (std::getline(cpu, line))
    if (line.rfind("model name", 0) == 0) {
      out["cpu"] = line.substr(line.find(':') + 2);
      break;
    }
  out["cores"] = std::thread::hardware_concurrency();
  std::ifstream memory("/proc/meminfo");
  while (std::getline(memory, line))
    if (line.rfind("MemTotal:", 0) == 0)
      out["memory_mib"] = std::strtoll(line.c_str() + 9, nullptr, 10) / 1024;
  utsname name{};
  ::uname(&name);
  out["kernel"] = std::string(name.sysname) + " " + name.release;
  out["architecture"] = name.machine;
  std::array<double, 3> load{};
  if (::getloadavg(load.data(), 3) == 3) out["load_average"] = load;
  out["compiler"] = "g++ " __VERSION__;
  const int policy = ::sched_getscheduler(0);
  out["scheduling"] = {{"class", policy == SCHED_OTHER ? "SCHED_OTHER" : std::to_string(policy)},
                       {"nice", ::getpriority(PRIO_PROCESS, 0)},
                       {"note", "the server inherits it"}};
  const auto commit =
      run_command({"git", "-C", source_folder, "rev-parse", "--short=12", "HEAD"}, 5 * sec);
  if (commit.status == 0) {
    out["commit"] = commit.output.substr(0, commit.output.find('\n'));
    const auto dirty = run_command({"git", "-C", source_folder, "status", "--porcelain"}, 5 * sec);
    out["uncommitted_changes"] = dirty.status == 0 && !dirty.output.empty();
  } else {
    out["commit"] = "unknown";
  }
  return out;
}

}  // namespace parley::bench
