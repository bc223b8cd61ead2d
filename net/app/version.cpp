// `parleyd version`: what this program is, and whether faults can be injected into it (only in
// builds for tests).
#include "net/app/command.hpp"

namespace parley::app {

int run_version() {
#ifdef PARLEY_FAULTS
  const std::string faults = "on";
#else
  const std::string faults = "off";
#endif
  return print("parleyd " PARLEY_VERSION "\nfaults: " + faults + "\n") ? done : failed;
}

}  // namespace parley::app
