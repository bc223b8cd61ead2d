// See owner_lock.hpp.
#include "storage/owner_lock.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace parley::storage {
namespace {

struct held {
  std::vector<int> files;
  ~held() {
    for (const int fd : files)
      ::close(fd);
  }
};

std::string who() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::array<char, 32> when{};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::strftime(when.data(), when.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return "process " + std::to_string(::getpid()) + " on " + host.data() + " since " + when.data();
}

std::optional<failure> lock_file(const std::string& path, held& into) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0)
    return fail(errc::unavailable,
                "cannot open the lock file " + path + ": " + std::strerror(errno));
  into.files.push_back(fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK)
      return fail(errc::unavailable, "cannot lock " + path + ": " + std::strerror(errno));
    std::array<char, 512> text{};
    const auto n = ::pread(fd, text.data(), text.size() - 1, 0);
    std::string holder(text.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
    while (!holder.empty() && holder.back() == '\n')
      holder.pop_back();
    if (holder.empty()) holder = "another process";
    return fail(errc::conflict, "the store is held by " + holder + " (" + path + ")");
  }
  const std::string text = who() + "\n";
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, text.data(), text.size(), 0) < 0)
    return fail(errc::unavailable,
                "cannot write the lock file " + path + ": " + std::strerror(errno));
  return std::nullopt;
}

}  // namespace

result<std::shared_ptr<void>> take_lock(const std::string& data_dir, const std::string& database) {
  namespace fs = std::filesystem;
  auto lock = std::make_shared<held>();
  if (auto why = lock_file((fs::path(data_dir) / "parleyd.lock").string(), *lock)) return *why;
  if (auto why = lock_file(database + ".lock", *lock)) return *why;
  return std::shared_ptr<void>(std::move(lock));
}

}  // namespace parley::storage
