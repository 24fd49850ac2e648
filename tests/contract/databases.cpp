#include "contract/databases.hpp"

#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <rowlock/mysql.hpp>
#include <rowlock/postgresql.hpp>
#include <rowlock/sqlite.hpp>
#include <sstream>
#include <string_view>
#include <utility>

#include "manager/engine.hpp"
#include "support/changed_sql.hpp"
#include "support/incarnation.hpp"
#include "support/source_path.hpp"

namespace rowlock::test {
namespace {

manager_options in_schema(std::string schema) {
  manager_options o;
  o.schema = std::move(schema);
  return o;
}

/// What makes the tables of the newest version at once, of which a test says that the migrations leave the
/// same: the versions one after another, or the migrator, cost more than most cases. Without the functions
/// for SQL, which cost as much as the tables, and which no case here calls. (The library calls the one that
/// is in front of them.)
struct schema_text {
  std::string tables;
  std::string functions;
};

schema_text const& text_of(std::string const& kind) {
  static std::map<std::string, schema_text> texts;
  auto& [tables, functions] = texts[kind];
  if (!tables.empty()) return texts[kind];
  std::stringstream all;
  all << std::ifstream(source_path("migrations/" + kind + "/001_schema.up.sql")).rdbuf();
  tables = all.str();
  // Of MySQL all but the last statement, which says that the tables are whole.
  if (auto const first = tables.find("\nSET @rowlock_sql_mode"); first != tables.npos) {
    auto const last = tables.find("\nINSERT INTO rowlock_meta", first);
    functions = tables.substr(first, last - first);
    tables.erase(first, last - first);
  } else if (auto const function = tables.find("\nCREATE FUNCTION rowlock_granting");
             function != tables.npos) {
    functions = tables.substr(function);
    tables.erase(function);
  }
  std::stringstream next;
  next << std::ifstream(source_path("migrations/" + kind + "/002_quarantine.up.sql")).rdbuf();
  auto quarantine = next.str();
  auto const of_mysql = quarantine.find("\nSET @rowlock_sql_mode");
  auto const first = of_mysql == quarantine.npos ? quarantine.find("\nCREATE OR REPLACE FUNCTION") : of_mysql;
  if (first != quarantine.npos) {
    auto const last = quarantine.find("\nUPDATE rowlock_meta", first);
    functions += quarantine.substr(first, last - first);
    quarantine.erase(first, last - first);
  }
  tables += '\n' + quarantine;
  return texts[kind];
}

std::string const& all_tables(std::string const& kind) { return text_of(kind).tables; }

/// By which this process makes databases on a server, and drops them: to connect would take as long as the
/// rest.
backend::connection& maker(connection_source const& source, std::string const& server) {
  static std::map<std::string, std::unique_ptr<backend::connection>> sessions;
  auto& session = sessions[server];
  if (!session || !session->alive()) session = source.implementation()->connect(boot_clock::now() + 30s);
  return *session;
}

}  // namespace

fixture::fixture(connection_source s, manager_options o)
    : source(as_the_environment_has_it(std::move(s))), options(std::move(o)) {
  managing::engine::dispatches = dispatched();
}

bool fixture::dispatched() { return std::getenv("ROWLOCK_TEST_DISPATCHED") != nullptr; }

std::unique_ptr<lock_manager> fixture::manager(manager_options o) {
  return std::make_unique<lock_manager>(observed_by(source, probe), std::move(o));
}

std::unique_ptr<backend::connection> fixture::connect() {
  auto session = source.implementation()->connect(boot_clock::now() + 30s);
  try {
    learn_incarnation(*session, {source.implementation()->sql(), tables()});
  } catch (error const&) {
    if (!session->usable()) throw;
  }
  return session;
}

void fixture::sql(std::string const& text) { run(tables().render(text)); }

void fixture::run(std::string const& text) { connect()->script(text, boot_clock::now() + 30s); }

void fixture::make_functions() { sql(text_of(std::string(source.implementation()->sql().name)).functions); }

bool fixture::waited(int attempts) const {
  return traits(options.strategy).waits_in_server ? probe->executed("lock_take") >= 1
                                                  : probe->executed("lock_read") >= attempts;
}

backend::table_names fixture::tables() const {
  return backend::table_names::of(source.implementation()->sql(), options.schema, options.table_prefix);
}

sqlite_fixture::sqlite_fixture(std::unique_ptr<scratch_folder> folder)
    : fixture(sqlite::source(folder->file("locks.db")), {}), folder_(std::move(folder)) {
  source.implementation()->create_if_missing();
  sql(all_tables("sqlite"));
}

postgresql_fixture::postgresql_fixture()
    : fixture(postgresql::source(postgresql_conninfo()), in_schema(unique_identifier())),
      server_(postgresql_conninfo()) {
  maker(postgresql::source(server_), server_)
      .script("CREATE SCHEMA " + options.schema + ";" +
                  tables().render(all_tables("postgresql") +
                                  "\nUPDATE rowlock_pulse SET reach = 300000, until = 'infinity', made_by = "
                                  "pg_current_xact_id()::xid"),
              boot_clock::now() + 30s);
}

// A session of its own would take thirty times as long as most of what is run here.
void postgresql_fixture::run(std::string const& text) {
  static std::mutex one_at_a_time;
  std::lock_guard const lock(one_at_a_time);
  maker(postgresql::source(server_), server_).script(text, boot_clock::now() + 30s);
}

postgresql_fixture::~postgresql_fixture() {
  maker(postgresql::source(server_), server_)
      .script("SET LOCAL client_min_messages = error; DROP SCHEMA IF EXISTS " + options.schema + " CASCADE",
              boot_clock::now() + 30s);
}

mysql_like_fixture::mysql_like_fixture(std::string const& server_url, std::string const& database)
    : fixture(mysql::source(with_database(server_url, database)), {}),
      server_(server_url),
      url_(with_database(server_url, database)),
      database_(database) {
  // Who looks at the sessions of this database finds none but the case's own.
  maker(mysql::source(server_), server_)
      .script("CREATE DATABASE " + database_ + "; USE " + database_ + ";" + all_tables("mysql") +
                  "UPDATE rowlock_pulse SET reach = 300000, until = '9999-12-31';USE information_schema",
              boot_clock::now() + 30s);
}

mysql_like_fixture::~mysql_like_fixture() {
  try {
    maker(mysql::source(server_), server_)
        .script("SET SESSION lock_wait_timeout = 25; DROP DATABASE IF EXISTS " + database_,
                boot_clock::now() + 30s);
  } catch (error const&) {  // the server is gone, which the case itself has noticed
  }
}

dialect dialect_of(fixture const& f) {
  auto const name = f.source.implementation()->sql().name;
  if (name == "sqlite") return dialect::sqlite;
  return name == "mysql" ? dialect::mysql : dialect::postgresql;
}

char const* begin_of(fixture const& f) {
  switch (dialect_of(f)) {
    case dialect::sqlite:
      return "BEGIN IMMEDIATE";
    case dialect::mysql:
      return "START TRANSACTION";
    default:
      return "BEGIN";
  }
}

std::string in_ms(fixture const& f, std::int64_t ms) {
  auto const n = std::to_string(ms);
  switch (dialect_of(f)) {
    case dialect::sqlite:
      return "cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + " + n;
    case dialect::mysql:
      return "utc_timestamp(6) + INTERVAL " + n + " * 1000 MICROSECOND";
    default:
      return "clock_timestamp() + interval '" + n + " milliseconds'";
  }
}

}  // namespace rowlock::test
