#pragma once
// A migrated database of a case's own, on a real server or file.

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <rowlock/lock_manager.hpp>
#include <string>

#include "contract/statement_probe.hpp"
#include "support/support.hpp"
#ifdef ROWLOCK_POOLER_PAIRS
#include <rowlock/postgresql.hpp>

#include "support/pgbouncer.hpp"
#endif

namespace rowlock::test {

using namespace std::chrono_literals;

/// Which of its forms a case's own SQL needs.
enum class dialect { sqlite, postgresql, mysql };

/// What stands between the library and the database.
enum class route { direct, pooler };

/// One migrated database.
class fixture {
 public:
  static constexpr int row_locks = 50;  ///< so many at a time must be possible
  static constexpr auto via = route::direct;
  explicit fixture(connection_source, manager_options);
  virtual ~fixture() = default;

  connection_source source;  ///< without the probe
  std::shared_ptr<rowlock::test::statement_probe> probe = std::make_shared<rowlock::test::statement_probe>();
  manager_options options;  ///< where the tables are

  virtual std::string url() const = 0;  ///< for processes of their own

  /// A manager whose statements go through the probe.
  /// Whether the dispatcher of asynchronous calls drives the blocking ones.
  static bool dispatched();
  std::unique_ptr<lock_manager> manager() { return manager(options); }
  std::unique_ptr<lock_manager> manager(manager_options o);

  /// Whether a waiter has made so many attempts; a row lock is waited for in the server, in one.
  bool waited(int attempts) const;

  backend::table_names tables() const;
  /// Those for SQL without C++, which most cases have no use for.
  void make_functions();
  /// A session that grants as a manager's does.
  std::unique_ptr<backend::connection> connect();
  /// Runs SQL with the table names put in, on a session that no manager has. Several threads may.
  void sql(std::string const& text);

 private:
  virtual void run(std::string const& text);
};

class sqlite_fixture : public fixture {
 public:
  static constexpr char const* backend = "sqlite";
  static constexpr auto engine = dialect::sqlite;
  sqlite_fixture() : sqlite_fixture(std::make_unique<scratch_folder>()) {}
  std::string url() const override { return "sqlite:" + folder_->file("locks.db"); }

 private:
  explicit sqlite_fixture(std::unique_ptr<scratch_folder>);
  std::unique_ptr<scratch_folder> folder_;
};

class postgresql_fixture : public fixture {
 public:
  static constexpr char const* backend = "postgresql";
  static constexpr auto engine = dialect::postgresql;
  postgresql_fixture();
  std::string url() const override { return postgresql_conninfo(); }
  ~postgresql_fixture() override;

 private:
  void run(std::string const& text) override;
  std::string server_;
};

/// A database of its own on a server of MySQL or MariaDB.
class mysql_like_fixture : public fixture {
 public:
  static constexpr auto engine = dialect::mysql;
  std::string url() const override { return url_; }
  ~mysql_like_fixture() override;

 protected:
  explicit mysql_like_fixture(std::string const& server_url)
      : mysql_like_fixture(server_url, unique_identifier()) {}

 private:
  mysql_like_fixture(std::string const& server_url, std::string const& database);
  std::string server_;
  std::string url_;
  std::string database_;
};

class mariadb_fixture : public mysql_like_fixture {
 public:
  static constexpr char const* backend = "mariadb";
  mariadb_fixture() : mysql_like_fixture(mariadb_url()) {}
};

class mysql_fixture : public mysql_like_fixture {
 public:
  static constexpr char const* backend = "mysql";
  mysql_fixture() : mysql_like_fixture(mysql_url()) {}
};

#ifdef ROWLOCK_POOLER_PAIRS
/// The same database, by way of PgBouncer in transaction mode. [C19]
class postgresql_pooler_fixture : public postgresql_fixture {
 public:
  static constexpr char const* backend = "postgresql-pooler";
  static constexpr auto via = route::pooler;
  postgresql_pooler_fixture() : pooler_(postgresql_conninfo(), "transaction"), native_(source) {
    source = rowlock::postgresql::source(pooler_.address());
  }
  ~postgresql_pooler_fixture() override { source = native_; }
  std::string url() const override { return pooler_.address(); }

 private:
  pgbouncer pooler_;
  connection_source native_;
};
#endif

dialect dialect_of(fixture const&);

/// Begins a transaction that may write.
char const* begin_of(fixture const&);
/// The database's clock plus so many milliseconds, as expires_at has it.
std::string in_ms(fixture const&, std::int64_t ms);

}  // namespace rowlock::test

// Cases that run for databases, not for pairs, are named after them.
#define ROWLOCK_NAMED_AFTER_ITSELF(Database) TYPE_TO_STRING_AS(Database::backend, Database)
ROWLOCK_NAMED_AFTER_ITSELF(rowlock::test::sqlite_fixture);
ROWLOCK_NAMED_AFTER_ITSELF(rowlock::test::postgresql_fixture);
ROWLOCK_NAMED_AFTER_ITSELF(rowlock::test::mariadb_fixture);
ROWLOCK_NAMED_AFTER_ITSELF(rowlock::test::mysql_fixture);
#ifdef ROWLOCK_POOLER_PAIRS
ROWLOCK_NAMED_AFTER_ITSELF(rowlock::test::postgresql_pooler_fixture);
#endif
