// Asynchronous calls: what becomes of one that is cancelled, refused, late or alone, at each of its points.
// The program's loop is run by hand.
#include <future>
#include <thread>

#include "contract/async_loop.hpp"
#include "contract/waits.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// Takes, notes the token, and gives back.
task takes(mutex& x, executor const& where, std::vector<std::int64_t>& tokens) {
  auto lock = co_await x.async_acquire(where);
  if (!lock) co_return;
  tokens.push_back(lock->token().value);
  CHECK(co_await lock->async_release(where) == release_result::released);
}

}  // namespace

CONTRACT_CASE("async: a lock comes by the loop, on its thread, and never inside the call") {
  stranger other(f);
  loop l;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  outcome got;
  x.async_acquire(l.where(), got.handler());
  CHECK(got.calls == 0);
  REQUIRE(l.comes());
  CHECK(got.calls == 0);
  l.turn();
  REQUIRE(got.has());
  CHECK(got.calls == 1);
  CHECK(got.ran_on == std::this_thread::get_id());
  CHECK_FALSE(other.sees_free("x"));
  CHECK((*got.came)->release() == release_result::released);
  CHECK(other.sees_free("x"));
}

CONTRACT_CASE("async: calls of one process come in order, and one at a time") {
  loop l;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  std::vector<outcome> all(5);
  for (auto& one : all) x.async_acquire(l.where(), one.handler());
  for (auto& one : all) {
    l.turn();
    REQUIRE(one.has());
    CHECK(l.waiting() == 0);
    (*one.came)->release_later();
  }
}

CONTRACT_CASE("async: the mutex may go while its call waits") {
  loop l;
  auto const m = f.manager();
  outcome got;
  m->make_mutex("x").async_acquire(l.where(), got.handler());
  l.turn();
  CHECK(got.has());
}

CONTRACT_CASE("async: F14: one that is stopped in line completes at once, not on the thread that stops it") {
  loop l;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto held = x.acquire();
  REQUIRE(held);
  outcome got;
  std::stop_source stop;
  x.async_acquire(l.where(), got.handler(), stop.get_token());
  CHECK(l.waiting() == 0);
  stop.request_stop();
  l.turn();
  CHECK(l.posted_by() != std::this_thread::get_id());
  CHECK(got.status() == acquire_status::cancelled);
  CHECK(held->release() == release_result::released);
  CHECK(x.try_acquire());
}

CONTRACT_CASE("async: F4: what a cancelled call's question brings is given back") {
  stranger other(f);
  std::atomic<bool> asked{false};
  std::atomic<bool> goes_on{false};
  loop l;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  REQUIRE(x.try_acquire());  // the sessions are there
  outcome got;
  std::stop_source stop;
  f.probe->after = [&](std::string const& s) {
    if (s == "lock_take" && !asked.exchange(true)) CHECK(eventually([&] { return goes_on.load(); }));
  };
  x.async_acquire(l.where(), got.handler(), stop.get_token());
  REQUIRE(eventually([&] { return asked.load(); }));
  stop.request_stop();
  l.turn();  // before the reply
  CHECK(got.status() == acquire_status::cancelled);
  CHECK_FALSE(other.sees_free("x"));  // granted
  goes_on = true;
  CHECK(eventually([&] { return other.sees_free("x"); }));
  CHECK(got.calls == 1);
  CHECK(l.waiting() == 0);
}

CONTRACT_CASE(
    "async: F15: a grant that the loop refuses, or drops, is given back, and the handler is not called") {
  stranger other(f);
  loop l;  // the call with a loop that refuses can come to its end after the other call
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  outcome got;
  SUBCASE("refused") {
    l.refuse();
    x.async_acquire(l.where(), got.handler());
    auto again = x.acquire();
    CHECK(again);
  }
  SUBCASE("dropped") {
    x.async_acquire(l.where(), got.handler());
    REQUIRE(l.comes());
    CHECK_FALSE(other.sees_free("x"));
    l.drop();
    CHECK(x.acquire());
  }
  CHECK(got.calls == 0);
  CHECK(eventually([&] { return other.sees_free("x"); }));
}

CONTRACT_CASE("async: F17: the manager's end completes each call once") {
  loop l;
  std::vector<outcome> all(3);
  auto m = f.manager();
  auto x = m->make_mutex("x");
  auto const held = x.acquire();
  for (auto& one : all) x.async_acquire(l.where(), one.handler());
  m.reset();
  CHECK(l.waiting() == all.size());
  for (std::size_t i = 0; i < all.size(); ++i) l.turn();  // in any order
  for (auto& one : all) {
    CHECK(one.calls == 1);
    CHECK(one.status() == acquire_status::cancelled);
  }
}

CONTRACT_CASE("async: F17: a handler may end the manager") {
  loop l;
  auto m = f.manager();
  int calls = 0;
  m->make_mutex("x").async_acquire(l.where(), [&](std::exception_ptr, acquisition a) {
    ++calls;
    CHECK(a);
    m.reset();
    CHECK_FALSE(a->valid());
  });
  l.turn();
  CHECK(calls == 1);
}

CONTRACT_CASE("async: a timeout is a result, and one attempt is one") {
  stranger other(f);
  loop l;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  REQUIRE(other.take("x"));
  outcome late;
  outcome busy;
  x.async_acquire_for(50ms, l.where(), late.handler());
  l.turn();
  CHECK(late.status() == acquire_status::timed_out);
  x.async_try_acquire(l.where(), busy.handler());
  l.turn();
  CHECK(busy.status() == acquire_status::busy);
}

CONTRACT_CASE("async: release_later gives back, and the next call of this process waits for that") {
  stranger other(f);
  std::atomic<bool> asked{false};
  std::atomic<bool> goes_on{false};
  loop l;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto first = x.acquire();
  REQUIRE(first);
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_release" && !asked.exchange(true)) CHECK(eventually([&] { return goes_on.load(); }));
  };
  first->release_later();
  CHECK_FALSE(first->valid());
  REQUIRE(eventually([&] { return asked.load(); }));
  outcome next;
  x.async_acquire(l.where(), next.handler());
  goes_on = true;
  l.turn();
  CHECK(next.has());
}

CONTRACT_CASE("async: a recursive_mutex is refused, and a manager that has ended") {
  loop l;
  auto m = f.manager();
  auto const nothing = [](std::exception_ptr, acquisition) { FAIL_CHECK("it was refused"); };
  auto r = m->make_recursive_mutex("r");
  try {
    r.async_acquire(l.where(), nothing);
    FAIL_CHECK("no error");
  } catch (error const& e) {
    CHECK(e.reason() == errc::unsupported);
  }
  auto x = m->make_mutex("x");
  m.reset();
  try {
    x.async_acquire(l.where(), nothing);
    FAIL_CHECK("no error");
  } catch (error const& e) {
    CHECK(e.reason() == errc::closed);
  }
  CHECK(l.waiting() == 0);
}

CONTRACT_CASE("async: coroutines of a loop take a lock one after the other") {
  stranger other(f);
  loop l;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto const where = l.where();
  std::vector<std::int64_t> tokens;
  std::vector<task> all;
  for (int i = 0; i < 5; ++i) all.push_back(takes(x, where, tokens));
  for (int i = 0; i < 10; ++i) l.turn();
  for (auto const& one : all) CHECK(one.done());
  REQUIRE(tokens.size() == 5);
  CHECK(std::is_sorted(tokens.begin(), tokens.end()));
  CHECK(eventually([&] { return other.sees_free("x"); }));
}

CONTRACT_CASE("async: F16: a frame that is destroyed while it waits stops its call") {
  stranger other(f);
  loop l;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto const where = l.where();
  std::vector<std::int64_t> tokens;
  SUBCASE("in line") {
    auto held = x.acquire();
    auto waits = takes(x, where, tokens);
    waits.end();
    l.turn();
    CHECK(held->release() == release_result::released);
  }
  SUBCASE("when the lock is on its way") {
    auto waits = takes(x, where, tokens);
    REQUIRE(l.comes());
    CHECK_FALSE(other.sees_free("x"));
    waits.end();
    l.turn();
  }
  CHECK(tokens.empty());
  CHECK(eventually([&] { return other.sees_free("x"); }));
}

CONTRACT_CASE("async: F14: a call that is stopped before it begins completes by its executor, too") {
  loop l;
  auto const m = f.manager();
  outcome got;
  std::stop_source stop;
  stop.request_stop();
  m->make_mutex("x").async_acquire(l.where(), got.handler(), stop.get_token());
  CHECK(got.calls == 0);
  l.turn();
  CHECK(l.posted_by() != std::this_thread::get_id());
  CHECK(got.status() == acquire_status::cancelled);
}

CONTRACT_CASE("async: F12: what an executor runs inside its post goes to the library's thread") {
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  for (executor const& where : {executor([](posted p) { p(); }), executor(on_library_thread)}) {
    std::promise<bool> came;
    x.async_acquire(where, [&, mine = std::unique_ptr<int>()](std::exception_ptr, acquisition a) {
      came.set_value(static_cast<bool>(a));  // a handler that can only be moved
    });
    CHECK(came.get_future().get());
    // It may wait for the library.
    std::promise<bool> again;
    x.async_acquire(where, [&](std::exception_ptr, acquisition a) {
      CHECK(a->release() == release_result::released);
      again.set_value(static_cast<bool>(x.try_acquire()));
    });
    CHECK(again.get_future().get());
  }
}

CONTRACT_CASE("async: F17: a handler on the library's thread may end the manager") {
  auto o = f.options;
  o.release_timeout = 600s;
  auto m = f.manager(o);
  std::promise<void> ended;
  m->make_mutex("x").async_acquire(on_library_thread, [&](std::exception_ptr, acquisition a) {
    CHECK(a);
    m.reset();
    ended.set_value();
  });
  CHECK(ended.get_future().wait_for(60s) == std::future_status::ready);
}

LEASE_CASE("async: a lock whose trust has ended before its loop came to it is not seen: the call goes on") {
  stranger other(f);
  loop l;
  auto const m = f.manager();
  mutex_options options;
  options.ttl = 1s;
  options.renew = false;
  auto x = m->make_mutex("x", options);
  outcome got;
  bool once = false;
  SUBCASE("one that waits takes it again") { x.async_acquire(l.where(), got.handler()); }
  SUBCASE("one that tries once is told") {
    once = true;
    x.async_try_acquire(l.where(), got.handler());
  }
  REQUIRE(l.comes());
  auto const first = other.token("x");
  REQUIRE(eventually([&] { return other.take("x", 30s, takeover::clock); }));
  REQUIRE(other.release("x"));
  l.turn();
  if (once) {
    CHECK(got.calls == 1);
    CHECK(got.failed);
    return;
  }
  CHECK(got.calls == 0);
  l.turn();
  REQUIRE(got.has());
  CHECK((*got.came)->token().value > first + 1);
}

CONTRACT_CASE("async: release says what came of it, and the destructor does not wait") {
  stranger other(f);
  std::atomic<bool> goes_on{false};
  loop l;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  outcome got;
  x.async_acquire(l.where(), got.handler());
  l.turn();
  REQUIRE(got.has());
  std::vector<release_result> said;
  auto const hears = [&](std::exception_ptr, release_result r) { said.push_back(r); };
  (*got.came)->async_release(l.where(), hears);
  CHECK_FALSE((*got.came)->valid());
  (*got.came)->async_release(l.where(), hears);
  l.turn();
  l.turn();
  CHECK(said == std::vector{release_result::released, release_result::released});
  CHECK(other.sees_free("x"));
  // The session is busy: a destructor that waited would wait for ever.
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_release") CHECK(eventually([&] { return goes_on.load(); }));
  };
  x.async_acquire(l.where(), got.handler());
  l.turn();
  got.came.reset();
  CHECK_FALSE(other.sees_free("x"));
  goes_on = true;
  CHECK(eventually([&] { return other.sees_free("x"); }));
}

LEASE_CASE("async: permits and readers") {
  loop l;
  auto const m = f.manager();
  auto s = m->make_semaphore("s", 2);
  outcome two;
  outcome one;
  s.async_acquire(2, l.where(), two.handler());
  l.turn();
  REQUIRE(two.has());
  s.async_acquire_for(60s, 1, l.where(), one.handler());
  two.came.reset();
  l.turn();
  CHECK(one.has());
  auto rw = m->make_shared_mutex("rw");
  outcome reader;
  outcome other_reader;
  outcome writer;
  rw.async_acquire_shared(l.where(), reader.handler());
  l.turn();
  rw.async_try_acquire_shared(l.where(), other_reader.handler());
  l.turn();
  CHECK(reader.has());
  CHECK(other_reader.has());
  rw.async_try_acquire(l.where(), writer.handler());
  l.turn();
  CHECK(writer.status() == acquire_status::busy);
}

CONTRACT_CASE("async: a policy that waits for nothing keeps no other call from its answer") {
  std::atomic<bool> goes_on{false};
  std::atomic<bool> asks{false};
  std::atomic<int> looks{0};
  loop l;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  { auto const makes_row = x.acquire(); }
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_take" && !asks.exchange(true)) CHECK(eventually([&] { return goes_on.load(); }));
  };
  outcome first;
  outcome second;
  x.async_acquire(l.where(), first.handler());
  REQUIRE(eventually([&] { return asks.load(); }));
  retry_options at_once;
  at_once.policy = [&](int, holder_info const*) {
    ++looks;
    return std::optional(0ms);
  };
  auto hasty = m->make_mutex("x", {.retry = at_once});
  hasty.async_acquire(l.where(), second.handler());
  REQUIRE(eventually([&] { return looks > 100; }));
  goes_on = true;
  l.turn();
  REQUIRE(first.has());
  first.came.reset();
  l.turn();
  CHECK(second.has());
}

CONTRACT_CASE("async: F11: an event hook that ends the manager does not wait for its own thread") {
  stranger other(f);
  REQUIRE(other.take("x"));
  loop l;
  std::unique_ptr<lock_manager> m;
  auto o = f.options;
  o.release_timeout = 600s;
  std::promise<void> ended;
  o.on_event = [&](event const& e) {
    if (e.kind != event_kind::refused) return;
    m.reset();
    ended.set_value();
  };
  m = f.manager(o);
  outcome got;
  auto x = m->make_mutex("x");
  x.async_try_acquire(l.where(), got.handler());
  CHECK(ended.get_future().wait_for(60s) == std::future_status::ready);
  CHECK(l.waiting() == 0);  // nothing is posted after the end
}

ROW_LOCK_CASE("async: row locks beyond the connections wait, and one attempt says so") {
  auto o = f.options;
  o.row_lock_connections = 2;
  loop l;
  auto const m = f.manager(o);
  std::vector<outcome> held(2);
  std::vector<mutex> names;
  for (auto const* name : {"a", "b", "c"}) names.push_back(m->make_mutex(name));
  for (std::size_t i = 0; i < 2; ++i) names[i].async_acquire(l.where(), held[i].handler());
  for (std::size_t i = 0; i < 2; ++i) l.turn();
  for (auto const& one : held) REQUIRE(one.has());
  outcome waits;
  names[2].async_acquire(l.where(), waits.handler());
  held[0].came.reset();
  l.turn();
  CHECK(waits.has());
  outcome once;
  names[0].async_try_acquire(l.where(), once.handler());
  l.turn();
  CHECK((once.failed || !once.has()));
}
