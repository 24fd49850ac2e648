// PostgreSQL as it should not be, one thing after the other on one server.
#include <fmt/format.h>

#include "doctor/scene.hpp"
#include "support/eventually.hpp"

using namespace rowlock;
using namespace rowlock::test;

TEST_CASE(
    "postgresql: durability: settings that do not flush, unlogged tables; what rowlock sets itself is ok") {
  server_scene const s(server_kind::postgresql);  // fast, not durable
  expect(s.examine(), "durability", verdict::error, "fsync = off", "fsync = on");
  s.set_for_all("fsync", "on");
  expect(s.examine(), "durability", verdict::warning, "full_page_writes = off", "full_page_writes = on");
  s.set_for_all("full_page_writes", "on");
  expect(s.examine(), "durability", verdict::ok, "synchronous_commit = off by default here");
  s.sql("ALTER TABLE rowlock_tokens SET UNLOGGED");
  expect(s.examine(), "durability", verdict::error, "rowlock_tokens is an unlogged table",
         "ALTER TABLE rowlock_tokens SET LOGGED");
}

TEST_CASE("snapshots: C92: postgresql: an old transaction, a prepared one; what this role may see") {
  server_scene s(server_kind::postgresql,
                 {.durable = true,
                  .movable_clock = true,
                  .settings = {"max_prepared_transactions = 2", "wal_level = replica"}});
  expect(s.examine(), "snapshots", verdict::ok, "");
  CHECK(doctor(source_from_url(s.as_admin())).oldest_snapshot()->whose.empty());
  auto const report = s.connect();
  auto const run = [&](std::string const& sql) { report->script(sql, boot_clock::now() + 60s); };
  // Else the server would end it, at once where its clock is moved.
  run("SET idle_in_transaction_session_timeout = 0");
  run("SET application_name = 'report'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM "
      "pg_class");
  expect(examined(s.as_admin()), "snapshots", verdict::ok, "oldest transaction is of");
  s.server.set_clock(3600s);
  expect(examined(s.as_admin()), "snapshots", verdict::warning, "(report) has a transaction of 36",
         "SELECT pg_terminate_backend(");
  auto const oldest = doctor(source_from_url(s.as_admin())).oldest_snapshot();
  REQUIRE(oldest);
  CHECK(oldest->whose.find("(report)") != oldest->whose.npos);
  CHECK(oldest->age >= 3590s);
  expect(s.examine(), "snapshots", verdict::ok, "of those that this role may see (pg_monitor sees all)");
  s.sql("GRANT pg_monitor TO app");
  expect(s.examine(), "snapshots", verdict::warning, "(report)", "SELECT pg_terminate_backend(");
  // One that has written has no snapshot, but keeps dead rows.
  run("COMMIT; BEGIN; SELECT pg_current_xact_id()");
  s.server.set_clock(7200s);
  expect(s.examine(), "snapshots", verdict::warning, "(report)", "SELECT pg_terminate_backend(");
  run("PREPARE TRANSACTION 'forgotten'");
  s.server.set_clock(10800s);
  expect(s.examine(), "snapshots", verdict::warning, "prepared transaction 'forgotten'",
         "ROLLBACK PREPARED 'forgotten'");
  run("ROLLBACK PREPARED 'forgotten'");
  // Others' VACUUM passes over the snapshot of a VACUUM.
  run("CREATE TABLE slow AS SELECT generate_series(1, 100000) AS n");
  run("SET statement_timeout = 0; SET vacuum_cost_delay = 100; SET vacuum_cost_limit = 1");
  std::jthread const vacuum(
      [&] { CHECK_THROWS_AS(report->script("VACUUM slow", boot_clock::now() + 600s), error); });
  auto const pid = [&] {
    return s.value(
        "SELECT coalesce(max(pid), 0) FROM pg_stat_activity JOIN pg_stat_progress_vacuum USING (pid) WHERE "
        "backend_xmin IS NOT NULL");
  };
  REQUIRE(eventually([&] { return pid() != "0"; }));
  s.server.set_clock(14400s);
  expect(s.examine(), "snapshots", verdict::ok, "");
  CHECK(s.value("SELECT pg_cancel_backend(" + pid() + ")") == "1");
}

TEST_CASE("index: C92: postgresql: permits are counted by an index") {
  server_scene const s(server_kind::postgresql, {.durable = true});
  s.sql("DROP INDEX rowlock_permits_expr_token_idx");
  expect(s.examine(), "index", verdict::warning, "reads the whole of rowlock_permits",
         "CREATE INDEX ON rowlock_permits ((name || ''), token)");
  s.sql("CREATE INDEX ON rowlock_permits ((name || ''), token)");
  expect(s.examine(), "index", verdict::ok, "unique index");
}

TEST_CASE("C34: postgresql: row-level security and unlogged tables: none of the tables is left out") {
  server_scene const s(server_kind::postgresql, {.durable = true});
  for (std::string const table :
       {"rowlock_locks", "rowlock_tokens", "rowlock_meta", "rowlock_permits", "rowlock_quorum",
        "rowlock_admitted", "rowlock_reaper", "rowlock_migrations", "rowlock_reach", "rowlock_quarantine",
        "rowlock_pulse"}) {
    CAPTURE(table);
    s.sql("ALTER TABLE " + table + " ENABLE ROW LEVEL SECURITY");
    expect(s.examine(), "row_security", verdict::error, "may hide rows of " + table + " from this role",
           "DISABLE ROW LEVEL SECURITY");
    s.sql("CREATE POLICY all_rows ON " + table + " USING (true)");
    expect(s.examine(), "row_security", verdict::ok, "hides nothing");
    s.sql("DROP POLICY all_rows ON " + table + "; ALTER TABLE " + table + " DISABLE ROW LEVEL SECURITY");
    if (table == "rowlock_pulse") {
      s.sql("ALTER TABLE " + table + " SET LOGGED");
      expect(s.examine(), "durability", verdict::error, table + " is not an unlogged table",
             "ALTER TABLE " + table + " SET UNLOGGED");
      s.sql("ALTER TABLE " + table + " SET UNLOGGED");
      continue;
    }
    s.sql("ALTER TABLE " + table + " SET UNLOGGED");
    expect(s.examine(), "durability", verdict::error, table + " is an unlogged table",
           "ALTER TABLE " + table + " SET LOGGED");
    s.sql("ALTER TABLE " + table + " SET LOGGED");
  }
}

TEST_CASE("postgresql: grants, schema, writable: one by one") {
  server_scene const s(server_kind::postgresql, {.durable = true});
  s.sql("REVOKE INSERT, UPDATE ON rowlock_tokens FROM rowlock_locking");
  expect(s.examine(), "grants", verdict::error, "lacks INSERT on rowlock_tokens, UPDATE on rowlock_tokens (",
         "schema/*-grants.sql");
  s.sql("GRANT INSERT, UPDATE ON rowlock_tokens TO rowlock_locking");
  s.sql("REVOKE SELECT, INSERT ON rowlock_reach, rowlock_pulse FROM rowlock_locking");
  expect(s.examine(), "grants", verdict::error,
         "lacks SELECT on rowlock_reach, INSERT on rowlock_reach, SELECT on rowlock_pulse, INSERT on "
         "rowlock_pulse (",
         "schema/*-grants.sql");
  s.sql("GRANT SELECT, INSERT ON rowlock_reach, rowlock_pulse TO rowlock_locking");
  s.sql("REVOKE ALL ON rowlock_locks, rowlock_tokens, rowlock_meta FROM rowlock_locking");
  auto const none = s.examine();
  expect(none, "grants", verdict::error,
         "lacks SELECT on rowlock_meta, SELECT on rowlock_locks, INSERT on rowlock_locks, UPDATE on "
         "rowlock_locks, "
         "DELETE on rowlock_locks, SELECT on rowlock_tokens, INSERT on rowlock_tokens, UPDATE on "
         "rowlock_tokens (",
         "schema/*-grants.sql");
  expect(none, "schema", verdict::unknown, "needs a privilege that this role lacks");
  expect(none, "index", verdict::unknown, "needs a privilege that this role lacks");
  s.sql("GRANT ALL ON rowlock_locks, rowlock_tokens, rowlock_meta TO rowlock_locking");

  s.sql("ALTER ROLE app SET default_transaction_read_only = on");
  auto const reader = s.examine();
  expect(reader, "writable", verdict::error, "default_transaction_read_only = on", "Connect to the primary");
  expect(reader, "grants", verdict::unknown, "needs a server that takes writes");
  s.sql("ALTER ROLE app RESET default_transaction_read_only");

  s.sql("DROP FUNCTION rowlock_enter_queue");
  expect(s.examine(), "waiting", verdict::warning, "rowlock_enter_queue\" is missing", "rowlock migrate up");

  s.sql("UPDATE rowlock_meta SET schema_version = 1");
  expect(s.examine(), "schema", verdict::error, "the tables have version 1, this program needs 2",
         "rowlock migrate up");
  s.sql("UPDATE rowlock_meta SET schema_version = 9");
  expect(s.examine(), "schema", verdict::ok, "version 9, which serves this program made for 2");
  s.sql("UPDATE rowlock_meta SET oldest_reader = 9");
  expect(s.examine(), "schema", verdict::error, "serve programs made for version 9", "newer rowlock");
  s.sql("DELETE FROM rowlock_meta");
  expect(s.examine(), "schema", verdict::error, "rowlock_meta has no row", "rowlock migrate");
  auto const nowhere = s.examine({.table_prefix = "nobody_"});
  expect(nowhere, "schema", verdict::error, "has no rowlock tables", "rowlock migrate up");
  expect(nowhere, "grants", verdict::unknown, "needs rowlock's tables");
  expect(nowhere, "waiting", verdict::unknown, "needs rowlock's tables");
  expect(nowhere, "index", verdict::unknown, "needs the table nobody_locks");
}

TEST_CASE("postgresql: a role's isolation and time limits are switched off by rowlock, and that is said") {
  server_scene const s(server_kind::postgresql, {.durable = true});
  bool const ends_idle_ones = s.value("SELECT current_setting('server_version_num')") >= "140000";
  s.sql(std::string("ALTER ROLE app SET default_transaction_isolation = serializable;"
                    "ALTER ROLE app SET statement_timeout = 8000;") +
        (ends_idle_ones ? "ALTER ROLE app SET idle_session_timeout = 9000" : ""));
  auto const all = s.examine();
  expect(all, "isolation", verdict::ok, "read committed, as rowlock sets it (serializable by default here)");
  expect(
      all, "timeouts", verdict::ok,
      ends_idle_ones ? "statement_timeout = 8000, idle_session_timeout = 9000" : "statement_timeout = 8000");
}

TEST_CASE(
    "postgresql: a session that has lost its settings: isolation, time limits and flushing are errors") {
  server_scene const s(server_kind::postgresql, {.durable = true});
  auto const all =
      examined(spoilt_by("SET default_transaction_isolation = 'repeatable read'; SET statement_timeout = "
                         "'9s'; SET synchronous_commit = local",
                         source_from_url(s.as_app())));
  expect(all, "isolation", verdict::error, "transactions run at repeatable read", "pooler");
  expect(all, "timeouts", verdict::error, "statement_timeout = 9000", "pooler");
  expect(all, "durability", verdict::error, "synchronous_commit = local", "pooler");
}

TEST_CASE(
    "postgresql: index: none, one that cannot be used, and collations under which names are not bytes") {
  server_scene const s(server_kind::postgresql, {.durable = true});
  s.sql("ALTER TABLE rowlock_locks DROP CONSTRAINT rowlock_locks_pkey");
  expect(s.examine(), "index", verdict::error, "no valid unique index", "ADD PRIMARY KEY (name, generation)");
  s.sql("CREATE INDEX plain ON rowlock_locks (name)");
  expect(s.examine(), "index", verdict::error, "no valid unique index", "ADD PRIMARY KEY (name, generation)");
  s.sql("CREATE UNIQUE INDEX upper_half ON rowlock_locks (name) WHERE name > 'm'");
  expect(s.examine(), "index", verdict::error, "no valid unique index", "ADD PRIMARY KEY (name, generation)");
  s.sql("CREATE UNIQUE INDEX name_alone ON rowlock_locks (name)");
  expect(s.examine(), "index", verdict::error, "no valid unique index", "ADD PRIMARY KEY (name, generation)");
  s.sql(
      "DROP INDEX name_alone; DROP INDEX plain; DROP INDEX upper_half; CREATE UNIQUE INDEX other ON "
      "rowlock_locks (name COLLATE "
      "\"und-x-icu\", generation)");
  expect(s.examine(), "index", verdict::error, "looked for in the whole table", "rowlock migrate validate");
  s.sql("DROP INDEX other; ALTER TABLE rowlock_locks ADD PRIMARY KEY (name, generation)");
  expect(s.examine(), "index", verdict::ok, "unique index");
  s.sql("ALTER TABLE rowlock_locks ALTER COLUMN name TYPE text COLLATE \"und-x-icu\"");
  expect(s.examine(), "index", verdict::warning, "collation und-x-icu", "COLLATE \"C\"");
  s.sql(
      "CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
      "ALTER TABLE rowlock_locks ALTER COLUMN name TYPE text COLLATE any_case");
  expect(s.examine(), "index", verdict::error, "different names may be one lock", "COLLATE \"C\"");
  s.sql("ALTER TABLE rowlock_locks ALTER COLUMN name TYPE text COLLATE \"C\"");
  s.sql("ALTER TABLE rowlock_tokens DROP CONSTRAINT rowlock_tokens_pkey");
  expect(s.examine(), "index", verdict::error, "a name is in rowlock_tokens only once",
         "ADD PRIMARY KEY (name, generation)");
}

TEST_CASE("C12: creators: whoever else may create objects beside the tables is named <postgresql>") {
  server_scene const s(server_kind::postgresql, {.durable = true});
  s.sql("CREATE ROLE maker; GRANT CREATE ON SCHEMA public TO PUBLIC, maker, app");
  expect(s.examine(), "creators", verdict::warning,
         "schema public, where rowlock's tables are: PUBLIC, maker;",
         "REVOKE CREATE ON SCHEMA public FROM PUBLIC, maker;");
}

// What is rolled back shows nothing; a sequence goes on.
TEST_CASE(
    "C79: takes: a trigger that another role has put there does not run with this role's rights "
    "<postgresql>") {
  server_scene const s(server_kind::postgresql, {.durable = true});
  s.sql(
      "CREATE ROLE planter; CREATE SEQUENCE ran; GRANT ALL ON SEQUENCE ran TO PUBLIC;"
      "CREATE FUNCTION plant() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM nextval(''public.ran''); "
      "RETURN NEW; END';"
      "CREATE TRIGGER plant BEFORE INSERT ON rowlock_locks FOR EACH ROW EXECUTE FUNCTION plant()");
  expect(s.examine(), "takes", verdict::ok, "taken, renewed and given back");
  CHECK(s.value("SELECT is_called FROM ran") == "1");
  s.sql("ALTER SEQUENCE ran RESTART; ALTER FUNCTION plant() OWNER TO planter");
  expect(s.examine(), "takes", verdict::unknown, "not tried: what another role has put there", "creators");
  CHECK(s.value("SELECT is_called FROM ran") == "0");
}
