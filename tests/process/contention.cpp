// Everybody at once on one name, for two seconds; tests/load/contention.cpp says who they are, and runs for
// longer by hand.
#include "contract/fixture.hpp"
#include "support/child_process.hpp"

using namespace rowlock;
using namespace rowlock::test;

EVERY_CASE(
    "T6: contenders, reapers, an operator and the dying: one at a time, rising tokens, no error for "
    "anybody") {
  child_process all({ROWLOCK_CONTENTION, f.url(), to_string(pair.strategy), "3", "8", f.options.schema});
  auto const good = all.read_until("\"verdict\":\"good\"");
  INFO(all.output());
  CHECK(good);
  CHECK(all.finish() == 0);
}
