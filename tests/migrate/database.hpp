#pragma once
// A fresh database of each kind, the same for all cases.

#include <rowlock/connection_source.hpp>
#include <rowlock/error.hpp>
#include <rowlock/migrator.hpp>

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.hpp"
#include "support/support.hpp"
#include "toy.hpp"

namespace rowlock::test {

using versions = std::vector<int>;

/// All versions, as up and down report them.
inline versions const every_up{1, 2, toy_version};
inline versions const every_down{toy_version, 2, 1};

/// What both kinds share.
class database {
 public:
  virtual ~database() = default;

  /// Knows one version more than there is: toy.hpp.
  connection_source const& source() const { return *source_; }
  /// How the helper process reaches the same: "sqlite", "postgresql" or "mysql", and a path, conninfo or URL.
  virtual std::string kind() const = 0;
  bool is_mysql() const { return kind() == "mysql"; }
  std::string const& address() const { return address_; }

  /// Looks for tables where the address says; rowlock's own sessions look nowhere.
  std::unique_ptr<backend::connection> connect() const;
  /// One statement in autocommit on a connection of its own; table names as they are in the text.
  std::vector<backend::row> query(std::string const& sql) const;
  void script(std::string const& sql) const;
  /// The file migrations/<kind>/NNN_*.<direction>.sql of that version as it is, like psql would; the toy's
  /// text.
  void apply_raw(int version, std::string const& direction) const;

  /// Takes `name` for a minute by plain SQL. `expired`: its time is over already.
  void hold(std::string const& name, bool expired = false) const;

  /// SQL for the database's time and some seconds.
  virtual std::string in_seconds(int) const = 0;

 protected:
  virtual void look_there(backend::connection&) const {}

  std::unique_ptr<connection_source> source_;
  std::string address_;
};

/// An SQLite file that does not exist yet.
class sqlite_database : public database {
 public:
  sqlite_database();
  std::string kind() const override { return "sqlite"; }
  std::string file() const { return address_; }
  std::string in_seconds(int) const override;

 private:
  scratch_folder folder_;
};

/// A new schema of the test server, which is the search path; dropped at the end.
class postgresql_database : public database {
 public:
  postgresql_database();
  ~postgresql_database() override;
  std::string kind() const override { return "postgresql"; }
  std::string const& schema() const { return schema_; }
  std::string in_seconds(int) const override;

 private:
  void look_there(backend::connection&) const override;
  std::string schema_;
};

/// A new database of a server of MySQL or MariaDB; dropped at the end.
class mysql_like_database : public database {
 public:
  ~mysql_like_database() override;
  std::string kind() const override { return "mysql"; }
  std::string const& name() const { return name_; }
  std::string in_seconds(int) const override;

 protected:
  explicit mysql_like_database(std::string const& server);

 private:
  std::string name_;
};

class mariadb_database : public mysql_like_database {
 public:
  mariadb_database() : mysql_like_database(mariadb_url()) {}
};

class mysql_database : public mysql_like_database {
 public:
  mysql_database() : mysql_like_database(mysql_url()) {}
};

#define ROWLOCK_DATABASES                                                                                    \
  ::rowlock::test::sqlite_database, ::rowlock::test::postgresql_database, ::rowlock::test::mariadb_database, \
      ::rowlock::test::mysql_database
#define ROWLOCK_MYSQL_DATABASES ::rowlock::test::mariadb_database, ::rowlock::test::mysql_database

boot_time_point soon();

/// The one number that the query answers with.
std::int64_t number(database const&, std::string const& sql);
/// Those of the statement lock_take, for a term "t" + name.
std::vector<backend::value> take_parameters(std::string const& name);

/// Lets the database grant the leases of take_parameters(), as a manager's first take does.
void settle_for_takes(backend::connection&, backend::statement_book const&);

/// Without the lines that only the client `mysql` understands.
std::string for_the_server(std::string const& sql);

/// SQL text of the file, from the source tree.
std::string read_source_file(std::string const& path);

/// The errc and message of what `f` throws; fails the case if it throws nothing.
struct caught {
  errc reason;
  std::string message;
  bool mentions(std::string_view text) const { return message.find(text) != message.npos; }
};
template <class F>
caught catch_error(F&& f) {
  try {
    f();
  } catch (error const& e) {
    MESSAGE(std::string(e.what()));
    return {e.reason(), e.what()};
  }
  FAIL("nothing was thrown");
  return {};
}

}  // namespace rowlock::test

TYPE_TO_STRING_AS("sqlite", rowlock::test::sqlite_database);
TYPE_TO_STRING_AS("postgresql", rowlock::test::postgresql_database);
TYPE_TO_STRING_AS("mariadb", rowlock::test::mariadb_database);
TYPE_TO_STRING_AS("mysql", rowlock::test::mysql_database);
