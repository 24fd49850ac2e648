// Processes that are killed between a lock and its wait queue, exactly there.
#include <signal.h>

#include "contract/neighbour.hpp"
#include "process/taker.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

constexpr bool at_queues(running_pair const& p) { return on_queues(p) && leases(p); }

constexpr auto long_ttl = 60s;
/// Less than that, and enough for a busy machine.
constexpr auto soon = 40s;

/// Takes by way of the wait queue, gives back, and is killed on the way.
class goner : public taker {
 public:
  goner(fixture const& f, std::chrono::milliseconds lasts, std::string const& when) : taker(f, "x", lasts) {
    // The name has been used: what follows is not its first row's making.
    CHECK(take(60s));
    CHECK(ask("release") == "released released");
    CHECK(ask("die " + when) == "will");
  }
  void takes_and_gives_back() {
    write_line("fair 60000");
    write_line("release");
    CHECK(finish() == 128 + SIGKILL);
  }
};

void can_be_had(fixture const& f, std::chrono::milliseconds within) {
  taker next(f, "x", 5s);
  CHECK(next.take(within));
  CHECK(next.ask("release") == "released released");
}

}  // namespace

PAIRS_CASE(
    "wait queues: a process that is killed when it has the wait queue, and not yet the lock, costs nobody "
    "anything",
    at_queues) {
  goner dies(f, long_ttl, "before lock_take");
  dies.takes_and_gives_back();
  neighbour next(f);
  CHECK(eventually([&] { return next.finds_free(); }));
  CHECK(stranger(f).sees_free("x"));
  can_be_had(f, soon);
}

PAIRS_CASE("wait queues: a process that is killed when it has the lock and the wait queue costs its ttl",
           at_queues) {
  goner dies(f, 2s, "after lock_take");
  dies.takes_and_gives_back();
  CHECK_FALSE(stranger(f).sees_free("x"));
  neighbour next(f);
  CHECK(eventually([&] { return next.finds_free(); }));
  can_be_had(f, soon);
}

PAIRS_CASE("wait queues: a process that is killed before it has given back either costs its ttl", at_queues) {
  goner dies(f, 2s, "before lock_release");
  dies.takes_and_gives_back();
  CHECK_FALSE(stranger(f).sees_free("x"));
  neighbour next(f);
  CHECK(eventually([&] { return next.finds_free(); }));
  can_be_had(f, soon);
}

PAIRS_CASE(
    "wait queues: a process that is killed when it has given back the lock, and not yet heard of it, leaves "
    "both "
    "free",
    at_queues) {
  goner dies(f, long_ttl, "after lock_release");
  dies.takes_and_gives_back();
  CHECK(stranger(f).sees_free("x"));
  neighbour next(f);
  CHECK(eventually([&] { return next.finds_free(); }));
  can_be_had(f, soon);
}
