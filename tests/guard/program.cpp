#include "guard/program.hpp"

#include <libpq-fe.h>
#include <sqlite3.h>

#include <regex>
#include <rowlock/mysql_transaction.hpp>
#include <rowlock/postgresql_transaction.hpp>
#include <rowlock/sqlite_transaction.hpp>

#include "backend/mysql/native.hpp"
#include "backend/postgresql/native.hpp"
#include "backend/sqlite/native.hpp"
#include "guard/soci_program.hpp"

namespace rowlock::test {
namespace {

class libpq_program final : public program {
 public:
  explicit libpq_program(std::string const& conninfo) : native_(PQconnectdb(conninfo.c_str())) {
    if (PQstatus(native_.get()) != CONNECTION_OK) throw refused_statement(PQerrorMessage(native_.get()));
  }
  void run(std::string const& sql) override { (void)query(sql); }
  std::optional<std::string> value(std::string const& sql) override {
    auto const r = query(sql);
    if (PQntuples(r.get()) == 0 || PQgetisnull(r.get(), 0, 0) != 0) return std::nullopt;
    return PQgetvalue(r.get(), 0, 0);
  }
  std::shared_ptr<basic_transaction> view(lock_manager& m, transaction_options o) override {
    return std::make_shared<postgresql::transaction>(m, native_.get(), o);
  }
  void commit() override { postgresql::execute_commit(native_.get()); }
  void* native() override { return native_.get(); }

 private:
  backend::postgresql::native_result query(std::string const& sql) {
    backend::postgresql::native_result r(PQexec(native_.get(), sql.c_str()));
    auto const status = PQresultStatus(r.get());
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
      throw refused_statement(PQerrorMessage(native_.get()));
    return r;
  }
  backend::postgresql::native_connection native_;
};

class connector_program final : public program {
 public:
  // As a program would that never heard of us: without CLIENT_FOUND_ROWS and CLIENT_MULTI_STATEMENTS.
  explicit connector_program(std::string const& url) {
    std::smatch part;
    if (!std::regex_match(url, part, std::regex("mysql://([^:]*):([^@]*)@([^:]*):([0-9]+)/(.*)")))
      throw refused_statement("not a URL of the tests' servers");
    ::sql::ConnectOptionsMap o;
    o["hostName"] = ::sql::SQLString("tcp://" + part.str(3) + ":" + part.str(4));
    o["userName"] = ::sql::SQLString(part.str(1));
    o["password"] = ::sql::SQLString(part.str(2));
    o["schema"] = ::sql::SQLString(part.str(5));
    native_ = backend::mysql::open(o);
  }
  void run(std::string const& sql) override {
    translated([&] {
      backend::mysql::native_statement const s(native_->createStatement());
      if (s->execute(sql)) backend::mysql::native_rows const dropped(s->getResultSet());
      return 0;
    });
  }
  std::optional<std::string> value(std::string const& sql) override {
    return translated([&]() -> std::optional<std::string> {
      backend::mysql::native_statement const s(native_->createStatement());
      backend::mysql::native_rows const rows(s->executeQuery(sql));
      if (!rows->next() || rows->isNull(1)) return std::nullopt;
      return rows->getString(1).asStdString();
    });
  }
  std::shared_ptr<basic_transaction> view(lock_manager& m, transaction_options o) override {
    return std::make_shared<mysql::transaction>(m, *native_, o);
  }
  void commit() override { mysql::execute_commit(*native_); }
  void* native() override { return native_.get(); }

 private:
  template <class Call>
  auto translated(Call const& call) -> decltype(call()) {
    try {
      return call();
    } catch (::sql::SQLException const& e) {
      throw refused_statement(std::to_string(e.getErrorCode()) + " " + e.what());
    }
  }
  backend::mysql::native_connection native_;
};

class sqlite3_program final : public program {
 public:
  explicit sqlite3_program(std::string const& path) {
    sqlite3* db = nullptr;
    int const code = sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
    native_.reset(db);
    if (code != SQLITE_OK) throw refused_statement(sqlite3_errmsg(db));
    sqlite3_busy_timeout(db, 10'000);  // as programs do: a manager may be at its housekeeping
  }
  void run(std::string const& sql) override {
    if (sqlite3_exec(native_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
      throw refused_statement(sqlite3_errmsg(native_.get()));
  }
  std::optional<std::string> value(std::string const& sql) override {
    sqlite3_stmt* fresh = nullptr;
    sqlite3_prepare_v2(native_.get(), sql.c_str(), -1, &fresh, nullptr);
    backend::sqlite::prepared_statement const s(fresh);
    int const code = sqlite3_step(fresh);
    if (code != SQLITE_ROW && code != SQLITE_DONE) throw refused_statement(sqlite3_errmsg(native_.get()));
    if (code == SQLITE_DONE || sqlite3_column_type(fresh, 0) == SQLITE_NULL) return std::nullopt;
    return reinterpret_cast<char const*>(sqlite3_column_text(fresh, 0));
  }
  std::shared_ptr<basic_transaction> view(lock_manager& m, transaction_options /*o*/) override {
    return std::make_shared<sqlite::transaction>(m, native_.get());
  }
  void commit() override { sqlite::execute_commit(native_.get()); }
  void* native() override { return native_.get(); }

 private:
  backend::sqlite::database native_;
};

}  // namespace

std::unique_ptr<program> connect_by(driver d, std::string const& url) {
  switch (d) {
    case driver::libpq:
      return std::make_unique<libpq_program>(url);
    case driver::connector:
      return std::make_unique<connector_program>(url);
    case driver::sqlite3:
      return std::make_unique<sqlite3_program>(url.substr(7));
    default:
      return connect_by_soci(url);
  }
}

}  // namespace rowlock::test
