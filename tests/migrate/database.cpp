#include "database.hpp"

#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <regex>
#include <rowlock/mysql.hpp>
#include <rowlock/postgresql.hpp>
#include <rowlock/sqlite.hpp>
#include <sstream>

#include "strategy/quarantine.hpp"
#include "support/changed_sql.hpp"
#include "support/source_path.hpp"

namespace rowlock::test {

using namespace std::chrono_literals;

std::int64_t number(database const& db, std::string const& sql) {
  return backend::as_int(db.query(sql).at(0).at(0));
}

std::vector<backend::value> take_parameters(std::string const& name) {
  backend::value const none = nullptr;
  return {name,
          "lease",
          "t" + name,
          "host",
          std::int64_t{1},
          "process",
          std::int64_t{1},
          std::int64_t{30000},
          "clock",
          none,
          "note",
          std::int64_t{1},
          none,
          none,
          std::int64_t{0}};
}

void settle_for_takes(backend::connection& c, backend::statement_book const& book) {
  REQUIRE(strategies::settle_quarantine(c, book, 30s, soon()).left == 0ms);
}

boot_time_point soon() { return boot_clock::now() + 60s; }

std::string read_source_file(std::string const& path) {
  std::ifstream in(source_path(path));
  REQUIRE_MESSAGE(in.good(), path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string for_the_server(std::string const& sql) {
  return std::regex_replace(sql, std::regex("\nDELIMITER [^\n]*|\n[$][$](?=\n)"), "");
}

std::unique_ptr<backend::connection> database::connect() const {
  auto c = source_->implementation()->connect(soon());
  look_there(*c);
  return c;
}

void postgresql_database::look_there(backend::connection& c) const {
  c.script("SET search_path = " + schema_, soon());
}

std::vector<backend::row> database::query(std::string const& sql) const {
  return connect()->execute({"test_query", sql}, {}, soon()).rows;
}

void database::script(std::string const& sql) const { connect()->script(sql, soon()); }

void database::apply_raw(int version, std::string const& direction) const {
  for (auto const& m : source_->implementation()->sql().migrations)
    if (m.version == version)
      return script(version == toy_version
                        ? std::string(direction == "up" ? m.up : m.down)
                        : read_source_file(fmt::format("migrations/{}/{:03}_{}.{}.sql", kind(), version,
                                                       m.name, direction)));
  FAIL("no such migration");
}

void database::hold(std::string const& name, bool expired) const {
  script(
      fmt::format("INSERT INTO rowlock_locks (name, strategy, term, token, expires_at) VALUES ('{}', "
                  "'lease', 'x', 1, {})",
                  name, in_seconds(expired ? -1 : 60)));
}

sqlite_database::sqlite_database() {
  address_ = folder_.file("locks.db");
  source_ =
      std::make_unique<connection_source>(with_toy(as_the_environment_has_it(sqlite::source(address_))));
}

std::string sqlite_database::in_seconds(int seconds) const {
  return fmt::format("cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + {}", seconds * 1000);
}

postgresql_database::postgresql_database() : schema_(unique_identifier()) {
  postgresql::source(postgresql_conninfo())
      .implementation()
      ->connect(soon())
      ->script(fmt::format("CREATE SCHEMA {}", schema_), soon());
  address_ = fmt::format("{} options='-c search_path={}'", postgresql_conninfo(), schema_);
  source_ =
      std::make_unique<connection_source>(with_toy(as_the_environment_has_it(postgresql::source(address_))));
}

postgresql_database::~postgresql_database() {
  script(fmt::format("SET lock_timeout = '50s'; DROP SCHEMA {} CASCADE", schema_));
}

std::string postgresql_database::in_seconds(int seconds) const {
  return fmt::format("clock_timestamp() + {} * interval '1 second'", seconds);
}

mysql_like_database::mysql_like_database(std::string const& server) : name_(unique_identifier()) {
  mysql::source(server).implementation()->connect(soon())->script("CREATE DATABASE " + name_, soon());
  address_ = with_database(server, name_);
  source_ = std::make_unique<connection_source>(with_toy(as_the_environment_has_it(mysql::source(address_))));
}

mysql_like_database::~mysql_like_database() {
  script(fmt::format("SET SESSION lock_wait_timeout = 50; DROP DATABASE {}", name_));
}

std::string mysql_like_database::in_seconds(int seconds) const {
  return fmt::format("utc_timestamp(6) + INTERVAL {} SECOND", seconds);
}

}  // namespace rowlock::test
