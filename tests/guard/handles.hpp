#pragma once
// A database and a driver by which the program is connected to it: what the cases run on.

#include <cstdlib>
#include <string>
#include <vector>

#include "contract/fixture.hpp"
#include "guard/program.hpp"

namespace rowlock::test {

/// The eight handles. `schema`: what the program's own tables are qualified with.
template <class Database, driver Driver>
struct handle : Database {
  static constexpr auto how = Driver;
  std::unique_ptr<program> open() const { return connect_by(Driver, this->url()); }
  static constexpr bool postgresql = Database::engine == dialect::postgresql;
  static constexpr bool innodb = Database::engine == dialect::mysql;
  static constexpr bool sqlite = Database::engine == dialect::sqlite;
  std::string table(std::string const& name) const {
    return this->options.schema.empty() ? name : this->options.schema + "." + name;
  }
  /// A table of the program's with one counter.
  void make_counter() {
    this->sql("CREATE TABLE " + table("counter") + " (id INTEGER PRIMARY KEY, n BIGINT NOT NULL)");
    this->sql("INSERT INTO " + table("counter") + " VALUES (1, 0)");
  }
  std::string read_counter() const { return "SELECT n FROM " + table("counter") + " WHERE id = 1"; }
  std::string set_counter(int n) const {
    return "UPDATE " + table("counter") + " SET n = " + std::to_string(n) + " WHERE id = 1";
  }
};

/// The isolation levels in which a program's transaction may be; "": SQLite has but one.
template <class On>
std::vector<std::string> levels_of() {
  if constexpr (On::sqlite) return {""};
  return {"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"};
}

using libpq_on_postgresql = handle<postgresql_fixture, driver::libpq>;
using connector_on_mariadb = handle<mariadb_fixture, driver::connector>;
using connector_on_mysql = handle<mysql_fixture, driver::connector>;
using sqlite3_on_sqlite = handle<sqlite_fixture, driver::sqlite3>;
using soci_on_postgresql = handle<postgresql_fixture, driver::soci>;
using soci_on_mariadb = handle<mariadb_fixture, driver::soci>;
using soci_on_mysql = handle<mysql_fixture, driver::soci>;
using soci_on_sqlite = handle<sqlite_fixture, driver::soci>;

/// Begins a transaction that may write: at an isolation level, or at the session's own if it is empty.
inline void begin(fixture const& f, program& p, std::string const& level = {}) {
  if (dialect_of(f) == dialect::sqlite) return p.run("BEGIN IMMEDIATE");
  if (dialect_of(f) == dialect::postgresql)
    return p.run(level.empty() ? "BEGIN" : "BEGIN ISOLATION LEVEL " + level);
  if (!level.empty()) p.run("SET TRANSACTION ISOLATION LEVEL " + level);
  p.run("START TRANSACTION");
}

/// Another server in the place of the shared one, which is back at the end.
class instead_of {
 public:
  instead_of(char const* variable, std::string const& address) : variable_(variable) {
    if (char const* shared = std::getenv(variable)) shared_ = shared;
    ::setenv(variable, address.c_str(), 1);
  }
  ~instead_of() {
    if (shared_)
      ::setenv(variable_, shared_->c_str(), 1);
    else
      ::unsetenv(variable_);
  }
  instead_of(instead_of const&) = delete;
  instead_of& operator=(instead_of const&) = delete;

 private:
  char const* variable_;
  std::optional<std::string> shared_;
};

/// The reason of what `call` throws; nothing if it does not.
template <class Call>
std::optional<errc> reason_of(Call const& call) {
  try {
    call();
  } catch (error const& e) {
    INFO(std::string(e.what()));
    return e.reason();
  }
  return std::nullopt;
}

}  // namespace rowlock::test

TYPE_TO_STRING_AS("libpq on postgresql", rowlock::test::libpq_on_postgresql);
TYPE_TO_STRING_AS("connector on mariadb", rowlock::test::connector_on_mariadb);
TYPE_TO_STRING_AS("connector on mysql", rowlock::test::connector_on_mysql);
TYPE_TO_STRING_AS("sqlite3 on sqlite", rowlock::test::sqlite3_on_sqlite);
TYPE_TO_STRING_AS("soci on postgresql", rowlock::test::soci_on_postgresql);
TYPE_TO_STRING_AS("soci on mariadb", rowlock::test::soci_on_mariadb);
TYPE_TO_STRING_AS("soci on mysql", rowlock::test::soci_on_mysql);
TYPE_TO_STRING_AS("soci on sqlite", rowlock::test::soci_on_sqlite);

#define ROWLOCK_SERVER_HANDLES                                                                              \
  rowlock::test::libpq_on_postgresql, rowlock::test::connector_on_mariadb,                                  \
      rowlock::test::connector_on_mysql, rowlock::test::soci_on_postgresql, rowlock::test::soci_on_mariadb, \
      rowlock::test::soci_on_mysql
#define ROWLOCK_INNODB_HANDLES                                                                            \
  rowlock::test::connector_on_mariadb, rowlock::test::connector_on_mysql, rowlock::test::soci_on_mariadb, \
      rowlock::test::soci_on_mysql
#define ROWLOCK_POSTGRESQL_HANDLES rowlock::test::libpq_on_postgresql, rowlock::test::soci_on_postgresql
#define ROWLOCK_SQLITE_HANDLES rowlock::test::sqlite3_on_sqlite, rowlock::test::soci_on_sqlite
#define ROWLOCK_HANDLES ROWLOCK_SERVER_HANDLES, ROWLOCK_SQLITE_HANDLES
