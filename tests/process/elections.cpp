// A leader that is killed, or resigns, a few times; tests/load/elections.cpp says what is looked at, and does
// it as often as one likes by hand.
#include "contract/fixture.hpp"
#include "support/child_process.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

// Bounds for a machine that is busy with other tests.
void run_elections(fixture const& f, std::string const& how, std::string const& ttl_ms,
                   std::string const& allowed_ms) {
  child_process all({ROWLOCK_ELECTIONS, f.url(), how, "4", "4", ttl_ms, allowed_ms, f.options.schema});
  auto const good = all.read_until("\"verdict\":\"good\"");
  INFO(all.output());
  CHECK(good);
  CHECK(all.finish() == 0);
}

}  // namespace

LEASE_CASE("elections: killed leaders: never two within trust, and the next one after the ttl") {
  run_elections(f, "kill", "3000", "20000");
}

LEASE_CASE("elections: leaders that resign: never two at work, and the next one soon") {
  run_elections(f, "resign", "60000", "20000");
}
