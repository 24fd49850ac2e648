// Calls that are driven by hand, several by one thread: whatever waits, waits in its driver.

#include "base/boot_lead.hpp"
#include "base/deadline.hpp"
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
    REQUIRE(std::holds_alternative<managing::pause>(what));
    CHECK_FALSE(std::get<managing::pause>(what).until);
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
  REQUIRE(std::holds_alternative<managing::taken>(what));
  CHECK(std::get<managing::taken>(what).why == acquire_status::cancelled);
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
    REQUIRE(std::holds_alternative<managing::pause>(what));
    auto const until = std::get<managing::pause>(what).until;
    REQUIRE(until);
    auto const again = c.it.next();
    if (std::chrono::steady_clock::now() >= *until) {
      if (std::holds_alternative<managing::question>(again)) c.it.ask();
      return false;
    }
    REQUIRE(std::holds_alternative<managing::pause>(again));
    CHECK(std::get<managing::pause>(again).until == until);
    return true;
  }));
  c.stop.request_stop();
  CHECK(c.bell.rung == 1);
  auto const end = c.it.next();
  REQUIRE(std::holds_alternative<managing::taken>(end));
  CHECK(std::get<managing::taken>(end).why == acquire_status::cancelled);
  CHECK(std::get<managing::taken>(end).holder);
  CHECK(other.has_still("x"));
}

EVERY_CASE("a call that is dropped before it has handed out its lock gives it back") {
  stranger other(f);
  inside here(f, {});
  here.m->connect();
  {
    call dropped(here);
    REQUIRE(std::holds_alternative<managing::question>(dropped.it.next()));
    dropped.it.ask();
    CHECK_FALSE(other.take("x"));
  }
  CHECK(eventually([&] { return other.take("x"); }));
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
  REQUIRE(std::holds_alternative<managing::taken>(what));
  CHECK(std::get<managing::taken>(what).why == acquire_status::cancelled);
}

namespace {

/// Drives calls, and sees whether this thread reaches the database otherwise than by a question.
class questions_only {
 public:
  explicit questions_only(fixture& f) : probe_(f.probe) {
    probe_->look = [this, me = std::this_thread::get_id()](auto const&, auto) {
      if (std::this_thread::get_id() == me && !asking_) ++touched_;
    };
  }
  ~questions_only() { probe_->look = nullptr; }

  void ask(call& c) {
    asking_ = true;
    c.it.ask();
    asking_ = false;
  }
  /// Until its next question is `kind`, which is not asked.
  bool comes_to(call& c, managing::question::kind kind) {
    return eventually([&] {
      auto const what = c.it.next();
      auto const* const asks = std::get_if<managing::question>(&what);
      if (asks != nullptr && asks->what != kind) ask(c);
      return asks != nullptr && asks->what == kind;
    });
  }
  managing::taken ends(call& c) {
    managing::taken end;
    REQUIRE(eventually([&] {
      auto what = c.it.next();
      if (std::holds_alternative<managing::question>(what)) ask(c);
      auto* const done = std::get_if<managing::taken>(&what);
      if (done != nullptr) end = std::move(*done);
      return done != nullptr;
    }));
    return end;
  }
  int touched() const { return touched_; }

 private:
  std::shared_ptr<statement_probe> probe_;
  std::atomic<bool> asking_{false};
  std::atomic<int> touched_{0};
};

}  // namespace

EVERY_CASE("between its questions a call reaches no database, at its end neither") {
  using kind = managing::question::kind;
  stranger other(f);
  inside here(f, {});
  here.m->connect();
  REQUIRE(other.take("x"));
  questions_only by(f);
  {
    call waits(here, {.deadline = base::deadline_after(300ms)});
    CHECK(by.ends(waits).why == acquire_status::timed_out);
  }
  {
    call asks_once(here, {.one_attempt = true});
    CHECK(by.ends(asks_once).won.empty());
  }
  {
    call dropped(here, {.deadline = base::deadline_after(300ms)});
    REQUIRE(by.comes_to(dropped, kind::attempt));
    by.ask(dropped);
  }
  CHECK(by.touched() == 0);
  REQUIRE(other.release("x"));
  {
    call wins(here);
    REQUIRE(by.comes_to(wins, kind::attempt));
    by.ask(wins);
  }
  CHECK(by.touched() == 0);
  CHECK(eventually([&] { return other.take("x"); }));
}

LEASE_CASE("what came too late to be handed out is given back by a question") {
  using kind = managing::question::kind;
  inside here(f, {.renew = false});
  here.m->connect();
  questions_only by(f);
  call late(here);
  REQUIRE(by.comes_to(late, kind::attempt));
  by.ask(late);
  base::boot_clock_leads_by(30s);
  CHECK(by.comes_to(late, kind::give_back));
  CHECK(by.touched() == 0);
}
