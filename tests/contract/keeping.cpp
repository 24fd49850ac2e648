// Renewal, trust, fixed leases, extending, limits.
#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/boot_lead.hpp"
#include "contract/fixture.hpp"
#include "support/threads.hpp"

using namespace rowlock;
using namespace rowlock::test;

CONTRACT_CASE("each thread of a process with one lock has a name, and says what it is for") {
  auto const before = other_threads();  // of a case before this one: they can end at any time
  auto const m = f.manager();
  auto const lock = m->make_mutex("x").acquire();
  REQUIRE(lock);
  CHECK(eventually([&] {
    auto ours = other_threads();
    std::erase_if(ours, [&](auto const& t) { return before.contains(t.first); });
    return ours.size() >= 2 && std::all_of(ours.begin(), ours.end(), [&](auto const& t) {
             auto const& name = t.second;
             return name == "rowlock-close" || name == "rowlock-renew" || name == "rowlock-trust" ||
                    name == "rowlock-wire" || (f.dispatched() && name.starts_with("rowlock-"));
           });
  }));
}

CONTRACT_CASE("a held lock is renewed for as long as it is held") {
  base::boot_clock_may_lead();
  stranger other(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto const lock = x.acquire();
  auto const first_trust = *lock->trusted_until();
  for (int i = 0; i < 5; ++i) {  // more than one ttl
    auto const before = *lock->trusted_until();
    base::boot_clock_leads_by(10s);
    // Not only sent: the clock must not go ahead while its reply is waited for.
    REQUIRE(eventually([&] { return *lock->trusted_until() > before; }));
  }
  CHECK(lock->valid());
  CHECK(*lock->trusted_until() > first_trust + 1000ms);
  CHECK_FALSE(other.take("x"));
  CHECK(other.read("x")->renewals >= 4);
}

CONTRACT_CASE("trust counts from before the granting statement was sent, less a tenth") {
  boot_time_point sent;
  auto const m = f.manager();
  m->connect();
  auto x = m->make_mutex("x", {.ttl = 20s, .renew = false});
  { auto const makes_row = x.acquire(); }
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_take") sent = boot_clock::now();
  };
  f.probe->after = [](std::string const& s) {
    if (s == "lock_take") std::this_thread::sleep_for(400ms);  // the reply is slow
  };
  auto const before = boot_clock::now();
  auto const lock = x.acquire();
  REQUIRE(lock);
  CHECK(*lock->trusted_until() >= before + 18s);
  CHECK(*lock->trusted_until() <= sent + 18s);
}

CONTRACT_CASE("trust counts from before a renewal was sent") {
  std::atomic<boot_clock::rep> sent{0};
  auto const m = f.manager();
  f.probe->before = [&](std::string const& s) {
    if (s != "lock_renew") return;
    if (sent != 0) throw error(errc::unreachable, "the first one only, by the test");
    sent = boot_clock::now().time_since_epoch().count();
  };
  f.probe->after = [](std::string const& s) {
    if (s == "lock_renew") std::this_thread::sleep_for(300ms);  // the reply is slow
  };
  auto x = m->make_mutex("x", {.ttl = 9s});
  auto const lock = x.acquire();
  auto const granted = *lock->trusted_until();
  REQUIRE(eventually([&] { return *lock->trusted_until() > granted; }));
  CHECK(lock->trusted_until()->time_since_epoch().count() <= sent + std::chrono::nanoseconds(8100ms).count());
}

CONTRACT_CASE("B17: an answer that took longer than the lease lasts is no lock, and leaves none behind") {
  stranger other(f);
  std::atomic<int> slow{1};
  auto const m = f.manager();
  m->connect();
  auto x = m->make_mutex("x", {.ttl = 3s});
  { auto const makes_row = x.acquire(); }
  f.probe->after = [&](std::string const& s) {
    if (s == "lock_take" && slow-- > 0) std::this_thread::sleep_for(3100ms);  // more than the ttl
  };
  CHECK_THROWS_AS((void)x.try_acquire(), error);
  CHECK(other.sees_free("x"));
  CHECK(x.try_acquire());
}

CONTRACT_CASE("K4: renewal goes by name and term and never touches another's") {
  stranger other(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.ttl = 9s});
  auto const lock = x.acquire();
  REQUIRE(other.take_over("x"));
  auto const theirs = *other.read("x");
  REQUIRE(eventually([&] { return lock->loss().has_value(); }));
  CHECK(lock->loss() == loss_reason::taken_over);
  auto const now = *other.read("x");
  CHECK(now.term == theirs.term);
  CHECK(now.renewals == theirs.renewals);
}

CONTRACT_CASE("B18: renewal never shortens") {
  stranger other(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.ttl = 9s});
  auto lock = x.acquire();
  REQUIRE(lock->extend(100s));
  auto const trust = *lock->trusted_until();
  CHECK(trust > boot_clock::now() + 50s);
  auto const renewals = other.read("x")->renewals;
  REQUIRE(eventually([&] { return other.read("x")->renewals > renewals; }));
  CHECK(other.read("x")->holder.expires_in > 50s);
  CHECK(*lock->trusted_until() == trust);
}

CONTRACT_CASE("a fixed lease ends by itself and says so before its trust ends") {
  stranger other(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.ttl = 10s, .renew = false});
  auto const lock = x.acquire();
  auto const trust = *lock->trusted_until();
  std::atomic<boot_clock::rep> told{0};
  std::stop_callback const on_loss(lock->loss_token(),
                                   [&] { told = boot_clock::now().time_since_epoch().count(); });
  REQUIRE(eventually([&] { return told != 0; }));
  // It is told half a second before, and may be a second late on a loaded machine.
  CHECK(boot_time_point(boot_clock::duration(told.load())) < trust + 500ms);
  CHECK(lock->loss() == loss_reason::expired);
  CHECK_FALSE(lock->valid());
  CHECK(f.probe->executed("lock_renew") == 0);
  CHECK(eventually([&] { return other.take("x"); }));
  CHECK(boot_clock::now() > trust);
}

CONTRACT_CASE("extend prolongs a fixed lease, and fails once it is lost") {
  stranger other(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.ttl = 10s, .renew = false});
  auto lock = x.acquire();
  CHECK(lock->extend(100s));
  CHECK(*lock->trusted_until() > boot_clock::now() + 50s);
  CHECK(other.read("x")->holder.expires_in > 50s);
  REQUIRE(other.take_over("x"));
  CHECK_FALSE(lock->extend(60s));
  CHECK(lock->loss() == loss_reason::taken_over);
  CHECK_THROWS_AS((void)m->make_mutex("y").acquire()->extend(0ms), error);
}

CONTRACT_CASE("B35: renewal stops at the hard limit, and trust never passes it") {
  stranger other(f);
  auto const m = f.manager();
  auto const before = boot_clock::now();
  auto x = m->make_mutex("x", {.ttl = 4s, .hard_limit = 6s});
  auto lock = x.acquire();
  auto const limit = boot_clock::now() + 6s;
  CHECK(lock->extend(60s));
  CHECK(*lock->trusted_until() < limit);
  CHECK(*lock->trusted_until() > before);
  REQUIRE(eventually([&] { return lock->loss().has_value(); }));
  CHECK(lock->loss() == loss_reason::expired);
  CHECK(eventually([&] { return other.take("x"); }));
}

CONTRACT_CASE("on_trust: each renewal and each extension says until when the lock is trusted now") {
  std::mutex guard;
  std::vector<boot_time_point> told;
  auto const count = [&] {
    std::lock_guard const lock(guard);
    return told.size();
  };
  auto m = f.manager();
  auto const note = [&](boot_time_point ends) {
    std::lock_guard const lock(guard);
    told.push_back(ends);
    throw std::runtime_error("what it throws is dropped");
  };
  auto x = m->make_mutex("x", {.ttl = 6s, .on_trust = note});
  auto lock = x.acquire();
  REQUIRE(lock);
  auto const first = *lock->trusted_until();
  CHECK(eventually([&] { return count() >= 2; }));
  REQUIRE(lock->extend(60s));
  auto const last = *lock->trusted_until();
  CHECK(last > first + 30s);
  {
    std::lock_guard const held(guard);
    CHECK(std::ranges::count(told, last) >= 1);
    CHECK(std::ranges::all_of(told, [&](auto t) { return t > first && t <= last; }));
  }
  CHECK(lock->release() == release_result::released);
  auto const then = count();
  m.reset();
  CHECK(count() == then);
}
