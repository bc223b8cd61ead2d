// fork and exec with deadlines. See process.hpp.
#include "client/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "client/http.hpp"

namespace parley::bench {

namespace {

// Only async-signal-safe calls between fork and exec: other threads may hold any lock.
[[noreturn]] void become(char* const* argv, int out, int netns, const char* directory) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing we started outlives us
  if (netns >= 0 && ::setns(netns, CLONE_NEWNET) != 0) ::_exit(127);
  if (directory != nullptr && ::chdir(directory) != 0) ::_exit(127);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, 0);
  ::dup2(out, 1);
  ::dup2(out, 2);
  ::execvp(argv[0], argv);
  const char* why = std::strerror(errno);
  if (::write(2, why, std::strlen(why)) < 0) ::_exit(126);
  ::_exit(127);
}

pid_t spawn(const std::vector<std::string>& args, int out, int netns,
            const std::string& directory) {
  std::vector<char*> argv;
  argv.reserve(args.size() + 1);
  for (const auto& a : args)
    argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) throw Failure(std::string("fork: ") + std::strerror(errno));
  if (pid == 0) become(argv.data(), out, netns, directory.empty() ? nullptr : directory.c_str());
  return pid;
}

int decode(int raw) { return WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw); }

// Waits for the end of a child by its pidfd where there is one. False at the deadline.
bool wait_end(pid_t pid, nanos timeout, int& status) {
  const nanos deadline = now() + timeout;
  for (;;) {
    int raw = 0;
    const pid_t got = ::waitpid(pid, &raw, WNOHANG);
    if (got == pid) {
      status = decode(raw);
      return true;
    }
    if (got < 0 && errno != EINTR) {
      status = -1;
      return true;
    }
    if (now() >= deadline) return false;
    sleep_until(now() + 2 * ms);
  }
}

}  // namespace

CommandResult run_command(const std::vector<std::string>& args, nanos timeout, int netns,
                          const std::string& directory) {
  std::array<int, 2> pipe_fds{};
  if (::pipe2(pipe_fds.data(), O_CLOEXEC) != 0) throw Failure("pipe");
  Fd read_end(pipe_fds[0]);
  Fd write_end(pipe_fds[1]);
  const pid_t pid = spawn(args, write_end.get(), netns, directory);
  write_end.reset();
  CommandResult result;
  const nanos deadline = now() + timeout;
  std::array<char, 4096> chunk{};
  for (;;) {
    const nanos left = deadline - now();
    pollfd p{read_end.get(), POLLIN, 0};
    if (left <= 0 || ::poll(&p, 1, static_cast<int>(left / ms) + 1) == 0) {
      ::kill(pid, SIGKILL);
      int ignored = 0;
      wait_end(pid, 5 * sec, ignored);
      result.status = 124;
      return result;
    }
    const ssize_t n = ::read(read_end.get(), chunk.data(), chunk.size());
    if (n > 0)
      result.output.append(chunk.data(), static_cast<std::size_t>(n));
    else if (n == 0)
      break;
    else if (errno != EINTR)
      break;
  }
  if (!wait_end(pid, std::max<nanos>(deadline - now(), sec), result.status)) {
    ::kill(pid, SIGKILL);
    wait_end(pid, 5 * sec, result.status);
    result.status = 124;
  }
  return result;
}

Child::Child(const std::vector<std::string>& args, const std::string& log_path, int netns,
             const std::string& directory)
    : log_path_(log_path) {
  const Fd log(::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log) throw Failure("cannot write " + log_path + ": " + std::strerror(errno));
  started_ = now();
  pid_ = spawn(args, log.get(), netns, directory);
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), status_(other.status_), started_(other.started_),
      log_path_(std::move(other.log_path_)) {}

Child& Child::operator=(Child&& other) noexcept {
  if (this != &other) {
    stop();
    pid_ = std::exchange(other.pid_, -1);
    status_ = other.status_;
    started_ = other.started_;
    log_path_ = std::move(other.log_path_);
  }
  return *this;
}

Child::~Child() { stop(); }

bool Child::running() {
  if (pid_ < 0) return false;
  int status = 0;
  if (!wait_end(pid_, 0, status)) return true;
  status_ = status;
  pid_ = -1;
  return false;
}

bool Child::stop(nanos grace) {
  if (!running()) return status_ == 0;
  ::kill(pid_, SIGTERM);
  if (!wait_end(pid_, grace, status_)) {
    ::kill(pid_, SIGKILL);
    wait_end(pid_, 5 * sec, status_);
  }
  pid_ = -1;
  return status_ == 0;
}

nanos Child::cpu() const {
  clockid_t id{};
  if (pid_ < 0 || ::clock_getcpuclockid(pid_, &id) != 0) return -1;
  return read_clock(id);
}

std::int64_t Child::peak_rss_kib() const {
  if (pid_ < 0) return -1;
  std::ifstream in("/proc/" + std::to_string(pid_) + "/status");
  std::string line;
  while (std::getline(in, line))
    if (line.rfind("VmHWM:", 0) == 0) return std::strtoll(line.c_str() + 6, nullptr, 10);
  return -1;
}

std::string Child::tail() const {
  const std::string all = read_file(log_path_);
  constexpr std::size_t most = 1500;
  return all.size() > most ? all.substr(all.size() - most) : all;
}

TempFolder::TempFolder(const std::string& parent) {
  std::string path = (parent.empty() ? std::string("/var/tmp") : parent) + "/parley-bench-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr)
    throw Failure("cannot make a folder in " + path + ": " + std::strerror(errno));
  path_ = path;
}

TempFolder::~TempFolder() {
  if (keep_) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::string self_path() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) throw Failure("cannot find this program's own path");
  return path.string();
}

}  // namespace parley::bench
