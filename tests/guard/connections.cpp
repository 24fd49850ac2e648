// What is the program's on its connection stays as it is.

#include <libpq-fe.h>

#include <filesystem>

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
  f.sql(On::postgresql ? "SELECT pg_terminate_backend(" + id + ", 10000)" : "KILL CONNECTION " + id);
  CHECK(reason_of([&] { tx->require(held); }) == errc::unreachable);
  auto const committed = reason_of([&] { p->commit(); });
  CHECK((committed == errc::in_doubt || committed == errc::unreachable ||
         committed == errc::not_in_transaction));
  CHECK(eventually([&] { return f.open()->value(f.read_counter()) == "0"; }));
  CHECK(held.valid());
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
  f.sql(On::postgresql ? "SELECT pg_terminate_backend(" + id + ", 10000)" : "KILL CONNECTION " + id);
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
