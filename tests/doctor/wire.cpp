// Between the two ends: clocks, keepalives, encryption.
#include <fmt/format.h>
#include <unistd.h>

#include <sstream>

#include "doctor/scene.hpp"
#include "support/child_process.hpp"

extern "C" int PQlibVersion(void);

using namespace rowlock;
using namespace rowlock::test;

TEST_CASE_TEMPLATE("clock: a server whose clock is ahead, or behind", Server, on_postgresql, on_mariadb,
                   on_mysql) {
  server_scene s(Server::kind, {.durable = true, .movable_clock = true});
  // By the time that the question took, which a busy machine may make longer.
  CHECK(
      eventually([&] { return found(s.examine(), "clock").why.find("to within 0.") != std::string::npos; }));
  expect(s.examine(), "clock", verdict::ok, "to within ");
  auto const says = [&](std::string const& which) {
    // The server reads where its clock is to be when it likes.
    CHECK(eventually([&] {
      auto const all = s.examine();
      auto const& f = found(all, "clock");
      return f.result == verdict::warning && f.why.find(which) != std::string::npos;
    }));
    expect(s.examine(), "clock", verdict::warning, "the database's clock is 9", "NTP");
  };
  s.server.set_clock(95s);
  says("s ahead of this machine's");
  s.server.set_clock(-95s);
  says("s behind this machine's");
}

TEST_CASE("keepalive: switched off, and too slow for the ttl <postgresql>") {
  postgresql_fixture f;
  auto const with = [&](std::string const& more, doctor_options o = {}) {
    return examined(postgresql_conninfo() + more, std::move(o));
  };
  expect(with(""), "keepalive", verdict::ok, "after 11 s");
  expect(with(" keepalives=0"), "keepalive", verdict::warning, "keepalives are off", "Leave out keepalives");
  expect(with(" keepalives_idle=60"), "keepalive", verdict::warning, "after 66 s, later than the ttl",
         "Leave out keepalives");
  expect(with(" keepalives_idle=60", {.ttl = 70s}), "keepalive", verdict::ok, "after 66 s");
  expect(with("", {.ttl = 10s}), "keepalive", verdict::warning, "after 11 s, later than the ttl",
         "Leave out keepalives");
}

TEST_CASE("tls: encrypted <postgresql>") {
  server_scene const s(server_kind::postgresql, {.durable = true, .tls = true});
  expect(s.examine(), "tls", verdict::ok, "encrypted, TLSv1.");
  expect(examined(s.as_app() + " sslmode=disable"), "tls", verdict::ok, "need not be");
}

TEST_CASE_TEMPLATE("tls: encrypted", Server, on_mariadb, on_mysql) {
  server_scene const s(Server::kind, {.durable = true, .tls = Server::kind == server_kind::mariadb});
  expect(examined(s.as_app() + "?ssl-mode=require"), "tls", verdict::ok, "encrypted, TLSv1.");
  expect(s.examine(), "tls", verdict::ok, "need not be");
}

namespace {

/// What is said of the way to a server of this kind, from another address than this machine's own.
std::string said_abroad(std::string const& kind) {
  std::vector<std::string> command{"/usr/bin/env", "unshare", "--net"};
  if (::geteuid() != 0) command.insert(command.end(), {"--user", "--map-current-user", "--keep-caps"});
  command.insert(command.end(), {ROWLOCK_ABROAD, kind});
  child_process child(command);
  CHECK(child.finish() == 0);
  return child.output();
}

}  // namespace

TEST_CASE_TEMPLATE("tls: not encrypted, from another address than this machine's own", Server, on_postgresql,
                   on_mariadb, on_mysql) {
  bool const postgresql = Server::kind == server_kind::postgresql;
  auto const said = said_abroad(postgresql                             ? "postgresql"
                                : Server::kind == server_kind::mariadb ? "mariadb"
                                                                       : "mysql");
  CAPTURE(said);
  CHECK(said.find("warning: not encrypted") != std::string::npos);
  CHECK(said.find(postgresql ? "sslmode=verify-full" : "ssl-mode=verify") != std::string::npos);
}

TEST_CASE("C13: tls: encrypted, but libpq 15 gives the password to a server that has not proved its name") {
  auto const said = said_abroad("postgresql-tls");
  CAPTURE(said);
  bool const warned =
      said.find("need not prove its name, and libpq 15 sends it the password") != std::string::npos;
  CHECK(warned == (PQlibVersion() < 160000));
  CHECK(said.find(warned ? "sslmode=verify-full" : "ok: encrypted") != std::string::npos);
}
