// Calls that are driven by hand, several by one thread: whatever waits, waits in its driver.

#include "contract/by_hand.hpp"

#include <deque>

using namespace rowlock;
using namespace rowlock::test;

CONTRACT_CASE("a hundred calls in line are driven by one thread, and each is rung in its turn") {
  inside here(f, {.owner = each_acquire{}});
  call first(here);
  auto held = first.won();
  REQUIRE(held);
  std::deque<call> line;
  for (int i = 0; i < 100; ++i) {
    auto& one = line.emplace_back(here);
    auto const what = one.go();
    REQUIRE(std::holds_alternative<acquirer::pause>(what));
    CHECK_FALSE(std::get<acquirer::pause>(what).until);
  }
  for (auto& one : line) {
    CHECK(one.bell.rung == 0);
    CHECK(one.pauses());
    CHECK(here.m->release(held) == release_result::released);
    CHECK(one.bell.rung == 1);
    held = one.won();
    REQUIRE(held);
  }
  CHECK(here.m->release(held) == release_result::released);
}

CONTRACT_CASE("one that stops in line leaves it; the next one is rung") {
  inside here(f, {.owner = each_acquire{}});
  call first(here);
  auto const held = first.won();
  REQUIRE(held);
  auto second = std::make_unique<call>(here);
  call third(here);
  CHECK(second->pauses());
  CHECK(third.pauses());
  second->stop.request_stop();
  CHECK(second->bell.rung == 1);
  auto const what = second->go();
  REQUIRE(std::holds_alternative<acquirer::result>(what));
  CHECK(std::get<acquirer::result>(what).why == acquire_status::cancelled);
  CHECK(here.m->release(held) == release_result::released);
  CHECK(third.bell.rung == 0);
  second.reset();
  CHECK(third.bell.rung == 1);
  auto const last = third.won();
  REQUIRE(last);
  CHECK(here.m->release(last) == release_result::released);
}

CONTRACT_CASE("a call that comes back too early has the rest of its pause, and asks nothing") {
  stranger other(f);
  REQUIRE(other.take("x"));
  inside here(f, {.retry = {.first = 10min, .longest = 10min, .jitter = 0}});
  call c(here);
  // Pauses may be as short as 2 ms: one that a busy machine has let pass shows nothing.
  REQUIRE(eventually([&] {
    auto const what = c.go();
    REQUIRE(std::holds_alternative<acquirer::pause>(what));
    auto const until = std::get<acquirer::pause>(what).until;
    REQUIRE(until);
    auto const again = c.it.next();
    if (std::chrono::steady_clock::now() >= *until) {
      if (std::holds_alternative<acquirer::reply>(again)) c.it.ask();
      return false;
    }
    REQUIRE(std::holds_alternative<acquirer::pause>(again));
    CHECK(std::get<acquirer::pause>(again).until == until);
    return true;
  }));
  c.stop.request_stop();
  CHECK(c.bell.rung == 1);
  auto const end = c.it.next();
  REQUIRE(std::holds_alternative<acquirer::result>(end));
  CHECK(std::get<acquirer::result>(end).why == acquire_status::cancelled);
  CHECK(std::get<acquirer::result>(end).holder);
  CHECK(other.has_still("x"));
}

EVERY_CASE("a call that is dropped before it has handed out its lock gives it back") {
  stranger other(f);
  inside here(f, {});
  here.m->connect();
  {
    call dropped(here);
    REQUIRE(std::holds_alternative<acquirer::reply>(dropped.it.next()));
    dropped.it.ask();
    CHECK_FALSE(other.take("x"));
  }
  CHECK(other.take("x"));
}

EVERY_CASE("the end of a manager rings whoever pauses") {
  inside other(f, {.owner = each_acquire{}});
  call first(other);
  auto const held = first.won();
  REQUIRE(held);
  inside here(f, {.owner = each_acquire{}});
  call second(here);
  CHECK(second.pauses());
  CHECK(second.bell.rung == 0);
  here.m->close();
  CHECK(second.bell.rung == 1);
  auto const what = second.go();
  REQUIRE(std::holds_alternative<acquirer::result>(what));
  CHECK(std::get<acquirer::result>(what).why == acquire_status::cancelled);
}
