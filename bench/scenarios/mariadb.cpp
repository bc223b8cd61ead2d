// mariadb-install-db, mariadbd, one empty database. See mariadb.hpp.
#include "scenarios/mariadb.hpp"

#include <unistd.h>

#include <filesystem>

#include "client/http.hpp"

namespace parley::bench {

namespace {
constexpr const char* name = "parley";
constexpr const char* password = "bench";
}  // namespace

MariaDb::MariaDb(const std::string& folder) {
  const std::string data = folder + "/mariadb";
  socket_ = folder + "/mariadb.sock";
  std::filesystem::create_directories(data);
  std::vector<std::string> install{"mariadb-install-db", "--no-defaults", "--datadir=" + data,
                                   "--auth-root-authentication-method=normal", "--skip-test-db"};
  if (::getuid() == 0) install.emplace_back("--user=root");
  const CommandResult made = run_command(install, 60 * sec);
  if (made.status != 0) throw Failure("mariadb-install-db failed: " + made.output.substr(0, 800));
  std::vector<std::string> serve{"mariadbd",
                                 "--no-defaults",
                                 "--datadir=" + data,
                                 "--socket=" + socket_,
                                 "--skip-networking",
                                 "--pid-file=" + folder + "/mariadb.pid",
                                 "--innodb-flush-log-at-trx-commit=1",
                                 "--character-set-server=utf8mb4"};
  if (::getuid() == 0) serve.emplace_back("--user=root");
  child_ = Child(serve, folder + "/mariadb.log");
  const nanos deadline = now() + 60 * sec;
  const std::string sql = std::string("create database ") + name +
                          " character set utf8mb4; create user '" + name +
                          "'@'localhost' identified by '" + password + "'; grant all on " + name +
                          ".* to '" + name + "'@'localhost'; select version();";
  for (;;) {
    const CommandResult r = run_command(
        {"mariadb", "--no-defaults", "--socket=" + socket_, "--user=root", "-N", "-e", sql},
        20 * sec);
    if (r.status == 0) {
      version_ = r.output.substr(0, r.output.find('\n'));
      return;
    }
    if (!child_.running()) throw Failure("mariadbd ended: " + child_.tail());
    if (now() > deadline) throw Failure("mariadbd is not ready: " + r.output);
    sleep_until(now() + 100 * ms);
  }
}

std::string MariaDb::url() const {
  return std::string("mysql://") + name + ":" + password + "@localhost/" + name +
         "?socket=" + socket_;
}

}  // namespace parley::bench
