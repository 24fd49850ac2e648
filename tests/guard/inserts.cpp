// transaction::insert(): a lock that comes into force with the program's COMMIT.

#include "guard/handles.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

mutex_options unique() {
  mutex_options o;
  o.strategy = strategy::unique_insert;
  return o;
}

}  // namespace

TEST_CASE_TEMPLATE("insert: in force with COMMIT, given back by its term", On, ROWLOCK_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto mutex = m->make_mutex("job", unique());
  fencing_token last;
  for (int round = 1; round <= 3; ++round) {
    begin(f, *p);
    auto const mine = tx->insert("job", 30s, "by the report");
    REQUIRE(mine);
    CHECK(mine->token > last);
    p->run(f.set_counter(round));
    p->commit();
    auto const busy = mutex.try_acquire();
    CHECK(!busy);
    REQUIRE(busy.holder());
    CHECK(busy.holder()->note == "by the report");
    CHECK(busy.holder()->token == mine->token);
    CHECK(busy.holder()->expires_in > 0ms);
    CHECK(busy.holder()->expires_in <= 30s);
    CHECK(m->list().size() == 1);
    CHECK(!m->release({"job", {"0123"}, {}}));
    CHECK(m->release(*mine));
    CHECK(!m->release(*mine));
    auto held = mutex.try_acquire();
    REQUIRE(held);
    CHECK(held->token() > mine->token);
    last = held->token();
  }
}

TEST_CASE_TEMPLATE("insert: gone with ROLLBACK, or with the savepoint", On, ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  begin(f, *p);
  auto const first = tx->insert("job", 30s);
  REQUIRE(first);
  p->run("ROLLBACK");
  CHECK(stranger(f).sees_free("job"));
  CHECK(!m->release(*first));
  begin(f, *p);
  p->run("SAVEPOINT mine");
  auto const second = tx->insert("job", 30s);
  REQUIRE(second);
  if (!On::sqlite) CHECK(second->token > first->token);
  p->run("ROLLBACK TO SAVEPOINT mine");
  auto const third = tx->insert("job", 30s);
  REQUIRE(third);
  p->commit();
  CHECK(!m->release(*second));
  CHECK(m->release(*third));
}

TEST_CASE_TEMPLATE("insert: held by somebody: empty, and nothing is changed [T1]", On, ROWLOCK_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = *m->make_mutex("job", unique()).acquire();
  auto const before = stranger(f).read("job");
  begin(f, *p);
  CHECK(!tx->insert("job", 30s));
  p->run(f.set_counter(5));
  p->commit();
  CHECK(p->value(f.read_counter()) == "5");
  auto const after = stranger(f).read("job");
  REQUIRE(after);
  CHECK(after->term == held.term());
  CHECK(after->renewals == before->renewals);
  CHECK(held.release() == release_result::released);
}

TEST_CASE_TEMPLATE("insert: what has expired is taken, with a higher token", On, ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  begin(f, *p);
  auto const dead = tx->insert("job", 30s);
  REQUIRE(dead);
  p->commit();
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, -1));
  begin(f, *p);
  auto const mine = tx->insert("job", 30s);
  REQUIRE(mine);
  CHECK(mine->token > dead->token);
  p->commit();
  CHECK(!m->release(*dead));
  CHECK(m->release(*mine));
}

TEST_CASE_TEMPLATE("insert: waits for who has inserted the name and not ended, as long as the program says",
                   On, ROWLOCK_SERVER_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const q = f.open();
  auto const mine = p->view(*m);
  auto const theirs = q->view(*m);
  begin(f, *q);
  REQUIRE(theirs->insert("job", 30s));
  p->run(On::postgresql ? "SET lock_timeout = '50ms'" : "SET innodb_lock_wait_timeout = 1");
  begin(f, *p);
  CHECK(reason_of([&] { (void)mine->insert("job", 30s); }) == errc::row_locked);
  q->run("ROLLBACK");
  auto const got = mine->insert("job", 30s);
  REQUIRE(got);
  p->commit();
  begin(f, *q);
  CHECK(!theirs->insert("job", 30s));
  q->commit();
  CHECK(m->release(*got));
}

TEST_CASE_TEMPLATE("insert: a snapshot older than the lock is too old, and leaves nothing", On,
                   ROWLOCK_INNODB_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  begin(f, *p, "REPEATABLE READ");
  CHECK(p->value(f.read_counter()) == "0");
  CHECK(reason_of([&] { (void)tx->insert("job", 30s); }) == errc::snapshot_too_old);
  p->run(f.set_counter(1));
  p->commit();
  CHECK(stranger(f).sees_free("job"));
}

TEST_CASE_TEMPLATE("insert: an error in the middle, on the manager's session, undoes it", On,
                   ROWLOCK_SERVER_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  m->connect();
  f.probe->before = [](std::string const& statement) {
    if (statement == "token_draw") throw error(errc::unreachable, "cut off");
  };
  begin(f, *p);
  CHECK(reason_of([&] { (void)tx->insert("job", 30s); }) == errc::unreachable);
  f.probe->before = nullptr;
  p->run(f.set_counter(1));
  p->commit();
  CHECK(p->value(f.read_counter()) == "1");
  CHECK(stranger(f).sees_free("job"));
}

TEST_CASE_TEMPLATE("insert: what can't be inserted", On, ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = *m->make_mutex("lease").acquire();
  begin(f, *p);
  CHECK(reason_of([&] { (void)tx->insert("lease", 30s); }) == errc::strategy_mismatch);
  CHECK(reason_of([&] { (void)tx->insert("", 30s); }) == errc::invalid_argument);
  CHECK(reason_of([&] { (void)tx->insert("a", 0ms); }) == errc::invalid_argument);
  CHECK(reason_of([&] { (void)tx->insert("a", 30s, "\xff"); }) == errc::invalid_argument);
  CHECK(tx->insert("it's \\ \u00df", 30s, "it's"));
  p->commit();
  CHECK(!stranger(f).sees_free("it's \\ \u00df"));
}
