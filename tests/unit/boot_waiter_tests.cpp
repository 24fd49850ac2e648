#include "base/boot_waiter.hpp"

#include <doctest/doctest.h>

#include <thread>

using namespace rowlock;
using namespace std::chrono_literals;

TEST_CASE("a boot_waiter sleeps until its moment, which may be past") {
  base::boot_waiter w;
  auto const start = boot_clock::now();
  w.wait_until(start + 50ms);
  CHECK(boot_clock::now() >= start + 50ms);
  w.wait_until(start - 1h);
  w.wait_until(boot_time_point::min());
  CHECK(boot_clock::now() < start + 10s);
}

TEST_CASE("a boot_waiter is woken, also beforehand, and once for several") {
  base::boot_waiter w;
  w.wake();
  w.wake();
  w.wait_until(boot_time_point::max());
  auto const start = boot_clock::now();
  w.wait_until(start + 30ms);
  CHECK(boot_clock::now() >= start + 30ms);
  std::jthread const waker([&] {
    std::this_thread::sleep_for(30ms);  // it waits for so long
    w.wake();
  });
  w.wait_until(boot_time_point::max());
  CHECK(boot_clock::now() >= start + 60ms);
}
