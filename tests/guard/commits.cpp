// transaction::execute_commit(): require() and COMMIT together. lib/doc/guard.md says who may come in
// between.

#include <libpq-fe.h>

#include <future>
#include <rowlock/postgresql_transaction.hpp>
#include <vector>

#include "guard/handles.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

held_lock taken(lock_manager& m, std::string const& name) { return *m.make_mutex(name).acquire(); }

/// The program's own COMMIT, unguarded: what is there to be committed then is.
template <class On>
void commit_what_is_left(program& p) {
  if (On::sqlite)
    CHECK_THROWS_AS(p.run("COMMIT"), refused_statement);
  else
    p.run("COMMIT");
}

PGconn* libpq_of(program& p) { return static_cast<PGconn*>(p.native()); }

std::string prepared_here(program& p) {
  return *p.value("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'rowlock%'");
}

}  // namespace

TEST_CASE_TEMPLATE("execute_commit: commits, at each isolation level, and the lock is held as before", On,
                   ROWLOCK_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto const other = f.open();
  int n = 0;
  for (auto const& level : levels_of<On>()) {
    CAPTURE(level);
    auto a = taken(*m, "a");
    auto b = taken(*m, "b");
    begin(f, *p, level);
    p->run(f.set_counter(++n));
    tx->execute_commit(a);
    CHECK(other->value(f.read_counter()) == std::to_string(n));
    CHECK(reason_of([&] { tx->require(a); }) == errc::not_in_transaction);
    begin(f, *p, level);
    p->run(f.set_counter(++n));
    tx->execute_commit(b, a);
    CHECK(other->value(f.read_counter()) == std::to_string(n));
    CHECK(a.release() == release_result::released);
    CHECK(b.release() == release_result::released);
  }
}

TEST_CASE_TEMPLATE("execute_commit: taken over: lock_lost, and no later COMMIT brings anything [B13][C56]",
                   On, ROWLOCK_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  for (auto const& level : levels_of<On>()) {
    for (bool const first : {true, false}) {
      CAPTURE(level);
      CAPTURE(first);
      auto kept = taken(*m, first ? "z" : "0");
      auto lost = taken(*m, "a");
      stranger other(f);
      REQUIRE(other.take_over("a"));
      begin(f, *p, level);
      p->run(f.set_counter(7));
      CHECK(reason_of([&] { tx->execute_commit(kept, lost); }) == errc::lock_lost);
      CHECK(lost.loss() == loss_reason::taken_over);
      CHECK(reason_of([&] { tx->require(kept); }) == errc::not_in_transaction);
      commit_what_is_left<On>(*p);
      CHECK(p->value(f.read_counter()) == "0");
      CHECK(kept.valid());
      CHECK(other.release("a"));
    }
  }
}

TEST_CASE_TEMPLATE("execute_commit: taken over after the program has looked, unknown to the manager [B13]",
                   On, ROWLOCK_SERVER_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = taken(*m, "a");
  begin(f, *p);
  tx->require(held);
  p->run("ROLLBACK");
  begin(f, *p);
  p->run(f.set_counter(7));
  stranger other(f);
  REQUIRE(other.take_over("a"));
  CHECK(held.valid());  // nobody has told
  CHECK(reason_of([&] { tx->execute_commit(held); }) == errc::lock_lost);
  commit_what_is_left<On>(*p);
  CHECK(p->value(f.read_counter()) == "0");
}

TEST_CASE_TEMPLATE("execute_commit: what it refuses, it ends", On, ROWLOCK_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto const refused = [&](auto const& call) {
    begin(f, *p);
    p->run(f.set_counter(7));
    auto const reason = reason_of(call);
    commit_what_is_left<On>(*p);
    CHECK(p->value(f.read_counter()) == "0");
    return reason;
  };
  auto held = taken(*m, "a");
  CHECK(refused([&] { tx->execute_commit(std::span<held_lock const* const>()); }) == errc::invalid_argument);
  if constexpr (!On::sqlite) {
    auto row = *m->make_mutex("r", {.strategy = strategy::row_lock}).acquire();
    CHECK(refused([&] { tx->execute_commit(held, row); }) == errc::unsupported);
  }
  REQUIRE(m->revoke("a", revoke_mode::at_renewal));
  CHECK(refused([&] { tx->execute_commit(held); }) == errc::lock_lost);
  auto back = taken(*m, "b");
  (void)back.release();
  CHECK(refused([&] { tx->execute_commit(back); }) == errc::lock_lost);
  On elsewhere;
  auto const n = elsewhere.manager();
  auto foreign = taken(*n, "a");
  CHECK(refused([&] { tx->execute_commit(foreign); }) == errc::invalid_argument);
}

TEST_CASE_TEMPLATE("execute_commit: without a transaction nothing succeeds [B10]", On, ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = taken(*m, "a");
  CHECK(reason_of([&] { tx->execute_commit(held); }) == errc::not_in_transaction);
  begin(f, *p);
  tx->execute_commit(held);
  CHECK(reason_of([&] { tx->execute_commit(held); }) == errc::not_in_transaction);
  CHECK(held.valid());
}

TEST_CASE_TEMPLATE("execute_commit: with autocommit off there is always a transaction", On,
                   ROWLOCK_INNODB_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = taken(*m, "a");
  p->run("SET autocommit = 0");
  p->run(f.set_counter(1));
  tx->execute_commit(held);
  CHECK(f.open()->value(f.read_counter()) == "1");
  p->run(f.set_counter(2));
  stranger other(f);
  REQUIRE(other.take_over("a"));
  CHECK(reason_of([&] { tx->execute_commit(held); }) == errc::lock_lost);
  p->run("COMMIT");
  CHECK(f.open()->value(f.read_counter()) == "1");
}

TEST_CASE_TEMPLATE("execute_commit: a row that somebody has locked is waited for, not lost", On,
                   ROWLOCK_SERVER_HANDLES) {
  On f;
  f.make_counter();
  auto options = f.options;
  options.reply_timeout = 3s;
  auto const impatient = f.manager(options);
  auto const m = f.manager();
  auto const p = f.open();
  auto const q = f.open();
  auto mine = taken(*impatient, "a");
  auto patient = taken(*m, "b");
  for (auto const& level : levels_of<On>()) {
    CAPTURE(level);
    begin(f, *q);
    q->run("SELECT name FROM " + f.table("rowlock_locks") +
           " FOR UPDATE");  // as a renewal has it, unfinished
    begin(f, *p, level);
    p->run(f.set_counter(7));
    CHECK(reason_of([&] { p->view(*impatient)->execute_commit(mine); }) == errc::row_locked);
    CHECK(mine.valid());
    commit_what_is_left<On>(*p);
    CHECK(p->value(f.read_counter()) == "0");
    begin(f, *p, level);
    p->run(f.set_counter(8));
    auto done = std::async(std::launch::async, [&] { p->view(*m)->execute_commit(patient); });
    CHECK(done.wait_for(100ms) == std::future_status::timeout);
    q->run("ROLLBACK");
    CHECK(reason_of([&] { done.get(); }) == std::nullopt);
    CHECK(p->value(f.read_counter()) == "8");
    p->run(f.set_counter(0));
  }
}

TEST_CASE_TEMPLATE("execute_commit: a constraint that fails at COMMIT is no success", On,
                   ROWLOCK_POSTGRESQL_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = taken(*m, "a");
  f.sql("CREATE TABLE " + f.table("deferred") + " (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED)");
  begin(f, *p);
  p->run("INSERT INTO " + f.table("deferred") + " VALUES (1), (1)");
  CHECK(reason_of([&] { tx->execute_commit(held); }) == errc::failed);
  CHECK(reason_of([&] { tx->require(held); }) == errc::not_in_transaction);
  CHECK(p->value("SELECT count(*) FROM " + f.table("deferred")) == "0");
}

TEST_CASE_TEMPLATE("execute_commit: a serialization failure at COMMIT is a conflict", On,
                   ROWLOCK_POSTGRESQL_HANDLES) {
  On f;
  f.make_counter();
  f.sql("INSERT INTO " + f.table("counter") + " VALUES (2, 0)");
  auto const m = f.manager();
  auto const p = f.open();
  auto const q = f.open();
  auto held = taken(*m, "a");
  auto const sum = "SELECT sum(n) FROM " + f.table("counter");
  begin(f, *p, "SERIALIZABLE");
  begin(f, *q, "SERIALIZABLE");
  CHECK(p->value(sum) == "0");
  CHECK(q->value(sum) == "0");
  p->run(f.set_counter(1));
  q->run("UPDATE " + f.table("counter") + " SET n = 1 WHERE id = 2");
  q->run("COMMIT");
  auto const reason = reason_of([&] { p->view(*m)->execute_commit(held); });
  // Which statement meets it, the guard or COMMIT, is the server's affair.
  CHECK((reason == errc::conflict || reason == errc::snapshot_too_old || reason == errc::transaction_ended));
  commit_what_is_left<On>(*p);
  CHECK(p->value(f.read_counter()) == "0");
}

TEST_CASE_TEMPLATE("execute_commit: a COMMIT whose reply is lost is in doubt", On,
                   ROWLOCK_POSTGRESQL_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = taken(*m, "a");
  auto const ends = f.table("ends_session");
  f.sql(
      "CREATE FUNCTION " + ends +
      "() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN "
      "NULL; END'");
  f.sql("CREATE CONSTRAINT TRIGGER last AFTER UPDATE ON " + f.table("counter") +
        " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION " + ends + "()");
  begin(f, *p);
  p->run(f.set_counter(7));
  CHECK(reason_of([&] { tx->execute_commit(held); }) == errc::in_doubt);
}

TEST_CASE("execute_commit: in the program's own pipeline it is refused<libpq on postgresql>") {
  libpq_on_postgresql f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = taken(*m, "a");
  begin(f, *p);
  p->run(f.set_counter(1));
  REQUIRE(PQenterPipelineMode(libpq_of(*p)) == 1);
  CHECK(reason_of([&] { tx->execute_commit(held); }) == errc::unsupported);
  REQUIRE(PQexitPipelineMode(libpq_of(*p)) == 1);
  tx->execute_commit(held);  // the transaction is as it was
  CHECK(p->value(f.read_counter()) == "1");
}

TEST_CASE_TEMPLATE("execute_commit: leaves nothing prepared", On, ROWLOCK_POSTGRESQL_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto held = taken(*m, "a");
  begin(f, *p);
  p->view(*m)->execute_commit(held);
  CHECK(prepared_here(*p) == "0");
}

TEST_CASE("execute_commit: what is kept prepared may be gone at any time<libpq on postgresql>") {
  libpq_on_postgresql f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  postgresql::transaction tx(*m, libpq_of(*p), {.keep_prepared = true});
  postgresql::transaction second(*m, libpq_of(*p), {.keep_prepared = true});
  auto held = taken(*m, "a");
  int n = 0;
  auto const commit = [&](basic_transaction& by) {
    begin(f, *p);
    p->run(f.set_counter(++n));
    by.execute_commit(held);
    CHECK(p->value(f.read_counter()) == std::to_string(n));
    begin(f, *p);
    by.require(held);
    p->run(f.set_counter(++n));
    by.execute_commit(held);
    CHECK(p->value(f.read_counter()) == std::to_string(n));
  };
  commit(tx);
  CHECK(prepared_here(*p) == "2");
  for (int round = 0; round < 2; ++round) {
    commit(second);
    CHECK(prepared_here(*p) == "2");  // one for each statement, not for each view
  }
  for (auto const* end : {"DEALLOCATE ALL", "DISCARD ALL"}) {
    CAPTURE(end);
    p->run(end);
    commit(tx);
    commit(second);
  }
  PQreset(libpq_of(*p));
  commit(tx);
  f.sql("ALTER TABLE rowlock_locks ALTER COLUMN term TYPE varchar(64)");  // the plan's result type
  commit(tx);
  commit(second);
  f.sql("ALTER TABLE rowlock_locks ALTER COLUMN term TYPE text");
  commit(tx);
  CHECK(held.valid());
  stranger other(f);
  REQUIRE(other.take_over("a"));
  begin(f, *p);
  p->run(f.set_counter(99));
  CHECK(reason_of([&] { tx.execute_commit(held); }) == errc::lock_lost);
  CHECK(p->value(f.read_counter()) == std::to_string(n));
}

TEST_CASE_TEMPLATE("execute_commit: one statement on MariaDB", On, connector_on_mariadb, soci_on_mariadb) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = taken(*m, "a");
  begin(f, *p);
  tx->execute_commit(held);
  auto const asked = [&] {
    return std::stoi(*p->value(
        "SELECT variable_value FROM information_schema.session_status WHERE variable_name = 'QUESTIONS'"));
  };
  begin(f, *p);
  int const before = asked();
  tx->execute_commit(held);
  CHECK(asked() - before == 2);  // and the question itself
}

TEST_CASE_TEMPLATE("execute_commit: a guard whose answer is not looked at commits unguarded [B13]", On,
                   libpq_on_postgresql, connector_on_mariadb) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto held = taken(*m, "a");
  stranger other(f);
  REQUIRE(other.take_over("a"));
  auto const guard = "UPDATE " + f.table("rowlock_locks") + " SET renewals = renewals + 1 WHERE term = '" +
                     held.term().value + "'";
  begin(f, *p);
  p->run(f.set_counter(7));
  p->run(On::postgresql ? guard + "; COMMIT" : "BEGIN NOT ATOMIC " + guard + "; COMMIT; END");
  CHECK(p->value(f.read_counter()) == "7");  // which is why ours raises an error
}
