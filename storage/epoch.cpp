// See epoch.hpp.
#include "storage/epoch.hpp"

#include <fstream>

#include "schemas/ids.hpp"
#include "schemas/log.hpp"

namespace parley::storage {
namespace {

std::string meta(connection& c, const char* key) {
  return c.ask("select v from meta where k = '" + std::string(key) + "'").value_or("");
}

void set_meta(connection& c, std::string_view key, std::string_view value) {
  std::string k(key), v(value);
  statement st(
      c, "insert into meta (k, v) values (:k, :v) on conflict (k) do update set v = excluded.v",
      soci::use(k), soci::use(v));
  st.execute();
}

}  // namespace

bool lost_by_boot(connection& c, std::string_view boot) {
  if (c.ask_number("select count(*) from sqlite_master where name = 'meta'") == 0) return false;
  return meta(c, "durability") == "relaxed" && meta(c, "clean") != "1" &&
         meta(c, "boot_id") != boot;
}

void forget_epoch(connection& c) {
  if (c.ask_number("select count(*) from sqlite_master where name = 'meta'") != 0)
    c.run("delete from meta where k = 'epoch'");
}

std::string begin_run(connection& c, std::string_view durability, std::string_view boot) {
  c.run("begin immediate");
  auto epoch = meta(c, "epoch");
  const bool unsafe =
      meta(c, "durability") == "relaxed" && meta(c, "clean") != "1" && meta(c, "boot_id") != boot;
  if (epoch.empty() || unsafe) {
    if (unsafe)
      log::warn("storage",
                "the machine stopped during a relaxed run: what it acknowledged last may "
                "be lost, so the store has a new epoch");
    epoch = make_id("e_");
    set_meta(c, "epoch", epoch);
  }
  set_meta(c, "durability", durability);
  set_meta(c, "boot_id", boot);
  set_meta(c, "clean", "0");
  c.run("commit");
  return epoch;
}

void end_run(connection& c) {
  c.run("begin immediate");
  set_meta(c, "clean", "1");
  c.run("commit");
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  if (file >> id && !id.empty()) return id;
  return make_id("b_");
}

}  // namespace parley::storage
