// `parleyd config`: the whole effective configuration as TOML, a comment per key; secrets are
// masked.
#include "net/app/command.hpp"

namespace parley::app {

int run_config(const common_options& o) {
  const auto settings = settings_of(o);
  if (!settings) return wrong;
  return print(print_config(*settings)) ? done : failed;
}

}  // namespace parley::app
