// Two sessions that meet, statement by statement: what each of them sees, and what becomes of late replies.
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "contract/open_transaction.hpp"
#include "contract/waits.hpp"
#include "support/threads.hpp"

using namespace rowlock;
using namespace rowlock::test;

LEASE_CASE("T2: a lease that was waited for counts from the grant") {
  stranger other(f);
  REQUIRE(other.take("x"));
  REQUIRE(other.release("x"));
  open_transaction t(f);
  t.run("UPDATE rowlock_locks SET note = 'guarded'");
  bool had = false;
  be_patient(f, other.session());
  auto const began = boot_clock::now();
  std::jthread waiter([&] { had = other.take("x", 20s); });
  std::this_thread::sleep_for(600ms);  // how long it waits is what must not count
  auto const granted = boot_clock::now();
  t.commit();
  waiter.join();
  REQUIRE(had);
  auto const left = other.read("x")->holder.expires_in;
  // UTC_TIMESTAMP is read when the statement begins; what counts, trust, begins before it is sent.
  auto const from = dialect_of(f) == dialect::mysql ? began : granted;
  CHECK(left + (boot_clock::now() - from) > 20s - 10ms);  // whole milliseconds
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
  CHECK(view.shows_it(thread));
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
  int begun = 0;
  auto const m = f.manager();
  f.probe->before = [&](std::string const& s) {
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
  auto const seen = second.read("x");  // before the third one comes, whenever the thread gets to its take
  open_transaction t(f);
  t.run("UPDATE rowlock_locks SET term = 'third', renewals = 0, expires_at = " + in_ms(f, 60'000));
  bool superseded = true;
  bool renewed = true;
  wait_view view(f, second.session());
  std::atomic<int> thread{0};
  std::jthread waiter([&] {
    thread = ::gettid();
    try {
      superseded = second.claim("x", {seen->term, seen->renewals});
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
  t.run("UPDATE rowlock_locks SET term = 'brief', expires_at = " + in_ms(f, 2500));
  auto const set = boot_clock::now();
  bool had = false;
  wait_view view(f, other.session());
  std::atomic<int> thread{0};
  std::jthread waiter([&] {
    thread = ::gettid();
    // SQLite's waits give up after a second, whatever be_patient says: then it waits again.
    auto const gave_up = [&] {
      auto const began = boot_clock::now();
      had = other.take("x");
      return !had && dialect_of(f) == dialect::sqlite && boot_clock::now() - began > 900ms;
    };
    while (gave_up()) {
    }
  });
  // Where a lock that is given back leaves no row, there is nothing to wait for.
  if (pair.keeps_row()) CHECK(view.shows_it(thread));
  std::this_thread::sleep_for(set + 2550ms - boot_clock::now());  // until that has expired
  t.commit();
  waiter.join();
  // UTC_TIMESTAMP is read when the statement begins: busy is then said of what has only just expired.
  bool const busy = dialect_of(f) == dialect::mysql && pair.as_lease();
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
  boot_time_point sent;
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_extend") sent = boot_clock::now();
  };
  f.probe->after = [](std::string const& s) {
    if (s == "lock_extend") std::this_thread::sleep_for(500ms);  // the reply is slow
  };
  auto const before = boot_clock::now();
  REQUIRE(lock->extend(100s));
  CHECK(*lock->trusted_until() >= before + 90s);
  CHECK(*lock->trusted_until() <= sent + 90s);
}

CONTRACT_CASE("K3: trust of a take whose reply was lost counts from before that take was sent") {
  std::atomic<int> lost{1};
  boot_time_point sent;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  { auto const makes_row = x.acquire(); }
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_take") sent = boot_clock::now();
  };
  f.probe->after = [&](std::string const& s) {
    if (s != "lock_take" || lost-- <= 0) return;
    std::this_thread::sleep_for(600ms);  // it is noticed late
    lose_reply();
  };
  f.probe->reset();
  auto const lock = x.try_acquire();
  REQUIRE(lock);
  CHECK(f.probe->executed("lock_take") == 1);
  CHECK(*lock->trusted_until() <= sent + 27s);
}

CONTRACT_CASE("B15: after a lost reply no try has the term of another") {
  std::atomic<int> lost{5};
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.retry = {.first = 1ms, .longest = 1ms}});
  { auto const makes_row = x.acquire(); }
  std::vector<std::string> terms;
  f.probe->look = [&](std::string const& s, std::span<backend::value const> parameters) {
    if (s == "lock_take") terms.push_back(backend::as_text(parameters[2]));
  };
  f.probe->before = [&](std::string const& s) {
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
  auto lock = m->make_mutex("x", {.ttl = 20s, .renew = false, .takeover = takeover::observed}).acquire();
  REQUIRE(lock->extend(60s));
  CHECK(other.read("x")->ttl == 60s);
  CHECK(lock->valid());
}

TEST_CASE("a locked row does not keep the others from being renewed: lease on postgresql") {
  postgresql_fixture f;
  auto const m = f.manager();
  auto const guarded = m->make_mutex("a", {.ttl = 60s}).acquire();
  auto const lock = m->make_mutex("x", {.ttl = 6s}).acquire();
  open_transaction t(f);
  t.run("UPDATE rowlock_locks SET note = 'guarded' WHERE name = 'a'");
  auto const trust = *lock->trusted_until();
  CHECK(eventually([&] { return *lock->trusted_until() > trust + 2 * 6s; }));
  CHECK(lock->valid());
  CHECK(guarded->valid());
  t.commit();
}

CONTRACT_CASE("B35: a row is taken for its ttl, or up to its hard limit, whichever is first") {
  stranger other(f);
  auto const m = f.manager();
  SUBCASE("the ttl") {
    auto const lock = m->make_mutex("x", {.ttl = 30s, .renew = false, .hard_limit = 1h}).acquire();
    CHECK(other.read("x")->holder.expires_in <= 30s);
    CHECK(other.read("x")->holder.expires_in > 20s);
  }
  SUBCASE("the hard limit") {
    auto const lock = m->make_mutex("x", {.ttl = 1h, .renew = false, .hard_limit = 30s}).acquire();
    CHECK(other.read("x")->holder.expires_in <= 30s);
    CHECK(other.read("x")->holder.expires_in > 20s);
  }
}

LEASE_CASE("B35: several at once, and permits, are taken for their ttl, or up to their hard limit") {
  auto const m = f.manager();
  auto const expiries = [&](mutex_options const& o) {
    std::vector<std::chrono::milliseconds> all;
    auto const together = m->try_acquire_all({"one", "two"}, o);
    auto const reads = m->make_shared_mutex("shared", o).try_acquire_shared();
    auto const has = m->make_semaphore("units", 3, o).try_acquire();
    REQUIRE((together && reads && has));
    for (auto const& each : m->list()) all.push_back(each.holder.expires_in);
    return all;
  };
  for (mutex_options const& o : {mutex_options{.ttl = 30s, .renew = false, .hard_limit = 1h},
                                 mutex_options{.ttl = 1h, .renew = false, .hard_limit = 30s}}) {
    auto const all = expiries(o);
    CHECK(all.size() == 4);
    for (auto const left : all) {
      CHECK(left <= 30s);
      CHECK(left > 20s);
    }
  }
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
  o.release_timeout = 20s;  // they are opened by the releases
  auto const m = f.manager(o);
  std::vector<acquisition> handed_over;
  for (int i = 0; i < 8; ++i) handed_over.push_back(m->make_mutex("guarded/" + std::to_string(i)).acquire());
  auto const lock = m->make_mutex("x", {.ttl = 6s}).acquire();
  open_transaction t(f);
  t.run("UPDATE rowlock_locks SET note = 'guarded' WHERE name <> 'x'");
  {
    std::vector<std::jthread> threads;
    for (auto& one : handed_over)
      threads.emplace_back([&] { CHECK(one->release() == release_result::handed_over); });
  }
  auto const trust = *lock->trusted_until();
  CHECK(eventually([&] { return *lock->trusted_until() > trust + 2 * 6s; }));
  CHECK(lock->valid());
  t.commit();
  stranger other(f);
  for (int i = 0; i < 8; ++i)
    CHECK(eventually([&] { return other.sees_free("guarded/" + std::to_string(i)); }));
}
