// A lock that was waited for at a wait queue is given back there, and the wait queue is left with it, in one
// round trip. What may go wrong between the two.

#include <future>

#include "contract/fixture.hpp"
#include "contract/neighbour.hpp"
#include "contract/open_transaction.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

constexpr bool left_at_once(running_pair const& p) { return rows_on_queues(p) && on_a_server(p); }

#define LEFT_CASE(text) PAIRS_CASE(text, left_at_once)

// Who is fair stands at the wait queue, also if nobody else does.
mutex_options fair() { return {.fair = true}; }
constexpr char at_the_queue[] = "lock_release at the wait queue";

}  // namespace

LEFT_CASE("wait queue releases: row and wait queue are given back on the wait queue's session") {
  stranger other(f);
  neighbour next(f);
  auto const m = f.manager();
  auto held = m->make_mutex("x", fair()).acquire();
  REQUIRE(held);
  REQUIRE(next.finds_taken());
  f.probe->reset();
  CHECK(held->release() == release_result::released);
  CHECK(f.probe->executed(at_the_queue) == 1);
  CHECK(f.probe->executed_in_all() == 2);  // counted by each of its names
  CHECK(other.sees_free("x"));
  CHECK(next.finds_free());
}

LEFT_CASE("C95: wait queue releases: whoever stands behind is heard of, and has the wait queue then") {
  neighbour next(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto held = m->make_mutex("x", fair()).acquire();
  REQUIRE(held);
  auto stands = next.stand();
  CHECK(held->release() == release_result::released);
  CHECK(stands.get() == backend::queue_entry::in_its_turn);
  next.leave();
  f.probe->reset();
  for (int i = 0; i < 2; ++i) CHECK(x.acquire()->release() == release_result::released);
  CHECK(f.probe->executed("enter_queue") == 1);  // the second one finds that nobody is there
}

LEFT_CASE("wait queue releases: a lock that was taken over is lost, and the wait queue is left") {
  stranger other(f);
  neighbour next(f);
  auto const m = f.manager();
  auto held = m->make_mutex("x", fair()).acquire();
  REQUIRE(held);
  REQUIRE(other.take_over("x"));
  CHECK(held->release() == release_result::already_lost);
  CHECK(f.probe->executed(at_the_queue) == 1);
  CHECK(next.finds_free());
  CHECK(other.has_still("x"));
}

LEFT_CASE(
    "wait queue releases: a row that a transaction has locked is handed over, and the wait queue is left") {
  stranger other(f);
  neighbour next(f);
  auto o = f.options;
  o.release_timeout = 20s;  // InnoDB looks for waits that are over once a second
  auto const m = f.manager(o);
  auto held = m->make_mutex("x", fair()).acquire();
  REQUIRE(held);
  open_transaction t(f);
  t.run("UPDATE rowlock_locks SET note = 'locked'");
  CHECK(held->release() == release_result::handed_over);
  CHECK(f.probe->executed(at_the_queue) == 1);
  CHECK(eventually([&] { return !next.finds_taken(); }));
  t.commit();
  CHECK(eventually([&] { return other.sees_free("x"); }));
}

LEFT_CASE("wait queue releases: a lost reply is in doubt, and the wait queue ends with its session") {
  stranger other(f);
  neighbour next(f);
  std::atomic<int> lost{1};
  auto const m = f.manager();
  auto held = m->make_mutex("x", fair()).acquire();
  REQUIRE(held);
  f.probe->after = [&](std::string const& s) {
    if (s == "lock_release" && lost-- > 0) lose_reply();
  };
  CHECK(held->release() == release_result::in_doubt);
  CHECK(eventually([&] { return !next.finds_taken(); }));
  CHECK(other.take("x"));
  CHECK(eventually([&] { return f.probe->executed("lock_release") >= 2; }));  // the keeper's
  CHECK(other.has_still("x"));
}

LEFT_CASE("wait queue releases: where the wait queue's session has ended, the lock is given back elsewhere") {
  stranger other(f);
  neighbour next(f);
  std::atomic<int> ended{1};
  auto const m = f.manager();
  auto held = m->make_mutex("x", fair()).acquire();
  REQUIRE(held);
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_release" && ended-- > 0) throw error(errc::unreachable, "the session ended");
  };
  f.probe->reset();
  CHECK(held->release() == release_result::released);
  CHECK(f.probe->executed(at_the_queue) == 1);
  CHECK(f.probe->executed("lock_release") == 2);
  CHECK(other.sees_free("x"));
  CHECK(eventually([&] { return !next.finds_taken(); }));
}

LEFT_CASE("wait queue releases: what is kept for a while, or was guarded, goes another way") {
  neighbour next(f);
  auto const m = f.manager();
  auto held = m->make_mutex("x", {.at_least = 50ms, .fair = true}).acquire();
  REQUIRE(held);
  CHECK(held->release() == release_result::released);
  CHECK(f.probe->executed(at_the_queue) == 0);
  CHECK(f.probe->executed("leave_queue") == 1);
  CHECK(next.finds_free());
}
