// The tests' own servers must do what the tests of outages think it does.
#include <doctest/doctest.h>
#include <libpq-fe.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <regex>
#include <string>

#include "support/child_process.hpp"
#include "support/database_server.hpp"

namespace rowlock::test {

struct mariadb {
  static constexpr auto kind = server_kind::mariadb;
  static std::string shared_url() { return mariadb_url(); }
};
struct mysql {
  static constexpr auto kind = server_kind::mysql;
  static std::string shared_url() { return mysql_url(); }
};

}  // namespace rowlock::test

TYPE_TO_STRING_AS("mariadb", rowlock::test::mariadb);
TYPE_TO_STRING_AS("mysql", rowlock::test::mysql);

namespace rowlock::test {
namespace {

struct end_connection {
  void operator()(PGconn* c) const noexcept { PQfinish(c); }
};
using connection = std::unique_ptr<PGconn, end_connection>;

connection connect(std::string const& conninfo, int patience = 60) {
  return connection{PQconnectdb((conninfo + " connect_timeout=" + std::to_string(patience)).c_str())};
}

std::string ask(connection const& c, char const* sql) {
  std::unique_ptr<PGresult, void (*)(PGresult*)> const result{PQexec(c.get(), sql), PQclear};
  if (PQresultStatus(result.get()) != PGRES_TUPLES_OK) return PQerrorMessage(c.get());
  return PQgetvalue(result.get(), 0, 0);
}

TEST_CASE("a killed server <postgresql> is gone at once and comes back at the same port") {
  database_server server{server_kind::postgresql, {.max_connections = 23}};
  auto const before = connect(server.address());
  REQUIRE(PQstatus(before.get()) == CONNECTION_OK);
  CHECK(ask(before, "SHOW max_connections") == "23");
  CHECK(ask(before, "SHOW fsync") == "off");
  server.kill();
  CHECK(PQstatus(connect(server.address()).get()) == CONNECTION_BAD);
  CHECK(ask(before, "SELECT 1") != "1");
  server.restart();
  CHECK(ask(connect(server.address()), "SELECT 1") == "1");
  server.stop();
  CHECK(PQstatus(connect(server.address()).get()) == CONNECTION_BAD);
  server.restart();
  CHECK(ask(connect(server.address()), "SHOW max_connections") == "23");
}

TEST_CASE("a paused server <postgresql> answers nobody until it is resumed") {
  database_server server{server_kind::postgresql, {.durable = true}};
  auto const before = connect(server.address());
  CHECK(ask(before, "SHOW fsync") == "on");
  server.pause();
  REQUIRE(PQsendQuery(before.get(), "SELECT 1") == 1);
  CHECK(PQstatus(connect(server.address(), 2).get()) == CONNECTION_BAD);
  REQUIRE(PQconsumeInput(before.get()) == 1);
  CHECK(PQisBusy(before.get()) == 1);
  server.resume();
  std::unique_ptr<PGresult, void (*)(PGresult*)> const result{PQgetResult(before.get()), PQclear};
  CHECK(PQresultStatus(result.get()) == PGRES_TUPLES_OK);
  CHECK(ask(connect(server.address()), "SELECT 1") == "1");
}

TEST_CASE("the clock of a server <postgresql> can be moved while it runs") {
  database_server server{server_kind::postgresql, {.movable_clock = true}};
  auto const c = connect(server.address());
  auto seconds_off = [&] {
    auto const now = std::chrono::system_clock::now().time_since_epoch();
    return std::stod(ask(c, "SELECT extract(epoch FROM clock_timestamp())")) -
           std::chrono::duration<double>(now).count();
  };
  CHECK(std::abs(seconds_off()) < 60);
  server.set_clock(std::chrono::hours{-1});
  CHECK(std::abs(seconds_off() + 3600) < 60);
  server.set_clock(std::chrono::seconds{300});
  CHECK(std::abs(seconds_off() - 300) < 60);
  server.kill();
  server.restart();
  auto const again = connect(server.address());
  CHECK(ask(again, "SELECT clock_timestamp() > now() - interval '1 s'") == "t");
}

TEST_CASE("a wrong password <postgresql> is refused") {
  database_server server{server_kind::postgresql};
  auto const refused = connect(server.address() + " password=wrong");
  CHECK(PQstatus(refused.get()) == CONNECTION_BAD);
  CHECK(std::string{PQerrorMessage(refused.get())}.find("authentication failed") != std::string::npos);
}

// MariaDB's own client asks MySQL, too.
child_process client(std::string const& url, std::string const& sql, int patience = 60) {
  static std::regex const parts{"mysql://([^:]+):([^@]+)@([^:]+):([0-9]+)/(.+)"};
  std::smatch m;
  REQUIRE(std::regex_match(url, m, parts));
  return child_process{{"/bin/sh", "-c", "exec mariadb \"$@\" 2>&1", "sh", "--no-defaults", "--protocol=tcp",
                        "--connect-timeout=" + std::to_string(patience), "--batch", "--unbuffered",
                        "--skip-column-names", "--user=" + m.str(1), "--password=" + m.str(2),
                        "--host=" + m.str(3), "--port=" + m.str(4), "--database=" + m.str(5),
                        "--execute=" + sql}};
}

/// The value, or nothing if the server did not answer.
std::string ask(std::string const& url, std::string const& sql, int patience = 60) {
  auto c = client(url, sql, patience);
  return c.finish() == 0 ? c.output().substr(0, c.output().find('\n')) : "";
}

TEST_CASE_TEMPLATE("a killed server is gone at once and comes back at the same port", On, mariadb, mysql) {
  database_server server{On::kind, {.max_connections = 23}};
  CHECK(ask(server.address(), "SELECT @@max_connections") == "23");
  CHECK(ask(server.address(), "SELECT @@innodb_flush_log_at_trx_commit") == "2");
  CHECK(ask(server.address(), "SELECT @@character_set_database") == "utf8mb4");
  CHECK(ask(server.address(), "CREATE TABLE t (a int); INSERT INTO t VALUES (5); SELECT a FROM t") == "5");
  server.kill();
  CHECK(ask(server.address(), "SELECT 1").empty());
  server.restart();
  CHECK(ask(server.address(), "SELECT a FROM t") == "5");
  server.stop();
  CHECK(ask(server.address(), "SELECT 1").empty());
  server.restart();
  CHECK(ask(server.address(), "SELECT @@max_connections") == "23");
  CHECK(server.log().find("ready for connections") != std::string::npos);
}

TEST_CASE_TEMPLATE("a paused server answers nobody until it is resumed", On, mariadb, mysql) {
  database_server server{On::kind, {.durable = true}};
  CHECK(ask(server.address(), "SELECT @@innodb_flush_log_at_trx_commit") == "1");
  auto waits = client(server.address(), "SELECT 'begun'; SELECT SLEEP(5)");
  CHECK(waits.read_until("begun"));
  server.pause();
  CHECK(ask(server.address(), "SELECT 1", 2).empty());
  waits.read_for(std::chrono::milliseconds{6500});
  CHECK(waits.output() == "begun\n");
  server.resume();
  CHECK(waits.finish() == 0);
  CHECK(waits.output() == "begun\n0\n");
  CHECK(ask(server.address(), "SELECT 1") == "1");
}

TEST_CASE_TEMPLATE("the clock of a server can be moved while it runs", On, mariadb, mysql) {
  database_server server{On::kind, {.movable_clock = true}};
  auto seconds_off = [&] {
    auto const now = std::chrono::system_clock::now().time_since_epoch();
    return std::stod("0" + ask(server.address(), "SELECT UNIX_TIMESTAMP(SYSDATE(6))")) -
           std::chrono::duration<double>(now).count();
  };
  CHECK(std::abs(seconds_off()) < 60);
  server.set_clock(std::chrono::hours{-1});
  CHECK(std::abs(seconds_off() + 3600) < 60);
  server.kill();
  server.restart();
  server.set_clock(std::chrono::seconds{300});
  CHECK(std::abs(seconds_off() - 300) < 60);
}

TEST_CASE_TEMPLATE("a wrong password is refused, the account may make accounts", On, mariadb, mysql) {
  auto const url = On::shared_url();
  auto const name = unique_identifier();
  CHECK(ask(url, "SELECT DATABASE()") == "rowlock");
  auto const begin = url.find(':', url.find("//")) + 1;
  CHECK(ask(url.substr(0, begin) + "wrong" + url.substr(url.find('@')), "SELECT 1").empty());
  CHECK(ask(url, "CREATE DATABASE " + name + "; CREATE USER " + name +
                     " IDENTIFIED BY 'x'; GRANT SELECT ON " + name + ".* TO " + name + "; SELECT 7") == "7");
  CHECK(ask("mysql://" + name + ":x" + url.substr(url.find('@'), url.rfind('/') - url.find('@') + 1) + name,
            "SELECT 8") == "8");
  CHECK(ask(url, "DROP USER " + name + "; DROP DATABASE " + name + "; SELECT 9") == "9");
}

TEST_CASE("a cluster of one node <mariadb> comes back after a crash") {
  database_server server{server_kind::mariadb, {.galera = true}};
  auto const size =
      "SELECT variable_value FROM information_schema.global_status WHERE variable_name='wsrep_cluster_size'";
  CHECK(ask(server.address(), "SELECT @@wsrep_on") == "1");
  CHECK(ask(server.address(), size) == "1");
  server.kill();
  server.restart();
  CHECK(ask(server.address(), "SELECT @@wsrep_on") == "1");
  CHECK(ask(server.address(), size) == "1");
}

}  // namespace
}  // namespace rowlock::test
