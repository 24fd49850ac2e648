#include <doctest/doctest.h>

#include "support/child_process.hpp"
#include "support/support.hpp"

using namespace rowlock::test;

TEST_CASE("a program with the SQLite back end has no libpq: lease on sqlite") {
  scratch_folder folder;
  child_process program({ROWLOCK_ONLY_SQLITE, folder.file("locks.db")});
  CHECK(program.finish() == 0);
  CHECK(program.output().find("libsqlite3") != std::string::npos);
  CHECK(program.output().find("libpq") == std::string::npos);
}

TEST_CASE("a program with the PostgreSQL back end has no libsqlite3: lease on postgresql") {
  child_process program({ROWLOCK_ONLY_POSTGRESQL, "dbname=nowhere"});
  CHECK(program.finish() == 0);
  CHECK(program.output().find("libpq") != std::string::npos);
  CHECK(program.output().find("libsqlite3") == std::string::npos);
}

TEST_CASE("a program with the back end for MySQL and MariaDB has no other's driver: lease on mariadb") {
  child_process program({ROWLOCK_ONLY_MYSQL, "mysql://u@nowhere/nothing"});
  CHECK(program.finish() == 0);
  CHECK(program.output().find("libmysqlcppconn") != std::string::npos);
  CHECK(program.output().find("libpq") == std::string::npos);
  CHECK(program.output().find("libsqlite3") == std::string::npos);
}

TEST_CASE("a program of core alone that asks for a URL is told which component it lacks") {
  child_process program({ROWLOCK_NO_URL});
  CHECK(program.finish() == 0);
  CHECK(program.output().find("link rowlock::rowlock") != std::string::npos);
}

#ifdef ROWLOCK_ONLY_SOCI
TEST_CASE("a program with SOCI's pool on SQLite has no other back end of SOCI's") {
  scratch_folder folder;
  child_process program({ROWLOCK_ONLY_SOCI, folder.file("locks.db")});
  CHECK(program.finish() == 0);
  CHECK(program.output().find("libsoci_sqlite3") != std::string::npos);
  CHECK(program.output().find("libsoci_postgresql") == std::string::npos);
  CHECK(program.output().find("libsoci_mysql") == std::string::npos);
}
#endif
