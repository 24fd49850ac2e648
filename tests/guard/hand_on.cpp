// What a transaction has asked by a term, and that term's way to the next thread: lib/doc/hand_on.md.

#include <optional>
#include <thread>

#include "guard/handles.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// A lock for which another thread waits, with the same options and without tokens: if nothing forbids it, it
/// is handed on.
struct wanted {
  explicit wanted(lock_manager& m)
      : x(m.make_mutex("x", options())), held(*x.acquire()), next([this] { wait(); }) {
    REQUIRE(eventually([this] { return waits.load(); }));
  }
  mutex_options options() {
    return {
        .fencing = false, .owner = each_acquire{}, .on_wait = [this](holder_info const*) { waits = true; }};
  }
  void wait() {
    auto got = x.acquire();
    CHECK(got);
    if (got) CHECK(got->release() == release_result::released);
  }
  /// Whether its term went on with the other thread.
  bool goes_on() {
    CHECK(held.release() == release_result::released);
    return held.term().empty();
  }

  std::atomic<bool> waits{false};
  mutex x;
  held_lock held;
  std::jthread next;
};

}  // namespace

TEST_CASE_TEMPLATE("hand-on: a term that a transaction has asked by ends with its owner [C46]", On,
                   ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  // Not on a machine that is too busy to do all of that in 50 ms.
  CHECK(eventually([&] { return wanted(*m).goes_on(); }));
  for (auto const* end : {"ROLLBACK", "COMMIT"}) {
    CAPTURE(end);
    wanted required(*m);
    begin(f, *p);
    tx->require(required.held);
    p->run(end);
    CHECK_FALSE(required.goes_on());
  }
  wanted stated(*m);
  CHECK(!stated.held.guard_statements().empty());
  CHECK_FALSE(stated.goes_on());
  wanted committed(*m);
  begin(f, *p);
  tx->execute_commit(committed.held);
  CHECK_FALSE(committed.goes_on());
}

TEST_CASE_TEMPLATE("hand-on: the former owner of a term that has gone on is refused [C46]", On,
                   ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  std::optional<wanted> lock;
  REQUIRE(eventually([&] {
    lock.reset();
    return lock.emplace(*m).goes_on();
  }));
  begin(f, *p);
  CHECK(reason_of([&] { tx->require(lock->held); }) == errc::lock_lost);
  p->run("ROLLBACK");
  begin(f, *p);
  CHECK(reason_of([&] { tx->execute_commit(lock->held); }) == errc::lock_lost);
}
