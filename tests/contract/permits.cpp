// Locks that several may hold at a time: shared_mutex and semaphore, on every database.
#include <shared_mutex>
#include <thread>

#include "contract/permits.hpp"

using namespace rowlock;
using namespace rowlock::test;

LEASE_CASE("permits: many read at a time, or one writes") {
  auto const m = f.manager();
  other_program other(f);
  auto x = m->make_shared_mutex("x");
  auto reads = x.try_acquire_shared();
  REQUIRE(reads);
  CHECK(other.reads());
  CHECK_FALSE(other.writes());
  other.give_back();
  REQUIRE(reads->release() == release_result::released);
  auto writes = x.try_acquire();
  REQUIRE(writes);
  CHECK(writes->token() > reads->token());
  CHECK_FALSE(other.reads());
  CHECK_FALSE(other.writes());
  REQUIRE(writes->release() == release_result::released);
  CHECK(other.writes());
}

LEASE_CASE("permits: it is a SharedTimedLockable") {
  auto const m = f.manager();
  other_program other(f);
  auto x = m->make_shared_mutex("x");
  {
    std::shared_lock const reads(x);
    CHECK(other.reads());
    CHECK_FALSE(other.writes());
    other.give_back();
  }
  {
    std::scoped_lock const writes(x);
    CHECK_FALSE(other.reads());
  }
  std::shared_lock timed(x, 5s);
  CHECK(timed.owns_lock());
  CHECK(x.current_shared() != nullptr);
  CHECK(x.current() == nullptr);
  timed.unlock();
  CHECK(x.try_lock_shared_until(std::chrono::system_clock::now() + 5s));
  x.unlock_shared();
  CHECK(other.writes());
  CHECK_FALSE(x.try_lock_shared());
  CHECK_FALSE(x.try_lock_shared_for(10ms));
}

LEASE_CASE("permits: as many units as the limit says") {
  auto const m = f.manager();
  other_program other(f);
  auto x = m->make_semaphore("x", 10);
  CHECK(x.available() == 10);
  auto four = x.try_acquire(4);
  REQUIRE(four);
  CHECK(other.has(5, 10));
  CHECK(x.available() == 1);
  auto const two = x.try_acquire(2);
  CHECK_FALSE(two);
  CHECK(two.status() == acquire_status::busy);
  REQUIRE(two.holder());
  auto one = x.try_acquire();
  CHECK(one);
  CHECK_FALSE(x.try_acquire());
  REQUIRE(four->release() == release_result::released);
  CHECK(x.available() == 4);
  auto again = x.try_acquire(4);
  REQUIRE(again);
  CHECK(again->token() > one->token());
  CHECK(reason([&] { (void)x.try_acquire(11); }) == errc::invalid_argument);
  CHECK(reason([&] { (void)x.try_acquire(0); }) == errc::invalid_argument);
  CHECK(reason([&] { (void)m->make_semaphore("x", 0); }) == errc::invalid_argument);
}

LEASE_CASE("permits: each taker obeys the limit that it was told") {
  other_program other(f);
  auto const m = f.manager();
  CHECK(other.has(1, 3));
  CHECK(other.has(1, 3));
  CHECK_FALSE(m->make_semaphore("x", 2).try_acquire());
  CHECK(m->make_semaphore("x", 3).try_acquire());
}

LEASE_CASE("permits: a limit that is set counts for all who name none") {
  other_program other(f);
  auto const m = f.manager();
  auto x = m->make_semaphore("x", std::nullopt);
  CHECK_FALSE(x.available());
  CHECK(reason([&] { (void)x.try_acquire(); }) == errc::invalid_argument);
  x.set_limit(2);
  CHECK(x.available() == 2);
  CHECK(other.has(2, std::nullopt));
  CHECK_FALSE(x.try_acquire());
  CHECK(reason([&] { (void)x.try_acquire(3); }) == errc::invalid_argument);
  x.set_limit(3);
  CHECK(x.try_acquire());
  CHECK(reason([&] { x.set_limit(0); }) == errc::invalid_argument);
}

LEASE_CASE("permits: a name has one strategy") {
  auto const m = f.manager();
  REQUIRE(m->make_shared_mutex("reads").try_acquire_shared());
  REQUIRE(m->make_semaphore("counts", 2).try_acquire());
  REQUIRE(m->make_mutex("plain").try_acquire());
  CHECK(reason([&] { (void)m->make_mutex("reads").try_acquire(); }) == errc::strategy_mismatch);
  CHECK(reason([&] { (void)m->make_semaphore("reads", 2).try_acquire(); }) == errc::strategy_mismatch);
  CHECK(reason([&] { m->make_semaphore("reads", 2).set_limit(2); }) == errc::strategy_mismatch);
  CHECK(reason([&] { (void)m->make_shared_mutex("counts").try_acquire(); }) == errc::strategy_mismatch);
  CHECK(reason([&] { (void)m->make_shared_mutex("plain").try_acquire_shared(); }) == errc::strategy_mismatch);
  CHECK(reason([&] { (void)m->make_shared_mutex("x", {.owner = takes_over{"me"}}); }) == errc::unsupported);
  CHECK(reason([&] { (void)m->make_shared_mutex("x", {.takeover = takeover::observed}); }) ==
        errc::unsupported);
  CHECK(reason([&] { (void)m->make_shared_mutex("x", {.strategy = strategy::lease}); }) ==
        errc::invalid_argument);
}

LEASE_CASE("permits: a thread that reads reads again for nothing, and does not wait for itself") {
  auto const m = f.manager();
  auto x = m->make_shared_mutex("x");
  auto first = x.try_acquire_shared();
  REQUIRE(first);
  f.probe->reset();
  auto second = x.acquire_shared();
  REQUIRE(second);
  CHECK(f.probe->executed_in_all() == 0);
  CHECK(second->token() == first->token());
  CHECK(reason([&] { (void)x.acquire(); }) == errc::would_deadlock);
  CHECK(reason([&] { (void)x.try_acquire(); }) == errc::would_deadlock);
  (void)first->release();
  CHECK(second->valid());
  (void)second->release();
  auto writes = x.try_acquire();
  REQUIRE(writes);
  CHECK(reason([&] { (void)x.try_acquire_shared(); }) == errc::would_deadlock);
  CHECK(reason([&] { (void)x.acquire_shared(); }) == errc::would_deadlock);
}

LEASE_CASE("permits: threads of one process read at the same time, each by a term of its own") {
  auto const m = f.manager();
  auto x = m->make_shared_mutex("x");
  auto mine = x.try_acquire_shared();
  REQUIRE(mine);
  std::optional<fencing_token> its;
  bool can_write = true;
  std::thread([&] {
    auto const theirs = x.try_acquire_shared();
    if (theirs) its = theirs->token();
  }).join();
  REQUIRE(its);
  CHECK(*its > mine->token());
  std::thread([&] { can_write = bool(x.try_acquire()); }).join();
  CHECK_FALSE(can_write);
}

LEASE_CASE("permits: what has expired is in nobody's way, and nothing else is touched") {
  auto const m = f.manager();
  other_program other(f);
  other_program third(f);
  REQUIRE(other.has(6, 10));
  REQUIRE(third.has(2, 10));
  f.sql("UPDATE rowlock_permits SET expires_at = acquired_at WHERE units = 6");
  auto got = m->make_semaphore("x", 10).try_acquire(8);
  REQUIRE(got);
  CHECK_FALSE(m->make_semaphore("x", 10).try_acquire(1));
  CHECK(m->list().size() == 2);
}

LEASE_CASE("permits: a permit is extended, kept for a while, left, and given back by whoever has its term") {
  auto const m = f.manager();
  other_program other(f);
  {
    auto got = m->make_semaphore("x", 1, {.ttl = 20s, .renew = false, .hard_limit = 1h, .note = "mine"})
                   .try_acquire();
    REQUIRE(got);
    auto const before = *got->trusted_until();
    CHECK(got->extend(60s));
    CHECK(*got->trusted_until() > before + 30s);
    auto const left = got->detach();
    REQUIRE(left);
    CHECK_FALSE(other.has(1, 1));
    CHECK(m->renew(*left));
    CHECK(m->release({left->name, left->term}));
    CHECK_FALSE(m->release(*left));
    CHECK(other.has(1, 1));
    other.give_back();
  }
  auto kept = m->make_shared_mutex("x2", {.at_least = 1h}).try_acquire_shared();
  REQUIRE(kept);
  CHECK(kept->release() == release_result::released);
  CHECK(other.reads("x2"));
  CHECK_FALSE(other.writes("x2"));
}

LEASE_CASE("permits: all that are held are renewed in one statement") {
  auto o = f.options;
  auto const m = f.manager(o);
  auto x = m->make_semaphore("x", 1000, {.ttl = 9s});
  std::vector<held_lock> held;
  for (int i = 0; i < 20; ++i) held.push_back(x.try_acquire().value());
  f.probe->reset();
  CHECK(eventually([&] { return f.probe->executed("lock_renew") >= 1; }));
  CHECK(f.probe->executed("lock_renew") <= 4);
  for (auto const& one : held) CHECK(one.valid());
}

LEASE_CASE("permits: one is revoked, or all of a name") {
  auto const m = f.manager();
  other_program other(f);
  auto x = m->make_semaphore("x", 5, {.ttl = 9s});
  auto one = x.try_acquire();
  auto two = x.try_acquire();
  REQUIRE(other.has(1, 5));
  REQUIRE(two);
  CHECK(m->list().size() == 3);
  CHECK(m->revoke("x", revoke_mode::at_renewal, one->term()));
  CHECK(eventually([&] { return one->loss() == loss_reason::revoked; }));
  CHECK(two->valid());
  CHECK(m->revoke("x", revoke_mode::now));
  CHECK(eventually([&] { return two->loss() == loss_reason::row_gone; }));
  CHECK(m->list().empty());
  CHECK_FALSE(m->revoke("x", revoke_mode::now));
}

LEASE_CASE("permits: list and find tell what each of them has") {
  auto const m = f.manager();
  other_program other(f);
  REQUIRE(other.has(3, 10, "counts"));
  auto reads = m->make_shared_mutex("reads", {.note = "why"}).try_acquire_shared();
  REQUIRE(reads);
  auto const all = m->list();
  REQUIRE(all.size() == 2);
  CHECK(all[0].name == "counts");
  CHECK(all[0].holder.strategy == strategy::semaphore);
  CHECK(all[0].holder.units == 3);
  CHECK(all[0].holder.limit == 10);
  CHECK(all[1].holder.units == 1);
  CHECK(all[1].term == reads->term());
  CHECK(all[1].holder.note == "why");
  auto const found = m->find("counts");
  REQUIRE(found);
  CHECK(found->held);
  CHECK(found->holder.units == 3);
  other.give_back();
  CHECK_FALSE(m->find("counts")->held);
  CHECK(m->list({.idle = true}).size() >= 2);
}

LEASE_CASE("permits: a take whose reply was lost is found again by its term") {
  bool lost = false;
  auto const m = f.manager();
  auto x = m->make_semaphore("x", 1);
  CHECK(x.try_acquire());  // the name has its anchor
  f.probe->after = [&](std::string const& s) {
    if (s != "lock_take") return;
    if (!std::exchange(lost, true)) lose_reply();
  };
  auto const got = x.try_acquire();
  CHECK(lost);
  REQUIRE(got);
  CHECK(got->token().value == m->find("x")->holder.token.value);
}
