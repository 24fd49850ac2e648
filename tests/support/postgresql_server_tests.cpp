// The tests' own server must do what the tests of outages think it does.
#include <doctest/doctest.h>
#include <libpq-fe.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>

#include "support/postgresql_server.hpp"

namespace rowlock::test {
namespace {

struct end_connection {
  void operator()(PGconn* c) const noexcept { PQfinish(c); }
};
using connection = std::unique_ptr<PGconn, end_connection>;

connection connect(std::string const& conninfo) {
  return connection{PQconnectdb((conninfo + " connect_timeout=2").c_str())};
}

std::string ask(connection const& c, char const* sql) {
  std::unique_ptr<PGresult, void (*)(PGresult*)> const result{PQexec(c.get(), sql), PQclear};
  if (PQresultStatus(result.get()) != PGRES_TUPLES_OK) return PQerrorMessage(c.get());
  return PQgetvalue(result.get(), 0, 0);
}

TEST_CASE("a killed server <postgresql> is gone at once and comes back at the same port") {
  postgresql_server server{{.max_connections = 23}};
  auto const before = connect(server.conninfo());
  REQUIRE(PQstatus(before.get()) == CONNECTION_OK);
  CHECK(ask(before, "SHOW max_connections") == "23");
  CHECK(ask(before, "SHOW fsync") == "off");
  server.kill();
  CHECK(PQstatus(connect(server.conninfo()).get()) == CONNECTION_BAD);
  CHECK(ask(before, "SELECT 1") != "1");
  server.restart();
  CHECK(ask(connect(server.conninfo()), "SELECT 1") == "1");
  server.stop();
  CHECK(PQstatus(connect(server.conninfo()).get()) == CONNECTION_BAD);
  server.restart();
  CHECK(ask(connect(server.conninfo()), "SHOW max_connections") == "23");
}

TEST_CASE("a paused server <postgresql> answers nobody until it is resumed") {
  postgresql_server server{{.durable = true}};
  auto const before = connect(server.conninfo());
  CHECK(ask(before, "SHOW fsync") == "on");
  server.pause();
  REQUIRE(PQsendQuery(before.get(), "SELECT 1") == 1);
  CHECK(PQstatus(connect(server.conninfo()).get()) == CONNECTION_BAD);
  REQUIRE(PQconsumeInput(before.get()) == 1);
  CHECK(PQisBusy(before.get()) == 1);
  server.resume();
  std::unique_ptr<PGresult, void (*)(PGresult*)> const result{PQgetResult(before.get()), PQclear};
  CHECK(PQresultStatus(result.get()) == PGRES_TUPLES_OK);
  CHECK(ask(connect(server.conninfo()), "SELECT 1") == "1");
}

TEST_CASE("the clock of a server <postgresql> can be moved while it runs") {
  postgresql_server server{{.movable_clock = true}};
  auto const c = connect(server.conninfo());
  auto seconds_off = [&] {
    auto const now = std::chrono::system_clock::now().time_since_epoch();
    return std::stod(ask(c, "SELECT extract(epoch FROM clock_timestamp())")) -
           std::chrono::duration<double>(now).count();
  };
  CHECK(std::abs(seconds_off()) < 5);
  server.set_clock(std::chrono::hours{-1});
  CHECK(std::abs(seconds_off() + 3600) < 5);
  server.set_clock(std::chrono::seconds{300});
  CHECK(std::abs(seconds_off() - 300) < 5);
  server.kill();
  server.restart();
  auto const again = connect(server.conninfo());
  CHECK(ask(again, "SELECT clock_timestamp() > now() - interval '1 s'") == "t");
}

TEST_CASE("a wrong password <postgresql> is refused") {
  postgresql_server server;
  auto const refused = connect(server.conninfo() + " password=wrong");
  CHECK(PQstatus(refused.get()) == CONNECTION_BAD);
  CHECK(std::string{PQerrorMessage(refused.get())}.find("authentication failed") != std::string::npos);
}

}  // namespace
}  // namespace rowlock::test
