// What an operator does to the sessions of clients, and to their rights.
#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <random>
#include <rowlock/rowlock.hpp>
#include <set>
#include <string>
#include <system_error>

#include "by_hand.hpp"
#include "run.hpp"
#include "sockets.hpp"
#include "sql_session.hpp"
#include "support/support.hpp"
#include "torture/own_database.hpp"

namespace rowlock::torture {
namespace {

using namespace std::chrono_literals;

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

/// What is at the same port of another machine, behind a pooler or a translated address, has most often
/// another database.
std::string in_another_database(std::string const& db) {
  return is_mysql(db) ? test::with_database(db, "information_schema") : db + " dbname=template1";
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
  auto const now = ports_of({::getpid()});
  auto const others = connect(in_another_database(db));
  end_sessions(db, news(now), random);
  CHECK(lives(*others));
}

std::error_code said_by(std::function<void()> const& call) try {
  call();
  return {};
} catch (error const& e) {
  return e.code();
}

void refuses_writes_meanwhile(std::string const& db, std::string const& as_client) {
  manager_options mo;
  mo.table_prefix = "torture_";
  lock_manager m(source_from_url(as_client), mo);
  auto lease = m.make_mutex("lease");
  auto row = m.make_mutex("row", {.strategy = strategy::unique_insert});
  auto permit = m.make_semaphore("permit", 2);
  auto held = m.make_mutex("held", {.ttl = 60s}).acquire();
  let_clients_write(db, false);
  for (auto const& call : {std::function<void()>([&] { (void)lease.try_acquire(); }),
                           std::function<void()>([&] { (void)row.try_acquire(); }),
                           std::function<void()>([&] { (void)permit.try_acquire(); }),
                           std::function<void()>([&] { (void)held->extend(90s); })})
    CHECK(said_by(call) == errc::access_denied);
  CHECK(held->valid());
  let_clients_write(db, true);
  CHECK(lease.try_acquire());
  CHECK(row.try_acquire());
  CHECK(permit.try_acquire());
  CHECK(held->extend(90s));
  CHECK(held->release() == release_result::released);
}

void takes_rights_on(std::string const& server) {
  test::own_database const d(server);
  migrator(source_from_url(d.address()), {.table_prefix = "torture_"}).up();
  refuses_writes_meanwhile(d.address(), make_client_role(d.address(), false));
  drop_client_role(d.address());
}

verdict tortures_with(std::string const& nemesis) {
  test::own_database const d(test::postgresql_conninfo());
  test::scratch_folder const folder;
  auto const histories = std::filesystem::path(folder.file("histories"));
  std::filesystem::create_directory(histories);
  options o;
  o.db = d.address();
  o.client_role = true;
  o.what = workload::guarded_set;
  o.ttl = 1s;
  o.duration = 10s;
  o.nemeses = {nemesis};
  o.seed = 1;
  auto v = torture(o, histories, [](std::string const&) {});
  for (auto const& each : v.violations) FAIL_CHECK(each.rule, ": ", each.text);
  return v;
}

/// Tables that a migration makes anew have no rights on PostgreSQL: clients would get none until the end.
void goes_on_after_migrations() {
  auto const v = tortures_with("operator");
  CHECK(v.deeds > 1);
  CHECK(v.acquisitions > 20);
  CHECK(v.outages < v.acquisitions);
}

/// Nobody is blamed for it.
void tortures_with_rights_taken() {
  auto const v = tortures_with("rights");
  CHECK(v.faults > 0);
  CHECK(v.errors > 0);
  CHECK(v.acquisitions > 20);
  CHECK(v.added > 10);
}

/// The same address, but of a host before it nobody is there.
std::string behind_nobody(std::string url) { return url.insert(url.find('@') + 1, "127.0.0.1:1,"); }

}  // namespace

TEST_CASE("operator: of an address with several hosts the first one that answers is taken") {
  CHECK(lives(*connect(behind_nobody(test::mariadb_url()))));
  CHECK(lives(*connect(behind_nobody(test::mysql_url()))));
  CHECK_THROWS_AS(connect("mysql://nobody@127.0.0.1:1,127.0.0.1:2/nothing"), soci::soci_error);
}

TEST_CASE("operator: sessions at some ports of this machine are ended, and no others") {
  REQUIRE(has_soci());
  SUBCASE("PostgreSQL") { ends_only_these(test::postgresql_conninfo()); }
  SUBCASE("MariaDB") { ends_only_these(test::mariadb_url()); }
  SUBCASE("MySQL") { ends_only_these(test::mysql_url()); }
}

// One case, because the role has one name on a server; and first the one that forks.
TEST_CASE("operator: clients that may not write are refused for that long, and then go on") {
  REQUIRE(has_soci());
  SUBCASE("PostgreSQL, tortured") { tortures_with_rights_taken(); }
  SUBCASE("PostgreSQL, migrated meanwhile") { goes_on_after_migrations(); }
  SUBCASE("PostgreSQL") { takes_rights_on(test::postgresql_conninfo()); }
  SUBCASE("MariaDB") { takes_rights_on(test::mariadb_url()); }
  SUBCASE("MySQL") { takes_rights_on(test::mysql_url()); }
}

}  // namespace rowlock::torture
