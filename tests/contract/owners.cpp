// Who is it: reentrancy, explicit owners, takeover::observed.
#include <future>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/boot_lead.hpp"
#include "contract/fixture.hpp"

using namespace rowlock;
using namespace rowlock::test;

EVERY_CASE("a recursive mutex is taken again without a round trip and given back with the last handle") {
  stranger other(f);
  auto const m = f.manager();
  auto x = m->make_recursive_mutex("x");
  auto outer = x.acquire();
  REQUIRE(outer);
  f.probe->reset();
  {
    auto inner = x.acquire();
    REQUIRE(inner);
    CHECK(inner->term() == outer->term());
    CHECK(inner->token() == outer->token());
    auto again = x.try_acquire();
    CHECK(again->release() == release_result::released);
  }
  CHECK(f.probe->executed_in_all() == 0);
  CHECK(outer->valid());
  CHECK_FALSE(other.take("x"));
  CHECK(outer->release() == release_result::released);
  CHECK(other.take("x"));
}

EVERY_CASE("recursion counts over all managers of the process on the same tables") {
  auto const m = f.manager();
  auto const n = f.manager();
  auto const outer = m->make_recursive_mutex("x").acquire();
  n->connect();
  f.probe->reset();
  auto const inner = n->make_recursive_mutex("x").try_acquire();
  REQUIRE(inner);
  CHECK(inner->term() == outer->term());
  CHECK(f.probe->executed_in_all() == 0);
}

EVERY_CASE("the same name on other tables is another lock") {
  auto const another = pair.make();
  fixture& g = *another;
  auto const m = f.manager();
  auto const n = g.manager();
  auto const one = m->make_mutex("x").try_acquire();
  auto const two = n->make_mutex("x").try_acquire();
  CHECK(one);
  CHECK(two);
  CHECK(one->term() != two->term());
}

EVERY_CASE("a mutex that its own thread holds answers resource_deadlock_would_occur") {
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto const lock = x.acquire();
  for (int i = 0; i < 2; ++i) {
    try {
      i == 0 ? x.lock() : (void)m->make_mutex("x").try_acquire();
      FAIL("granted twice");
    } catch (error const& e) {
      CHECK(e.code() == std::errc::resource_deadlock_would_occur);
    }
  }
}

EVERY_CASE(
    "O2, O4: another thread is another owner, also one that comes after, and any thread may give back") {
  auto const m = f.manager();
  auto x = m->make_recursive_mutex("x");
  std::optional<acquisition> left_behind;
  std::jthread([&] { left_behind.emplace(x.acquire()); }).join();
  REQUIRE(*left_behind);
  std::jthread([&] { CHECK_FALSE(x.try_acquire()); }).join();
  CHECK_FALSE(x.try_acquire());
  CHECK((*left_behind)->release() == release_result::released);
  CHECK(x.try_acquire());
}

CONTRACT_CASE("B16: recursion does not revive a term whose trust has ended") {
  stranger other(f);
  auto const m = f.manager();
  auto x = m->make_recursive_mutex("x", {.ttl = 4s, .renew = false});
  auto outer = x.acquire();
  auto const dead = outer->term();
  REQUIRE(eventually([&] { return !outer->valid(); }));
  REQUIRE(eventually([&] { return other.take("x"); }));
  CHECK_FALSE(x.try_acquire());
  REQUIRE(other.release("x"));
  auto const fresh = x.acquire();
  REQUIRE(fresh);
  CHECK(fresh->term() != dead);
  CHECK_FALSE(outer->valid());
  CHECK(outer->release() == release_result::already_lost);
  CHECK(fresh->valid());
}

CONTRACT_CASE("an explicit owner that comes back takes over at once, and its former self is told") {
  auto const m = f.manager();
  auto job = m->make_mutex("x", {.owner = takes_over{"job-7"}});
  auto former = job.acquire();
  REQUIRE(former);
  acquisition now = [&] {
    std::optional<acquisition> got;
    std::jthread([&] { got.emplace(job.try_acquire()); }).join();
    return std::move(*got);
  }();
  REQUIRE(now);
  CHECK(now->term() != former->term());
  CHECK(now->token() > former->token());
  CHECK(former->loss() == loss_reason::taken_over);
  CHECK(former->release() == release_result::already_lost);
  CHECK(now->valid());
  CHECK_FALSE(m->make_mutex("x", {.owner = takes_over{"job-8"}}).try_acquire());
}

CONTRACT_CASE("an explicit owner that restarted takes over what its former self left in the table") {
  std::optional<term_id> before;
  {
    auto const m = f.manager();
    auto lock = m->make_mutex("x", {.owner = takes_over{"job-7"}}).acquire();
    before = lock->term();
    // As a process that was killed leaves it: the row stays although this manager gives everything back.
    f.probe->before = [](std::string const& s) {
      if (s == "lock_release") throw error(errc::unreachable, "killed by the test");
    };
  }
  f.probe->before = nullptr;
  auto const m = f.manager();
  auto const lock = m->make_mutex("x", {.owner = takes_over{"job-7"}}).try_acquire();
  REQUIRE(lock);
  CHECK(lock->term() != *before);
}

CONTRACT_CASE("B38: an explicit owner's take over names the term that it read") {
  int takes = 0;
  auto const m = f.manager();
  stranger between(f);
  stranger former(f);
  REQUIRE(former.take("x"));
  f.sql(
      "UPDATE rowlock_locks SET term = 'former', owner_process = 'job-7', owner_thread = 0, "
      "expires_at = " +
      in_ms(f, 1'000'000'000));
  f.probe->before = [&](std::string const& s) {
    if (s == pair.before_take() && ++takes == 2)
      REQUIRE(between.take_over("x"));  // between the read and the take over
  };
  CHECK_FALSE(m->make_mutex("x", {.owner = takes_over{"job-7"}}).try_acquire());
  CHECK(between.read("x")->holder.owner.host == "elsewhere");
}

CONTRACT_CASE(
    "B29, B36: observed takeover waits for the row's ttl by the taker's own clock, whatever the database's "
    "says") {
  stranger other(f);
  REQUIRE(other.take("x", 1s, takeover::observed));
  // The database's clock jumps: expired long ago by it.
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, -1'000'000'000));
  auto const m = f.manager();
  CHECK_FALSE(m->make_mutex("x").try_acquire());  // a plain taker obeys the row's mode, too
  auto const start = boot_clock::now();
  auto const lock = m->make_mutex("x").try_acquire_for(30s);
  REQUIRE(lock);
  CHECK(boot_clock::now() - start >= 1020ms);
}

CONTRACT_CASE("observed takeover: a renewal in between starts the watch anew") {
  base::boot_clock_may_lead();
  stranger other(f);
  REQUIRE(other.take("x", 30s, takeover::observed));
  int reads = 0;
  std::stop_source enough;
  auto const m = f.manager();
  // Two thirds of the ttl pass, then a renewal comes: of two watches in a row neither lasts for the whole
  // ttl.
  f.probe->after = [&](std::string const& s) {
    if (s != "lock_read") return;
    ++reads;
    if (reads % 3 == 2) base::boot_clock_leads_by(20s);
    if (reads % 3 == 0) CHECK(other.renew("x"));
    if (reads == 9) enough.request_stop();
  };
  CHECK_FALSE(m->make_mutex("x").acquire(enough.get_token()));
}

CONTRACT_CASE("observed takeover: the claim names term and renewals that were watched") {
  stranger other(f);
  REQUIRE(other.take("x", 300ms, takeover::observed));
  std::atomic<int> takes{0};
  std::atomic<bool> renewed{false};
  auto const m = f.manager();
  f.probe->before = [&](std::string const& s) {
    // The second lock_take without a lock_read in between is the claim.
    if (s == "lock_read") takes = 0;
    if (s == pair.before_take() && ++takes == 1 && f.probe->executed("lock_read") > 3 &&
        !renewed.exchange(true))
      CHECK(other.renew("x"));
  };
  auto const lock = m->make_mutex("x").try_acquire_for(30s);
  REQUIRE(lock);
  CHECK(other.read("x")->term == lock->term());
}

EVERY_CASE("C89: unlock() in a thread that has taken nothing gives nothing back, and says so") {
  std::mutex guard;
  std::string said;
  auto o = f.options;
  o.on_event = [&](event const& e) {
    std::lock_guard const hold(guard);
    if (e.kind == event_kind::error) said = e.message;
  };
  auto const m = f.manager(o);
  auto x = m->make_mutex("x");
  x.lock();
  std::thread([&] { x.unlock(); }).join();
  REQUIRE(x.current());
  CHECK(x.current()->valid());
  {
    std::lock_guard const hold(guard);
    CHECK(said.starts_with("unlock() gave nothing back"));
  }
  x.unlock();
  CHECK_FALSE(x.current());
}

EVERY_CASE("C89: whose handle went to another thread is told so when it asks again") {
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.owner = calling_thread{}});
  auto lock = x.try_acquire();
  REQUIRE(lock);
  std::promise<void> asked;
  std::thread elsewhere([&, moved = *std::move(lock)]() mutable {
    asked.get_future().wait();
    CHECK(moved.release() == release_result::released);
  });
  try {
    (void)x.try_acquire();
    FAIL("taken");
  } catch (error const& e) {
    CHECK(e.reason() == errc::would_deadlock);
    CHECK(std::string(e.what()).find("each_acquire") != std::string::npos);
  }
  asked.set_value();
  elsewhere.join();
  CHECK(x.try_acquire());
}

// A text that is no more than a label must not pass for one that takes over.
static_assert(!std::is_assignable_v<decltype(mutex_options::owner)&, char const*>);
static_assert(!std::is_assignable_v<decltype(mutex_options::owner)&, std::string>);

CONTRACT_CASE("C89: what takes a lock over says so by its name; a label takes nothing over") {
  auto const m = f.manager();
  auto const held = m->make_mutex("x", {.owner = each_acquire{}, .label = "job"}).try_acquire();
  REQUIRE(held);
  CHECK_FALSE(m->make_mutex("x", {.owner = each_acquire{}, .label = "job"}).try_acquire());
  CHECK(held->valid());
  auto const first = m->make_mutex("y", {.owner = takes_over{"job"}}).try_acquire();
  REQUIRE(m->make_mutex("y", {.owner = takes_over{"job"}}).try_acquire());
  CHECK(first->loss() == loss_reason::taken_over);
}

EVERY_CASE("each_acquire: two requests on one thread never take each other's lock, whoever asks") {
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.owner = each_acquire{}});
  auto first = x.try_acquire();
  REQUIRE(first);
  CHECK(x.try_acquire().status() == acquire_status::busy);
  CHECK(m->make_mutex("x").try_acquire().status() == acquire_status::busy);
  CHECK(first->valid());
  // The second waits in line, and is served when the first, from whatever thread, gives back.
  auto second = std::async(std::launch::async, [&] { return x.acquire(); });
  std::thread([&] { CHECK(first->release() == release_result::released); }).join();
  auto const got = second.get();
  REQUIRE(got);
  CHECK_FALSE(got->owner().same(first->owner()));
  CHECK(got->owner().process == first->owner().process);
  CHECK_FALSE(got->owner().is_explicit());
}

CONTRACT_CASE(
    "each_acquire: lock() and recursion are refused, because nobody could tell whose lock is meant") {
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.owner = each_acquire{}});
  auto const reason = [](auto const& call) {
    try {
      call();
    } catch (error const& e) {
      return std::optional(e.reason());
    }
    return std::optional<errc>();
  };
  CHECK(reason([&] { x.lock(); }) == errc::unsupported);
  CHECK(reason([&] { (void)x.try_lock(); }) == errc::unsupported);
  CHECK(reason([&] { (void)x.try_lock_for(1s); }) == errc::unsupported);
  CHECK(reason([&] { (void)m->make_recursive_mutex("x", {.owner = each_acquire{}}); }) ==
        errc::invalid_argument);
  x.unlock();
  CHECK(x.try_acquire());
}

CONTRACT_CASE(
    "an explicit owner that comes back by another manager: its former self is told there, at once") {
  std::atomic<bool> told{false};
  auto o = f.options;
  o.on_event = [&](event const& e) {
    if (e.kind == event_kind::lost && e.loss == loss_reason::taken_over) told = true;
  };
  auto const m = f.manager(o);
  auto const n = f.manager();
  auto const former = m->make_mutex("x", {.ttl = 1h, .owner = takes_over{"job-7"}}).acquire();
  REQUIRE(former);
  auto const now = std::async(std::launch::async, [&] {
                     return n->make_mutex("x", {.ttl = 1h, .owner = takes_over{"job-7"}}).try_acquire();
                   }).get();
  REQUIRE(now);
  CHECK(former->loss() == loss_reason::taken_over);
  CHECK(eventually([&] { return former->loss_token().stop_requested(); }));
  CHECK(eventually([&] { return told.load(); }));
  CHECK(now->valid());
}

CONTRACT_CASE("B17: a call of an explicit owner that comes too late takes nothing from its newer self") {
  std::optional<acquisition> newer;
  std::atomic<bool> armed{true};
  auto const n = f.manager();
  mutex_options const o{.owner = takes_over{"job-7"}};
  auto events = f.options;
  events.on_event = [&](event const& e) {
    if (e.kind == event_kind::taken && armed.exchange(false))
      std::jthread([&] { newer.emplace(n->make_mutex("x", o).try_acquire()); }).join();
  };
  auto const m = f.manager(events);
  std::optional<errc> why;
  try {
    (void)m->make_mutex("x", o).try_acquire_for(60s);
  } catch (error const& e) {
    why = e.reason();
  }
  CHECK(why == errc::unreachable);
  REQUIRE(newer);
  REQUIRE(*newer);
  CHECK((*newer)->valid());
}

LEASE_CASE("B17: an answer that comes too late has no explicit owner take the name from its newer self") {
  std::atomic<bool> armed{true};
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.ttl = 3s, .owner = takes_over{"job-7"}});
  { auto const makes_row = x.acquire(); }
  f.probe->after = [&](std::string const& s) {
    if (s != "lock_take" || !armed.exchange(false)) return;
    auto const granted = boot_clock::now();
    f.sql("UPDATE rowlock_locks SET term = 'newer', takeover = 'observed' WHERE name = 'x'");
    CHECK(eventually([&] { return boot_clock::now() >= granted + 3s; }));
  };
  std::optional<errc> why;
  try {
    (void)x.try_acquire_for(60s);
  } catch (error const& e) {
    why = e.reason();
  }
  f.probe->after = nullptr;
  CHECK(why == errc::unreachable);
  CHECK_FALSE(armed);
  CHECK(m->list().size() == 1);
}

LEASE_CASE("B17: what comes too late for one thread is lost for the others that share it, too") {
  std::optional<acquisition> shared;
  std::atomic<bool> armed{true};
  std::atomic<bool> held_up{false};
  std::atomic<bool> go_on{false};
  auto o = f.options;
  o.on_event = [&](event const& e) {
    if (e.kind == event_kind::lost && e.name == "before" && !held_up.exchange(true))
      CHECK(eventually([&] { return go_on.load(); }));  // it is the watchdog's thread
    if (e.kind != event_kind::taken || e.name != "x" || !armed.exchange(false)) return;
    CHECK(eventually([&] { return held_up.load(); }));
    // A twentieth of the ttl before trust ends the watchdog would say that it is lost.
    CHECK(eventually([&] { return boot_clock::now() >= *e.trusted_until - 250ms; }));
  };
  auto const m = f.manager(o);
  auto const before = m->make_mutex("before", {.ttl = 2s, .renew = false}).acquire();
  auto x = m->make_recursive_mutex("x", {.ttl = 6s, .renew = false, .owner = takes_over{"job-7"}});
  std::jthread sharer([&] {
    CHECK(eventually([&] { return !armed.load(); }));
    shared.emplace(x.try_acquire());
  });
  CHECK_THROWS_AS((void)x.try_acquire(), error);
  sharer.join();
  REQUIRE(shared);
  REQUIRE(*shared);
  CHECK((*shared)->loss() == loss_reason::expired);
  go_on = true;
  CHECK(eventually([&] { return (*shared)->loss_token().stop_requested(); }));
}
