#include "backend/database.hpp"

#include <libpq-fe.h>

#include <map>
#include <rowlock/mysql.hpp>
#include <rowlock/postgresql.hpp>
#include <rowlock/sqlite.hpp>

#include "support/incarnation.hpp"

namespace rowlock::test {
namespace {

class sqlite_database final : public database {
 public:
  sqlite_database() : source_(folder_.file("locks.db")) { source().create_if_missing(); }

  backend::source& source() override { return *source_.implementation(); }
  backend::table_names const& tables() const override { return tables_; }
  std::string url() const override { return "sqlite:" + folder_.file("locks.db"); }

 private:
  scratch_folder folder_;
  sqlite::source source_;
  backend::table_names tables_;
};

class postgresql_database final : public database {
 public:
  postgresql_database() : source_(postgresql_conninfo()) {
    tables_.schema = unique_identifier();
    connect()->script("CREATE SCHEMA " + tables_.schema, in(20'000));
  }
  ~postgresql_database() override {
    try {
      connect()->script("DROP SCHEMA " + tables_.schema + " CASCADE", in(20'000));
    } catch (error const&) {  // the server was stopped by the test: its data goes with it
    }
  }

  backend::source& source() override { return *source_.implementation(); }
  backend::table_names const& tables() const override { return tables_; }
  std::string url() const override { return postgresql_conninfo(); }

 private:
  postgresql::source source_;
  backend::table_names tables_;
};

class mysql_database final : public database {
 public:
  explicit mysql_database(std::string const& server)
      : name_(unique_identifier()), url_(with_database(server, name_)), source_(url_) {
    mysql::source(server)
        .implementation()
        ->connect(in(20'000))
        ->script("CREATE DATABASE " + name_, in(20'000));
  }
  ~mysql_database() override {
    try {
      connect()->script("SET SESSION lock_wait_timeout = 50; DROP DATABASE " + name_, in(60'000));
    } catch (error const&) {  // the server was stopped by the test: its data goes with it
    }
  }

  backend::source& source() override { return *source_.implementation(); }
  backend::table_names const& tables() const override { return tables_; }
  std::string url() const override { return url_; }

 private:
  std::string name_;
  std::string url_;
  mysql::source source_;
  backend::table_names tables_{.schema = {}, .quote = '`'};
};

}  // namespace

char const* begin_of(kind k) {
  if (is_sqlite(k)) return "BEGIN IMMEDIATE";
  return is_mysql(k) ? "START TRANSACTION" : "BEGIN";
}

std::string mysql_server_url(kind k) { return k == kind::mysql ? mysql_url() : mariadb_url(); }

boot_time_point in(int ms) { return boot_clock::now() + std::chrono::milliseconds(ms); }

std::unique_ptr<backend::connection> database::connect() {
  auto c = source().connect(in(20'000));
  try {
    learn_incarnation(*c, book());
  } catch (error const& e) {
    if (e.reason() != errc::schema_missing) throw;
  }
  return c;
}

void database::migrate() {
  auto const c = connect();
  for (auto const& m : source().sql().migrations) c->script(tables().render(m.up), in(20'000));
  // Statements that tests run by themselves do not raise the reach, as a manager does. See
  // lib/strategy/quarantine.hpp
  if (!source().sql().pulse_tables.empty())
    c->script(tables().render(source().sql().name == "postgresql"
                                  ? "UPDATE rowlock_pulse SET reach = 300000, until = 'infinity', made_by = "
                                    "pg_current_xact_id()::xid"
                                  : "UPDATE rowlock_pulse SET reach = 300000, until = '9999-12-31'"),
              in(20'000));
}

std::unique_ptr<database> make_empty_database(kind k) {
  if (k == kind::sqlite) return std::make_unique<sqlite_database>();
  if (is_mysql(k)) return std::make_unique<mysql_database>(mysql_server_url(k));
  return std::make_unique<postgresql_database>();
}

std::unique_ptr<database> make_database(kind k) {
  auto made = make_empty_database(k);
  made->migrate();
  return made;
}

backend::statement adhoc(database const& db, std::string_view name, std::string_view sql) {
  return {std::string(name), db.tables().render(sql)};
}

std::string conninfo_with(std::vector<std::pair<std::string, std::string>> const& changes) {
  std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> const given(
      PQconninfoParse(postgresql_conninfo().c_str(), nullptr), &PQconninfoFree);
  REQUIRE(given);
  std::map<std::string, std::string> all;
  for (auto const* o = given.get(); o->keyword != nullptr; ++o)
    if (o->val != nullptr) all[o->keyword] = o->val;
  for (auto const& [keyword, text] : changes) all[keyword] = text;
  std::string out;
  for (auto const& [keyword, text] : all) {
    out += keyword + "='";
    for (char c : text) out += c == '\'' || c == '\\' ? std::string{'\\', c} : std::string{c};
    out += "' ";
  }
  return out;
}

std::vector<backend::value> take_parameters(std::string const& name, std::string const& term, int ttl_ms) {
  return {name,
          std::string("lease"),
          term,
          std::string("host"),
          std::int64_t{1},
          std::string("process"),
          std::int64_t{1},
          std::int64_t{ttl_ms},
          std::string("clock"),
          nullptr,
          std::string("note"),
          std::int64_t{1},
          nullptr,
          nullptr,
          std::int64_t{0}};
}

}  // namespace rowlock::test
