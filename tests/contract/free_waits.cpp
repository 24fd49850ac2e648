// basic_mutex::wait_until_free_for().
#include <thread>

#include "contract/fixture.hpp"

using namespace rowlock;
using namespace rowlock::test;

EVERY_CASE("wait_until_free_for: of what nobody holds there is nothing to wait for, and it is not taken") {
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  CHECK(x.wait_until_free_for(60s));
  { auto const held = x.acquire(); }
  CHECK(x.wait_until_free_for(0s));
  CHECK(x.try_acquire());
}

EVERY_CASE("wait_until_free_for: waits for the release, and takes nothing") {
  auto const m = f.manager();
  lock_manager other(f.source, f.options);
  auto x = m->make_mutex("x");
  auto theirs = other.make_mutex("x");
  auto held = theirs.acquire();
  CHECK_FALSE(x.wait_until_free_for(0s));
  CHECK_FALSE(x.wait_until_free_for(50ms));
  std::jthread ends([&] {
    std::this_thread::sleep_for(100ms);
    CHECK(held->release() == release_result::released);
  });
  CHECK(x.wait_until_free_for(60s));
  ends.join();  // in this process the name is free when the release has its reply
  CHECK(theirs.try_acquire());
}

EVERY_CASE("wait_until_free_for: a stop token ends it, and so does the manager's end") {
  stranger other(f);
  REQUIRE(other.take("x"));
  auto m = f.manager();
  auto x = m->make_mutex("x");
  std::stop_source stop;
  bool by_token = false;
  SUBCASE("stopped") { by_token = true; }
  SUBCASE("closed") { by_token = false; }
  int const before = f.probe->executed_in_all();
  std::jthread const ends([&] {
    CHECK(eventually([&] { return f.probe->executed_in_all() > before; }));  // the call has begun
    if (by_token)
      stop.request_stop();
    else
      m.reset();
  });
  CHECK_FALSE(x.wait_until_free_for(60s, stop.get_token()));
}

CONTRACT_CASE("wait_until_free_for: a dead holder's lock is free when its term is over, not a poll later") {
  stranger dead(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  REQUIRE(dead.take("x", 1s));
  auto const start = boot_clock::now();
  CHECK(x.wait_until_free_for(60s));
  CHECK(boot_clock::now() - start < 30s);
  f.probe->reset();
  CHECK(x.wait_until_free_for(60s));
  CHECK(f.probe->executed("lock_read") == 1);
}

EVERY_CASE("wait_until_free_for: an outage is ridden out until the time is over") {
  std::atomic<int> failures{3};
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  (void)x.try_acquire();
  f.probe->before = [&](std::string const&) {
    if (failures-- > 0) throw error(errc::unreachable, "away by the test");
  };
  CHECK(x.wait_until_free_for(60s));
  failures = 1'000'000;
  CHECK_THROWS_AS((void)x.wait_until_free_for(50ms), error);
}
