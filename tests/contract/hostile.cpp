// What an adversary tried: calls from callbacks, odd orders, waits at the wrong moment, absurd durations.
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "contract/fixture.hpp"
#include "contract/waits.hpp"
#include "support/threads.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// A transaction of somebody else's, open until commit().
struct open_transaction {
  explicit open_transaction(fixture& f)
      : tables(f.tables()), session(f.source.implementation()->connect(boot_clock::now() + 10s)) {
    run(begin_of(f));
  }
  void run(std::string const& text) { session->script(tables.render(text), boot_clock::now() + 10s); }
  void commit() { run("COMMIT"); }
  backend::table_names tables;
  std::unique_ptr<backend::connection> session;
};

}  // namespace

CONTRACT_CASE("a loss callback may destroy everything, the manager too") {
  stranger other(f);
  struct user {
    std::unique_ptr<lock_manager> manager;
    std::optional<mutex> x;
    std::optional<acquisition> lock;
  } all{f.manager(), std::nullopt, std::nullopt};
  all.x.emplace(all.manager->make_mutex("x", {.ttl = 600ms}));
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
  CHECK(eventually([&] { return f.seam->connections == 0; }));  // nothing of the manager is left
}

CONTRACT_CASE("a loss callback may give back, take again and destroy the manager before the handles") {
  stranger other(f);
  auto m = f.manager();
  auto x = m->make_mutex("x", {.ttl = 600ms});
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
  auto job = m->make_mutex("x", {.at_least = 20s, .owner = "job-7"});
  auto first = job.try_acquire();
  REQUIRE(first);
  CHECK(first->release() == release_result::released);
  CHECK(job.try_acquire().status() == acquire_status::busy);
}

CONTRACT_CASE("an explicit owner that comes back twice: each former self is told at once") {
  auto const m = f.manager();
  auto job = m->make_mutex("x", {.renew = false, .owner = "job-7"});
  auto const first = job.try_acquire();
  auto const second = job.try_acquire();
  REQUIRE(second);
  CHECK(first->loss() == loss_reason::taken_over);
  auto const third = job.try_acquire();
  REQUIRE(third);
  CHECK(second->loss() == loss_reason::taken_over);
  CHECK(third->valid());
  auto counted = m->make_recursive_mutex("x", {.owner = "job-7"});
  auto const fourth = counted.try_acquire();
  REQUIRE(fourth);
  CHECK(fourth->term() == third->term());
}

CONTRACT_CASE("an explicit owner that comes back leaves the line of the others alone") {
  auto const m = f.manager();
  auto job = m->make_mutex("x", {.renew = false, .owner = "job-7"});
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
  f.seam->reset();
  std::this_thread::sleep_for(200ms);  // time for several attempts, of which there is to be none
  CHECK_FALSE(had);
  CHECK(f.seam->executed_in_all() == 0);  // the waiter waits here, not at the database
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
    f.seam->reset();
    std::atomic<bool> had{false};
    std::jthread waiter([&] {
      one->lock();
      had = true;
      one->unlock();
    });
    std::this_thread::sleep_for(400ms);  // time for eight attempts
    CHECK_FALSE(had);
    CHECK(f.seam->executed("lock_read") <= 60);  // without a wait: thousands
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
    f.seam->reset();
    bool had = false;
    std::jthread waiter([&] {
      had = wait();
      x.unlock();
    });
    CHECK(eventually([&] { return f.seam->executed("lock_read") >= 3; }, 5s));
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
  f.seam->reset();
  {
    std::jthread const waiter(
        [&] { CHECK(x.acquire(stop.get_token()).status() == acquire_status::cancelled); });
    std::this_thread::sleep_for(200ms);  // time for many attempts, of which there is to be one
    stop.request_stop();
  }
  CHECK(f.seam->executed("lock_take") == 1);
}

CONTRACT_CASE("in doubt stays in doubt, whatever keeps the row from being looked at") {
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  { auto const makes_row = x.acquire(); }
  for (auto why : {errc::row_locked, errc::access_denied, errc::failed}) {
    std::atomic<bool> lost{false};
    f.seam->after = [&](std::string const& s) {
      if (s != "lock_take" || lost) return;
      lost = true;
      lose_reply();
    };
    f.seam->before = [&](std::string const& s) {
      if (s == "lock_read" && lost) throw error(why, "kept from looking by the test");
    };
    errc said{};
    try {
      auto const lock = x.try_acquire();
    } catch (error const& e) {
      said = e.reason();
    }
    CHECK(said == errc::in_doubt);
    f.seam->after = nullptr;
    f.seam->before = nullptr;
    CHECK(x.try_acquire_for(20s));  // what was granted after all was given back
  }
}

CONTRACT_CASE("B17: a lock that came too late and can't be given back at once is given back by the keeper") {
  stranger other(f);
  auto const m = f.manager();
  m->connect();
  auto x = m->make_mutex("x", {.ttl = 500ms});
  { auto const makes_row = x.acquire(); }
  std::atomic<int> slow{1};
  std::atomic<int> cut{1};
  f.seam->after = [&](std::string const& s) {
    if (s == "lock_take" && slow-- > 0) std::this_thread::sleep_for(550ms);  // more than the ttl
  };
  f.seam->before = [&](std::string const& s) {
    if (s == "lock_release" && cut-- > 0) throw error(errc::unreachable, "cut off by the test");
  };
  CHECK_THROWS_AS((void)x.try_acquire(), error);
  CHECK(eventually([&] { return other.sees_free("x"); }, 5s));
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
  auto const m = f.manager();
  std::atomic<int> failing{3};
  f.seam->before = [&](std::string const& s) {
    if (s == "lock_renew" && failing-- > 0) throw 42;
  };
  auto const lock = m->make_mutex("x", {.ttl = 6s}).acquire();
  auto const trust = *lock->trusted_until();
  CHECK(eventually([&] { return *lock->trusted_until() > trust; }));
}

LEASE_CASE("T2: a lease that was waited for counts from the grant") {
  stranger other(f);
  REQUIRE(other.take("x"));
  REQUIRE(other.release("x"));
  open_transaction t(f);
  t.run("UPDATE rowlock_locks SET note = 'guarded'");
  bool had = false;
  std::jthread waiter([&] { had = other.take("x", 2s); });
  std::this_thread::sleep_for(600ms);  // how long it waits, a second at most, is what must not count
  t.commit();
  waiter.join();
  REQUIRE(had);
  // UTC_TIMESTAMP is read when the statement begins; what counts, trust, begins before it is sent.
  auto const waited = dialect_of(f) == dialect::mysql ? 600ms : 0ms;
  CHECK(other.read("x")->holder.expires_in > 1600ms - waited);
}

CONTRACT_CASE("B1: a take that waited for somebody's renewal sees it") {
  stranger first(f);
  stranger second(f, "second");
  REQUIRE(first.take("x", 1s));
  auto const term = first.read("x")->term;
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, -1000));
  open_transaction t(f);
  t.run("UPDATE rowlock_locks SET renewals = renewals + 1, expires_at = " + in_ms(f, 60'000));
  bool had = true;
  wait_view view(f, second.session());
  std::atomic<int> thread{0};
  std::jthread waiter([&] {
    thread = ::gettid();
    had = second.take("x");
  });
  CHECK(view.shows_it(thread));  // for a second at most
  t.commit();
  waiter.join();
  CHECK_FALSE(had);
  CHECK(first.read("x")->term == term);
}

INSERT_CASE("B37: an expired row that is renewed between the look at it and its deletion stays") {
  stranger first(f);
  REQUIRE(first.take("x", 1s));
  auto const term = first.read("x")->term;
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, -1000));
  auto const m = f.manager();
  int begun = 0;
  f.seam->before = [&](std::string const& s) {
    if (s == "begin" && ++begun == 2) REQUIRE(first.renew("x"));
  };
  CHECK_FALSE(m->make_mutex("x").try_acquire());
  CHECK(begun == 2);
  CHECK(first.read("x")->term == term);
}

CONTRACT_CASE("a take of an expired lock that is released and taken by another meanwhile is refused") {
  stranger first(f);
  stranger second(f, "second");
  REQUIRE(first.take("x", 1s));
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, -1000));
  open_transaction t(f);
  t.run("UPDATE rowlock_locks SET term = 'third', renewals = 0, expires_at = " + in_ms(f, 60'000));
  bool superseded = true;
  bool renewed = true;
  wait_view view(f, second.session());
  std::atomic<int> thread{0};
  std::jthread waiter([&] {
    thread = ::gettid();
    try {
      superseded = second.take_over("x");  // names the first one's term
    } catch (error const& e) {
      superseded = e.reason() != errc::row_locked;
    }
  });
  std::jthread renewer([&] {
    try {
      renewed = first.renew("x");
    } catch (error const& e) {
      renewed = e.reason() != errc::row_locked;
    }
  });
  CHECK(view.shows_it(thread));
  t.commit();
  waiter.join();
  renewer.join();
  CHECK_FALSE(superseded);
  CHECK_FALSE(renewed);
  CHECK(first.read("x")->term.value == "third");
}

CONTRACT_CASE("a take decides by the time after its wait, not before") {
  stranger other(f);
  REQUIRE(other.take("x"));
  REQUIRE(other.release("x"));
  open_transaction t(f);
  t.run("UPDATE rowlock_locks SET term = 'brief', expires_at = " + in_ms(f, 250));
  auto const set = boot_clock::now();
  bool had = false;
  wait_view view(f, other.session());
  std::atomic<int> thread{0};
  std::jthread waiter([&] {
    thread = ::gettid();
    had = other.take("x");
  });
  // For a second at most. Where a lock that is given back leaves no row, there is nothing to wait for.
  if (pair.keeps_row()) CHECK(view.shows_it(thread));
  std::this_thread::sleep_for(set + 300ms - boot_clock::now());  // until that has expired
  t.commit();
  waiter.join();
  // UTC_TIMESTAMP is read when the statement begins: busy is then said of what has only just expired.
  bool const busy = dialect_of(f) == dialect::mysql && pair.strategy == strategy::lease;
  CHECK(had == !busy);
  CHECK(other.take("x") == busy);
}

CONTRACT_CASE("R1: at_least, too, leaves another's lock alone") {
  stranger other(f);
  auto const m = f.manager();
  auto lock = m->make_mutex("x", {.renew = false, .at_least = 20s}).acquire();
  REQUIRE(other.take_over("x"));
  auto const theirs = other.read("x")->term;
  CHECK(lock->release() == release_result::already_lost);
  CHECK(other.read("x")->term == theirs);
}

CONTRACT_CASE("trust counts from before an extension was sent") {
  auto const m = f.manager();
  auto lock = m->make_mutex("x", {.renew = false}).acquire();
  f.seam->after = [](std::string const& s) {
    if (s == "lock_extend") std::this_thread::sleep_for(500ms);  // the reply is slow
  };
  auto const before = boot_clock::now();
  REQUIRE(lock->extend(100s));
  CHECK(*lock->trusted_until() >= before + 90s);
  CHECK(*lock->trusted_until() < before + 90s + 400ms);
}

CONTRACT_CASE("K3: trust of a take whose reply was lost counts from before that take was sent") {
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  { auto const makes_row = x.acquire(); }
  std::atomic<int> lost{1};
  f.seam->after = [&](std::string const& s) {
    if (s != "lock_take" || lost-- <= 0) return;
    std::this_thread::sleep_for(600ms);  // it is noticed late
    lose_reply();
  };
  f.seam->reset();
  auto const before = boot_clock::now();
  auto const lock = x.try_acquire();
  REQUIRE(lock);
  CHECK(f.seam->executed("lock_take") == 1);
  CHECK(*lock->trusted_until() < before + 27s + 500ms);
}

CONTRACT_CASE("B15: after a lost reply no try has the term of another") {
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.retry = {.first = 1ms, .longest = 1ms}});
  { auto const makes_row = x.acquire(); }
  std::vector<std::string> terms;
  f.seam->look = [&](std::string const& s, std::span<backend::value const> parameters) {
    if (s == "lock_take") terms.push_back(backend::as_text(parameters[2]));
  };
  std::atomic<int> lost{5};
  f.seam->before = [&](std::string const& s) {
    if (s == "lock_take" && lost-- > 0) lose_reply();
  };
  auto const lock = x.try_acquire_for(60s);
  REQUIRE(lock);
  REQUIRE(terms.size() == 6);
  CHECK(terms.back() == lock->term().value);
  std::sort(terms.begin(), terms.end());
  CHECK(std::adjacent_find(terms.begin(), terms.end()) == terms.end());
}

CONTRACT_CASE("B36: who is watched by takers is given the time of an extension, too") {
  stranger other(f);
  auto const m = f.manager();
  auto lock = m->make_mutex("x", {.ttl = 400ms, .renew = false, .takeover = takeover::observed}).acquire();
  REQUIRE(lock->extend(60s));
  CHECK(other.read("x")->ttl == 60s);
  CHECK(lock->valid());
}

TEST_CASE("a locked row does not keep the others from being renewed: lease on postgresql") {
  postgresql_fixture f;
  auto const m = f.manager();
  auto const guarded = m->make_mutex("a", {.ttl = 4s}).acquire();
  auto const lock = m->make_mutex("x", {.ttl = 1500ms}).acquire();
  open_transaction t(f);
  t.run("UPDATE rowlock_locks SET note = 'guarded' WHERE name = 'a'");
  std::this_thread::sleep_for(3s);  // two ttl
  CHECK(lock->valid());
  CHECK(guarded->valid());
  t.commit();
}

CONTRACT_CASE("B35: the row, too, is renewed up to its hard limit and no further") {
  stranger other(f);
  auto const m = f.manager();
  auto const lock = m->make_mutex("x", {.ttl = 30s, .renew = false, .hard_limit = 60s}).acquire();
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, 1000) + ", hard_until = " + in_ms(f, 10'000));
  CHECK(other.renew("x", lock->term()));
  CHECK(other.read("x")->holder.expires_in > 5s);
  CHECK(other.read("x")->holder.expires_in <= 10s);
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, -1000) + ", hard_until = " + in_ms(f, -1000));
  CHECK_FALSE(other.renew("x", lock->term()));
  CHECK(other.read("x")->holder.expires_in < 0ms);
}

CONTRACT_CASE("observed takeover: a claim fails if the row was renewed since it was watched") {
  stranger holder(f);
  stranger watcher(f, "watcher");
  REQUIRE(holder.take("x", 1s, takeover::observed));
  auto const seen = *watcher.read("x");
  REQUIRE(holder.renew("x"));
  CHECK_FALSE(watcher.claim("x", {seen.term, seen.renewals}));
  CHECK(watcher.claim("x", {seen.term, seen.renewals + 1}));
}

TEST_CASE("releases that meet locked rows do not keep the keeper from renewing: lease on postgresql") {
  postgresql_fixture f;
  auto o = f.options;
  o.connections = 8;
  auto const m = f.manager(o);
  std::vector<acquisition> handed_over;
  for (int i = 0; i < 8; ++i) handed_over.push_back(m->make_mutex("guarded/" + std::to_string(i)).acquire());
  auto const lock = m->make_mutex("x", {.ttl = 3s}).acquire();
  open_transaction t(f);
  t.run("UPDATE rowlock_locks SET note = 'guarded' WHERE name <> 'x'");
  {
    std::vector<std::jthread> threads;
    for (auto& one : handed_over)
      threads.emplace_back([&] { CHECK(one->release() == release_result::handed_over); });
  }
  std::this_thread::sleep_for(6s);  // two ttl
  CHECK(lock->valid());
  t.commit();
  stranger other(f);
  for (int i = 0; i < 8; ++i)
    CHECK(eventually([&] { return other.sees_free("guarded/" + std::to_string(i)); }));
}
