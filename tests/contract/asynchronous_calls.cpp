// Asynchronous calls beside those that take one lock: several locks, extend, notes, records, exchanges, and
// what waits for a loss, a release, or the manager's end.
#include <future>

#include "contract/async_loop.hpp"
#include "contract/permits.hpp"
#include "contract/waits.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

template <class Result>
std::optional<errc> reason_of(answer<Result> const& a) {
  if (!a.failed) return std::nullopt;
  return reason([&] { std::rethrow_exception(a.failed); });
}

using loss = std::optional<loss_reason>;

std::vector<std::string> const z_before_a{"z", "a"};

}  // namespace

LEASE_CASE("async calls: extend and set_note ask by a worker, and the handle may move meanwhile") {
  stranger other(f);
  loop l;
  auto const m = f.manager();
  auto got = m->make_mutex("x", {.ttl = 30s}).try_acquire();
  REQUIRE(got);
  auto lock = *std::move(got);
  auto const before = *lock.trusted_until();
  answer<bool> extended;
  answer<bool> noted;
  lock.async_extend(2min, l.where(), extended.handler());
  CHECK(extended.calls == 0);
  auto moved = std::move(lock);
  l.turn();
  CHECK(extended.came == true);
  CHECK(*moved.trusted_until() > before + 60s);
  moved.async_set_note("later", l.where(), noted.handler());
  l.turn();
  CHECK(noted.came == true);
  CHECK(other.read("x")->holder.note == "later");
  answer<bool> wrong;
  moved.async_extend(-1ms, l.where(), wrong.handler());
  l.turn();
  CHECK(reason_of(wrong) == errc::invalid_argument);
  CHECK(moved.release() == release_result::released);
  answer<bool> released;
  moved.async_extend(2min, l.where(), released.handler());
  l.turn();
  CHECK(released.came == false);
}

ONCE_CASE("async calls: done records, and ends the lock") {
  loop l;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto lock = x.try_acquire();
  REQUIRE(lock);
  answer<bool> done;
  lock->async_done(1h, "made", l.where(), done.handler());
  l.turn();
  CHECK(done.came == true);
  CHECK_FALSE(lock->valid());
  CHECK_FALSE(lock->loss());
  CHECK(lock->release() == release_result::released);
  CHECK(x.try_acquire().status() == acquire_status::done);
}

LEASE_CASE("async calls: a reader becomes a writer, and a reader again") {
  using maybe = std::optional<held_lock>;
  other_program other(f);
  loop l;
  auto const m = f.manager();
  auto x = m->make_shared_mutex("x");
  outcome got;
  x.async_acquire_shared(l.where(), got.handler());
  l.turn();
  REQUIRE(got.has());
  auto lock = **std::move(got.came);
  REQUIRE(other.reads());
  answer<maybe> refused;
  lock.async_try_upgrade(l.where(), refused.handler());
  l.turn();
  CHECK_FALSE(refused.failed);
  CHECK_FALSE(*refused.came);
  CHECK(lock.valid());
  other.give_back();
  answer<maybe> up;
  lock.async_try_upgrade(l.where(), up.handler());
  l.turn();
  REQUIRE(*up.came);
  CHECK_FALSE(lock.valid());
  CHECK_FALSE(lock.loss());
  CHECK((*up.came)->token() > lock.token());
  lock = **std::move(up.came);
  CHECK(lock.valid());
  CHECK_FALSE(other.reads());
  answer<maybe> again;
  lock.async_try_upgrade(l.where(), again.handler());  // it is one
  l.turn();
  REQUIRE(*again.came);
  lock = **std::move(again.came);
  CHECK(lock.valid());
  SUBCASE("and stays one") {
    answer<maybe> down;
    lock.async_downgrade(l.where(), down.handler());
    l.turn();
    REQUIRE(*down.came);
    CHECK(other.reads());
    CHECK_FALSE(other.writes());
  }
  SUBCASE("a new lock that the loop drops is released") {
    answer<maybe> down;
    lock.async_downgrade(l.where(), down.handler());
    REQUIRE(l.comes());
    l.drop();
    CHECK(down.calls == 0);
    CHECK_FALSE(lock.valid());
    CHECK(eventually([&] { return other.writes(); }));
  }
}

LEASE_CASE("async calls: an exchange of a plain lock is refused by its handler") {
  loop l;
  auto const m = f.manager();
  auto plain = m->make_mutex("plain").try_acquire();
  REQUIRE(plain);
  answer<std::optional<held_lock>> up;
  plain->async_try_upgrade(l.where(), up.handler());
  l.turn();
  CHECK(reason_of(up) == errc::unsupported);
  CHECK(plain->valid());
}

CONTRACT_CASE("async calls: lost() completes by a loss, with its reason") {
  stranger other(f);
  loop l;
  auto const m = f.manager();
  auto lock = m->make_mutex("x", {.ttl = 2s}).try_acquire();
  REQUIRE(lock);
  answer<loss> why;
  lock->async_lost(l.where(), why.handler());
  REQUIRE(m->revoke("x", revoke_mode::now));
  l.turn();
  CHECK(why.calls == 1);
  REQUIRE(why.came);
  CHECK(*why.came == lock->loss());
  CHECK(why.came->has_value());
  answer<loss> again;
  lock->async_lost(l.where(), again.handler());  // it is known at once
  l.turn();
  CHECK(*again.came == *why.came);
}

EVERY_CASE("async calls: lost() completes by a release, a stop and the manager's end, and keeps no lock") {
  loop l;
  answer<loss> why;
  std::stop_source stop;
  auto m = f.manager();
  auto x = m->make_mutex("x");
  auto lock = std::make_unique<acquisition>(x.try_acquire());
  REQUIRE(*lock);
  (*lock)->async_lost(l.where(), why.handler(), stop.get_token());
  CHECK(l.waiting() == 0);
  SUBCASE("released") { CHECK((*lock)->release() == release_result::released); }
  SUBCASE("released later") { (*lock)->release_later(); }
  SUBCASE("destroyed") {
    lock.reset();
    CHECK(x.try_acquire());
  }
  SUBCASE("stopped") {
    stop.request_stop();
    l.turn();
    CHECK((*lock)->valid());
    CHECK((*lock)->release() == release_result::released);
  }
  SUBCASE("the manager's end") { m.reset(); }
  if (why.calls == 0) l.turn();
  CHECK(why.calls == 1);
  CHECK_FALSE(why.failed);
  INFO(std::string(*why.came ? to_string(**why.came) : "no loss"));
  CHECK_FALSE(*why.came);
  CHECK(l.waiting() == 0);
}

LEASE_CASE("async calls: lost() completes by a hand-off inside the process") {
  loop l;
  answer<loss> why;
  std::atomic<int> wait{0};
  std::vector<outcome> all(3);
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.on_wait = [&](holder_info const*) { ++wait; }});
  for (auto& one : all) x.async_acquire(l.where(), one.handler());
  REQUIRE(eventually([&] { return wait >= 2; }));
  l.turn();
  (*all[0].came)->release_later();
  l.turn();  // it has drawn tokens for the next one
  REQUIRE(all[1].has());
  (*all[1].came)->async_lost(l.where(), why.handler());
  (*all[1].came)->release_later();
  l.turn();
  l.turn();
  CHECK(all[2].has());
  REQUIRE(why.calls == 1);
  CHECK_FALSE(*why.came);
}

EVERY_CASE("async calls: wait_until_free_for waits for the release, until a timeout or a stop") {
  loop l;
  answer<bool> came;
  std::stop_source stop;
  auto const m = f.manager();
  lock_manager other(f.source, f.options);
  auto theirs = other.make_mutex("x").acquire();
  REQUIRE(theirs);
  auto x = m->make_mutex("x");
  bool is_free = false;
  SUBCASE("a release") {
    x.async_wait_until_free_for(60s, l.where(), came.handler());
    CHECK(theirs->release() == release_result::released);
    is_free = true;
  }
  SUBCASE("a timeout") { x.async_wait_until_free_for(50ms, l.where(), came.handler()); }
  SUBCASE("a stop") {
    x.async_wait_until_free_for(60s, l.where(), came.handler(), stop.get_token());
    stop.request_stop();
  }
  l.turn();
  CHECK(came.calls == 1);
  CHECK_FALSE(came.failed);
  CHECK(came.came == is_free);
}

LEASE_CASE("async calls: all of several locks or none, in the order of the caller's list") {
  using all = acquisition_of_all;
  stranger other(f);
  loop l;
  answer<all> one_attempt;
  answer<all> waits;
  auto const m = f.manager();
  mutex_options const options;
  REQUIRE(other.take("a"));
  m->async_try_acquire_all(z_before_a, options, l.where(), one_attempt.handler());
  l.turn();
  CHECK_FALSE(*one_attempt.came);
  CHECK(one_attempt.came->status() == acquire_status::busy);
  CHECK(one_attempt.came->busy_name() == "a");
  CHECK(other.sees_free("z"));
  m->async_acquire_all(z_before_a, options, l.where(), waits.handler());
  REQUIRE(other.release("a"));
  l.turn();
  REQUIRE(*waits.came);
  auto locks = **std::move(waits.came);
  REQUIRE(locks.size() == 2);
  CHECK(locks[0].name() == "z");
  CHECK(locks[1].name() == "a");
  CHECK(locks.valid());
  SUBCASE("released by a call") {
    answer<release_result> released;
    locks.async_release(l.where(), released.handler());
    CHECK_FALSE(locks.valid());
    l.turn();
    CHECK(released.came == release_result::released);
    CHECK(other.sees_free("z"));
    CHECK(other.sees_free("a"));
  }
  SUBCASE("released later") { locks.release_later(); }
  SUBCASE("destroyed") { auto const end = std::move(locks); }
  CHECK(eventually([&] { return other.sees_free("z") && other.sees_free("a"); }));
}

LEASE_CASE(
    "async calls: several locks whose loop drops them are all given back, and so if they come too late") {
  using all = acquisition_of_all;
  stranger other(f);
  loop l;
  answer<all> came;
  std::atomic<bool> asked{false};
  std::atomic<bool> goes_on{false};
  std::stop_source stop;
  auto const m = f.manager();
  mutex_options const options;
  REQUIRE(m->try_acquire_all({"a", "z"}));  // the sessions are there
  int calls = 0;
  SUBCASE("dropped") {
    m->async_acquire_all(z_before_a, options, l.where(), came.handler());
    REQUIRE(l.comes());
    CHECK_FALSE(other.sees_free("z"));
    l.drop();
  }
  SUBCASE("stopped while the question is under way") {
    f.probe->after = [&](std::string const& s) {
      if (s.starts_with("lock_take") && !asked.exchange(true))
        CHECK(eventually([&] { return goes_on.load(); }));
    };
    m->async_acquire_all(z_before_a, options, l.where(), came.handler(), stop.get_token());
    REQUIRE(eventually([&] { return asked.load(); }));
    stop.request_stop();
    l.turn();
    CHECK(came.came->status() == acquire_status::cancelled);
    calls = 1;
    goes_on = true;
  }
  CHECK(eventually([&] { return other.sees_free("z") && other.sees_free("a"); }));
  CHECK(came.calls == calls);
  CHECK(l.waiting() == 0);
}

namespace {

task uses_all(lock_manager& m, executor const& where, int& steps) {
  mutex_options const options;
  auto locks = co_await m.async_acquire_all(z_before_a, options, where);
  if (!locks) co_return;
  ++steps;
  CHECK(co_await (*locks)[0].async_extend(2min, where));
  CHECK(co_await (*locks)[1].async_set_note("here", where));
  ++steps;
  CHECK(co_await locks->async_release(where) == release_result::released);
  CHECK_FALSE(co_await (*locks)[0].async_lost(where));
  ++steps;
}

}  // namespace

LEASE_CASE("async calls: a coroutine awaits each of them") {
  stranger other(f);
  loop l;
  int steps = 0;
  auto const m = f.manager();
  auto const where = l.where();
  auto const works = uses_all(*m, where, steps);
  while (!works.done()) l.turn();
  CHECK(steps == 3);
  CHECK(other.sees_free("a"));
  CHECK(other.sees_free("z"));
}

LEASE_CASE("async calls: a candidate leads, its work ends the term, and the next one leads") {
  using term = std::optional<elected>;
  loop l;
  answer<term> first;
  answer<term> second;
  auto const m = f.manager();
  lock_manager other(f.source, f.options);
  election here(*m, "scheduler", {.value = "here"});
  election there(other, "scheduler", {.value = "there"});
  CHECK_FALSE(here.leader());
  here.async_campaign(l.where(), first.handler());
  l.turn();
  REQUIRE(*first.came);
  auto& leads = **first.came;
  CHECK(here.leader()->value == "here");
  CHECK(leads->set_value("still here"));
  CHECK(there.leader()->value == "still here");
  CHECK_FALSE(leads.stop_token().stop_requested());
  CHECK(reason([&] { here.async_campaign(l.where(), first.handler()); }) == errc::would_deadlock);
  CHECK(reason([&] { here.run([](leadership&, std::stop_token const&) {}); }) == errc::would_deadlock);
  there.async_campaign(l.where(), second.handler());
  leads->resign();
  CHECK(leads.stop_token().stop_requested());
  CHECK(l.waiting() == 0);
  first.came->reset();
  l.turn();
  REQUIRE(second.calls == 1);
  REQUIRE(*second.came);
  CHECK((**second.came)->token().value > 0);
  here.async_campaign(l.where(), first.handler());  // its term may still be ending
  second.came->reset();
  l.turn();
  CHECK(first.calls == 2);
  CHECK(*first.came);
}

LEASE_CASE("async calls: a candidate waits until it is healthy, and is told of a loss") {
  using term = std::optional<elected>;
  loop l;
  answer<term> won;
  std::atomic<int> checks{0};
  auto const m = f.manager();
  election e(*m, "scheduler", {.ttl = 2s, .healthy = [&] { return ++checks > 2; }, .health_interval = 10ms});
  e.async_campaign(l.where(), won.handler());
  l.turn();
  REQUIRE(*won.came);
  CHECK(checks >= 4);  // two in vain, one before the campaign, one before the term
  REQUIRE(m->revoke("scheduler", revoke_mode::now));
  CHECK(eventually([&] { return (*won.came)->stop_token().stop_requested(); }));
}

LEASE_CASE("async calls: a stop and the manager's end complete a campaign, and end a term") {
  using term = std::optional<elected>;
  loop l;
  answer<term> came;
  std::stop_source stop;
  auto m = f.manager();
  auto const held = m->make_mutex("scheduler", {.owner = each_acquire{}}).try_acquire();
  REQUIRE(held);
  election e(*m, "scheduler", {});
  e.async_campaign(l.where(), came.handler(), stop.get_token());
  CHECK(l.waiting() == 0);
  SUBCASE("stopped") {
    stop.request_stop();
    l.turn();
    e.async_campaign(l.where(), came.handler());
    m.reset();
    l.turn();
    CHECK(came.calls == 2);
  }
  SUBCASE("the manager's end") {
    m.reset();
    l.turn();
    CHECK(came.calls == 1);
  }
  CHECK_FALSE(came.failed);
  CHECK_FALSE(*came.came);
}

CONTRACT_CASE("async calls: close ends waiting calls, gives back, and completes once") {
  stranger other(f);
  loop l;
  answer<bool> closed;
  outcome waits;
  auto m = f.manager();
  auto x = m->make_mutex("x", {.owner = each_acquire{}});
  auto const held = x.acquire();
  REQUIRE(held);
  x.async_acquire(l.where(), waits.handler());
  m->async_close(l.where(), closed.handler());
  l.turn();
  CHECK(waits.status() == acquire_status::cancelled);
  l.turn();
  CHECK(closed.came == true);
  CHECK_FALSE(closed.failed);
  CHECK_FALSE(held->valid());
  CHECK(other.sees_free("x"));
  CHECK(reason([&] { x.async_acquire(l.where(), waits.handler()); }) == errc::closed);
  CHECK(reason([&] { m->async_close(l.where(), closed.handler()); }) == errc::closed);
  m.reset();
  CHECK(l.waiting() == 0);
  CHECK(closed.calls == 1);
}

CONTRACT_CASE("async calls: the manager may be destroyed before close has completed, or by its handler") {
  loop l;
  answer<bool> closed;
  auto m = f.manager();
  auto x = m->make_mutex("x");
  auto const held = x.acquire();
  REQUIRE(held);
  SUBCASE("before") {
    m->async_close(l.where(), closed.handler());
    m.reset();
    CHECK(l.waiting() == 1);
    l.turn();
    CHECK(closed.calls == 1);
  }
  SUBCASE("by the handler, on the loop") {
    m->async_close(l.where(), [&](std::exception_ptr, bool all) {
      CHECK(all);
      m.reset();
    });
    l.turn();
    CHECK_FALSE(m);
  }
  SUBCASE("by the handler, on the library's thread") {
    std::promise<void> ended;
    m->async_close(on_library_thread, [&](std::exception_ptr, bool all) {
      CHECK(all);
      m.reset();
      ended.set_value();
    });
    ended.get_future().get();
  }
  CHECK_FALSE(held->valid());
}
