// What an operator does to the sessions of clients.
#include <doctest/doctest.h>
#include <unistd.h>

#include <random>
#include <set>
#include <string>

#include "by_hand.hpp"
#include "sockets.hpp"
#include "sql_session.hpp"
#include "support/support.hpp"

namespace rowlock::torture {
namespace {

bool lives(soci::session& s) try {
  int one = 0;
  s << "SELECT 1", soci::into(one);
  return one == 1;
} catch (soci::soci_error const&) {
  return false;
}

/// The port of the only TCP connection that is new since.
std::set<int> news(std::set<int> const& before) {
  std::set<int> ports;
  for (auto const port : ports_of({::getpid()}))
    if (!before.contains(port)) ports.insert(port);
  return ports;
}

void ends_only_these(std::string const& db) {
  std::mt19937 random(1);
  auto const stays = connect(db);
  auto const before = ports_of({::getpid()});
  REQUIRE(!before.empty());
  auto const goes = connect(db);
  auto const its = news(before);
  REQUIRE(its.size() == 1);
  end_sessions(db, {}, random);
  CHECK(lives(*goes));
  end_sessions(db, its, random);
  CHECK(!lives(*goes));
  CHECK(lives(*stays));
}

}  // namespace

TEST_CASE("operator: sessions at some ports of this machine are ended, and no others") {
  REQUIRE(has_soci());
  SUBCASE("PostgreSQL") { ends_only_these(test::postgresql_conninfo()); }
  SUBCASE("MariaDB") { ends_only_these(test::mariadb_url()); }
  SUBCASE("MySQL") { ends_only_these(test::mysql_url()); }
}

}  // namespace rowlock::torture
