// transaction::require(): the program's commit depends on a lock.

#include <thread>
#include <vector>

#include "guard/handles.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

template <class On>
held_lock take(On&, lock_manager& m, std::string const& name) {
  return *m.make_mutex(name).acquire();
}

std::int64_t expires_in_ms(fixture& f, std::string const& name) {
  return stranger(f).read(name)->holder.expires_in.count();
}

}  // namespace

TEST_CASE_TEMPLATE("require: commits, at each isolation level, and the lock is held as before", On,
                   ROWLOCK_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  int n = 0;
  for (auto const& level : levels_of<On>()) {
    CAPTURE(level);
    auto held = take(f, *m, "a");
    begin(f, *p, level);
    tx->require(held);
    p->run(f.set_counter(++n));
    p->commit();
    CHECK(p->value(f.read_counter()) == std::to_string(n));
    CHECK(held.valid());
    CHECK(held.release() == release_result::released);
  }
}

TEST_CASE_TEMPLATE("require: a takeover waits for the transaction's end [B6][B7][B9][B10]", On,
                   ROWLOCK_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  stranger other(f);
  for (auto const& level : levels_of<On>()) {
    for (std::string const end : {"COMMIT", "ROLLBACK"}) {
      CAPTURE(level);
      CAPTURE(end);
      auto held = take(f, *m, "a");
      begin(f, *p, level);
      tx->require(held);
      CHECK(!other.take_over("a"));
      p->run(f.set_counter(1));
      p->run(end);
      CHECK(other.take_over("a"));
      CHECK(other.release("a"));
      CHECK(held.release() == release_result::already_lost);
    }
  }
}

TEST_CASE_TEMPLATE("require: taken over before: lock_lost, and the transaction is still the program's [B13]",
                   On, ROWLOCK_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  for (auto const& level : levels_of<On>()) {
    CAPTURE(level);
    auto held = take(f, *m, "a");
    stranger other(f);
    REQUIRE(other.take_over("a"));
    begin(f, *p, level);
    p->run(f.set_counter(7));
    CHECK(reason_of([&] { tx->require(held); }) == errc::lock_lost);
    CHECK(held.loss() == loss_reason::taken_over);
    CHECK(f.open()->value(f.read_counter()) == "0");  // nothing was sent behind the guard
    CHECK(reason_of([&] { tx->require(held); }) == errc::lock_lost);
    p->run(f.set_counter(8));
    p->run("ROLLBACK");
    CHECK(p->value(f.read_counter()) == "0");
    CHECK(other.release("a"));
  }
}

TEST_CASE_TEMPLATE("require: revoked, deleted, given back: lock_lost with its reason [B14]", On,
                   ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto const require = [&](held_lock const& held) {
    begin(f, *p);
    auto const reason = reason_of([&] { tx->require(held); });
    p->run("ROLLBACK");
    return reason;
  };
  auto revoked = take(f, *m, "a");
  REQUIRE(m->revoke("a", revoke_mode::at_renewal));
  CHECK(require(revoked) == errc::lock_lost);
  CHECK(revoked.loss() == loss_reason::revoked);

  auto freed = take(f, *m, "b");
  REQUIRE(m->revoke("b", revoke_mode::now));
  CHECK(require(freed) == errc::lock_lost);
  CHECK(freed.loss() == loss_reason::revoked);

  auto deleted = take(f, *m, "c");
  f.sql("DELETE FROM rowlock_locks");
  CHECK(require(deleted) == errc::lock_lost);
  CHECK(deleted.loss() == loss_reason::row_gone);

  auto back = take(f, *m, "d");
  (void)back.release();
  CHECK(require(back) == errc::lock_lost);
}

TEST_CASE_TEMPLATE("require: outside of a transaction it is refused [B10]", On, ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = take(f, *m, "a");
  CHECK(reason_of([&] { tx->require(held); }) == errc::not_in_transaction);
  CHECK(reason_of([&] { tx->lock("b"); }) == errc::not_in_transaction);
  CHECK(reason_of([&] { (void)tx->try_lock("b"); }) == errc::not_in_transaction);
  CHECK(reason_of([&] { (void)tx->insert("c", 30s); }) == errc::not_in_transaction);
  begin(f, *p);
  tx->require(held);
  p->commit();
  CHECK(reason_of([&] { tx->require(held); }) == errc::not_in_transaction);
}

TEST_CASE_TEMPLATE("require: in a transaction that may not write it is refused", On, ROWLOCK_SERVER_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = take(f, *m, "a");
  p->run("START TRANSACTION READ ONLY");
  CHECK(reason_of([&] { tx->require(held); }) == errc::read_only);
  CHECK(p->value(f.read_counter()) == "0");  // the transaction goes on
  p->run("ROLLBACK");
}

TEST_CASE_TEMPLATE("require: in an aborted transaction it is refused", On, ROWLOCK_POSTGRESQL_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = take(f, *m, "a");
  begin(f, *p);
  CHECK_THROWS_AS(p->run("SELECT nonsense"), refused_statement);
  CHECK(reason_of([&] { tx->require(held); }) == errc::transaction_ended);
  CHECK(reason_of([&] { p->commit(); }) == errc::transaction_ended);  // PostgreSQL itself says success
  CHECK(reason_of([&] { p->commit(); }) == errc::not_in_transaction);
}

TEST_CASE_TEMPLATE("require: after ROLLBACK TO SAVEPOINT it is to be called again [B8]", On,
                   ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = take(f, *m, "a");
  stranger other(f);
  begin(f, *p);
  p->run("SAVEPOINT mine");
  tx->require(held);
  p->run("ROLLBACK TO SAVEPOINT mine");
  // On SQLite the file stays locked.
  CHECK(other.take_over("a") == !On::sqlite);
  CHECK(reason_of([&] { tx->require(held); }) ==
        (On::sqlite ? std::nullopt : std::optional(errc::lock_lost)));
  p->run("ROLLBACK");
}

TEST_CASE_TEMPLATE(
    "require: a snapshot older than the take is too old, and READ COMMITTED has none [T11][B11]", On,
    ROWLOCK_SERVER_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto const after_reading = [&](std::string const& level) {
    begin(f, *p, level);
    CHECK(p->value(f.read_counter()) == "0");
    auto held = take(f, *m, "a");
    auto const reason = reason_of([&] { tx->require(held); });
    // The transaction is still there, and only good for being begun again.
    CHECK(p->value(f.read_counter()) == "0");
    p->run("ROLLBACK");
    (void)held.release();
    return reason;
  };
  CHECK(after_reading("READ COMMITTED") == std::nullopt);
  CHECK(after_reading("REPEATABLE READ") == errc::snapshot_too_old);
  // InnoDB's plain reads are locking ones there, and see what is new.
  CHECK(after_reading("SERIALIZABLE") == (On::innodb ? std::nullopt : std::optional(errc::snapshot_too_old)));
  f.sql("DELETE FROM rowlock_locks");  // a row that the snapshot does not see at all
  CHECK(after_reading("REPEATABLE READ") == errc::snapshot_too_old);
  CHECK(error(errc::snapshot_too_old, "").retryable());
  CHECK(error(errc::snapshot_too_old, "").transaction_retryable());
  CHECK(error(errc::transaction_ended, "").transaction_retryable());
  CHECK(!error(errc::in_doubt, "").transaction_retryable());
  CHECK(!error(errc::lock_lost, "").transaction_retryable());
}

TEST_CASE_TEMPLATE("require: a renewal after the snapshot [B11][B34]", On, ROWLOCK_SERVER_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = take(f, *m, "a");
  stranger other(f);
  begin(f, *p, "REPEATABLE READ");
  CHECK(p->value(f.read_counter()) == "0");
  REQUIRE(other.renew("a", held.term()));
  // Nobody else had it meanwhile; but PostgreSQL takes no row that was changed since.
  CHECK(reason_of([&] { tx->require(held); }) ==
        (On::postgresql ? std::optional(errc::snapshot_too_old) : std::nullopt));
  p->run("ROLLBACK");
  CHECK(held.valid());
}

TEST_CASE_TEMPLATE(
    "require: guards do not take the keeper's renewals for somebody else's, nor it theirs [B34]", On,
    ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = *m->make_mutex("a", {.ttl = 9s}).acquire();
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 5; ++i) {
      begin(f, *p);
      tx->require(held);
      p->commit();
    }
    auto const trust = *held.trusted_until();
    REQUIRE(eventually([&] { return held.trusted_until() && *held.trusted_until() > trust; }));
  }
  CHECK(held.valid());
  CHECK(held.release() == release_result::released);
}

TEST_CASE_TEMPLATE("require: SQLite can't write to a snapshot that is not the newest", On,
                   ROWLOCK_SQLITE_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  p->run("BEGIN");
  CHECK(p->value(f.read_counter()) == "0");
  auto held = take(f, *m, "a");
  CHECK(reason_of([&] { tx->require(held); }) == errc::snapshot_too_old);
  p->run("ROLLBACK");
  p->run("BEGIN");  // may become a writer
  tx->require(held);
  p->commit();
}

TEST_CASE_TEMPLATE("require: with autocommit off there is always a transaction", On, ROWLOCK_INNODB_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = take(f, *m, "a");
  stranger other(f);
  p->run("SET autocommit = 0");
  tx->require(held);
  CHECK(!other.take_over("a"));
  p->commit();
  CHECK(other.take_over("a"));
  CHECK(p->value("SELECT @@autocommit") == "0");
}

TEST_CASE_TEMPLATE("require: several locks, all or none", On, ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto b = take(f, *m, "b");
  auto a = take(f, *m, "a");
  stranger other(f);
  begin(f, *p);
  tx->require(b, a);
  CHECK(!other.take_over("a"));
  CHECK(!other.take_over("b"));
  p->commit();
  REQUIRE(other.take_over("a"));
  begin(f, *p);
  std::vector<held_lock const*> const both{&b, &a};
  CHECK(reason_of([&] { tx->require(both); }) == errc::lock_lost);
  p->run("ROLLBACK");
  CHECK(b.valid());
  CHECK(!a.valid());
}

TEST_CASE_TEMPLATE(
    "require: another transaction that requires the same lock is waited for, within a bound [B12]", On,
    ROWLOCK_HANDLES) {
  On f;
  auto options = f.options;
  options.reply_timeout = 700ms;
  auto const m = f.manager(options);
  auto const p = f.open();
  auto const q = f.open();
  auto const tx = p->view(*m);
  auto const other = q->view(*m);
  auto held = take(f, *m, "a");
  begin(f, *q);
  other->require(held);
  if (On::sqlite) {
    CHECK_THROWS_AS(begin(f, *p), refused_statement);  // one writer at a time
    p->run("BEGIN");
  } else {
    begin(f, *p);
  }
  CHECK(reason_of([&] { tx->require(held); }) == errc::row_locked);
  CHECK(held.valid());
  q->commit();
  tx->require(held);  // in the same transaction
  p->commit();
}

TEST_CASE_TEMPLATE("require: a locked row is waited for no longer than reply_timeout, at each level", On,
                   ROWLOCK_SERVER_HANDLES) {
  On f;
  auto options = f.options;
  options.reply_timeout = 700ms;
  auto const m = f.manager(options);
  auto const p = f.open();
  auto const q = f.open();
  auto const tx = p->view(*m);
  auto held = take(f, *m, "a");
  if (On::innodb) p->run("SET innodb_lock_wait_timeout = 1");  // what it would come to
  for (auto const& level : levels_of<On>()) {
    CAPTURE(level);
    begin(f, *q);
    q->run("SELECT name FROM " + f.table("rowlock_locks") + " WHERE name = 'a' FOR UPDATE");
    begin(f, *p, level);
    std::string said;
    try {
      tx->require(held);
    } catch (error const& e) {
      said = e.what();
      CHECK(e.reason() == errc::row_locked);
    }
    CHECK(said.find("700 ms") != said.npos);  // not what the server says after a wait of its own
    q->run("ROLLBACK");
    tx->require(held);
    p->commit();
  }
}

TEST_CASE_TEMPLATE("require: neither prolongs trust nor the term [B32][B33][B35]", On, ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  mutex_options o;
  o.renew = false;
  auto held = *m->make_mutex("a", o).acquire();
  auto const trusted = held.trusted_until();
  auto const before = expires_in_ms(f, "a");
  begin(f, *p);
  tx->require(held);
  p->commit();
  CHECK(held.trusted_until() == trusted);
  CHECK(expires_in_ms(f, "a") <= before);
}

TEST_CASE_TEMPLATE("require: a clock that the program has set does no harm [B42]", On,
                   ROWLOCK_INNODB_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = take(f, *m, "a");
  for (std::string const timestamp : {"1", "2000000000"}) {
    CAPTURE(timestamp);
    p->run("SET timestamp = " + timestamp);
    begin(f, *p, "READ COMMITTED");
    tx->require(held);
    auto const inserted = tx->insert("b" + timestamp, 30s);
    REQUIRE(inserted);
    p->commit();
    CHECK(expires_in_ms(f, "a") > 0);
    CHECK(expires_in_ms(f, "a") <= 30'000);
    CHECK(expires_in_ms(f, "b" + timestamp) > 0);
    CHECK(expires_in_ms(f, "b" + timestamp) <= 30'000);
  }
}

TEST_CASE_TEMPLATE("require: only what it can vouch for", On, ROWLOCK_HANDLES) {
  On f;
  On elsewhere;
  auto const m = f.manager();
  auto const n = elsewhere.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto foreign = take(elsewhere, *n, "a");
  auto mine = take(f, *m, "a");
  begin(f, *p);
  CHECK(reason_of([&] { tx->require(foreign); }) == errc::invalid_argument);
  auto const fresh = f.manager();  // has not connected yet, and does not know which database it is on
  CHECK(reason_of([&] { p->view(*fresh)->require(foreign); }) == errc::invalid_argument);
  CHECK(foreign.valid());
  if (!On::sqlite) {
    mutex_options o;
    o.strategy = strategy::row_lock;
    auto row = *m->make_mutex("r", o).acquire();
    CHECK(reason_of([&] { tx->require(row); }) == errc::unsupported);
  }
  p->run("ROLLBACK");
  // A connection to another database, with tables of the same names; on PostgreSQL these have a schema of
  // their own, by which they are found.
  if (!On::postgresql) {
    auto const astray = elsewhere.open();
    auto const wrong = astray->view(*m);
    begin(elsewhere, *astray);
    CHECK(reason_of([&] { wrong->require(mine); }) == errc::invalid_argument);
    CHECK(reason_of([&] { wrong->lock("x"); }) == errc::invalid_argument);
    CHECK(reason_of([&] { (void)wrong->insert("y", 30s); }) == errc::invalid_argument);
    astray->run("ROLLBACK");
  }
  // Of another kind of database. It does not connect: a stage of CI has no server.
  lock_manager other(On::sqlite ? "postgresql://127.0.0.1:1/none" : "sqlite:none.db");
  CHECK(reason_of([&] { (void)p->view(other); }) == errc::invalid_argument);
}

TEST_CASE_TEMPLATE("require: DDL on MySQL ends the transaction, and what comes next says so [B43]", On,
                   ROWLOCK_INNODB_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = take(f, *m, "a");
  begin(f, *p);
  tx->require(held);
  p->run("CREATE TABLE t (i INT)");
  CHECK(reason_of([&] { tx->require(held); }) == errc::not_in_transaction);
}

TEST_CASE_TEMPLATE(
    "require: changes InnoDB's row, for Galera certifies no less; PostgreSQL's is only locked [B7]", On,
    ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = take(f, *m, "a");
  auto const before = stranger(f).read("a")->renewals;
  begin(f, *p);
  tx->require(held);
  p->commit();
  CHECK(stranger(f).read("a")->renewals == before + (On::postgresql ? 0 : 1));
}

TEST_CASE_TEMPLATE("require: rowlock's tables in an attached file [B9]", On, ROWLOCK_SQLITE_HANDLES) {
  On f;
  auto const m = f.manager();
  scratch_folder const folder;
  auto const p = connect_by(On::how, "sqlite:" + folder.file("own.db"));
  p->run("CREATE TABLE counter (id INTEGER PRIMARY KEY, n BIGINT NOT NULL)");
  p->run("INSERT INTO counter VALUES (1, 0)");
  p->run("ATTACH '" + f.url().substr(7) + "' AS locks");
  auto const tx = p->view(*m);
  auto held = take(f, *m, "a");
  stranger other(f);
  p->run("BEGIN");  // not IMMEDIATE, which writes to all files: to that of the lock only by the guard
  tx->require(held);
  p->run(f.set_counter(1));
  CHECK(!other.take_over("a"));
  p->commit();
  CHECK(other.take_over("a"));
  begin(f, *p);
  CHECK(reason_of([&] { tx->require(held); }) == errc::lock_lost);
  p->run("ROLLBACK");
}

TEST_CASE_TEMPLATE("require: while the lock is renewed all the time", On, ROWLOCK_SERVER_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = take(f, *m, "a");
  std::jthread const renewing([&](std::stop_token const& stop) {
    stranger other(f);
    while (!stop.stop_requested()) (void)other.renew("a", held.term());
  });
  for (int n = 1; n <= 200; ++n) {
    begin(f, *p, "READ COMMITTED");
    REQUIRE(reason_of([&] { tx->require(held); }) == std::nullopt);
    p->run(f.set_counter(n));
    p->commit();
  }
  CHECK(p->value(f.read_counter()) == "200");
  CHECK(held.valid());
}
