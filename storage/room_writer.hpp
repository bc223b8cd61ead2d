// Applies one room's share inside a transaction that its caller opened: the statements of
// statements.hpp, prepared once per connection. Called by sqlite_writer; never begins, commits or
// rolls back, and decides nothing that the room decides.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "storage/sql.hpp"
#include "storage/store.hpp"

namespace parley::storage {

/// A change that cannot stand. What the share did so far must be undone by the caller, who may then
/// apply the share again up to `index`.
struct change_failed {
  std::size_t index;
  failure why;
};

class room_writer {
 public:
  room_writer(connection& c, metrics& m);
  ~room_writer();

  /// Applies the changes [0, limit) and sets their results; behind a duplicate all others are
  /// superseded. Throws change_failed, or sql_error where the database failed (`at()` is then the
  /// change's index).
  void apply(const room_share& share, std::size_t limit, share_result& out);
  std::size_t at() const;

  /// After a COMMIT of unknown outcome, on a new connection: whether what `out` tells of the share
  /// stands in the database; nothing where the share wrote nothing by which that could be seen.
  std::optional<bool> happened(const room_share& share, const share_result& out);

 private:
  struct statements;
  std::unique_ptr<statements> st_;
};

}  // namespace parley::storage
