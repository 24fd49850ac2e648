// The end of a manager while others wait, attempts are under way, and callbacks run.
#include <unistd.h>

#include <future>
#include <latch>
#include <thread>

#include "contract/fixture.hpp"
#include "support/threads.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// A moment that one thread reaches and another lets it go on from. At the end everybody goes on.
class queue {
 public:
  ~queue() { open(); }
  void pass() {
    reached_.count_down();
    opened_.wait();
  }
  void wait_for_somebody() { reached_.wait(); }
  void open() {
    if (!is_open_.exchange(true)) opened_.count_down();
  }

 private:
  std::latch reached_{1};
  std::latch opened_{1};
  std::atomic<bool> is_open_{false};
};

/// As one that connects by a function or a pool of the program's.
class programs_source final : public backend::source {
 public:
  explicit programs_source(connection_source const& s) : inner_(s.implementation()) {}
  std::unique_ptr<backend::connection> connect(boot_time_point deadline) override {
    return inner_->connect(deadline);
  }
  backend::dialect const& sql() const noexcept override { return inner_->sql(); }
  std::string describe() const override { return inner_->describe(); }
  bool uses_the_programs() const noexcept override { return true; }

 private:
  std::shared_ptr<backend::source> inner_;
};

manager_options quick(fixture& f) {
  auto o = f.options;
  o.release_timeout = 300ms;
  o.reply_timeout = 5s;
  return o;
}

std::chrono::milliseconds time_of(std::function<void()> const& call) {
  auto const began = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began);
}

}  // namespace

EVERY_CASE("C2: who waits for a lock of the manager's own gets cancelled at its end, and the lock is free") {
  stranger other(f);
  auto m = f.manager();
  auto x = m->make_mutex("x");
  auto const lock = x.acquire();
  REQUIRE(lock);
  std::atomic<int> started{0};
  std::vector<std::future<acquire_status>> waiters;
  waiters.reserve(3);
  for (int i = 0; i < 3; ++i)
    waiters.push_back(std::async(std::launch::async, [&] {
      ++started;
      return x.acquire().status();
    }));
  REQUIRE(eventually([&] { return started == 3; }));
  m.reset();
  for (auto& w : waiters) CHECK(w.get() == acquire_status::cancelled);
  CHECK(other.take("x"));
  CHECK(x.try_acquire().status() == acquire_status::cancelled);
}

EVERY_CASE("C2: who waits at the database gets cancelled at the manager's end") {
  stranger other(f);
  REQUIRE(other.take("x"));
  auto m = f.manager();
  auto x = m->make_mutex("x");
  auto waiter = std::async(std::launch::async, [&] { return x.acquire().status(); });
  REQUIRE(eventually([&] { return f.waited(2); }));
  m.reset();
  CHECK(waiter.get() == acquire_status::cancelled);
  REQUIRE(other.release("x"));
  // A server that is waiting for a row notices only afterwards that nobody is there any more.
  CHECK(eventually([&] { return other.take("x"); }));
}

CONTRACT_CASE("C2: lock() that waits when the manager ends throws: closed") {
  stranger other(f);
  REQUIRE(other.take("x"));
  auto m = f.manager(quick(f));
  auto x = m->make_mutex("x");
  auto waiter = std::async(std::launch::async, [&] {
    try {
      x.lock();
    } catch (error const& e) {
      return e.code() == std::errc::operation_canceled && e.reason() == errc::closed;
    }
    return false;
  });
  REQUIRE(eventually([&] { return f.waited(2); }));
  m.reset();
  CHECK(waiter.get());
  CHECK_FALSE(x.try_lock());
}

EVERY_CASE("C89: lock() after the manager's end throws at once: closed") {
  auto o = f.options;
  o.release_timeout = 60s;  // twice of which it would take to end a wait
  auto m = f.manager(o);
  auto x = m->make_mutex("x");
  x.lock();
  x.unlock();
  m.reset();
  auto const began = boot_clock::now();
  try {
    x.lock();
    FAIL("taken");
  } catch (error const& e) {
    CHECK(e.reason() == errc::closed);
  }
  CHECK(boot_clock::now() - began < 60s);
}

CONTRACT_CASE(
    "C2: an attempt that wins after the end gives back by itself, and the end does not wait for it") {
  stranger other(f);
  std::atomic<bool> first{true};
  auto m = f.manager(quick(f));
  auto x = m->make_mutex("x");
  REQUIRE(x.try_acquire());  // the sessions are there
  queue reply;
  f.probe->after = [&](std::string const& s) {
    if (s == "lock_take" && first.exchange(false)) reply.pass();
  };
  auto attempt = std::async(std::launch::async, [&] { return x.acquire().status(); });
  reply.wait_for_somebody();
  CHECK(time_of([&] { m.reset(); }) < 50s);
  CHECK_FALSE(other.sees_free("x"));  // granted
  reply.open();
  CHECK(attempt.get() == acquire_status::cancelled);
  CHECK((f.dispatched() ? eventually([&] { return other.sees_free("x"); }) : other.sees_free("x")));
}

CONTRACT_CASE("C2: a lock of another manager's is left alone, and its waiter gets what is given back") {
  auto ending = f.manager();
  auto const staying = f.manager();
  auto x = ending->make_mutex("x");
  auto kept = staying->make_mutex("y").acquire();
  auto const lock = x.acquire();
  REQUIRE(lock);
  auto waiter = std::async(std::launch::async, [&] {
    auto got = staying->make_mutex("x").try_acquire_for(60s);
    return got && got->valid();
  });
  ending.reset();
  CHECK(waiter.get());
  CHECK(kept->valid());
}

CONTRACT_CASE("C2: who waits for a connection can be cancelled") {
  auto o = f.options;
  o.connections = 1;
  o.reply_timeout = 60s;
  std::atomic<bool> first{true};
  auto m = f.manager(o);
  REQUIRE(m->make_mutex("y").try_acquire());
  queue reply;
  f.probe->after = [&](std::string const& s) {
    if (s == "lock_take" && first.exchange(false)) reply.pass();
  };
  auto busy = std::async(std::launch::async, [&] { return m->make_mutex("y").try_acquire().status(); });
  reply.wait_for_somebody();
  std::stop_source stop;
  std::atomic<int> thread{0};
  auto waiter = std::async(std::launch::async, [&] {
    thread = ::gettid();
    return m->make_mutex("x").acquire(stop.get_token()).status();
  });
  REQUIRE(comes_to_rest(thread));
  stop.request_stop();
  CHECK(waiter.wait_for(30s) == std::future_status::ready);
  reply.open();
  CHECK(waiter.get() == acquire_status::cancelled);
  CHECK(busy.get() == acquire_status::acquired);
}

CONTRACT_CASE("C3: two loss callbacks destroy each other's managers") {
  stranger other(f);
  struct side {
    std::unique_ptr<lock_manager> manager;
    std::optional<acquisition> lock;
    std::atomic<bool> done{false};
  } one{f.manager(), {}, {}}, two{f.manager(), {}, {}};
  one.lock.emplace(one.manager->make_mutex("one", {.ttl = 6s}).acquire());
  two.lock.emplace(two.manager->make_mutex("two", {.ttl = 6s}).acquire());
  std::latch both{2};
  auto const destroy = [&both](side& of) {
    both.arrive_and_wait();
    of.manager.reset();
    of.done = true;
  };
  std::stop_callback const first((*one.lock)->loss_token(), [&] { destroy(two); });
  std::stop_callback const second((*two.lock)->loss_token(), [&] { destroy(one); });
  REQUIRE(other.take_over("one"));
  REQUIRE(other.take_over("two"));
  CHECK(eventually([&] { return one.done && two.done; }));
  CHECK(eventually([&] { return f.probe->connections == 0; }));
}

CONTRACT_CASE("C3: a manager that is destroyed by an event hook does not wait for its own thread") {
  std::unique_ptr<lock_manager> m;
  std::atomic<bool> destroyed{false};
  auto o = f.options;
  o.on_event = [&](event const& e) {
    if (e.kind != event_kind::renewed || !m) return;
    auto mine = std::move(m);
    CHECK(time_of([&] { mine.reset(); }) < 50s);
    destroyed = true;
  };
  std::optional<acquisition> lock;
  m = f.manager(o);
  lock.emplace(m->make_mutex("x", {.ttl = 9s}).acquire());
  CHECK(eventually([&] { return destroyed.load(); }));
  CHECK_FALSE((*lock)->valid());
  CHECK(stranger(f).take("x"));
  CHECK(eventually([&] { return f.probe->connections == 0; }));
}

CONTRACT_CASE("C3: a manager and a mutex that are destroyed by a retry policy do not wait for that call") {
  stranger other(f);
  REQUIRE(other.take("x"));
  auto m = f.manager();
  std::optional<mutex> x;
  retry_options retry;
  retry.policy = [&](int, holder_info const*) {
    x.reset();
    m.reset();
    return std::optional(1ms);
  };
  x.emplace(m->make_mutex("x", {.retry = retry}));
  auto status = acquire_status::acquired;
  CHECK(time_of([&] { status = x->acquire().status(); }) < 20s);
  CHECK(status == acquire_status::cancelled);
  CHECK(eventually([&] { return f.probe->connections == 0; }));
}

CONTRACT_CASE("C3: a lock that was lost is given back at the end, though its handle is still there") {
  stranger other(f);
  auto m = f.manager();
  auto const lock = m->make_mutex("x", {.ttl = 30s}).acquire();
  auto const quick_one = m->make_mutex("y", {.ttl = 9s}).acquire();
  REQUIRE(lock);
  REQUIRE(m->revoke("y", revoke_mode::at_renewal));
  REQUIRE(eventually([&] { return quick_one->loss_token().stop_requested(); }));
  m.reset();
  CHECK(other.sees_free("x"));
  CHECK(other.sees_free("y"));
  CHECK(quick_one->loss() == loss_reason::revoked);
}

CONTRACT_CASE("C3: the end waits, beyond release_timeout, until no call uses what is the program's") {
  auto o = quick(f);
  o.reply_timeout = 20s;
  auto m = std::make_unique<lock_manager>(
      connection_source(std::make_shared<programs_source>(observed_by(f.source, f.probe))), o);
  std::optional<held_lock> lock;
  SUBCASE("nothing was taken") {}
  SUBCASE("a lock was") { lock.emplace(*m->make_mutex("x").acquire()); }
  queue in_the_middle;
  std::atomic<bool> is_used{true};
  f.probe->before = [&](std::string const& s) {
    if (s != "lock_list_end") return;
    in_the_middle.pass();
    is_used = false;
  };
  auto call = std::async(std::launch::async, [&, m = m.get()] {
    try {
      (void)m->list();
    } catch (error const&) {  // it may be closed by then
    }
  });
  in_the_middle.wait_for_somebody();
  bool was_used_at_the_end = true;
  auto end = std::async(std::launch::async, [&, mine = std::move(m)]() mutable {
    mine.reset();
    was_used_at_the_end = is_used;
  });
  // Far longer than release_timeout and all that is added to it.
  bool const too_early = end.wait_for(2s) == std::future_status::ready;
  in_the_middle.open();
  end.get();
  call.get();
  CHECK_FALSE(too_early);
  CHECK_FALSE(was_used_at_the_end);
  stranger other(f);
  CHECK(eventually([&] { return other.take("x"); }));  // at its expiry, where release_timeout was too short
}
