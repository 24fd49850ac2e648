// A transaction of the program's own on MariaDB or MySQL by Connector/C++, which changes one row: without a
// guard, with each kind of it, and with the guard's statements by the bare driver.
#include <cppconn/resultset.h>
#include <cppconn/statement.h>
#include <mysql_connection.h>
#include <mysql_driver.h>

#include <mutex>
#include <optional>
#include <rowlock/mysql_transaction.hpp>
#include <rowlock/rowlock.hpp>

#include "systems/databases.hpp"
#include "systems/libmariadb.hpp"
#include "systems/system.hpp"

namespace rowlock::bench {
namespace {

std::unique_ptr<sql::Connection> by_connector(std::string const& url) {
  auto const p = parsed_mysql_address(url);
  sql::ConnectOptionsMap options;
  options["hostName"] = "tcp://" + p.host + ":" + std::to_string(p.port);
  options["userName"] = p.user;
  options["password"] = p.password;
  options["schema"] = p.database;
  // The driver makes itself at its first use, and no lock keeps two threads from that.
  static std::mutex first_use;
  std::scoped_lock const guard(first_use);
  return std::unique_ptr<sql::Connection>(sql::mysql::get_driver_instance()->connect(options));
}

class mysql_transaction_client : public client {
 public:
  mysql_transaction_client(std::string const& address, guard how)
      : how_(how),
        connection_(by_connector(address)),
        statement_(connection_->createStatement()),
        manager_(how != guard::none ? new lock_manager(mysql::source(address)) : nullptr) {
    if (how != guard::none) {
      auto const name = "bench-transaction-" + random_part();
      lock_.emplace(*manager_->make_mutex(name).acquire());
      bare_ = guarded_commit(name);
      view_.emplace(*manager_, *connection_, transaction_options{how == guard::prepared});
    }
  }
  /// take() is the whole transaction.
  bool take(std::string const&, std::stop_token const&) override {
    statement_->execute("START TRANSACTION");
    if (how_ == guard::require) view_->require(*lock_);
    statement_->execute("UPDATE bench_stock SET n = n + 1 WHERE id = 1");
    if (how_ == guard::commit || how_ == guard::prepared)
      view_->execute_commit(*lock_);
    else if (how_ == guard::bare)
      for (auto const& each : bare_) run(each);
    else if (view_)
      mysql::execute_commit(*connection_);
    else
      statement_->execute("COMMIT");
    return true;
  }
  void give_back() override {}

 private:
  /// So that the lock of a process that was killed is nobody's hindrance.
  static std::string random_part() {
    return std::to_string(std::chrono::steady_clock::now().time_since_epoch().count());
  }

  /// Nobody else has the row, so what is found in it is not looked at.
  void run(std::string const& sql) {
    if (statement_->execute(sql)) std::unique_ptr<sql::ResultSet>(statement_->getResultSet())->next();
  }
  /// What execute_commit(lock) sends, as a program would write it. On MySQL a savepoint tells whether this is
  /// a transaction.
  std::vector<std::string> guarded_commit(std::string const& name) {
    std::unique_ptr<sql::ResultSet> const found(
        statement_->executeQuery("SELECT term, version() FROM rowlock_locks WHERE name = '" + name + "'"));
    if (!found->next()) throw peer_error("the lock has no row");
    auto const where =
        " WHERE name = '" + name + "' AND term = '" + found->getString(1).asStdString() + "' AND revoked = 0";
    auto const look =
        "SELECT (SELECT s.term FROM rowlock_locks AS s WHERE s.name = l.name AND s.term = l.term) ";
    auto const lock = "FROM rowlock_locks AS l FORCE INDEX (PRIMARY)" + where + " FOR UPDATE SKIP LOCKED";
    auto const change = "UPDATE rowlock_locks SET renewals = renewals + 1" + where;
    if (found->getString(2).asStdString().find("MariaDB") == std::string::npos)
      return {"SAVEPOINT s", "RELEASE SAVEPOINT s", look + lock, change, "COMMIT"};
    std::string const refuse = "THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30001; END IF; ";
    return {
        "/*M!100618 SET STATEMENT innodb_snapshot_isolation = OFF FOR */ BEGIN NOT ATOMIC DECLARE seen "
        "VARBINARY(255); IF @@in_transaction = 0 AND @@autocommit <> 0 " +
        refuse + look + "INTO seen " + lock + "; IF seen IS NULL " + refuse + change + "; COMMIT; END"};
  }

  guard how_;
  std::unique_ptr<sql::Connection> connection_;
  std::unique_ptr<sql::Statement> statement_;
  std::vector<std::string> bare_;
  std::unique_ptr<lock_manager> manager_;
  std::optional<held_lock> lock_;
  std::optional<mysql::transaction> view_;
};

class mysql_transaction_session : public session {
 public:
  mysql_transaction_session(std::string address, guard how) : address_(std::move(address)), how_(how) {}
  std::unique_ptr<client> new_client() override {
    return std::make_unique<mysql_transaction_client>(address_, how_);
  }

 private:
  std::string address_;
  guard how_;
};

}  // namespace

void add_mysql_transactions(std::vector<system_entry>& all) {
  for (auto const* const id : {"mariadb", "mysql"}) {
    auto const& where = database_of(id);
    auto const open = [](guard how) {
      return [how](std::string const& address) {
        return std::make_unique<mysql_transaction_session>(address, how);
      };
    };
    auto const prepare = [&where](std::string const& address) {
      migrate(where, address);
      my_connection c(address);
      c.run(
          "CREATE TABLE IF NOT EXISTS bench_stock (id integer PRIMARY KEY, n bigint NOT NULL) ENGINE = "
          "InnoDB");
      c.run("INSERT IGNORE INTO bench_stock VALUES (1, 0)");
    };
    all.push_back(
        {"tx-" + where.id, "plain, Connector/C++, " + where.title, where.id, open(guard::none), prepare});
    all.push_back({"tx-" + where.id + "-require", "require(), Connector/C++, " + where.title, where.id,
                   open(guard::require), prepare});
    all.push_back({"tx-" + where.id + "-commit", "execute_commit(lock), Connector/C++, " + where.title,
                   where.id, open(guard::commit), prepare});
    all.push_back({"tx-" + where.id + "-bare",
                   "the same guard and COMMIT, bare Connector/C++, " + where.title, where.id,
                   open(guard::bare), prepare});
    if (where.id == "mariadb")
      all.push_back({"tx-mariadb-prepared", "execute_commit(lock), keep_prepared, Connector/C++", where.id,
                     open(guard::prepared), prepare});
  }
}

}  // namespace rowlock::bench
