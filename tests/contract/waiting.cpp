// Waiting for somebody else: deadlines, cancelling, back-off, the line inside the process.
#include <unistd.h>

#include <future>
#include <stdexcept>
#include <thread>

#include "contract/fixture.hpp"
#include "support/threads.hpp"

using namespace rowlock;
using namespace rowlock::test;

EVERY_CASE("a timed attempt ends at its deadline") {
  stranger other(f);
  REQUIRE(other.take("x"));
  auto const m = f.manager();
  auto const start = std::chrono::steady_clock::now();
  auto const got = m->make_mutex("x").try_acquire_for(300ms);
  auto const took = std::chrono::steady_clock::now() - start;
  CHECK(got.status() == acquire_status::timed_out);
  CHECK(got.holder());
  CHECK(took >= 300ms);
  CHECK(took < 30s);
  CHECK_FALSE(m->make_mutex("x").try_lock_for(0ms));
}

EVERY_CASE("a waiter gets the lock once it is given back") {
  stranger other(f);
  REQUIRE(other.take("x"));
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  std::atomic<bool> had{false};
  std::jthread const waiter([&] {
    auto const got = x.try_acquire_for(60s);
    had = static_cast<bool>(got);
  });
  REQUIRE(eventually([&] { return f.waited(3); }));  // it is waiting
  CHECK_FALSE(had);
  REQUIRE(other.release("x"));
  CHECK(eventually([&] { return had.load(); }));
}

CONTRACT_CASE("R6: a waiter gets the lock of the dead when its term expires") {
  stranger other(f);
  REQUIRE(other.take("x", 500ms));
  auto const m = f.manager();
  CHECK(m->make_mutex("x").try_acquire_for(30s));
}

EVERY_CASE("a waiter can be cancelled, and leaves nothing behind") {
  stranger other(f);
  REQUIRE(other.take("x"));
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  std::stop_source stop;
  acquire_status status = acquire_status::acquired;
  {
    std::jthread const waiter([&] { status = x.acquire(stop.get_token()).status(); });
    REQUIRE(eventually([&] { return f.waited(2); }));
    stop.request_stop();
  }
  CHECK(status == acquire_status::cancelled);
  CHECK(x.acquire(stop.get_token()).status() == acquire_status::cancelled);
  REQUIRE(other.release("x"));
  // T18: no queue entry is in the way. A permit's intent is, for 200 ms.
  if (pair.what == term::permit)
    CHECK(eventually([&] { return bool(x.try_acquire()); }));
  else
    CHECK(x.try_acquire());
}

CONTRACT_CASE("the number of attempts is bounded if asked for") {
  stranger other(f);
  REQUIRE(other.take("x"));
  auto const m = f.manager();
  f.probe->reset();
  auto const got = m->make_mutex("x", {.retry = {.first = 1ms, .longest = 2ms, .attempts = 4}}).acquire();
  CHECK(got.status() == acquire_status::timed_out);
  CHECK(f.probe->executed("lock_read") == 4);  // one each
}

CONTRACT_CASE("a policy of the caller's decides on each wait") {
  stranger other(f);
  REQUIRE(other.take("x"));
  auto const m = f.manager();
  std::vector<int> asked;
  retry_options retry;
  retry.policy = [&](int attempts, holder_info const* holder) -> std::optional<std::chrono::milliseconds> {
    asked.push_back(attempts);
    CHECK(holder != nullptr);
    if (attempts == 3) return std::nullopt;
    return 1ms;
  };
  CHECK(m->make_mutex("x", {.retry = retry}).acquire().status() == acquire_status::timed_out);
  CHECK(asked == std::vector<int>{1, 2, 3});
}

EVERY_CASE("T16: a thousand threads waiting on one name: one of them talks to the database") {
  stranger other(f);
  REQUIRE(other.take("x"));
  auto o = f.options;
  o.queue_connections = 0;
  auto const m = f.manager(o);
  m->connect();
  // A policy that never repeats: each thread that talks to the database makes exactly one attempt.
  auto patient = m->make_mutex("x", {.retry = {.first = 30s, .longest = 30s, .jitter = 0}});
  std::stop_source stop;
  constexpr int threads = 1000;
  {
    std::vector<std::jthread> waiters;
    std::atomic<int> started{0};
    f.probe->reset();
    for (int i = 0; i < threads; ++i)
      waiters.emplace_back([&] {
        ++started;
        (void)patient.acquire(stop.get_token());
      });
    REQUIRE(eventually([&] { return started == threads && f.waited(1); }));
    CHECK(f.probe->executed("lock_take") == 1);
    CHECK(f.probe->connections <= 2);
    stop.request_stop();
  }
  CHECK(f.probe->executed("lock_take") <= 2);
}

EVERY_CASE("a second local waiter costs no round trip, and is served in order") {
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto lock = x.acquire();
  REQUIRE(lock);
  f.probe->reset();
  std::jthread([&] {
    auto const got = x.try_acquire();
    CHECK_FALSE(got);
    CHECK(got.status() == acquire_status::busy);
    REQUIRE(got.holder());
    CHECK(got.holder()->owner.same(lock->owner()));
    CHECK(x.try_acquire_for(20ms).status() == acquire_status::timed_out);
  }).join();
  CHECK(f.probe->executed_in_all() == 0);

  std::mutex guard;
  std::vector<int> order;
  std::vector<std::jthread> waiters;
  for (int i = 0; i < 5; ++i) {
    std::atomic<int> thread{0};
    waiters.emplace_back([&, i] {
      thread = ::gettid();
      auto const got = x.acquire();
      std::lock_guard const hold(guard);
      order.push_back(i);
    });
    REQUIRE(comes_to_rest(thread));  // in line before the next one comes
  }
  (void)lock->release();
  waiters.clear();
  CHECK(order == std::vector<int>{0, 1, 2, 3, 4});
}

EVERY_CASE("O5: distinct names do not wait for each other") {
  auto const m = f.manager();
  std::vector<acquisition> all;
  std::vector<mutex> mutexes;
  for (int i = 0; i < (traits(pair.strategy).owns_session ? pair.row_locks : 200); ++i) {
    mutexes.push_back(m->make_mutex("n" + std::to_string(i)));
    all.push_back(mutexes.back().try_acquire());
    REQUIRE(all.back());
  }
}

EVERY_CASE("threads that each add to a plain number under the lock lose nothing") {
  auto const m = f.manager();
  int number = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&] {
        auto x = m->make_mutex("x");
        for (int i = 0; i < 10; ++i) {
          std::scoped_lock const lock(x);
          ++number;
        }
      });
  }
  CHECK(number == 80);
}

CONTRACT_CASE("C23: the longest wait that can be written is a wait") {
  stranger other(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.retry = {.first = 1ms, .longest = 5ms}});
  std::vector<std::function<bool()>> const calls{
      [&] { return bool(x.try_acquire_for(std::chrono::hours::max())); },
      [&] { return bool(x.try_acquire_for(std::chrono::nanoseconds::max())); },
      [&] { return x.try_lock_until(std::chrono::steady_clock::time_point::max()); },
      [&] { return x.try_lock_until(std::chrono::system_clock::time_point::max()); }};
  for (auto const& call : calls) {
    REQUIRE(other.take("x"));
    f.probe->reset();
    auto got = std::async(std::launch::async, [&] {
      bool const had = call();
      x.unlock();
      return had;
    });
    CHECK(eventually([&] { return f.waited(2) || got.wait_for(0s) == std::future_status::ready; }));
    REQUIRE(other.release("x"));
    CHECK(got.get());
  }
}

CONTRACT_CASE("C23: attempts and policy count while a thread of the same process holds the lock") {
  auto const m = f.manager();
  auto const lock = m->make_mutex("x").acquire();
  REQUIRE(lock);
  retry_options with_policy;
  std::vector<int> asked;
  bool holder_known = true;
  with_policy.policy = [&](int attempts,
                           holder_info const* holder) -> std::optional<std::chrono::milliseconds> {
    asked.push_back(attempts);
    holder_known = holder_known && holder != nullptr && holder->owner.same(lock->owner());
    if (attempts == 3) return std::nullopt;
    return 1ms;
  };
  for (auto const& retry : {retry_options{.first = 1ms, .longest = 2ms, .attempts = 4}, with_policy}) {
    auto const start = std::chrono::steady_clock::now();
    auto got = std::async(std::launch::async,
                          [&] { return m->make_mutex("x", {.retry = retry}).try_acquire_for(60s).status(); });
    CHECK(got.get() == acquire_status::timed_out);
    CHECK(std::chrono::steady_clock::now() - start < 50s);
  }
  CHECK(asked == std::vector<int>{1, 2, 3});
  CHECK(holder_known);
}

CONTRACT_CASE("C23: what a policy throws in line leaves the line, and the next one has its turn") {
  auto const m = f.manager();
  auto lock = m->make_mutex("x").acquire();
  REQUIRE(lock);
  retry_options retry;
  retry.policy = [](int, holder_info const*) -> std::optional<std::chrono::milliseconds> {
    throw std::runtime_error("no patience");
  };
  auto got = std::async(std::launch::async, [&] {
    CHECK_THROWS_AS((void)m->make_mutex("x", {.retry = retry}).try_acquire_for(60s), std::runtime_error);
  });
  got.get();
  auto next = std::async(std::launch::async, [&] { return bool(m->make_mutex("x").try_acquire_for(60s)); });
  CHECK(lock->release() == release_result::released);
  CHECK(next.get());
}
