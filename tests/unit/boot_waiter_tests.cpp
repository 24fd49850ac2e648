#include "base/boot_waiter.hpp"

#include <doctest/doctest.h>

#include <thread>

#include "base/boot_lead.hpp"

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

TEST_CASE("a boot_waiter wakes when a test has the clock go ahead, and its moment comes sooner by that") {
  base::boot_clock_may_lead();
  base::boot_waiter w;
  auto const moment = boot_clock::now() + 2h;
  std::jthread const ahead([] {
    base::boot_clock_leads_by(1h);
    base::boot_clock_leads_by(1h);
  });
  while (boot_clock::now() < moment) w.wait_until(moment);
  CHECK(boot_clock::now() >= moment);
  w.wait_until(boot_time_point::min());
  w.wait_until(boot_clock::now() + 1ms);
}
