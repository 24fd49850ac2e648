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

/// Where rowlock's tables are. The shipped SQL says rowlock_locks, rowlock_tokens, rowlock_meta,
/// rowlock_migrations, rowlock_reaper, rowlock_permits, and for the functions rowlock_try_acquire,
/// rowlock_renew, rowlock_require_permit, rowlock_done and so on; render() puts schema and prefix in.
struct table_names {
  std::string schema;  ///< empty: whatever the connection's search path or main database says
  std::string prefix = "rowlock_";
  char quote = '"';

  /// Validated, quoted as the dialect wants.
  static table_names of(dialect const&, std::string schema, std::string prefix);

  /// Throws error(errc::invalid_argument) unless both are plain identifiers: [A-Za-z_][A-Za-z0-9_]*, short
  /// enough for the dialect (and schema empty where it has none).
  void validate(dialect const&) const;
  /// Replaces each of those words, where it stands as a whole one, by the quoted, qualified name.
  std::string render(std::string_view sql) const;
  /// The quoted, qualified name of one table or function, `what` being "locks", "renew", ...
  ROWLOCK_EXPORT std::string table(std::string_view what) const;
};

/// A statement ready to be run: rendered text, known by the name under which a connection keeps it prepared.
struct statement {
  std::string name;
  std::string sql;
};

/// Before the name of a statement on rowlock_locks: the same on rowlock_permits.
inline constexpr char const* permits_prefix = "permits_";

/// All statements of a dialect, rendered for one set of table names. Shared between threads.
class statement_book {
 public:
  statement_book(dialect const&, table_names);
  /// Throws error(errc::failed) if the dialect has no such statement (a bug that a test finds). What was
  /// returned stays valid as long as the book.
  ROWLOCK_EXPORT statement const& at(std::string_view name) const;
  dialect const& sql() const noexcept { return dialect_; }
  bool returning() const noexcept { return dialect_.returning; }  ///< dialect::returning
  bool at_once() const noexcept { return dialect_.at_once; }      ///< dialect::at_once

  /// Puts in the schema that a session has found (connection::find_schema), where none was named. The first
  /// one stays. @return whether the names have this one now; always, where one was named
  bool settle(std::string const& schema);
  table_names tables() const;

 private:
  using statements = std::unordered_map<std::string, statement>;
  std::unique_ptr<statements const> rendered(table_names const&) const;

  dialect const& dialect_;
  bool const named_;
  mutable std::mutex mutex_;  ///< of what follows, which at() reads without it
  table_names tables_;
  std::unique_ptr<statements const> first_;
  std::unique_ptr<statements const> settled_;
  std::atomic<statements const*> now_;
};

}  // namespace rowlock::backend
