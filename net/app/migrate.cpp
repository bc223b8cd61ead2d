// `parleyd migrate`: brings a store to the present schema. Holds it alone, so it fails beside a
// running server.
#include "net/app/command.hpp"
#include "storage/store.hpp"

namespace parley::app {

int run_migrate(const common_options& o) {
  const auto settings = settings_of(o);
  if (!settings) return wrong;
  const auto versions = storage::migrate_store(*settings);
  if (!versions) return complain(versions.error());
  const auto [from, to] = *versions;
  const auto text = from == to ? "the schema is version " + std::to_string(to) + " already\n"
                               : "the schema went from version " + std::to_string(from) + " to " +
                                     std::to_string(to) + "\n";
  return print(text) ? done : failed;
}

}  // namespace parley::app
