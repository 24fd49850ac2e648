// A transaction of the program's own on MariaDB or MySQL by Connector/C++, which changes one row: without a
// guard, and with each kind of it.
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
      lock_.emplace(*manager_->make_mutex("bench-transaction-" + random_part()).acquire());
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

  guard how_;
  std::unique_ptr<sql::Connection> connection_;
  std::unique_ptr<sql::Statement> statement_;
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
    if (where.id == "mariadb")
      all.push_back({"tx-mariadb-prepared", "execute_commit(lock), keep_prepared, Connector/C++", where.id,
                     open(guard::prepared), prepare});
  }
}

}  // namespace rowlock::bench
