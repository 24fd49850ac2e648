#include "demo/counters.hpp"

#include <cppconn/connection.h>
#include <cppconn/resultset.h>
#include <cppconn/statement.h>
#include <fmt/format.h>
#include <libpq-fe.h>
#include <mysql_driver.h>
#include <sqlite3.h>

#include <optional>
#include <regex>
#include <rowlock/mysql_transaction.hpp>
#include <rowlock/postgresql_transaction.hpp>
#include <rowlock/sqlite_transaction.hpp>
#include <stdexcept>

namespace rowlock::demo {
namespace {

class on_postgresql final : public counters {
 public:
  explicit on_postgresql(std::string const& conninfo)
      : connection_(PQconnectdb(conninfo.c_str()), &PQfinish) {
    if (PQstatus(connection_.get()) != CONNECTION_OK) fail();
    execute("SET client_min_messages = warning");
  }

  void execute(std::string const& sql) override { run(sql); }
  std::int64_t number(std::string const& query) override {
    return std::stoll(PQgetvalue(run(query).get(), 0, 0));
  }
  void begin() override { execute("BEGIN"); }
  void commit() override { postgresql::execute_commit(connection_.get()); }
  void roll_back() override { execute("ROLLBACK"); }
  basic_transaction& view(lock_manager& m) override {
    if (!view_) view_.emplace(m, connection_.get());
    return *view_;
  }

 private:
  [[noreturn]] void fail() const { throw std::runtime_error(PQerrorMessage(connection_.get())); }
  std::unique_ptr<PGresult, decltype(&PQclear)> run(std::string const& sql) {
    std::unique_ptr<PGresult, decltype(&PQclear)> r(PQexec(connection_.get(), sql.c_str()), &PQclear);
    auto const status = PQresultStatus(r.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) fail();
    return r;
  }

  std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
  std::optional<postgresql::transaction> view_;
};

class on_mysql final : public counters {
 public:
  explicit on_mysql(std::string const& url) {
    std::smatch part;
    if (!std::regex_match(url, part, std::regex("[a-z]+://([^:]*):([^@]*)@([^/]*)/(.*)")))
      throw std::runtime_error("not mysql://USER:PASSWORD@HOST:PORT/DATABASE");
    connection_.reset(::sql::mysql::get_driver_instance()->connect("tcp://" + part.str(3) + "/" + part.str(4),
                                                                   part.str(1), part.str(2)));
    statement_.reset(connection_->createStatement());
  }

  void execute(std::string const& sql) override { statement_->execute(sql); }
  std::int64_t number(std::string const& query) override {
    std::unique_ptr<::sql::ResultSet> const r(statement_->executeQuery(query));
    r->next();
    return r->getInt64(1);
  }
  void begin() override { execute("START TRANSACTION"); }
  void commit() override { mysql::execute_commit(*connection_); }
  void roll_back() override { execute("ROLLBACK"); }
  basic_transaction& view(lock_manager& m) override {
    if (!view_) view_.emplace(m, *connection_);
    return *view_;
  }

 private:
  std::unique_ptr<::sql::Connection> connection_;
  std::unique_ptr<::sql::Statement> statement_;
  std::optional<mysql::transaction> view_;
};

class on_sqlite final : public counters {
 public:
  explicit on_sqlite(std::string const& path) : connection_(open(path), &sqlite3_close_v2) {
    sqlite3_busy_timeout(connection_.get(), 10'000);
  }

  void execute(std::string const& sql) override { run(sql); }
  std::int64_t number(std::string const& query) override { return run(query); }
  /// Not BEGIN alone: what it reads first could be old when it comes to write.
  void begin() override { execute("BEGIN IMMEDIATE"); }
  void commit() override { sqlite::execute_commit(connection_.get()); }
  void roll_back() override {
    if (sqlite3_get_autocommit(connection_.get()) == 0) execute("ROLLBACK");
  }
  basic_transaction& view(lock_manager& m) override {
    if (!view_) view_.emplace(m, connection_.get());
    return *view_;
  }

 private:
  static sqlite3* open(std::string const& path) {
    sqlite3* c = nullptr;
    if (sqlite3_open_v2(path.c_str(), &c, SQLITE_OPEN_READWRITE, nullptr) == SQLITE_OK) return c;
    std::string const why = sqlite3_errmsg(c);
    sqlite3_close_v2(c);
    throw std::runtime_error(why);
  }
  std::int64_t run(std::string const& sql) {
    std::int64_t first = 0;
    auto take = [](void* to, int, char** columns, char**) {
      if (columns[0] != nullptr) *static_cast<std::int64_t*>(to) = std::stoll(columns[0]);
      return 0;
    };
    if (sqlite3_exec(connection_.get(), sql.c_str(), take, &first, nullptr) != SQLITE_OK)
      throw std::runtime_error(sql + ": " + sqlite3_errmsg(connection_.get()));
    return first;
  }

  std::unique_ptr<sqlite3, decltype(&sqlite3_close_v2)> connection_;
  std::optional<sqlite::transaction> view_;
};

}  // namespace

std::int64_t counters::read(int counter) {
  return number(fmt::format("SELECT value FROM demo_counters WHERE id = {}", counter));
}

void counters::write(int counter, std::int64_t value) {
  execute(fmt::format("UPDATE demo_counters SET value = {} WHERE id = {}", value, counter));
}

void counters::make(int how_many) {
  execute("DROP TABLE IF EXISTS demo_counters");
  execute("CREATE TABLE demo_counters (id integer PRIMARY KEY, value bigint NOT NULL)");
  for (int i = 0; i < how_many; ++i) execute(fmt::format("INSERT INTO demo_counters VALUES ({}, 0)", i));
}

std::int64_t counters::sum() { return number("SELECT sum(value) FROM demo_counters"); }

std::unique_ptr<counters> connect(std::string const& url) {
  if (url.starts_with("sqlite:")) return std::make_unique<on_sqlite>(url.substr(7));
  if (url.starts_with("mysql:") || url.starts_with("mariadb:")) return std::make_unique<on_mysql>(url);
  return std::make_unique<on_postgresql>(url);
}

}  // namespace rowlock::demo
