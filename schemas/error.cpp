// One row per error code: its name on the wire and its HTTP status.
#include "schemas/error.hpp"

#include <array>

namespace parley {

namespace {

struct row {
  errc code;
  std::string_view name;
  int status;
};

constexpr std::array<row, 13> table = {{
    {errc::bad_request, "bad_request", 400},
    {errc::unauthenticated, "unauthenticated", 401},
    {errc::forbidden, "forbidden", 403},
    {errc::not_found, "not_found", 404},
    {errc::conflict, "conflict", 409},
    {errc::duplicate_key, "duplicate_key", 400},
    {errc::out_of_range, "out_of_range", 422},
    {errc::too_large, "too_large", 413},
    {errc::rate_limited, "rate_limited", 429},
    {errc::overloaded, "overloaded", 503},
    {errc::unavailable, "unavailable", 503},
    {errc::suspended, "suspended", 403},
    {errc::internal, "internal", 500},
}};

constexpr const row& row_of(errc code) {
  const auto i = static_cast<std::size_t>(code) - 1;
  return i < table.size() ? table[i] : table.back();
}

constexpr bool in_order() {
  for (std::size_t i = 0; i < table.size(); ++i)
    if (static_cast<std::size_t>(table[i].code) != i + 1) return false;
  return true;
}
static_assert(in_order(), "rows stand in the order of the codes");

}  // namespace

std::string_view to_string(errc code) { return row_of(code).name; }
int http_status(errc code) { return row_of(code).status; }

}  // namespace parley
