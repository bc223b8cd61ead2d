// See wal_check.hpp. The formats: https://www.sqlite.org/walformat.html, sections 1 and 2.
#include "storage/wal_check.hpp"

#include <array>
#include <cstring>
#include <fstream>

namespace parley::storage {
namespace {

constexpr std::size_t header_bytes = 48;  // of the index; it stands there twice
constexpr std::size_t pages_at = 16, salt_at = 32, copied_at = 2 * header_bytes;
constexpr std::size_t log_header_bytes = 32, log_salt_at = 16, salt_bytes = 8;

/// A number in the machine's own byte order, as the index has them.
std::uint32_t number(const char* at) {
  std::uint32_t out;
  std::memcpy(&out, at, sizeof out);
  return out;
}

}  // namespace

std::optional<std::int64_t> committed_log_pages(const std::string& database) {
  std::array<char, copied_at + 4> index{};
  std::ifstream shm(database + "-shm", std::ios::binary);
  if (!shm.read(index.data(), index.size())) return std::nullopt;
  // Both copies are equal unless the process died between writing them; then nobody had been told
  // of the last commit.
  if (std::memcmp(index.data(), index.data() + header_bytes, header_bytes) != 0)
    return std::nullopt;
  const auto pages = number(index.data() + pages_at), copied = number(index.data() + copied_at);
  if (pages <= copied) return std::nullopt;
  std::array<char, log_header_bytes> log{};
  std::ifstream wal(database + "-wal", std::ios::binary);
  // Another salt: the log was begun anew, or the index is of another time.
  if (wal.read(log.data(), log.size()) &&
      std::memcmp(log.data() + log_salt_at, index.data() + salt_at, salt_bytes) != 0)
    return std::nullopt;
  return pages;
}

std::int64_t recovered_log_pages(connection& c) {
  c.ask_number("select count(*) from sqlite_master");  // recovery comes with the first read
  long long busy = 0, log = 0, done = 0;
  statement st(c, "pragma wal_checkpoint(passive)", soci::into(busy), soci::into(log),
               soci::into(done));
  st.first();
  return log;
}

}  // namespace parley::storage
