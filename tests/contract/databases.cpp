#include "contract/databases.hpp"

#include <rowlock/migrator.hpp>
#include <rowlock/mysql.hpp>
#include <rowlock/postgresql.hpp>
#include <rowlock/sqlite.hpp>
#include <utility>

namespace rowlock::test {
namespace {

manager_options in_schema(std::string schema) {
  manager_options o;
  o.schema = std::move(schema);
  return o;
}

}  // namespace

fixture::fixture(connection_source s, manager_options o) : source(std::move(s)), options(std::move(o)) {}

std::unique_ptr<lock_manager> fixture::manager(manager_options o) {
  return std::make_unique<lock_manager>(observed_by(source, seam), std::move(o));
}

void fixture::sql(std::string const& text) {
  auto session = source.implementation()->connect(boot_clock::now() + 10s);
  session->script(tables().render(text), boot_clock::now() + 10s);
}

bool fixture::waited(int attempts) const {
  return traits(options.strategy).waits_in_server ? seam->executed("lock_take") >= 1
                                                  : seam->executed("lock_read") >= attempts;
}

backend::table_names fixture::tables() const {
  return backend::table_names::of(source.implementation()->sql(), options.schema, options.table_prefix);
}

// As a tool of the user's own applies the files: the migrator, which looks at all tables between any two
// steps, would be a third of what the suites cost. tests/migrate is about it.
void fixture::migrate() {
  auto const where = tables();
  auto const session = source.implementation()->connect(boot_clock::now() + 10s);
  if (!where.schema.empty()) session->script("CREATE SCHEMA " + where.schema, boot_clock::now() + 10s);
  for (auto const& m : source.implementation()->sql().migrations)
    session->script(where.render(m.up), boot_clock::now() + 10s);
}

sqlite_fixture::sqlite_fixture(std::unique_ptr<scratch_folder> folder)
    : fixture(sqlite::source(folder->file("locks.db")), {}), folder_(std::move(folder)) {
  migrator(source).up();  // makes the file, too
}

postgresql_fixture::postgresql_fixture()
    : fixture(postgresql::source(postgresql_conninfo()), in_schema(unique_identifier())) {
  migrate();
}

postgresql_fixture::~postgresql_fixture() {
  sql("SET client_min_messages = error; DROP SCHEMA IF EXISTS " + options.schema + " CASCADE");
}

mysql_like_fixture::mysql_like_fixture(std::string const& server_url, std::string const& database)
    : fixture(mysql::source(with_database(server_url, database)), {}),
      url_(with_database(server_url, database)),
      database_(database) {
  auto const deadline = boot_clock::now() + 10s;
  mysql::source(server_url)
      .implementation()
      ->connect(deadline)
      ->script("CREATE DATABASE " + database, deadline);
  migrate();
}

mysql_like_fixture::~mysql_like_fixture() {
  try {
    sql("SET SESSION lock_wait_timeout = 10; DROP DATABASE IF EXISTS " + database_);
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
