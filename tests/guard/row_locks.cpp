// transaction::lock(), try_lock(), try_lock_for(): row locks in the program's own transaction.

#include <thread>
#include <vector>

#include "guard/handles.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

mutex_options row_lock() {
  mutex_options o;
  o.strategy = strategy::row_lock;
  return o;
}

}  // namespace

TEST_CASE_TEMPLATE("lock: until COMMIT or ROLLBACK, for other transactions and for mutexes", On,
                   ROWLOCK_SERVER_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const q = f.open();
  auto const mine = p->view(*m);
  auto const theirs = q->view(*m);
  auto mutex = m->make_mutex("a", row_lock());
  for (std::string const end : {"COMMIT", "ROLLBACK"}) {
    CAPTURE(end);
    begin(f, *p, "READ COMMITTED");
    begin(f, *q, "READ COMMITTED");
    mine->lock("a");
    mine->lock("a");  // once more does no harm
    CHECK(!theirs->try_lock("a"));
    CHECK(!theirs->try_lock_for("a", 50ms));
    CHECK(theirs->try_lock("b"));
    CHECK(!mutex.try_acquire());
    p->run(end);
    CHECK(theirs->try_lock("a"));
    q->commit();
    auto held = mutex.try_acquire();
    REQUIRE(held);
    begin(f, *p);
    CHECK(!mine->try_lock("a"));
    (void)held->release();
    CHECK(mine->try_lock_for("a", 60s));
    p->run("ROLLBACK");
  }
}

TEST_CASE_TEMPLATE("lock: waits in the server until the other transaction has ended, and reads what it wrote",
                   On, ROWLOCK_SERVER_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const q = f.open();
  auto const mine = p->view(*m);
  auto const theirs = q->view(*m);
  begin(f, *p);
  mine->lock("a");
  p->run(f.set_counter(41));
  f.probe->reset();
  std::optional<std::string> seen;
  std::jthread const other([&] {
    begin(f, *q);
    theirs->lock("a");
    seen = q->value(f.read_counter());
    q->commit();
  });
  // The other one has looked for the anchor, and sends what waits next.
  CHECK(eventually([&] { return f.probe->executed_in_all() > 0; }));
  p->commit();
  const_cast<std::jthread&>(other).join();
  CHECK(seen == "41");
}

TEST_CASE_TEMPLATE("lock: the program's own limit of waiting counts, and stays as it is [B21][T9]", On,
                   ROWLOCK_SERVER_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const q = f.open();
  auto const mine = p->view(*m);
  auto const theirs = q->view(*m);
  begin(f, *q);
  theirs->lock("a");
  p->run(On::postgresql ? "SET lock_timeout = '77ms'" : "SET innodb_lock_wait_timeout = 1");
  begin(f, *p);
  p->run(f.set_counter(1));
  CHECK(reason_of([&] { mine->lock("a"); }) == errc::row_locked);
  CHECK(p->value(On::postgresql ? "SHOW lock_timeout" : "SELECT @@innodb_lock_wait_timeout") ==
        (On::postgresql ? "77ms" : "1"));
  q->commit();
  mine->lock("a");
  p->commit();
  CHECK(p->value(f.read_counter()) == "1");  // of before the refusal
}

TEST_CASE_TEMPLATE("lock: refused where the section would read what was before the lock [B19]", On,
                   ROWLOCK_POSTGRESQL_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const q = f.open();
  auto const mine = p->view(*m);
  auto const theirs = q->view(*m);
  for (std::string const level : {"REPEATABLE READ", "SERIALIZABLE"}) {
    CAPTURE(level);
    begin(f, *p, level);
    CHECK(reason_of([&] { mine->lock("a"); }) == errc::unsupported);
    CHECK(reason_of([&] { (void)mine->try_lock("a"); }) == errc::unsupported);
    CHECK(reason_of([&] { (void)mine->insert("b", 30s); }) == errc::unsupported);
    begin(f, *q);
    CHECK(theirs->try_lock("a"));  // nothing was locked
    q->commit();
    p->commit();
  }
}

TEST_CASE_TEMPLATE("lock: a snapshot older than the lock is too old; as a first statement it is not", On,
                   ROWLOCK_INNODB_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  for (std::string const level : {"", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}) {
    CAPTURE(level);
    bool const has_snapshot = level.empty() || level == "REPEATABLE READ";
    begin(f, *p, level);
    CHECK(p->value(f.read_counter()));
    CHECK(reason_of([&] { tx->lock("a"); }) ==
          (has_snapshot ? std::optional(errc::snapshot_too_old) : std::nullopt));
    p->run("ROLLBACK");
    begin(f, *p, level);
    tx->lock("a");
    CHECK(p->value(f.read_counter()));
    p->commit();
  }
}

TEST_CASE_TEMPLATE("lock: several names, in one order whatever the program's is [B20]", On,
                   ROWLOCK_SERVER_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  constexpr int each = 25;
  auto const work = [&](std::initializer_list<std::string_view> names) {
    auto const p = f.open();
    auto const tx = p->view(*m);
    for (int i = 0; i < each; ++i) {
      begin(f, *p);
      tx->lock(names);
      auto const n = std::stoi(*p->value(f.read_counter()));
      p->run(f.set_counter(n + 1));
      p->commit();
    }
  };
  {
    std::jthread const one([&] { work({"a", "b"}); });
    std::jthread const two([&] { work({"b", "a"}); });
    std::jthread const three([&] { work({"b"}); });
  }
  CHECK(f.open()->value(f.read_counter()) == std::to_string(3 * each));
}

TEST_CASE_TEMPLATE(
    "lock: without an anchor none is waited for, at the default isolation level [T7][B20][B45]", On,
    ROWLOCK_SERVER_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const q = f.open();
  auto const mine = p->view(*m);
  auto const theirs = q->view(*m);
  begin(f, *p);
  begin(f, *q);
  // Neighbours in the index, absent all: a gap that one of them had locked would stop the other.
  CHECK(mine->try_lock({"m", "o"}));
  CHECK(theirs->try_lock({"n", "l"}));
  p->commit();
  q->commit();
}

TEST_CASE_TEMPLATE("lock: what can't be locked", On, ROWLOCK_SERVER_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = *m->make_mutex("lease").acquire();
  begin(f, *p);
  CHECK(reason_of([&] { tx->lock("lease"); }) == errc::strategy_mismatch);
  CHECK(reason_of([&] { tx->lock(""); }) == errc::invalid_argument);
  CHECK(reason_of([&] { tx->lock(std::string(256, 'x')); }) == errc::invalid_argument);
  CHECK(reason_of([&] { tx->lock("\xff"); }) == errc::invalid_argument);
  CHECK(reason_of([&] { tx->lock(std::string_view("a\0b", 3)); }) == errc::invalid_argument);
  for (std::string const name :
       {"it's", "a ", "A ", "a\\", "\"", "`", "$1", "?", "%s", "schlo\u00df", "\U0001F512"}) {
    CAPTURE(name);
    p->run("ROLLBACK");
    begin(f, *p);
    CHECK(tx->try_lock(name));
    CHECK(stranger(f).read(name));
  }
  p->commit();
}

TEST_CASE("lock: names are bytes of UTF-8, or the connection can't say them <libpq on postgresql>") {
  libpq_on_postgresql f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  p->run("SET client_encoding = 'LATIN1'");
  begin(f, *p);
  CHECK(reason_of([&] { tx->lock("schlo\u00df"); }) == errc::unsupported);
  tx->lock("schloss");
  p->commit();
}

TEST_CASE_TEMPLATE("lock: on SQLite the write transaction is the lock, and is demanded", On,
                   ROWLOCK_SQLITE_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const q = f.open();
  auto const tx = p->view(*m);
  auto const other = q->view(*m);
  p->run("BEGIN");
  CHECK(reason_of([&] { tx->lock("a"); }) == errc::not_in_transaction);
  CHECK(p->value(f.read_counter()) == "0");
  CHECK(reason_of([&] { tx->lock("a"); }) == errc::not_in_transaction);
  CHECK(reason_of([&] { (void)tx->insert("a", 30s); }) == errc::not_in_transaction);
  p->run("ROLLBACK");
  begin(f, *p);
  tx->lock({"a", "b"});
  CHECK(tx->try_lock("c"));
  CHECK_THROWS_AS(q->run("BEGIN IMMEDIATE"), refused_statement);
  p->commit();
  // A writer, but of another file: not what others would have to wait for.
  scratch_folder const folder;
  q->run("ATTACH '" + folder.file("other.db") + "' AS other");
  q->run("CREATE TABLE other.t (i)");
  begin(f, *p);
  q->run("BEGIN");
  q->run("INSERT INTO other.t VALUES (1)");
  CHECK(reason_of([&] { other->lock("a"); }) == errc::row_locked);
  p->commit();
  other->lock("a");
  CHECK_THROWS_AS(p->run("BEGIN IMMEDIATE"), refused_statement);
  q->commit();
}

TEST_CASE_TEMPLATE("lock: a deadlock ends InnoDB's transaction, and that is said [B22]", On,
                   ROWLOCK_INNODB_HANDLES) {
  On f;
  f.make_counter();
  for (int i = 2; i < 50; ++i) f.sql("INSERT INTO counter VALUES (" + std::to_string(i) + ", 0)");
  auto const m = f.manager();
  auto const p = f.open();
  auto const q = f.open();
  auto const mine = p->view(*m);
  auto const theirs = q->view(*m);
  begin(f, *p, "READ COMMITTED");
  mine->lock("a");
  begin(f, *q, "READ COMMITTED");
  theirs->lock("b");
  q->run("UPDATE counter SET n = n + 1");  // InnoDB ends the one that has changed less: ours
  std::jthread other([&] {
    theirs->lock("a");
    q->commit();
  });
  CHECK(reason_of([&] { mine->lock("b"); }) == errc::transaction_ended);
  other.join();
  CHECK(reason_of([&] { mine->lock("b"); }) == errc::not_in_transaction);
}

TEST_CASE_TEMPLATE("lock: a deadlock on PostgreSQL leaves the transaction to the program", On,
                   ROWLOCK_POSTGRESQL_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const q = f.open();
  auto const mine = p->view(*m);
  auto const theirs = q->view(*m);
  p->run("SET deadlock_timeout = '10ms'");
  q->run("SET deadlock_timeout = '1h'");
  begin(f, *p);
  mine->lock("a");
  begin(f, *q);
  theirs->lock("b");
  std::jthread other([&] {
    theirs->lock("a");
    q->commit();
  });
  // Until the other one waits for "a" there is no deadlock, and ours waits for "b" meanwhile.
  p->run("SET LOCAL lock_timeout = '60s'");
  auto const reason = reason_of([&] {
    for (int tries = 0; tries < 1000; ++tries) {
      try {
        mine->lock("b");
        return;
      } catch (error const& e) {
        if (e.reason() != errc::row_locked) throw;
      }
    }
  });
  CHECK(reason == errc::conflict);
  CHECK(p->value("SELECT 1") == "1");
  p->run("ROLLBACK");
  other.join();
}

TEST_CASE_TEMPLATE("C32: lock: once more in a SERIALIZABLE transaction does not wait for itself", On,
                   ROWLOCK_INNODB_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const q = f.open();
  auto const theirs = q->view(*m);
  for (int round = 0; round < 2; ++round) {
    begin(f, *p, "SERIALIZABLE");
    // Two views, as two functions of one program would have: neither knows of the other's call.
    CHECK(reason_of([&] { p->view(*m)->lock("a"); }) == std::nullopt);
    auto const start = std::chrono::steady_clock::now();
    CHECK(reason_of([&] { p->view(*m)->lock("a"); }) == std::nullopt);
    CHECK(reason_of([&] { p->view(*m)->lock({"b", "a"}); }) == std::nullopt);
    auto const took = std::chrono::steady_clock::now() - start;
    MESSAGE("once more: " << std::chrono::duration_cast<std::chrono::milliseconds>(took).count() << " ms");
    begin(f, *q);
    CHECK(!theirs->try_lock("a"));
    q->run("ROLLBACK");
    p->commit();
  }
  begin(f, *q);
  CHECK(theirs->try_lock("a"));
  q->run("ROLLBACK");
}

TEST_CASE_TEMPLATE("lock, try_lock, insert: nothing is locked while the database may have forgotten locks",
                   On, ROWLOCK_POSTGRESQL_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  f.sql(
      "INSERT INTO rowlock_reach VALUES (30000, now() + interval '1 hour', 0); DELETE FROM "
      "rowlock_pulse");  // as a crash leaves it
  begin(f, *p);
  std::string said;
  try {
    tx->lock("a");
  } catch (error const& e) {
    CHECK(e.reason() == errc::row_locked);
    said = e.what();
  }
  CHECK(said.find("may have forgotten locks") != said.npos);
  CHECK_FALSE(tx->try_lock("a"));
  CHECK_FALSE(tx->insert("b", 30s));
  p->run("ROLLBACK");
  // The time passes.
  f.sql("UPDATE rowlock_pulse SET safe_from = clock_timestamp(), made_by = pg_current_xact_id()::xid");
  begin(f, *p);
  tx->lock("a");
  CHECK(tx->insert("b", 30s));
  auto const q = f.open();
  begin(f, *q);
  CHECK_FALSE(q->view(*m)->try_lock("a"));
  q->run("ROLLBACK");
  p->commit();
}
