#include "waiting/local_queue.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/random_id.hpp"
#include "holding/hold.hpp"
#include "support/eventually.hpp"

using namespace rowlock;
using namespace rowlock::holding;
using namespace rowlock::waiting;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

/// A number that no other case uses.
std::size_t fresh_database() {
  static std::size_t last = 1000000;
  return ++last;
}

local_queue& local() { return local_queue::of_this_process(); }

struct counted_bell final : bell {
  void ring() noexcept override { ++rung; }
  int rung = 0;
};

struct place {
  local_queue::key key{fresh_database(), "x"};
  owner_id owner(int n) const { return {"host", 1, "process", n}; }
  local_queue::entrance try_enter(int n) const { return local().enter(key, owner(n), nullptr); }
  local_queue::in_line line_up(int n, bell& b) const {
    auto entered = local().enter(key, owner(n), &b);
    REQUIRE(std::holds_alternative<local_queue::in_line>(entered));
    return std::get<local_queue::in_line>(std::move(entered));
  }
};

local_queue::turn turn_of(local_queue::entrance&& e) {
  REQUIRE(std::holds_alternative<local_queue::turn>(e));
  return std::get<local_queue::turn>(std::move(e));
}

bool is_busy(local_queue::entrance const& e) { return std::holds_alternative<local_queue::busy>(e); }

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
  place const p;
  place const q;
  auto const t = turn_of(p.try_enter(1));
  auto const u = turn_of(q.try_enter(1));
  auto const v = local().enter({p.key.database, "X"}, p.owner(1), nullptr);
  CHECK(std::holds_alternative<local_queue::turn>(v));
}

TEST_CASE("a place that was left can be entered again") {
  place const p;
  for (int i = 0; i < 3; ++i) {
    auto t = turn_of(p.try_enter(i));
    CHECK(is_busy(p.try_enter(9)));
    t.leave();
    t.leave();
  }
  {
    auto t = turn_of(p.try_enter(1));
    auto const moved = std::move(t);
    t.leave();  // it has nothing any more
    CHECK(is_busy(p.try_enter(9)));
  }
  CHECK(std::holds_alternative<local_queue::turn>(p.try_enter(1)));
}

TEST_CASE("the line is served in order, each once") {
  place const p;
  auto front = turn_of(p.try_enter(0));
  std::array<counted_bell, 5> bells;
  std::vector<local_queue::in_line> line;
  for (auto& b : bells) line.push_back(p.line_up(1 + static_cast<int>(line.size()), b));
  front.leave();
  for (std::size_t i = 0; i < line.size(); ++i) {
    for (std::size_t j = 0; j < line.size(); ++j) CHECK(bells[j].rung == (j <= i ? 1 : 0));
    for (auto j = i + 1; j < line.size(); ++j) CHECK_FALSE(line[j].come());
    auto const mine = line[i].come();
    CHECK(mine);
    CHECK_FALSE(line[i].come());
    CHECK(is_busy(p.try_enter(9)));
  }
  CHECK(std::holds_alternative<local_queue::turn>(p.try_enter(9)));
}

TEST_CASE("T18: one that leaves the line leaves no entry") {
  place const p;
  auto front = turn_of(p.try_enter(0));
  counted_bell b;
  {
    auto const first = p.line_up(1, b);
    auto second = p.line_up(2, b);
    auto const moved = std::move(second);
  }
  front.leave();
  CHECK(b.rung == 0);
  CHECK(std::holds_alternative<local_queue::turn>(p.try_enter(3)));
}

TEST_CASE("a very long line is left at once, from its end, too") {
  place const p;
  auto const front = turn_of(p.try_enter(0));
  counted_bell b;
  std::vector<local_queue::in_line> all;
  for (int i = 1; i <= 100'000; ++i) all.push_back(p.line_up(i, b));
  auto const began = steady_clock::now();
  while (!all.empty()) all.pop_back();
  CHECK(steady_clock::now() - began < 3s);  // a quadratic way takes a minute
  CHECK(b.rung == 0);
  CHECK_FALSE(local().is_waited_for(p.key));
}

TEST_CASE("T17: one that leaves the line after its turn has come passes it on") {
  place const p;
  auto front = turn_of(p.try_enter(0));
  counted_bell b;
  auto first = std::make_unique<local_queue::in_line>(p.line_up(1, b));
  auto second = p.line_up(2, b);
  front.leave();
  CHECK(b.rung == 1);
  CHECK_FALSE(second.come());
  first.reset();
  CHECK(b.rung == 2);
  CHECK(second.come());
  CHECK(std::holds_alternative<local_queue::turn>(p.try_enter(3)));
}

TEST_CASE("T17: one that leaves in the very moment of its turn has it or passes it on") {
  place const p;
  int had = 0;
  for (int round = 0; round < 2000; ++round) {
    auto front = turn_of(p.try_enter(0));
    counted_bell b;
    auto first = std::make_unique<local_queue::in_line>(p.line_up(1, b));
    counted_bell last;
    auto second = p.line_up(2, last);
    std::atomic<bool> go{false};
    std::jthread leaver([&] {
      while (!go) std::this_thread::yield();
      front.leave();
    });
    go = true;
    for (int i = 0; i < round % 50; ++i) std::this_thread::yield();
    had += first->come() ? 1 : 0;
    first.reset();
    leaver.join();
    REQUIRE(second.come());
    CHECK(last.rung == 1);
  }
  MESSAGE("had its turn in " << had << " of 2000 rounds");
}

TEST_CASE("a thread's bell keeps one ring for its next wait, and a wait ends by itself") {
  thread_bell b;
  b.ring();
  b.ring();
  b.wait({});
  auto const until = steady_clock::now() + 5ms;
  b.wait(until);
  CHECK(steady_clock::now() >= until);
  std::jthread const other([&b] { b.ring(); });
  b.wait({});
}

TEST_CASE("the same owner finds its hold as long as it is valid, another one its holder") {
  place const p;
  auto const h = hold_with(turn_of(p.try_enter(1)), p.owner(1));
  auto const again = p.try_enter(1);
  REQUIRE(std::holds_alternative<local_queue::already_held>(again));
  CHECK(std::get<local_queue::already_held>(again).by_me == h);
  auto const other = p.try_enter(2);
  REQUIRE(is_busy(other));
  CHECK(std::get<local_queue::busy>(other).holder == h);
  REQUIRE(h->begin_release());
  CHECK(is_busy(p.try_enter(1)));  // it is no more mine, and not yet given back
  h->end_release();
  CHECK(std::holds_alternative<local_queue::turn>(p.try_enter(2)));
}

TEST_CASE("one whose last handle is just given back is not found") {
  place const p;
  auto const h = hold_with(turn_of(p.try_enter(1)), p.owner(1));
  REQUIRE(h->unshare());
  CHECK(is_busy(p.try_enter(1)));
}

TEST_CASE("a hold whose trust has ended is not found by its owner") {
  place const p;
  auto const h = hold_with(turn_of(p.try_enter(1)), p.owner(1), 1ms);
  REQUIRE(test::eventually([&] { return !h->valid(); }));
  CHECK(is_busy(p.try_enter(1)));
  CHECK(h->lose(loss_reason::expired));
  CHECK(std::holds_alternative<local_queue::turn>(p.try_enter(1)));
}

TEST_CASE("a lost hold lets the next one go; so does one that is dropped") {
  place const p;
  auto h = hold_with(turn_of(p.try_enter(1)), p.owner(1));
  counted_bell b;
  {
    auto next = p.line_up(2, b);
    CHECK(next.in_front() == h);
    CHECK_FALSE(next.come());
    REQUIRE(h->lose(loss_reason::taken_over));
    CHECK(b.rung == 1);
    CHECK(next.come());
  }
  h = hold_with(turn_of(p.try_enter(1)), p.owner(1));
  h.reset();
  CHECK(std::holds_alternative<local_queue::turn>(p.try_enter(2)));
}

TEST_CASE("a hold of which a look has the last keeps nobody waiting") {
  place const p;
  auto h = hold_with(turn_of(p.try_enter(1)), p.owner(1));
  auto seen = p.try_enter(2);
  REQUIRE(is_busy(seen));
  h.reset();
  std::get<local_queue::busy>(seen).holder.reset();
  CHECK(std::holds_alternative<local_queue::turn>(p.try_enter(3)));
}

TEST_CASE("a turn that is handed on inside its owner stays where it is in line") {
  place const p;
  auto const former = hold_with(turn_of(p.try_enter(1)), p.owner(1));
  counted_bell b;
  auto waiter = p.line_up(2, b);
  auto turn = former->lose_to_successor();
  REQUIRE(turn);
  CHECK(former->loss() == loss_reason::taken_over);
  CHECK_FALSE(former->lose_to_successor());
  auto const next = hold_with(std::move(*turn), p.owner(1));
  CHECK_FALSE(waiter.come());
  CHECK(b.rung == 0);
  auto const found = p.try_enter(1);
  REQUIRE(std::holds_alternative<local_queue::already_held>(found));
  CHECK(std::get<local_queue::already_held>(found).by_me == next);
  REQUIRE(next->lose(loss_reason::expired));
  CHECK(b.rung == 1);
  CHECK(waiter.come());
}
