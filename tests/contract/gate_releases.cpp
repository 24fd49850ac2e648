// A lock that was waited for at a gate is given back there, and the gate is left with it, in one round trip.
// What may go wrong between the two.

#include <future>

#include "contract/fixture.hpp"
#include "contract/neighbour.hpp"
#include "contract/open_transaction.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

constexpr bool left_at_once(running_pair const& p) { return rows_on_gates(p) && on_a_server(p); }

#define LEFT_CASE(text) PAIRS_CASE(text, left_at_once)

// Who is fair stands at the gate, also if nobody else does.
mutex_options fair() { return {.fair = true}; }
constexpr char at_the_gate[] = "lock_release at the gate";

}  // namespace

LEFT_CASE("gate releases: row and gate are given back on the gate's session") {
  stranger other(f);
  neighbour next(f);
  auto const m = f.manager();
  auto held = m->make_mutex("x", fair()).acquire();
  REQUIRE(held);
  REQUIRE(next.finds_taken());
  f.seam->reset();
  CHECK(held->release() == release_result::released);
  CHECK(f.seam->executed(at_the_gate) == 1);
  CHECK(f.seam->executed_in_all() == 2);  // counted by each of its names
  CHECK(other.sees_free("x"));
  CHECK(next.finds_free());
}

LEFT_CASE("C95: gate releases: whoever stands behind is heard of, and has the gate then") {
  neighbour next(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto held = m->make_mutex("x", fair()).acquire();
  REQUIRE(held);
  auto stands = next.stand();
  CHECK(held->release() == release_result::released);
  CHECK(stands.get() == backend::gate_entry::in_its_turn);
  next.leave();
  f.seam->reset();
  for (int i = 0; i < 2; ++i) CHECK(x.acquire()->release() == release_result::released);
  CHECK(f.seam->executed("enter_gate") == 1);  // the second one finds that nobody is there
}

LEFT_CASE("gate releases: a lock that was taken over is lost, and the gate is left") {
  stranger other(f);
  neighbour next(f);
  auto const m = f.manager();
  auto held = m->make_mutex("x", fair()).acquire();
  REQUIRE(held);
  REQUIRE(other.take_over("x"));
  CHECK(held->release() == release_result::already_lost);
  CHECK(f.seam->executed(at_the_gate) == 1);
  CHECK(next.finds_free());
  CHECK(other.has_still("x"));
}

LEFT_CASE("gate releases: a row that a transaction has locked is handed over, and the gate is left") {
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
  CHECK(f.seam->executed(at_the_gate) == 1);
  CHECK(eventually([&] { return !next.finds_taken(); }));
  t.commit();
  CHECK(eventually([&] { return other.sees_free("x"); }));
}

LEFT_CASE("gate releases: a lost reply is in doubt, and the gate ends with its session") {
  stranger other(f);
  neighbour next(f);
  std::atomic<int> lost{1};
  auto const m = f.manager();
  auto held = m->make_mutex("x", fair()).acquire();
  REQUIRE(held);
  f.seam->after = [&](std::string const& s) {
    if (s == "lock_release" && lost-- > 0) lose_reply();
  };
  CHECK(held->release() == release_result::in_doubt);
  CHECK(eventually([&] { return !next.finds_taken(); }));
  CHECK(other.take("x"));
  CHECK(eventually([&] { return f.seam->executed("lock_release") >= 2; }));  // the keeper's
  CHECK(other.has_still("x"));
}

LEFT_CASE("gate releases: where the gate's session has ended, the lock is given back elsewhere") {
  stranger other(f);
  neighbour next(f);
  std::atomic<int> ended{1};
  auto const m = f.manager();
  auto held = m->make_mutex("x", fair()).acquire();
  REQUIRE(held);
  f.seam->before = [&](std::string const& s) {
    if (s == "lock_release" && ended-- > 0) throw error(errc::unreachable, "the session ended");
  };
  f.seam->reset();
  CHECK(held->release() == release_result::released);
  CHECK(f.seam->executed(at_the_gate) == 1);
  CHECK(f.seam->executed("lock_release") == 2);
  CHECK(other.sees_free("x"));
  CHECK(eventually([&] { return !next.finds_taken(); }));
}

LEFT_CASE("gate releases: what is kept for a while, or was guarded, goes another way") {
  neighbour next(f);
  auto const m = f.manager();
  auto held = m->make_mutex("x", {.at_least = 50ms, .fair = true}).acquire();
  REQUIRE(held);
  CHECK(held->release() == release_result::released);
  CHECK(f.seam->executed(at_the_gate) == 0);
  CHECK(f.seam->executed("leave_gate") == 1);
  CHECK(next.finds_free());
}
