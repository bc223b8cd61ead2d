// See sql.hpp.
#include "storage/sql.hpp"

#include <cctype>

#include "schemas/log.hpp"

namespace parley::storage {

failure to_failure(const sql_error& e) {
  failure why;
  switch (e.code) {
  case lite::full:
    why = fail(errc::unavailable, "storage is full");
    why.status = 507;
    why.retry_after_ms = 5000;
    break;
  case lite::busy:
  case lite::locked:
    why = fail(errc::unavailable, "storage is locked by another process");
    why.retry_after_ms = 1000;
    break;
  case lite::io_error:
  case lite::cannot_open:
  case lite::read_only:
    why = fail(errc::unavailable, "storage cannot be read or written");
    why.retry_after_ms = 5000;
    break;
  case lite::nomem:
    why = fail(errc::unavailable, "storage has no memory left");
    why.retry_after_ms = 1000;
    break;
  case lite::corrupt:
  case lite::not_a_database:
    why = fail(errc::internal, "storage is damaged");
    break;
  default:
    why = fail(errc::internal, "storage failed");
    break;
  }
  return why;
}

void log_error(std::string_view doing, const sql_error& e) {
  const bool damaged = e.code == lite::corrupt || e.code == lite::not_a_database;
  log::error(
      "storage", damaged ? "the database is damaged: restore a backup" : "the database failed",
      {{"doing", std::string(doing)}, {"code", std::to_string(e.extended)}, {"error", e.what()}});
}

connection::connection(const std::string& path, mode how, metrics* m) : metrics_(m) {
  try {
    session_ = lite::open(path, how == mode::read_only);
  } catch (const soci::soci_error& e) {
    throw sql_error(lite::cannot_open, "cannot open " + path + ": " + e.get_error_message());
  }
  // Nobody else writes while a server holds the store; a copy or a check may hold a lock for a
  // moment.
  lite::busy_timeout(*session_, 5000);
  if (how != mode::read_write) run("pragma query_only=1");
}

void connection::run(const std::string& sql) {
  count();
  try {
    session_->once << sql;
  } catch (...) {
    rethrow();
  }
}

std::optional<std::string> connection::ask(const std::string& sql) {
  std::string value;
  soci::indicator is = soci::i_null;
  statement st(*this, sql, soci::into(value, is));
  if (!st.first() || is != soci::i_ok) return std::nullopt;
  return value;
}

std::int64_t connection::ask_number(const std::string& sql) {
  nullable<long long> value;
  statement st(*this, sql, soci::into(value.value, value.is));
  if (!st.first()) return 0;
  return value.get().value_or(0);
}

void connection::rethrow() {
  try {
    throw;
  } catch (const soci::soci_error& e) {
    // what() would tell the values that were bound: message texts, password hashes.
    int code = session_ ? lite::extended_error(*session_) : lite::error;
    if (code == lite::ok) code = lite::error;
    throw sql_error(code, e.get_error_message());
  }
}

}  // namespace parley::storage
