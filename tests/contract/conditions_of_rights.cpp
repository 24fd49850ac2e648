// permit_take where row-level security may hide permits from whoever takes: policies that let rows be put
// there, and hide some.
#include <string>

#include "contract/conditions.hpp"

using namespace rowlock;
using namespace rowlock::test;

// The server refuses no INSERT where one policy lets it be, and another one hides what is to be counted.
PAIRS_CASE("permit_take: a policy that hides nothing must be for this role, and for all that is done [C34]",
           leases_of_postgresql) {
  ordinary_role const role(f);
  put_name(f, "x", "semaphore");
  f.sql(permit_of_somebody(f, 10, 10, strategy::semaphore));
  permit_taker taker(f, strategy::semaphore);
  taker.session().script("SET ROLE " + role.name, statements::soon());
  auto const takes = [&] {
    try {
      return taker.take(permit_taker::of(1, 10));
    } catch (error const& e) {
      CHECK(e.reason() == errc::access_denied);
      return false;
    }
  };
  auto const policy = [&](std::string const& name, std::string const& what) {
    f.sql("CREATE POLICY " + name + " ON rowlock_permits " + what);
  };
  f.sql("ALTER TABLE rowlock_permits ENABLE ROW LEVEL SECURITY");
  policy("mine", "FOR SELECT USING (term <> 'theirs')");
  policy("anything", "FOR INSERT WITH CHECK (true)");
  CHECK_FALSE(takes());
  policy("of_deletion", "FOR DELETE USING (true)");
  CHECK_FALSE(takes());
  policy("of_others", "TO pg_monitor USING (true)");
  CHECK_FALSE(takes());
  CHECK(permits_there(f) == 1);
  // Where nothing is hidden, all are counted.
  policy("of_all", "USING (true)");
  CHECK_FALSE(takes());
  f.sql("DELETE FROM rowlock_permits");
  CHECK(takes());
}
