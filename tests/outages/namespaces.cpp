// What needs a namespace of its own: dropped packets (dropped.cpp), full disks (full.cpp), and names of hosts
// (names.cpp). Root may have
// one, others in a user namespace.
#include <unistd.h>

#include <sstream>

#include "contract/fixture.hpp"
#include "support/child_process.hpp"

using namespace rowlock::test;

namespace {

void check_program(std::vector<std::string> const& space, char const* program, char const* backend) {
  std::vector<std::string> command{"/usr/bin/env", "unshare"};
  command.insert(command.end(), space.begin(), space.end());
  if (::geteuid() != 0) command.insert(command.end(), {"--user", "--map-current-user", "--keep-caps"});
  command.insert(command.end(), {program, backend});
  child_process child(command);
  CHECK(child.finish() == 0);
  CAPTURE(child.output());
  CHECK(child.output().find("BAD") == std::string::npos);
  std::istringstream lines(child.output());
  for (std::string line; std::getline(lines, line);) MESSAGE(line);
}

}  // namespace

TEST_CASE_TEMPLATE("packets are dropped without a word: calls end in time, and go on afterwards", Server,
                   postgresql_fixture, mariadb_fixture, mysql_fixture) {
  check_program({"--net"}, ROWLOCK_DROPPED, Server::backend);
}

TEST_CASE_TEMPLATE("a full disk: new names are refused, leases stay, and all goes on once there is room",
                   Database, sqlite_fixture, postgresql_fixture, mariadb_fixture, mysql_fixture) {
  check_program({"--mount", "--propagation", "unchanged"}, ROWLOCK_FULL, Database::backend);
}

TEST_CASE("C64: on a disk that SQLite's WAL fills, it is emptied, and what was refused is done <sqlite>") {
  check_program({"--mount", "--propagation", "unchanged"}, ROWLOCK_FULL, "small");
}

TEST_CASE_TEMPLATE("C68, C69: names with silent addresses, and a silent resolver: calls end in time", Server,
                   postgresql_fixture, mariadb_fixture, mysql_fixture) {
  check_program({"--net", "--mount", "--propagation", "unchanged"}, ROWLOCK_NAMES, Server::backend);
}
