#include "base/event.hpp"

#include <doctest/doctest.h>

#include <thread>

using namespace rowlock;

// ThreadSanitizer is the judge here, too: a poll(2) by itself tells it, and C++, of no order.
TEST_CASE("who has waited for an event sees what was written before it was set") {
  int seen = 0;
  for (int i = 0; i < 20; ++i) {
    int written = 0;
    base::event const done;
    std::jthread const writer([&] {
      written = 1;
      done.set();
    });
    CHECK(base::wait_for(done, boot_time_point::max()));
    seen += written;
  }
  CHECK(seen == 20);
}

TEST_CASE("an event that is not set is waited for until the deadline") {
  using namespace std::chrono_literals;
  base::event const never;
  auto const until = boot_clock::now() + 20ms;
  CHECK_FALSE(base::wait_for(never, until));
  CHECK(boot_clock::now() >= until);
}
