// What tools/demo-failover shows.
#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "support/child_process.hpp"
#include "support/support.hpp"

namespace rowlock::test {

TEST_CASE("a failover forgets a lock: two own it without the pause, one at a time with it <postgresql>") {
  scratch_folder const folder;
  auto const picture = folder.file("failover.svg");
  int status = -1;
  // For longer if the machine is too busy for what is to be seen.
  for (auto const* lease : {"6", "30"}) {
    child_process demo({ROWLOCK_DEMO_FAILOVER, picture, lease});
    status = demo.finish();
    INFO(demo.output());
    REQUIRE(status <= 1);
    if (status == 0) break;
  }
  CHECK(status == 0);
  std::string start;
  std::ifstream file(picture);
  std::getline(file, start);
  CHECK(start.starts_with("<svg "));
}

}  // namespace rowlock::test
