// Child processes of the harness (server, peer, database, tool): start, wait with a deadline, stop,
// and what they cost the machine. Called by the scenarios. Ends only what it started.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "client/clock.hpp"
#include "client/fd.hpp"

namespace parley::bench {

struct CommandResult {
  int status = -1;     // exit status; 127 when it could not be started, 124 at the deadline
  std::string output;  // both streams
};

/// Runs a command to its end. `netns` as in Endpoint.
CommandResult run_command(const std::vector<std::string>& args, nanos timeout, int netns = -1,
                          const std::string& directory = {});

/// A long-running child. Its destructor stops it (TERM, then KILL after the grace).
class Child {
 public:
  Child() = default;
  /// Both output streams go to `log_path`. Throws Failure when fork fails; a program that cannot be
  /// executed ends at once with status 127.
  Child(const std::vector<std::string>& args, const std::string& log_path, int netns = -1,
        const std::string& directory = {});
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child();

  pid_t pid() const { return pid_; }
  bool running();
  /// Exit status once not running (128 + signal when killed).
  int status() const { return status_; }
  nanos started() const { return started_; }
  const std::string& log_path() const { return log_path_; }

  /// TERM and wait; KILL when it does not end within `grace`. True when it ended by itself with 0.
  bool stop(nanos grace = 12 * sec);

  /// CPU nanoseconds used so far by all its threads; -1 when it is gone.
  nanos cpu() const;
  /// Peak resident memory in KiB (VmHWM); -1 when it is gone.
  std::int64_t peak_rss_kib() const;
  /// The last lines of its output, for an error message.
  std::string tail() const;

 private:
  pid_t pid_ = -1;
  int status_ = -1;
  nanos started_ = 0;
  std::string log_path_;
};

/// A folder that is removed with all it holds at the end, unless kept.
class TempFolder {
 public:
  /// Made under `parent` ("/var/tmp" when empty). Throws Failure.
  explicit TempFolder(const std::string& parent = {});
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  void keep() { keep_ = true; }

 private:
  std::string path_;
  bool keep_ = false;
};

std::string read_file(const std::string& path);

/// Path of this program.
std::string self_path();

}  // namespace parley::bench
