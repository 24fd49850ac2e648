#include "waiting/local_queue.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/random_id.hpp"
#include "holding/hold.hpp"
#include "support/eventually.hpp"
#include "support/threads.hpp"

using namespace rowlock;
using namespace rowlock::test;
using namespace rowlock::holding;
using namespace rowlock::waiting;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

local_queue& local() { return local_queue::of_this_process(); }

struct place {
  local_queue::key key{local().number_of(base::random_id()), "x"};
  owner_id owner(int n) const { return {"host", 1, "process", n}; }
  local_queue::entrance enter(int n, std::optional<steady_clock::time_point> until = {},
                              std::stop_token stop = {}) const {
    return local().enter(key, owner(n), until, std::move(stop));
  }
  local_queue::entrance try_enter(int n) const { return enter(n, steady_clock::now() - 1s); }
};

local_queue::turn turn_of(local_queue::entrance&& e) {
  REQUIRE(std::holds_alternative<local_queue::turn>(e));
  return std::get<local_queue::turn>(std::move(e));
}

acquire_status why_not(local_queue::entrance const& e) {
  REQUIRE(std::holds_alternative<local_queue::not_now>(e));
  return std::get<local_queue::not_now>(e).why;
}

std::shared_ptr<hold> hold_with(local_queue::turn t, owner_id owner, std::chrono::milliseconds ttl = 60s) {
  grant_facts f;
  f.name = "x";
  f.owner = std::move(owner);
  f.ttl = ttl;
  f.sent_at = boot_clock::now();
  return hold::make(std::move(f), std::move(t));
}

}  // namespace

TEST_CASE("names and databases are places of their own") {
  auto const n = base::random_id();
  CHECK(local().number_of(n) == local().number_of(n));
  CHECK(local().number_of(n) != local().number_of(n + "x"));
  place const p;
  place const q;
  auto const t = turn_of(p.try_enter(1));
  auto const u = turn_of(q.try_enter(1));
  auto const v = local().enter({p.key.database, "X"}, p.owner(1), steady_clock::now() - 1s, {});
  CHECK(std::holds_alternative<local_queue::turn>(v));
}

TEST_CASE("a place that was left can be entered again") {
  place const p;
  for (int i = 0; i < 3; ++i) {
    auto t = turn_of(p.try_enter(i));
    CHECK(why_not(p.try_enter(9)) == acquire_status::busy);
    t.leave();
    t.leave();
  }
  {
    auto t = turn_of(p.try_enter(1));
    auto const moved = std::move(t);
    t.leave();  // it has nothing any more
    CHECK(why_not(p.try_enter(9)) == acquire_status::busy);
  }
  CHECK(std::holds_alternative<local_queue::turn>(p.try_enter(1)));
}

TEST_CASE("the line is served in order, each once") {
  place const p;
  auto front = turn_of(p.try_enter(0));
  std::vector<int> order;  // guarded by the turn itself
  std::atomic<int> inside{0};
  std::vector<std::jthread> waiters;
  for (int i = 1; i <= 5; ++i) {
    std::atomic<int> number{0};
    waiters.emplace_back([&, i] {
      number = ::gettid();
      auto const t = turn_of(p.enter(i));
      CHECK(++inside == 1);
      order.push_back(i);
      --inside;
    });
    REQUIRE(comes_to_rest(number));  // in line before the next one comes
  }
  front.leave();
  waiters.clear();
  CHECK(order == std::vector<int>{1, 2, 3, 4, 5});
}

TEST_CASE("T18: one that stops waiting leaves no entry, whichever way it stops") {
  place const p;
  auto front = turn_of(p.try_enter(0));
  CHECK(why_not(p.enter(1, steady_clock::now() + 20ms)) == acquire_status::timed_out);
  std::stop_source stop;
  {
    std::atomic<int> number{0};
    std::jthread const waiter([&] {
      number = ::gettid();
      CHECK(why_not(p.enter(2, {}, stop.get_token())) == acquire_status::cancelled);
    });
    REQUIRE(comes_to_rest(number));
    stop.request_stop();
  }
  CHECK(why_not(p.enter(2, {}, stop.get_token())) == acquire_status::cancelled);
  front.leave();
  CHECK(std::holds_alternative<local_queue::turn>(p.try_enter(3)));
}

TEST_CASE("T17: a waiter cancelled or out of time at the moment of its turn has it or passes it on") {
  place const p;
  std::atomic<int> had{0};
  std::atomic<int> gave_up{0};
  for (int round = 0; round < 500; ++round) {
    auto front = turn_of(p.try_enter(0));
    std::stop_source stop;
    std::atomic<bool> go{false};
    auto const try_it = [&](local_queue::entrance const& e) { ++(e.index() == 0 ? had : gave_up); };
    std::jthread first([&] { try_it(p.enter(1, {}, stop.get_token())); });
    std::jthread timed(
        [&] { try_it(p.enter(2, steady_clock::now() + std::chrono::microseconds(round % 300))); });
    std::jthread patient([&] { CHECK(std::holds_alternative<local_queue::turn>(p.enter(3))); });
    std::jthread canceller([&] {
      while (!go) std::this_thread::yield();
      stop.request_stop();
    });
    go = true;
    for (int i = 0; i < round % 50; ++i) std::this_thread::yield();
    front.leave();
    first.join();
    timed.join();
    patient.join();  // a turn that got lost would leave it waiting for ever
  }
  CHECK(had + gave_up == 1000);
  CHECK(had > 0);
  CHECK(gave_up > 0);
}

TEST_CASE("the same owner finds its hold as long as it is valid, another one its holder") {
  place const p;
  auto const h = hold_with(turn_of(p.try_enter(1)), p.owner(1));
  auto const again = p.try_enter(1);
  REQUIRE(std::holds_alternative<local_queue::already_held>(again));
  CHECK(std::get<local_queue::already_held>(again).by_me == h);
  auto const other = p.try_enter(2);
  CHECK(why_not(other) == acquire_status::busy);
  CHECK(std::get<local_queue::not_now>(other).holder == h);
  REQUIRE(h->begin_release());
  CHECK(why_not(p.try_enter(1)) == acquire_status::busy);  // it is no more mine, and not yet given back
  h->end_release();
  CHECK(std::holds_alternative<local_queue::turn>(p.try_enter(2)));
}

TEST_CASE("one whose last handle is just given back is not found") {
  place const p;
  auto const h = hold_with(turn_of(p.try_enter(1)), p.owner(1));
  REQUIRE(h->unshare());
  CHECK(why_not(p.try_enter(1)) == acquire_status::busy);
}

TEST_CASE("a hold whose trust has ended is not found by its owner") {
  place const p;
  auto const h = hold_with(turn_of(p.try_enter(1)), p.owner(1), 1ms);
  REQUIRE(eventually([&] { return !h->valid(); }));
  CHECK(why_not(p.try_enter(1)) == acquire_status::busy);
  CHECK(h->lose(loss_reason::expired));
  CHECK(std::holds_alternative<local_queue::turn>(p.try_enter(1)));
}

TEST_CASE("a lost hold lets the next one go; so does one that is dropped") {
  place const p;
  auto h = hold_with(turn_of(p.try_enter(1)), p.owner(1));
  std::atomic<int> number{0};
  std::jthread waiter([&] {
    number = ::gettid();
    CHECK(std::holds_alternative<local_queue::turn>(p.enter(2)));
  });
  REQUIRE(comes_to_rest(number));
  REQUIRE(h->lose(loss_reason::taken_over));
  waiter.join();
  h = hold_with(turn_of(p.try_enter(1)), p.owner(1));
  h.reset();
  CHECK(std::holds_alternative<local_queue::turn>(p.try_enter(2)));
}

TEST_CASE("a turn that is handed on inside its owner stays where it is in line") {
  place const p;
  auto const former = hold_with(turn_of(p.try_enter(1)), p.owner(1));
  std::atomic<bool> had{false};
  std::atomic<int> number{0};
  std::jthread waiter([&] {
    number = ::gettid();
    auto const t = turn_of(p.enter(2));
    had = true;
  });
  REQUIRE(comes_to_rest(number));
  auto turn = former->lose_to_successor();
  REQUIRE(turn);
  CHECK(former->loss() == loss_reason::taken_over);
  CHECK_FALSE(former->lose_to_successor());
  auto const next = hold_with(std::move(*turn), p.owner(1));
  REQUIRE(comes_to_rest(number));  // who was given the turn would come to its end
  CHECK_FALSE(had);
  auto const found = p.try_enter(1);
  REQUIRE(std::holds_alternative<local_queue::already_held>(found));
  CHECK(std::get<local_queue::already_held>(found).by_me == next);
  REQUIRE(next->lose(loss_reason::expired));
  waiter.join();
  CHECK(had);
}
