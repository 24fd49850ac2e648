// The program's commit depends on a permit: of a reader, of a writer, or of a semaphore. lib/doc/permits.md

#include <array>
#include <functional>
#include <thread>
#include <vector>

#include "contract/permits.hpp"
#include "guard/handles.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

enum class permit { reader, writer, counted };
constexpr std::array kinds{permit::reader, permit::writer, permit::counted};

held_lock take(lock_manager& m, permit what, mutex_options o = {}) {
  if (what == permit::counted) return *m.make_semaphore("s", 10, std::move(o)).try_acquire(3);
  auto x = m.make_shared_mutex("x", std::move(o));
  return what == permit::reader ? *x.try_acquire_shared() : *x.try_acquire();
}

/// Whether another program can have all of it.
bool can_have_all(fixture& f, permit what) {
  bool const counts = what == permit::counted;
  permit_taker other(f, counts ? strategy::semaphore : strategy::shared, counts ? "s" : "x");
  return other.take(counts ? permit_taker::of(10, 10) : permit_taker::writer()) && other.release();
}

}  // namespace

TEST_CASE_TEMPLATE("permits: require commits, at each isolation level, and it is held as before", On,
                   ROWLOCK_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  int n = 0;
  for (auto const what : kinds)
    for (auto const& level : levels_of<On>()) {
      CAPTURE(level);
      auto held = take(*m, what);
      begin(f, *p, level);
      tx->require(held);
      p->run(f.set_counter(++n));
      p->commit();
      begin(f, *p, level);
      p->run(f.set_counter(++n));
      tx->execute_commit(held);
      CHECK(f.open()->value(f.read_counter()) == std::to_string(n));
      CHECK(held.valid());
      CHECK(held.release() == release_result::released);
    }
}

TEST_CASE_TEMPLATE("permits: require of what is lost is refused, with its reason, and so is execute_commit",
                   On, ROWLOCK_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  struct {
    std::function<void(permit)> lose;
    loss_reason why;
  } const ways[] = {
      {[&](permit what) { REQUIRE(m->revoke(what == permit::counted ? "s" : "x", revoke_mode::at_renewal)); },
       loss_reason::revoked},
      {[&](permit what) { REQUIRE(m->revoke(what == permit::counted ? "s" : "x", revoke_mode::now)); },
       loss_reason::row_gone},
      {[&](permit what) {
         expire_permits(f);
         REQUIRE(can_have_all(f, what));  // it is purged
       },
       loss_reason::row_gone}};
  for (auto const what : kinds)
    for (auto const& way : ways)
      for (bool const at_commit : {false, true}) {
        CAPTURE(static_cast<int>(what));
        CAPTURE(at_commit);
        auto held = take(*m, what, {.renew = false});
        way.lose(what);
        begin(f, *p);
        p->run(f.set_counter(7));
        if (at_commit) {
          CHECK(reason_of([&] { tx->execute_commit(held); }) == errc::lock_lost);
        } else {
          CHECK(reason_of([&] { tx->require(held); }) == errc::lock_lost);
          p->run("ROLLBACK");
        }
        CHECK(held.loss() == way.why);
        CHECK(f.open()->value(f.read_counter()) == "0");
        f.sql("DELETE FROM rowlock_permits");
      }
}

TEST_CASE_TEMPLATE(
    "permits: what is required is nobody else's until the transaction ends, also if it has expired", On,
    ROWLOCK_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  for (auto const what : kinds)
    for (std::string const end : {"COMMIT", "ROLLBACK"}) {
      CAPTURE(static_cast<int>(what));
      auto held = take(*m, what, {.renew = false});
      expire_permits(f);
      begin(f, *p);
      tx->require(held);
      CHECK_FALSE(can_have_all(f, what));
      p->run(f.set_counter(1));
      p->run(end);
      CHECK(can_have_all(f, what));
      CHECK(held.release() == release_result::already_lost);
    }
}

// With one row for both the second one's transaction would wait for the first one's.
TEST_CASE_TEMPLATE("permits: two threads of a process that read commit beside each other [C49]", On,
                   ROWLOCK_SERVER_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const q = f.open();
  auto const first = p->view(*m);
  auto const second = q->view(*m);
  auto x = m->make_shared_mutex("x");
  auto mine = x.try_acquire_shared();
  REQUIRE(mine);
  std::optional<held_lock> theirs;
  std::jthread([&] { theirs.emplace(*x.try_acquire_shared()); }).join();
  CHECK(theirs->term() != mine->term());
  begin(f, *p);
  first->require(*mine);
  begin(f, *q);
  auto const began = boot_clock::now();
  second->require(*theirs);
  second->execute_commit(*theirs);
  CHECK(boot_clock::now() - began < 30s);
  first->require(*mine);  // it is open still
  p->commit();
  CHECK(mine->release() == release_result::released);
  CHECK(theirs->release() == release_result::released);
}

TEST_CASE_TEMPLATE("permits: a lock and several permits are required together, all or none", On,
                   ROWLOCK_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto plain = *m->make_mutex("plain").acquire();
  auto reads = take(*m, permit::reader);
  auto counts = take(*m, permit::counted, {.renew = false});
  begin(f, *p);
  tx->require(plain, reads, counts);
  p->commit();
  begin(f, *p);
  p->run(f.set_counter(1));
  tx->execute_commit(plain, reads, counts);
  CHECK(p->value(f.read_counter()) == "1");
  REQUIRE(m->revoke("s", revoke_mode::now));
  begin(f, *p);
  p->run(f.set_counter(2));
  CHECK(reason_of([&] { tx->execute_commit(plain, reads, counts); }) == errc::lock_lost);
  CHECK(f.open()->value(f.read_counter()) == "1");
  CHECK(plain.valid());
  CHECK(reads.valid());
}

TEST_CASE_TEMPLATE("permits: one that is exchanged is required by its new term", On, ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = take(*m, permit::reader);
  begin(f, *p);
  tx->require(held);
  CHECK(reason_of([&] { (void)held.try_upgrade(); }) == errc::row_locked);
  p->commit();
  REQUIRE(held.try_upgrade());
  begin(f, *p);
  tx->require(held);
  CHECK_FALSE(can_have_all(f, permit::writer));
  p->commit();
  REQUIRE(held.downgrade());
  begin(f, *p);
  tx->execute_commit(held);
  CHECK(held.release() == release_result::released);
}
