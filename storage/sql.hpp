// A thin layer over SOCI: a connection that counts what it executes and turns every error into
// `sql_error`, and statements that are prepared once and kept. Used by everything in storage/ that
// speaks SQL; knows no table.
#pragma once
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <soci/soci.h>

#include "schemas/error.hpp"
#include "schemas/metrics.hpp"
#include "storage/sqlite_raw.hpp"

namespace parley::storage {

/// What the database said: SQLite's primary and extended code and its text, without any value that
/// was bound.
class sql_error : public std::exception {
 public:
  sql_error(int extended, std::string text)
      : code(extended & 0xff), extended(extended), text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }
  const int code, extended;

 private:
  std::string text_;
};

/// As a request is answered: full disk and busy are `unavailable`, the rest `internal`. The texts
/// name no value.
failure to_failure(const sql_error& e);
/// One log line, on the level that the error deserves; `doing` says at what ("commit", "history").
void log_error(std::string_view doing, const sql_error& e);

/// One connection to a database file. Belongs to one thread.
class connection {
 public:
  enum class mode { read_write, query_only, read_only };
  /// Throws sql_error. `m` counts the statements; may be null.
  connection(const std::string& path, mode how, metrics* m);

  /// Executes SQL text that is used rarely and has no parameters.
  void run(const std::string& sql);
  /// The same, with the first column of the first row as text; nothing where there is no row or it
  /// is null.
  std::optional<std::string> ask(const std::string& sql);
  std::int64_t ask_number(const std::string& sql);

  soci::session& session() { return *session_; }
  void count() {
    if (metrics_ != nullptr) metrics_->statements.add();
  }
  /// The error under way as sql_error; called inside a catch clause.
  [[noreturn]] void rethrow();

 private:
  std::unique_ptr<soci::session> session_;
  metrics* metrics_;
};

/// A prepared statement with its variables bound for good: set the variables, execute, read the
/// variables.
class statement {
 public:
  /// `exchange`: soci::use(x) and soci::into(x) in the order of the text. The variables must
  /// outlive it.
  template <class... E>
  statement(connection& c, std::string_view sql, E&&... exchange)
      : connection_(c), statement_(c.session()) {
    try {
      (statement_.exchange(std::forward<E>(exchange)), ...);
      statement_.alloc();
      statement_.prepare(std::string(sql));
      statement_.define_and_bind();
    } catch (...) {
      c.rethrow();
    }
  }
  statement(const statement&) = delete;
  statement& operator=(const statement&) = delete;

  /// Starts it anew; true where a row came, which then stands in the variables.
  bool execute() {
    connection_.count();
    try {
      return statement_.execute(true);
    } catch (...) {
      connection_.rethrow();
    }
  }
  /// The next row.
  bool fetch() {
    try {
      return statement_.fetch();
    } catch (...) {
      connection_.rethrow();
    }
  }
  /// Where fewer rows were read than there may be: lets go of the snapshot.
  void reset() { lite::reset(statement_); }
  /// Executes a query for its first row only.
  bool first() {
    const bool got = execute();
    reset();
    return got;
  }
  /// Executes a change; the number of rows that it changed.
  std::int64_t change() {
    execute();
    return lite::changes(connection_.session());
  }

 private:
  connection& connection_;
  soci::statement statement_;
};

/// A column that may be null, as SOCI wants it: a value and an indicator beside it.
template <class T> struct nullable {
  T value{};
  soci::indicator is = soci::i_null;
  void operator=(const std::optional<T>& v) {
    is = v ? soci::i_ok : soci::i_null;
    if (v) value = *v;
  }
  std::optional<T> get() const { return is == soci::i_ok ? std::optional<T>(value) : std::nullopt; }
};

}  // namespace parley::storage
