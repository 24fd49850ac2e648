// Over a pool of SOCI's sessions, whose connections are ours in their places.
#include <rowlock/soci.hpp>

#include "doctor/scene.hpp"
#include "support/soci_pool.hpp"

using namespace rowlock;
using namespace rowlock::test;

TEST_CASE_TEMPLATE("soci: says the same as without it, of every database, and gives its sessions back",
                   Database, sqlite_fixture, postgresql_fixture, mariadb_fixture, mysql_fixture) {
  Database f;
  doctor_options o;
  o.schema = f.options.schema;
  auto const natively = examined(f.source, o);
  auto const pool = make_soci_pool(f.url(), 2);
  auto const all = examined(rowlock::soci::source(*pool), o);
  REQUIRE(all.size() == natively.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO(all[i].check << ": " << all[i].why << " / " << natively[i].why);
    CHECK(all[i].check == natively[i].check);
    CHECK(all[i].result == natively[i].result);
    // A pool's sessions are the program's: none is kept for waiting.
    if (all[i].check == "connection" || all[i].check == "clock" || all[i].check == "waiting") continue;
    CHECK(all[i].why == natively[i].why);
  }
  CHECK(has_all_sessions(*pool, 2));
}
