// What is the program's on its connection stays as it is.

#include <libpq-fe.h>

#include <filesystem>
#include <functional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/mysql/native.hpp"
#include "backend/postgresql/native.hpp"
#include "guard/handles.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// All that a view does, each in a transaction of its own.
template <class On>
void do_all(On& f, program& p, lock_manager& m) {
  auto const tx = p.view(m);
  auto held = *m.make_mutex("a").acquire();
  begin(f, p);
  tx->require(held);
  p.commit();
  begin(f, p);
  tx->lock({"r", "s"});
  p.commit();
  begin(f, p);
  CHECK(tx->insert("i", 30s));
  p.run("ROLLBACK");
}

}  // namespace

TEST_CASE_TEMPLATE("connections: LAST_INSERT_ID() stays the program's [B23]", On, ROWLOCK_INNODB_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  f.sql("CREATE TABLE numbered (id BIGINT AUTO_INCREMENT PRIMARY KEY, n INT) AUTO_INCREMENT = 77");
  p->run("INSERT INTO numbered (n) VALUES (1)");
  do_all(f, *p, *m);
  CHECK(p->value("SELECT LAST_INSERT_ID()") == "77");
}

TEST_CASE_TEMPLATE("connections: lastval(), prepared statements and cursors stay the program's [B23]", On,
                   ROWLOCK_POSTGRESQL_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  f.sql("CREATE SEQUENCE " + f.table("numbers") + " START 77");
  p->run("SELECT nextval('" + f.table("numbers") + "')");
  p->run("PREPARE mine AS " + f.read_counter());
  do_all(f, *p, *m);
  CHECK(p->value("SELECT lastval()") == "77");
  CHECK(p->value("EXECUTE mine") == "0");
  CHECK(p->value("SELECT count(*) FROM pg_prepared_statements WHERE from_sql") == "1");
  begin(f, *p);
  p->run("DECLARE c CURSOR FOR SELECT 5");
  auto const tx = p->view(*m);
  tx->lock("r");
  CHECK(p->value("FETCH c") == "5");
  p->commit();
}

TEST_CASE("connections: replies that were not read are said to be <libpq on postgresql>") {
  libpq_on_postgresql f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto* const c = static_cast<PGconn*>(p->native());
  auto held = *m->make_mutex("a").acquire();
  begin(f, *p);
  REQUIRE(PQsendQuery(c, "SELECT 5") == 1);
  CHECK(reason_of([&] { tx->require(held); }) == errc::failed);
  backend::postgresql::native_result const five(PQgetResult(c));
  CHECK(std::string(PQgetvalue(five.get(), 0, 0)) == "5");
  while (backend::postgresql::native_result const more{PQgetResult(c)}) {
  }
  tx->require(held);
  REQUIRE(PQenterPipelineMode(c) == 1);
  CHECK(reason_of([&] { tx->require(held); }) == errc::unsupported);
  REQUIRE(PQexitPipelineMode(c) == 1);
  // In non-blocking mode, and with a receiver of the program's own.
  int notices = 0;
  PQsetNoticeReceiver(
      c, [](void* n, PGresult const*) { ++*static_cast<int*>(n); }, &notices);
  REQUIRE(PQsetnonblocking(c, 1) == 0);
  tx->require(held);
  CHECK(PQisnonblocking(c) == 1);
  CHECK(notices == 0);
  p->run("DO $$ BEGIN RAISE NOTICE 'heard'; END $$");
  CHECK(notices == 1);
  p->commit();
}

TEST_CASE_TEMPLATE("connections: replies that were not read are said to be", On, connector_on_mariadb,
                   connector_on_mysql) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto* const c = static_cast<::sql::Connection*>(p->native());
  auto held = *m->make_mutex("a").acquire();
  begin(f, *p);
  {
    backend::mysql::native_statement const s(c->createStatement());
    s->setResultSetType(::sql::ResultSet::TYPE_FORWARD_ONLY);  // read as the rows are asked for
    backend::mysql::native_rows const rows(s->executeQuery("SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7"));
    REQUIRE(rows->next());
    CHECK(rows->getInt(1) == 5);
    CHECK(reason_of([&] { tx->require(held); }) == errc::failed);
    REQUIRE(rows->next());
    CHECK(rows->getInt(1) == 6);
    REQUIRE(rows->next());
    CHECK(rows->getInt(1) == 7);
    CHECK(!rows->next());
  }
  tx->require(held);
  p->commit();
}

namespace {

/// On PostgreSQL the session is gone then; version 13 has no pg_terminate_backend() that waits for it.
template <class On>
void end_session(On& f, std::string const& id) {
  f.sql(On::postgresql ? "SELECT pg_terminate_backend(" + id + ")" : "KILL CONNECTION " + id);
  if (!On::postgresql) return;
  auto const look = f.open();
  REQUIRE(eventually(
      [&] { return look->value("SELECT count(*) FROM pg_stat_activity WHERE pid = " + id) == "0"; }));
}

}  // namespace

TEST_CASE_TEMPLATE("connections: one that is lost in the middle takes the transaction with it", On,
                   ROWLOCK_SERVER_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = *m->make_mutex("a").acquire();
  auto const id = *p->value(On::postgresql ? "SELECT pg_backend_pid()" : "SELECT connection_id()");
  begin(f, *p);
  tx->require(held);
  p->run(f.set_counter(1));
  end_session(f, id);
  CHECK(reason_of([&] { tx->require(held); }) == errc::unreachable);
  auto const committed = reason_of([&] { p->commit(); });
  CHECK((committed == errc::in_doubt || committed == errc::unreachable ||
         committed == errc::not_in_transaction));
  CHECK(eventually([&] { return f.open()->value(f.read_counter()) == "0"; }));
  CHECK(held.valid());
}

namespace {

/// What the program's next statement is refused with.
std::string refusal_of(program& p) {
  try {
    p.run("ROLLBACK");
  } catch (refused_statement const& e) {
    return e.what();
  }
  return "";
}

void expect_as_lost_in_a_statement_of_the_programs(program& p, std::string const& id) {
  auto* const c = static_cast<PGconn*>(p.native());
  CHECK(PQstatus(c) == CONNECTION_BAD);
  CHECK(PQpipelineStatus(c) == PQ_PIPELINE_OFF);
  CHECK(PQtransactionStatus(c) == PQTRANS_UNKNOWN);
  CHECK(backend::postgresql::native_result(PQgetResult(c)) == nullptr);
  PQreset(c);
  CHECK(*p.value("SELECT pg_backend_pid()") != id);
}

}  // namespace

TEST_CASE_TEMPLATE("C74: connections: one that is lost in a call is left as by a statement of the program's",
                   On, ROWLOCK_SERVER_HANDLES) {
  On f;
  auto const m = f.manager();
  auto held = *m->make_mutex("a").acquire();
  auto const stop = [&](std::string const& id) { end_session(f, id); };
  using call = std::function<void(basic_transaction&)>;
  std::vector<std::pair<std::string, call>> const calls{
      {"require", [&](auto& tx) { tx.require(held); }},
      {"execute_commit", [&](auto& tx) { tx.execute_commit(held); }},
      {"lock", [&](auto& tx) { tx.lock("r"); }},
      {"try_lock", [&](auto& tx) { (void)tx.try_lock("r"); }},
      {"insert", [&](auto& tx) { (void)tx.insert("i", 30s); }},
  };
  for (bool const kept : {false, true})
    for (auto const& one : calls) {
      CAPTURE(one.first);
      CAPTURE(kept);
      auto const p = f.open();
      auto const tx = p->view(*m, {.keep_prepared = kept});
      auto const id = *p->value(On::postgresql ? "SELECT pg_backend_pid()" : "SELECT connection_id()");
      begin(f, *p);
      tx->require(held);  // what is asked once of a connection has been asked
      stop(id);
      auto const reason = reason_of([&] { one.second(*tx); });
      CHECK((reason == errc::unreachable || reason == errc::in_doubt));
      auto const said = refusal_of(*p);
      CHECK(said.find("pipeline") == said.npos);
      if (On::postgresql)
        CHECK(reason_of([&] { p->commit(); }) == errc::unreachable);  // COMMIT was never sent
      if constexpr (std::is_same_v<On, libpq_on_postgresql>) {
        expect_as_lost_in_a_statement_of_the_programs(*p, id);
        begin(f, *p);
        tx->require(held);
        tx->execute_commit(held);
      }
    }
}

TEST_CASE("C74: connections: one that is lost while the server waits for a row <libpq on postgresql>") {
  libpq_on_postgresql f;
  auto const m = f.manager();
  auto const owner = f.open();
  begin(f, *owner);
  owner->view(*m)->lock("r");
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto const id = *p->value("SELECT pg_backend_pid()");
  begin(f, *p);
  std::jthread const ends([&] {
    auto const waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = " + id;
    auto const q = f.open();
    CHECK(eventually([&] { return q->value(waits) == "1"; }));
    q->run("SELECT pg_terminate_backend(" + id + ")");
  });
  CHECK(reason_of([&] { tx->lock("r"); }) == errc::unreachable);
  expect_as_lost_in_a_statement_of_the_programs(*p, id);
}

TEST_CASE_TEMPLATE("connections: COMMIT on a session that was killed is not taken for one", On,
                   ROWLOCK_SERVER_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const id = *p->value(On::postgresql ? "SELECT pg_backend_pid()" : "SELECT connection_id()");
  begin(f, *p);
  p->run(f.set_counter(1));
  end_session(f, id);
  CHECK(reason_of([&] { p->commit(); }) == errc::in_doubt);
  CHECK(eventually([&] { return f.open()->value(f.read_counter()) == "0"; }));
}

TEST_CASE_TEMPLATE("connections: MariaDB's innodb_snapshot_isolation ends the transaction [T13]", On,
                   connector_on_mariadb, soci_on_mariadb) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = *m->make_mutex("a").acquire();
  p->run("SET SESSION innodb_snapshot_isolation = ON");
  begin(f, *p, "REPEATABLE READ");
  CHECK(p->value(f.read_counter()) == "0");
  f.sql(f.set_counter(1));
  CHECK_THROWS_AS(p->run(f.set_counter(2)), refused_statement);  // the program's own statement
  CHECK(reason_of([&] { tx->require(held); }) == errc::not_in_transaction);
  CHECK(held.valid());
}

TEST_CASE_TEMPLATE("C1: connections: a file that got another name, or was replaced, guards nothing", On,
                   sqlite3_on_sqlite, soci_on_sqlite) {
  for (bool const replaced : {false, true}) {
    CAPTURE(replaced);
    On f;
    auto const m = f.manager();
    auto const p = f.open();
    auto const tx = p->view(*m);
    auto held = *m->make_mutex("a", {.ttl = 60s}).acquire();
    begin(f, *p);
    tx->require(held);
    p->commit();
    auto const path = f.url().substr(std::string("sqlite:").size());
    if (replaced) {
      std::filesystem::copy_file(path, path + ".copy");
      std::filesystem::rename(path + ".copy", path);
    } else {
      std::filesystem::create_hard_link(path, path + ".second");
    }
    begin(f, *p);
    CHECK(reason_of([&] { tx->require(held); }) == errc::lock_lost);
    CHECK(held.loss() == loss_reason::row_gone);
    CHECK(reason_of([&] { tx->lock("r"); }) == (replaced ? errc::unreachable : errc::unsupported));
    CHECK(reason_of([&] { p->commit(); }) == (replaced ? errc::unreachable : errc::unsupported));
    p->run("ROLLBACK");
  }
}
