#pragma once
// A database of each kind, made by the program itself, for tests that run it.

#include <doctest/doctest.h>

#include <rowlock/lock_manager.hpp>
#include <string>

#include "cli/program.hpp"

namespace rowlock::test {

class place {
 public:
  virtual ~place() = default;

  /// Runs rowlock on this database, which it finds by ROWLOCK_DB, and by --schema where that is needed.
  finished rowlock(words, environment = {}) const;
  /// The command line for that, and the variables that it needs.
  words command(words) const;
  environment variables(environment more = {}) const;

  virtual std::string url() const = 0;
  virtual words options() const { return {}; }
  virtual words strategies() const { return {"lease", "unique_insert", "row_lock"}; }
  virtual std::string dialect() const = 0;
  /// What creates the hand-made lock table of schema/<dialect>-method-lock.sql.
  virtual std::string old_lock_table() const { return {}; }
  /// Runs SQL in which rowlock_locks stands for the table.
  virtual void sql(std::string const&) const = 0;
};

/// `rowlock run OPTIONS... -- sh -c SCRIPT` that has its lock: the script says "ready" first.
struct holder : program {
  holder(place const& p, words options, std::string const& script = "echo ready; sleep 100")
      : program(p.command(with(options, script)), p.variables()) {
    REQUIRE(prints("ready"));
  }
  static words with(words options, std::string const& script) {
    options.insert(options.begin(), "run");
    options.insert(options.end(), {"--", "sh", "-c", script});
    return options;
  }
};

/// A run of the reaper that is under way, in this process: the program itself lets no command take its name.
class other_reaper {
 public:
  explicit other_reaper(place const&);

 private:
  rowlock::lock_manager manager_;
  rowlock::acquisition held_;
};

/// SQL for so many hours ago.
std::string hours_ago(place const&, int hours);
/// Leases n1 to nCOUNT that nobody has used for two days.
void leave_idle(place const&, int count);

class on_sqlite : public place {
 public:
  explicit on_sqlite(bool migrated = true);
  std::string file() const { return folder_.file("locks.db"); }
  std::string url() const override { return "sqlite:" + file(); }
  words strategies() const override { return {"lease", "unique_insert"}; }
  std::string dialect() const override { return "sqlite"; }
  void sql(std::string const&) const override;

 private:
  scratch_folder folder_;
};

class on_postgresql : public place {
 public:
  explicit on_postgresql(bool migrated = true);
  ~on_postgresql() override;
  std::string url() const override { return postgresql_conninfo(); }
  words options() const override { return {"--schema", schema_}; }
  std::string dialect() const override { return "postgresql"; }
  std::string old_lock_table() const override {
    return "CREATE TABLE methodLock (id serial PRIMARY KEY, method_name varchar(64) NOT NULL UNIQUE, "
           "\"desc\" text, "
           "update_time timestamptz NOT NULL DEFAULT now())";
  }
  void sql(std::string const&) const override;

 private:
  std::string schema_ = unique_identifier();
};

/// A database of its own on a server of MySQL or MariaDB.
class on_mysql_like : public place {
 public:
  ~on_mysql_like() override;
  std::string url() const override { return url_; }
  std::string dialect() const override { return "mysql"; }
  std::string old_lock_table() const override {
    return "CREATE TABLE methodLock (id INT PRIMARY KEY AUTO_INCREMENT, method_name VARCHAR(64) NOT NULL "
           "UNIQUE, "
           "`desc` TEXT, update_time TIMESTAMP NOT NULL DEFAULT now())";
  }
  void sql(std::string const&) const override;

 protected:
  on_mysql_like(std::string const& server, bool migrated);

 private:
  std::string database_ = unique_identifier();
  std::string url_;
};

class on_mariadb : public on_mysql_like {
 public:
  explicit on_mariadb(bool migrated = true) : on_mysql_like(mariadb_url(), migrated) {}
};

class on_mysql : public on_mysql_like {
 public:
  explicit on_mysql(bool migrated = true) : on_mysql_like(mysql_url(), migrated) {}
};

}  // namespace rowlock::test

TYPE_TO_STRING_AS("sqlite", rowlock::test::on_sqlite);
TYPE_TO_STRING_AS("postgresql", rowlock::test::on_postgresql);
TYPE_TO_STRING_AS("mariadb", rowlock::test::on_mariadb);
TYPE_TO_STRING_AS("mysql", rowlock::test::on_mysql);

/// Where there is a server.
#define SERVER_CASE(text)                                                                  \
  TEST_CASE_TEMPLATE(text, Place, rowlock::test::on_postgresql, rowlock::test::on_mariadb, \
                     rowlock::test::on_mysql)

#define CLI_CASE(text)                                                                    \
  TEST_CASE_TEMPLATE(text, Place, rowlock::test::on_sqlite, rowlock::test::on_postgresql, \
                     rowlock::test::on_mariadb, rowlock::test::on_mysql)
