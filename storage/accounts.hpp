// People's rows: how an account is read, and the account changes that the writer applies in one
// transaction each. Called by sqlite_writer and sqlite_reader; begins and commits nothing.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "storage/sql.hpp"
#include "storage/store.hpp"

namespace parley::storage {

/// Reads accounts by one of three ways, each one statement: suspension and revoked tokens come with
/// the row.
class account_reader {
 public:
  explicit account_reader(connection& c);
  ~account_reader();
  std::optional<account> by_key(user_key key);
  std::optional<account> by_id(std::string_view id);
  /// With the password's hash (empty where there is none) and the devices that logged in before.
  std::optional<credentials> by_name(std::string_view folded_name);
  /// Accounts whose folded name holds the text or whose id is it, by name.
  std::vector<account> find(std::string_view folded, std::string_view id, std::int64_t limit);
  /// Profiles by id in the order of the ids; unknown ones are left out.
  std::vector<profile> profiles(const std::vector<std::string>& ids);

 private:
  struct statements;
  std::unique_ptr<statements> st_;
};

/// Applies a change inside a transaction; the failure is the op's own (conflict, forbidden,
/// not_found), after which the caller rolls back. The account is the one after it; empty where the
/// change concerns none.
result<account> apply_account_change(connection& c, account_reader& accounts, metrics& m,
                                     const account_change& change);

}  // namespace parley::storage
