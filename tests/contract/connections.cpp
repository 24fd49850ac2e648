// How many connections a manager has: as many as are of use, and no longer than they are.
#include <latch>
#include <thread>

#include "contract/fixture.hpp"
#include "support/threads.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// Takes `n` locks in as many threads, none of which gives back before each has it.
void take_at_once(lock_manager& m, int n) {
  std::latch all(n);
  std::vector<std::jthread> threads;
  for (int i = 0; i < n; ++i)
    threads.emplace_back([&m, &all, i] {
      // Takes that are alike would go together, on one connection.
      auto const got = m.make_mutex("x" + std::to_string(i), {.ttl = 30s + i * 1s}).acquire();
      all.arrive_and_wait();
    });
}

}  // namespace

LEASE_CASE("connections: a manager that is not told has as many as are of use, not more") {
  auto const best = f.source.implementation()->best_connections();
  std::atomic<int> most{0};
  auto const m = f.manager();
  f.probe->before = [&](std::string const&) {
    int const now = f.probe->connections;
    for (int so_far = most; so_far < now && !most.compare_exchange_weak(so_far, now);) {
    }
  };
  for (int i = 0; i < 3; ++i) take_at_once(*m, 8);
  CHECK(most <= best + 1);  // the renewer's
  CHECK(f.probe->connections >= 1);
}

// Not unique_insert: on SQLite it takes inside a transaction, of which there is one at a time.
constexpr bool many_at_once(running_pair const& p) { return p.strategy != strategy::unique_insert; }

PAIRS_CASE("connections: those that nobody has used for long are closed, but one", many_at_once) {
  auto o = f.options;
  o.connections = f.dispatched() ? 8 : 4;  // then half of them are for takes
  o.idle_timeout = 500ms;
  auto const m = f.manager(o);
  auto renewed = m->make_mutex("renewed", {.ttl = 9s}).acquire();  // whose keeper looks
  {
    // Four sessions at once, of whatever kind the strategy uses.
    std::atomic<int> inside{0};
    std::atomic<bool> all{false};
    f.probe->before = [&](std::string const& s) {
      if (s != "lock_take") return;
      if (++inside >= 4) all = true;
      (void)eventually([&] { return all.load(); });
    };
    take_at_once(*m, 4);
    f.probe->before = nullptr;
    CHECK(all);
    CHECK(f.probe->connections >= 4);
  }
  // One stays, one renews or holds.
  CHECK(eventually([&] { return f.probe->connections <= 2; }));
  CHECK(m->make_mutex("x").try_acquire());
  CHECK(renewed->valid());
}
