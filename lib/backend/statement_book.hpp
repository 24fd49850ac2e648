#pragma once
// The statements of a dialect, for one set of table names.

#include <atomic>
#include <memory>
#include <mutex>
#include <rowlock/export.hpp>
#include <string>
#include <string_view>
#include <unordered_map>

#include "backend/dialect.hpp"

namespace rowlock::backend {

/// The place of rowlock's tables. The shipped SQL says rowlock_locks, rowlock_tokens and so on, for functions
/// rowlock_renew and so on. render() puts schema and prefix in.
struct table_names {
  std::string schema;  ///< empty: by the connection's search path or main database
  std::string prefix = "rowlock_";
  char quote = '"';

  /// Validates the names, and takes the dialect's quote.
  static table_names of(dialect const&, std::string schema, std::string prefix);

  /// Throws error(errc::invalid_argument) unless both are plain identifiers: [A-Za-z_][A-Za-z0-9_]*, short
  /// enough for the dialect. The schema must be empty where the dialect has none.
  void validate(dialect const&) const;
  /// Replaces each of these whole words by the quoted, qualified name.
  std::string render(std::string_view sql) const;
  /// The quoted, qualified name of a table or function: `what` is "locks", "renew", ...
  ROWLOCK_EXPORT std::string table(std::string_view what) const;
};

/// A rendered statement. Connections keep it prepared under its name.
struct statement {
  std::string name;
  std::string sql;
};

/// Begins the text of a statement whose effect ends with the machine of the database and of all holders, so
/// that its commit need not be flushed.
inline constexpr std::string_view volatile_mark = "/* dies with the machine */ ";

/// The text without the marks at its beginning.
std::string_view behind_marks(std::string_view sql) noexcept;

/// Prefix of a statement's name: the same statement on rowlock_permits instead of rowlock_locks.
inline constexpr char const* permits_prefix = "permits_";

/// All statements of a dialect, rendered for one set of table names. Thread-safe.
class statement_book {
 public:
  statement_book(dialect const&, table_names);
  /// Throws error(errc::failed) if the dialect has no such statement (a bug that a test finds). The result
  /// stays valid as long as the book.
  ROWLOCK_EXPORT statement const& at(std::string_view name) const;
  /// If `durable`: the same without volatile_mark.
  statement const& at(std::string_view name, bool durable) const;
  dialect const& sql() const noexcept { return dialect_; }
  bool returning() const noexcept { return dialect_.returning; }
  bool pulses() const noexcept { return !dialect_.pulse_tables.empty(); }
  bool remembers_pulse() const noexcept { return dialect_.remembers_pulse; }
  bool at_once() const noexcept { return dialect_.at_once; }

  /// Puts in the schema that a session found (connection::find_schema), unless one was named. The first one
  /// found stays. @return whether the names now have it, or one was named
  bool settle(std::string const& schema);
  table_names tables() const;

 private:
  using statements = std::unordered_map<std::string, statement>;
  std::unique_ptr<statements const> rendered(table_names const&) const;

  dialect const& dialect_;
  bool const named_;
  mutable std::mutex mutex_;  ///< of the members below, which at() reads without it
  table_names tables_;
  std::unique_ptr<statements const> first_;
  std::unique_ptr<statements const> settled_;
  std::atomic<statements const*> now_;
};

}  // namespace rowlock::backend
