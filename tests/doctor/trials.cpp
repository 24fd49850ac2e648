// What only a lock that is taken shows, and what `migrate validate` finds.
#include <fmt/format.h>

#include <regex>

#include "doctor/scene.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// What keeps a lock from being taken, renewed or given back, and what takes it away again.
struct obstacle {
  char const* strategy;  ///< the first that meets it
  std::string made, undone;
};

std::vector<obstacle> obstacles(server_kind k) {
  std::vector<obstacle> all{{"lease", "ALTER TABLE rowlock_locks ADD CONSTRAINT small CHECK (ttl < 0)",
                             "ALTER TABLE rowlock_locks DROP CONSTRAINT small"},
                            {"lease", "ALTER TABLE rowlock_locks ADD COLUMN shop varchar(20) NOT NULL",
                             "ALTER TABLE rowlock_locks DROP COLUMN shop"},
                            {"shared", "ALTER TABLE rowlock_permits ADD COLUMN shop varchar(20) NOT NULL",
                             "ALTER TABLE rowlock_permits DROP COLUMN shop"}};
  auto const trigger = [&](char const* strategy, std::string const& when, std::string const& table) {
    if (k == server_kind::postgresql)
      all.push_back({strategy,
                     "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION "
                     "''not in this shop''; END'; CREATE TRIGGER refuse BEFORE " +
                         when + " ON " + table + " FOR EACH ROW EXECUTE FUNCTION refuse()",
                     "DROP TRIGGER refuse ON " + table + "; DROP FUNCTION refuse()"});
    else
      all.push_back({strategy,
                     "CREATE TRIGGER refuse BEFORE " + when + " ON " + table +
                         " FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not in this shop'",
                     "DROP TRIGGER refuse"});
  };
  trigger("lease", "INSERT", "rowlock_locks");
  trigger("unique_insert", "DELETE", "rowlock_locks");
  trigger("shared", "UPDATE", "rowlock_permits");
  return all;
}

}  // namespace

TEST_CASE_TEMPLATE(
    "C79: takes: a trigger, a constraint or a column of others that keeps locks from being taken", Server,
    on_postgresql, on_mariadb, on_mysql) {
  server_scene const s(Server::kind);
  for (auto const& one : obstacles(s.kind)) {
    CAPTURE(one.made);
    s.sql(one.made);
    expect(s.examine(), "takes", verdict::error, fmt::format("strategy {} is refused", one.strategy),
           "rowlock migrate validate");
    s.sql(one.undone);
    expect(s.examine(), "takes", verdict::ok, "taken, renewed and given back");
  }
  CHECK(s.value("SELECT count(*) FROM rowlock_locks") == "0");
  CHECK(s.value("SELECT count(*) FROM rowlock_permits") == "0");
  CHECK(s.value("SELECT count(*) FROM rowlock_tokens") == "0");
}

TEST_CASE("C79: takes: the first lock of fresh tables, and a database that grants none yet <postgresql>") {
  server_scene const s(server_kind::postgresql);
  expect(s.examine(), "takes", verdict::ok, "taken, renewed and given back");
  CHECK(s.value("SELECT max(reach) FROM rowlock_pulse") == "0");
  s.sql("INSERT INTO rowlock_reach VALUES (90000, now() + interval '1 hour', 0); TRUNCATE rowlock_pulse");
  expect(s.examine(), "takes", verdict::warning, "grants none for 91 s", "Wait");
  CHECK(s.value("SELECT count(*) FROM rowlock_pulse") == "0");
}

TEST_CASE_TEMPLATE("quarantine: frozen, off, running, on", Server, on_postgresql, on_mariadb, on_mysql) {
  server_scene const s(Server::kind);
  bool const mysql = Server::kind != server_kind::postgresql;
  expect(s.examine(), "quarantine", verdict::ok, "on: after a failover");
  std::string const in_an_hour = mysql ? "utc_timestamp(6) + INTERVAL 1 HOUR" : "now() + interval '1 hour'";
  s.sql("UPDATE rowlock_quarantine SET frozen_until = " + in_an_hour);
  expect(s.examine(), "quarantine", verdict::warning, "frozen by an operator", "rowlock thaw");
  s.sql("UPDATE rowlock_quarantine SET frozen_until = NULL, enabled = " + std::string(mysql ? "0" : "false"));
  expect(s.examine(), "quarantine", verdict::warning, "off: ", "rowlock quarantine on");
  s.sql("UPDATE rowlock_quarantine SET enabled = " + std::string(mysql ? "1" : "true"));
  s.sql("UPDATE rowlock_pulse SET safe_from = " + in_an_hour +
        (mysql ? "" : ", made_by = pg_current_xact_id()::xid"));
  expect(s.examine(), "quarantine", verdict::warning, "may have forgotten locks", "Wait");
}

TEST_CASE("C79: takes: a trigger that keeps locks from being taken <sqlite>") {
  sqlite_fixture f;
  f.sql(
      "CREATE TRIGGER refuse BEFORE DELETE ON rowlock_locks BEGIN SELECT RAISE(ABORT, 'not in this shop'); "
      "END");
  expect(examined(f.source), "takes", verdict::error, "strategy unique_insert is refused",
         "migrate validate");
  f.sql("DROP TRIGGER refuse");
  f.sql("CREATE TRIGGER swallow BEFORE UPDATE ON rowlock_permits BEGIN SELECT RAISE(IGNORE); END");
  expect(examined(f.source), "takes", verdict::error, "its renewal changes no row", "migrate validate");
}

TEST_CASE_TEMPLATE("C79: tables: what migrate validate finds, and who may not look", Server, on_postgresql,
                   on_mariadb, on_mysql) {
  server_scene const s(Server::kind);
  expect(s.examine(), "tables", verdict::unknown, "this role may not read what was migrated",
         "as the tables' owner");
  expect(examined(s.as_admin()), "tables", verdict::ok, "as `rowlock migrate` makes them");
  s.sql("ALTER TABLE rowlock_tokens ADD COLUMN shop varchar(20)");
  expect(examined(s.as_admin()), "tables", verdict::warning, "shop", "rowlock migrate validate");
}
