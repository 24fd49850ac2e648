// What an adversary tried: calls from callbacks, odd orders, waits at the wrong moment, absurd durations.
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "contract/open_transaction.hpp"
#include "contract/waits.hpp"
#include "support/threads.hpp"

using namespace rowlock;
using namespace rowlock::test;

CONTRACT_CASE("a loss callback may destroy everything, the manager too") {
  stranger other(f);
  struct user {
    std::unique_ptr<lock_manager> manager;
    std::optional<mutex> x;
    std::optional<acquisition> lock;
  } all{f.manager(), std::nullopt, std::nullopt};
  all.x.emplace(all.manager->make_mutex("x", {.ttl = 6s}));
  all.lock.emplace(all.x->acquire());
  std::atomic<bool> done{false};
  std::stop_callback const on_loss((*all.lock)->loss_token(), [&] {
    all.lock.reset();
    all.x.reset();
    all.manager.reset();
    done = true;
  });
  REQUIRE(other.take_over("x"));
  CHECK(eventually([&] { return done.load(); }));
  CHECK(eventually([&] { return f.probe->connections == 0; }));  // nothing of the manager is left
}

CONTRACT_CASE("a loss callback may give back, take again and destroy the manager before the handles") {
  stranger other(f);
  auto m = f.manager();
  auto x = m->make_mutex("x", {.ttl = 6s});
  auto y = m->make_mutex("y");
  auto lock = x.acquire();
  std::optional<acquisition> second;
  std::atomic<bool> done{false};
  std::stop_callback const on_loss(lock->loss_token(), [&] {
    CHECK(lock->release() == release_result::already_lost);
    second.emplace(y.try_acquire());
    m.reset();
    done = true;
  });
  REQUIRE(other.take_over("x"));
  CHECK(eventually([&] { return done.load(); }));
  REQUIRE(second);
  CHECK_FALSE((*second)->valid());
  CHECK(other.take("y"));
}

CONTRACT_CASE("mutexes may be used on while their manager is destroyed") {
  auto m = f.manager();
  auto x = m->make_mutex("x", {.retry = {.first = 1ms, .longest = 2ms}});
  auto y = m->make_mutex("y");
  std::atomic<int> rounds{0};
  std::atomic<bool> stop{false};
  {
    std::vector<std::jthread> users;
    for (auto* one : {&x, &y})
      users.emplace_back([&, one] {
        while (!stop) {
          auto const lock = one->try_acquire();
          ++rounds;
        }
      });
    REQUIRE(eventually([&] { return rounds > 10; }));
    m.reset();
    int const before = rounds;
    CHECK(eventually([&] { return rounds > before + 10; }));
    stop = true;
  }
}

CONTRACT_CASE("at_least binds an explicit owner that comes back, too") {
  auto const m = f.manager();
  auto job = m->make_mutex("x", {.at_least = 20s, .owner = takes_over{"job-7"}});
  auto first = job.try_acquire();
  REQUIRE(first);
  CHECK(first->release() == release_result::released);
  CHECK(job.try_acquire().status() == acquire_status::busy);
}

CONTRACT_CASE("an explicit owner that comes back twice: each former self is told at once") {
  auto const m = f.manager();
  auto job = m->make_mutex("x", {.renew = false, .owner = takes_over{"job-7"}});
  auto const first = job.try_acquire();
  auto const second = job.try_acquire();
  REQUIRE(second);
  CHECK(first->loss() == loss_reason::taken_over);
  auto const third = job.try_acquire();
  REQUIRE(third);
  CHECK(second->loss() == loss_reason::taken_over);
  CHECK(third->valid());
  auto counted = m->make_recursive_mutex("x", {.owner = takes_over{"job-7"}});
  auto const fourth = counted.try_acquire();
  REQUIRE(fourth);
  CHECK(fourth->term() == third->term());
}

CONTRACT_CASE("an explicit owner that comes back leaves the line of the others alone") {
  auto const m = f.manager();
  auto job = m->make_mutex("x", {.renew = false, .owner = takes_over{"job-7"}});
  auto first = job.try_acquire();
  std::atomic<bool> had{false};
  std::atomic<int> thread{0};
  std::jthread const waiter([&] {
    thread = ::gettid();
    auto const lock = m->make_mutex("x").acquire();
    had = true;
  });
  REQUIRE(comes_to_rest(thread));  // in line
  auto second = job.try_acquire();
  REQUIRE(second);
  f.probe->reset();
  std::this_thread::sleep_for(200ms);  // time for several attempts, of which there is to be none
  CHECK_FALSE(had);
  CHECK(f.probe->executed_in_all() == 0);  // the waiter waits here, not at the database
  CHECK(first->release() == release_result::already_lost);
  CHECK(second->release() == release_result::released);
  CHECK(eventually([&] { return had.load(); }));
}

CONTRACT_CASE("lock() has nobody to tell that it gave up: a bound of attempts neither ends nor hurries it") {
  stranger other(f);
  REQUIRE(other.take("x"));
  auto const m = f.manager();
  retry_options const once{.first = 50ms, .longest = 50ms, .jitter = 0, .attempts = 1};
  auto x = m->make_mutex("x", {.retry = once});
  auto y =
      m->make_mutex("x", {.retry = {.first = 50ms, .longest = 50ms, .jitter = 0, .policy = [](auto, auto) {
                                      return std::optional<std::chrono::milliseconds>();
                                    }}});
  m->connect();
  for (auto* one : {&x, &y}) {
    f.probe->reset();
    auto const began = boot_clock::now();
    std::atomic<bool> had{false};
    std::jthread waiter([&] {
      one->lock();
      had = true;
      one->unlock();
    });
    std::this_thread::sleep_for(400ms);  // time for eight attempts
    CHECK_FALSE(had);
    // Each 50 ms; without a wait: thousands.
    auto const looks = f.probe->executed("lock_read");
    CHECK(looks <= 60 + (boot_clock::now() - began) / 25ms);
    REQUIRE(other.release("x"));
    waiter.join();
    CHECK(had);
    REQUIRE(other.take("x"));
  }
}

CONTRACT_CASE("durations beyond any clock's range mean for ever, or at once") {
  stranger other(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.retry = {.first = 5ms, .longest = 5ms}});
  using coarse = std::chrono::time_point<std::chrono::steady_clock, std::chrono::hours>;
  std::vector<std::function<bool()>> const patient{
      [&] { return x.try_lock_for(std::chrono::hours::max()); },
      [&] { return x.try_lock_for(std::chrono::duration<double>(1e300)); },
      [&] { return x.try_lock_for(std::chrono::nanoseconds::max()); },
      [&] { return x.try_lock_until(std::chrono::system_clock::time_point::max()); },
      [&] { return x.try_lock_until(std::chrono::steady_clock::time_point::max()); },
      [&] { return x.try_lock_until(coarse::max()); },
  };
  for (auto const& wait : patient) {
    REQUIRE(other.take("x"));
    f.probe->reset();
    bool had = false;
    std::jthread waiter([&] {
      had = wait();
      x.unlock();
    });
    CHECK(eventually([&] { return f.probe->executed("lock_read") >= 3; }));
    other.release("x");
    waiter.join();
    CHECK(had);
  }
  REQUIRE(other.take("x"));
  CHECK_FALSE(x.try_lock_for(std::chrono::hours::min()));
  CHECK_FALSE(x.try_lock_until(std::chrono::system_clock::time_point::min()));
  CHECK_FALSE(x.try_lock_until(coarse::min()));
}

CONTRACT_CASE("a policy's wait of any length is no attempt after the other") {
  stranger other(f);
  REQUIRE(other.take("x"));
  auto const m = f.manager();
  m->connect();
  retry_options retry;
  retry.policy = [](int, holder_info const*) { return std::optional(std::chrono::milliseconds::max()); };
  auto x = m->make_mutex("x", {.retry = retry});
  std::stop_source stop;
  f.probe->reset();
  {
    std::jthread const waiter(
        [&] { CHECK(x.acquire(stop.get_token()).status() == acquire_status::cancelled); });
    CHECK(eventually([&] { return f.probe->executed("lock_take") > 0; }));
    std::this_thread::sleep_for(200ms);  // time for many attempts, of which there is to be one
    stop.request_stop();
  }
  CHECK(f.probe->executed("lock_take") == 1);
}

CONTRACT_CASE("in doubt stays in doubt, whatever keeps the row from being looked at") {
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  { auto const makes_row = x.acquire(); }
  for (auto why : {errc::row_locked, errc::access_denied, errc::failed}) {
    std::atomic<bool> lost{false};
    f.probe->after = [&](std::string const& s) {
      if (s != "lock_take" || lost) return;
      lost = true;
      lose_reply();
    };
    f.probe->before = [&](std::string const& s) {
      if (s == "lock_read" && lost) throw error(why, "kept from looking by the test");
    };
    errc said{};
    try {
      auto const lock = x.try_acquire();
    } catch (error const& e) {
      said = e.reason();
    }
    CHECK(said == errc::in_doubt);
    f.probe->after = nullptr;
    f.probe->before = nullptr;
    CHECK(x.try_acquire_for(60s));  // what was granted after all was given back
  }
}

CONTRACT_CASE("B17: a lock that came too late and can't be given back at once is given back by the keeper") {
  stranger other(f);
  std::atomic<int> slow{1};
  std::atomic<int> cut{1};
  auto const m = f.manager();
  m->connect();
  auto x = m->make_mutex("x", {.ttl = 3s});
  { auto const makes_row = x.acquire(); }
  f.probe->after = [&](std::string const& s) {
    if (s == "lock_take" && slow-- > 0) std::this_thread::sleep_for(3100ms);  // more than the ttl
  };
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_release" && cut-- > 0) throw error(errc::unreachable, "cut off by the test");
  };
  CHECK_THROWS_AS((void)x.try_acquire(), error);
  CHECK(eventually([&] { return other.sees_free("x"); }));
}

CONTRACT_CASE("a release that finds the term gone says why") {
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.renew = false});
  auto lock = x.try_acquire();
  SUBCASE("deleted") {
    f.sql("DELETE FROM rowlock_locks");
    CHECK(lock->release() == release_result::already_lost);
    CHECK(lock->loss() == loss_reason::row_gone);
  }
  SUBCASE("revoked now") {
    REQUIRE(m->revoke("x", revoke_mode::now));
    CHECK(lock->release() == release_result::already_lost);
    CHECK(lock->loss() == (pair.keeps_row() ? loss_reason::revoked : loss_reason::row_gone));
  }
}

CONTRACT_CASE("K1: what is thrown need not be an exception of the standard's") {
  std::atomic<int> failing{3};
  auto const m = f.manager();
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_renew" && failing-- > 0) throw 42;
  };
  auto const lock = m->make_mutex("x", {.ttl = 6s}).acquire();
  auto const trust = *lock->trusted_until();
  CHECK(eventually([&] { return *lock->trusted_until() > trust; }));
}
