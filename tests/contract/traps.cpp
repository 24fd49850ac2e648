// Traps of other people's locks that no other file is about.

#include "base/event.hpp"
#include "contract/fixture.hpp"
#include "contract/reaping.hpp"
#include "contract/stranger.hpp"
#include "support/eventually.hpp"

using namespace rowlock;
using namespace rowlock::test;

CONTRACT_CASE("K5: a renewal that is under way while the lock is given back does not bring it back") {
  stranger other(f);
  base::event renews, given_back;
  auto const m = f.manager();
  f.probe->before = [&](std::string const& s) {
    if (s != "lock_renew") return;
    renews.set();
    (void)base::wait_for(given_back, boot_clock::now() + 60s);
  };
  auto lock = m->make_mutex("x", {.ttl = 9s}).acquire();
  REQUIRE(lock);
  REQUIRE(base::wait_for(renews, boot_clock::now() + 60s));
  CHECK(lock->release() == release_result::released);
  CHECK(other.sees_free("x"));
  auto const later = m->make_mutex("y", {.ttl = 6s}).acquire();
  auto const so_far = f.probe->executed("lock_renew");
  given_back.set();
  // Renewals come one after the other: this one is over when the next one begins.
  REQUIRE(eventually([&] { return f.probe->executed("lock_renew") >= so_far + 2; }));
  CHECK(other.sees_free("x"));
  CHECK(other.take("x"));
}

CONTRACT_CASE(
    "P4: renewals that failed for a while, then the reaper, then two releases: the next owner keeps it") {
  stranger other(f);
  auto const m = f.manager();
  f.probe->before = [](std::string const& s) {
    if (s == "lock_renew") throw error(errc::unreachable, "away by the test");
  };
  auto lock = m->make_mutex("x", {.ttl = 3s}).acquire();
  REQUIRE(lock);
  REQUIRE(eventually([&] { return lock->loss_token().stop_requested(); }));
  expire(f, 3 * hour, "name = 'x'");
  (void)reap_once(f, {.idle = 1h});
  REQUIRE(other.take("x"));
  CHECK(lock->release() == release_result::already_lost);
  { auto const ends = std::move(*lock); }
  CHECK(other.has_still("x"));
}

constexpr bool leases_on_postgresql(running_pair const& p) {
  return leases(p) && p.engine == dialect::postgresql;
}

// INSERT ... ON CONFLICT DO UPDATE ... WHERE locks the row that it does not change: xmax, and a flush.
PAIRS_CASE("B31: a take that is refused leaves nothing in the row", leases_on_postgresql) {
  stranger other(f);
  REQUIRE(other.take("x"));
  auto const marks = [&] {
    return number(f, "SELECT xmax::text::bigint + xmin::text::bigint FROM rowlock_locks WHERE name = 'x'");
  };
  auto const before = marks();
  auto const m = f.manager();
  for (int i = 0; i < 3; ++i) CHECK_FALSE(m->make_mutex("x").try_acquire());
  CHECK(f.probe->executed("lock_take") >= 1);
  CHECK(marks() == before);
}
