#pragma once
// The manager's way to its database: checked sessions.

#include <memory>
#include <mutex>
#include <rowlock/options.hpp>
#include <string>
#include <vector>

#include "backend/backend.hpp"

namespace rowlock::sessions {

/// The schema version that this program was made for: the newest of migrations/<dialect>/NNN_... (a test
/// compares them).
inline constexpr int latest_schema_version = 1;

/// And the oldest that serves it. Its statements write what that one added; for an older one there would have
/// to be a second set of them.
inline constexpr int needed_schema_version = 1;

/// Opens sessions and makes sure that each finds the tables that this program needs, and always the same
/// tables. Thread-safe.
class database {
 public:
  database(std::shared_ptr<backend::source>, manager_options const&);

  /// @throws error what backend::source::connect throws; schema_missing, schema_old, schema_new; closed;
  /// unreachable if other tables than at first are found (another database, or a copy, answers)
  std::unique_ptr<backend::connection> open(boot_time_point deadline);

  /// What open() does with a session that it has opened. @return the version that the tables have
  int check_schema(backend::connection&, boot_time_point deadline);

  /// Opens no more sessions, and drops the source.
  void close() noexcept;

  /// What rowlock_meta says of these tables; known after the first open().
  std::string id() const;

  /// Tells these tables on this server from every other; known after the first open().
  std::string identity() const;

  /// connection::server_identity() of the first session; known after the first open().
  std::string server() const;

  /// A number for the server, or file, that a session talks to: holds are many, servers few.
  std::size_t server_of(backend::connection const&);

  /// Whether this certainly does not lead to that server's database any more (a file that was
  /// removed, replaced, or got another name). Locks that were held there are then lost.
  bool gone(std::size_t server) const noexcept;

  backend::statement_book const& statements() const noexcept { return book_; }
  /// Where the tables are; the schema is known after the first open(), if the options name none.
  backend::table_names tables() const { return book_.tables(); }
  std::string const& describe() const noexcept { return description_; }
  backend::dialect const& sql() const noexcept { return sql_; }
  int connections() const noexcept { return connections_; }  ///< for taking and giving back, at most

 private:
  void expect_same(backend::connection&, std::string const& id, boot_time_point deadline);

  void find_tables(backend::connection&, boot_time_point deadline);
  void refuse_views(backend::connection&, boot_time_point deadline);

  backend::dialect const& sql_;
  std::string const description_;
  int const connections_;
  bool const named_;  ///< the options name the schema
  backend::statement_book book_;
  mutable std::mutex mutex_;
  std::shared_ptr<backend::source> source_;  ///< null: closed
  std::string database_id_;
  std::string server_;   ///< of the first session
  std::string lineage_;  ///< the same; lib/doc/identity.md
  std::string identity_;
  std::vector<std::string> servers_;
};

}  // namespace rowlock::sessions
