// See faults.hpp.
#include "storage/faults.hpp"

#ifdef PARLEY_FAULTS
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#endif

namespace parley::storage {

#ifdef PARLEY_FAULTS
faults read_faults() {
  faults f;
  const char* text = std::getenv("PARLEY_FAULTS");
  std::string_view rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const auto end = std::min(rest.find(','), rest.size());
    const auto one = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (one.empty()) continue;
    const auto equals = one.find('=');
    const auto name = one.substr(0, equals);
    const auto value =
        equals == one.npos ? 1 : std::atoll(std::string(one.substr(equals + 1)).c_str());
    if (name == "commit_delay_ms")
      f.commit_delay_ms = value;
    else if (name == "sync_off")
      f.sync_off = value;
    else if (name == "storage_hang_ms")
      f.storage_hang_ms = value;
    else if (name == "commit_fail")
      f.commit_fail = value;
    else if (name == "ack_before_commit")
      f.ack_before_commit = value;
    else if (name == "stuck_room_ms")
      f.stuck_room_ms = value;
    else if (name == "commit_lost_answer")
      f.commit_lost_answer = value;
    else {
      std::fprintf(stderr, "PARLEY_FAULTS: unknown fault %.*s\n", static_cast<int>(name.size()),
                   name.data());
      std::abort();
    }
  }
  return f;
}
#else
faults read_faults() { return {}; }
#endif

}  // namespace parley::storage
