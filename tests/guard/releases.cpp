// Giving a lock back while the program's own guarded transaction is open.

#include <thread>

#include "guard/handles.hpp"

using namespace rowlock;
using namespace rowlock::test;

TEST_CASE_TEMPLATE("release: from inside one's own guarded transaction it is handed over at once [B26]", On,
                   ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  stranger other(f);
  // The wait for a row, and release_timeout, are longer. A busy machine is slow now and then: then it is done
  // again.
  CHECK(eventually([&] {
    auto held = *m->make_mutex("a").acquire();
    begin(f, *p);
    tx->require(held);
    auto const start = boot_clock::now();
    CHECK(held.release() == release_result::handed_over);
    auto const took = boot_clock::now() - start;
    CHECK(!other.sees_free("a"));
    p->commit();
    CHECK(eventually([&] { return other.sees_free("a"); }));
    return took < 900ms;
  }));
}

TEST_CASE_TEMPLATE("release: after the guarded transaction it is given back at once", On, ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = *m->make_mutex("a").acquire();
  begin(f, *p);
  tx->require(held);
  p->commit();
  CHECK(held.release() == release_result::released);
  CHECK(stranger(f).sees_free("a"));
}

TEST_CASE_TEMPLATE(
    "release: the next thread has the lock only after the guarded transaction, and sees it [R4][B44]", On,
    ROWLOCK_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const q = f.open();
  auto const tx = p->view(*m);
  auto held = *m->make_mutex("a").acquire();
  begin(f, *p);
  tx->require(held);
  p->run(f.set_counter(41));
  std::optional<std::string> seen;
  std::jthread next([&] {
    auto mine = *m->make_mutex("a").acquire();
    seen = q->value(f.read_counter());
  });
  CHECK(held.release() == release_result::handed_over);
  f.probe->reset();
  CHECK(eventually([&] { return f.probe->executed("lock_take") >= 1; }));  // it tries, and in vain
  CHECK(!seen);
  p->commit();
  next.join();
  CHECK(seen == "41");
}
