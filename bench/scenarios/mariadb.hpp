// A private MariaDB for one run: own folder, own socket, no network. Called by the Parley target.
#pragma once

#include <string>

#include "client/process.hpp"

namespace parley::bench {

class MariaDb {
 public:
  /// Installs and starts it under `folder`; durable commits (innodb_flush_log_at_trx_commit=1).
  /// Throws Failure.
  explicit MariaDb(const std::string& folder);
  /// URL for `parleyd --db`.
  std::string url() const;
  std::string version() const { return version_; }
  const Child& process() const { return child_; }

 private:
  std::string socket_;
  std::string version_;
  Child child_;
};

}  // namespace parley::bench
