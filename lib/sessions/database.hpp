#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <rowlock/options.hpp>
#include <string>

#include "backend/backend.hpp"

namespace rowlock::sessions {

/// The schema version of this program: the newest of migrations/<dialect>/NNN_... (a test compares them).
inline constexpr int latest_schema_version = 2;

/// The oldest version that serves it. An older one would need a second set of statements.
inline constexpr int needed_schema_version = 2;

/// A manager's way to its database: opens sessions, and checks that each finds the tables that this program
/// needs, and always the same tables. id(), number(), server() and the schema of tables() are known after
/// the first open(). Thread-safe.
class database {
 public:
  database(std::shared_ptr<backend::source>, manager_options const&);

  /// @throws error as backend::source::connect; schema_missing, schema_old, schema_new; closed; unreachable
  /// if other tables answer than at first (another database, or a copy)
  std::unique_ptr<backend::connection> open(boot_time_point deadline);

  /// Checks a session, as open() does. @return the tables' version
  int check_schema(backend::connection&, boot_time_point deadline);

  void close() noexcept;

  /// The id in rowlock_meta.
  std::string id() const;

  /// Stands for these tables on this server in this process, for keys and comparisons. 0: not known yet.
  std::size_t number() const noexcept { return number_; }

  /// connection::server_identity() of the first session.
  std::string server() const;

  /// A number for the session's server, or file: holds are many, servers few.
  std::size_t server_of(backend::connection const&);

  /// Whether the source certainly no longer leads to that server's database (a file was removed, replaced or
  /// renamed): locks there are then lost.
  bool gone(std::size_t server) const noexcept;

  backend::statement_book const& statements() const noexcept { return book_; }
  backend::table_names tables() const { return book_.tables(); }
  std::string const& describe() const noexcept { return description_; }
  backend::dialect const& sql() const noexcept { return sql_; }
  int connections() const noexcept { return connections_; }  ///< for takes and releases, at most

 private:
  void expect_same(backend::connection&, std::string const& id, boot_time_point deadline);

  void find_tables(backend::connection&, boot_time_point deadline);
  void refuse_views(backend::connection&, boot_time_point deadline);
  void learn_incarnation(backend::connection&, boot_time_point deadline);

  backend::dialect const& sql_;
  std::string const description_;
  int const connections_;
  bool const named_;  ///< the options name the schema
  backend::statement_book book_;
  mutable std::mutex mutex_;
  std::shared_ptr<backend::source> source_;  ///< null: closed
  std::string database_id_;
  std::string server_;
  std::string lineage_;              ///< of the first session; lib/doc/identity.md
  std::deque<std::string> servers_;  ///< each stays where it is
  std::atomic<std::size_t> number_ = 0;
};

}  // namespace rowlock::sessions
