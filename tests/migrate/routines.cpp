// Functions and procedures that a dump has left out, or that somebody has dropped.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <rowlock/mysql.hpp>

#include "database.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

#define ROUTINE_DATABASES \
  ::rowlock::test::postgresql_database, ::rowlock::test::mariadb_database, ::rowlock::test::mysql_database

std::vector<backend::row> routine_catalog(database const& db) {
  return db.query(
      db.is_mysql()
          ? "SELECT routine_name, sql_mode, security_type, sql_data_access, routine_definition FROM "
            "information_schema.routines WHERE routine_schema = database() ORDER BY 1"
          : "SELECT p.proname::text, pg_get_functiondef(p.oid) FROM pg_proc AS p WHERE p.pronamespace = "
            "current_schema()::regnamespace ORDER BY 1");
}

std::vector<std::string> routine_names(database const& db) {
  std::vector<std::string> all;
  for (auto const& one : routine_catalog(db)) all.push_back(backend::as_text(one.at(0)));
  return all;
}

void drop_routine(database const& db, std::string const& name) {
  db.script(fmt::format("DROP {} {}", db.is_mysql() ? "PROCEDURE" : "FUNCTION", name));
}

void hers_does(std::string const& url, std::string const& sql) {
  mysql::source(url).implementation()->connect(soon())->script(sql, soon());
}

bool line_mentions(std::vector<std::string> const& lines, std::string const& part) {
  return std::any_of(lines.begin(), lines.end(), [&](auto const& l) { return l.find(part) != l.npos; });
}

}  // namespace

TEST_CASE_TEMPLATE("routines: those that are missing are named, and made again as they were", DB,
                   ROUTINE_DATABASES) {
  DB db;
  std::vector<std::string> told;
  migrator m(db.source(), {.progress = [&](std::string_view line) { told.emplace_back(line); }});
  m.up();
  auto const whole = routine_catalog(db);
  auto const all = routine_names(db);
  REQUIRE(all.size() == (db.is_mysql() ? 17 : 21));
  auto const expect_made = [&](std::vector<std::string> const& which) {
    auto const lines = m.validate();
    CHECK(lines.size() == which.size());
    for (auto const& name : which)
      CHECK(line_mentions(lines, name + ", for SQL without C++, is missing: `rowlock migrate up`"));
    told.clear();
    CHECK(m.up().empty());
    for (auto const& name : which) CHECK(line_mentions(told, "made " + name + " again"));
    CHECK(m.validate().empty());
    CHECK(routine_catalog(db) == whole);
  };
  for (auto const& name : all) {
    CAPTURE(name);
    drop_routine(db, name);
    expect_made({name});
  }
  for (auto const& name : all) drop_routine(db, name);
  expect_made(all);
}

TEST_CASE_TEMPLATE("routines: those of an older version are made as that one had them, before the next", DB,
                   ROUTINE_DATABASES) {
  DB db;
  migrator m(db.source());
  m.up(1);
  auto const whole = routine_catalog(db);
  auto const drop_all = [&] {
    for (auto const& name : routine_names(db)) drop_routine(db, name);
  };
  auto const all = routine_names(db).size();
  drop_all();
  CHECK(m.validate().size() == all + 1);  // and that there are newer versions
  CHECK(m.up(1).empty());
  CHECK(routine_catalog(db) == whole);
  drop_all();
  CHECK(m.up() == versions{2, toy_version});
  CHECK(m.validate().empty());
  CHECK(m.down(1) == versions{toy_version, 2});
  CHECK(routine_catalog(db) == whole);
  m.up();
  drop_all();
  CHECK(m.down(0) == every_down);
  CHECK(routine_names(db).empty());
}

TEST_CASE_TEMPLATE("routines: in a schema and with a prefix that are named, too", DB, ROUTINE_DATABASES) {
  DB db;
  migrator m(db.source(), {.table_prefix = "p_"});
  m.up();
  auto const whole = routine_catalog(db);
  for (auto const& name : routine_names(db)) drop_routine(db, name);
  CHECK(line_mentions(m.validate(), "p_renew, for SQL"));
  CHECK(m.up().empty());
  CHECK(routine_catalog(db) == whole);
}

TEST_CASE_TEMPLATE("routines: one that somebody else has put there, or that is hidden, is not run", DB,
                   ROWLOCK_MYSQL_DATABASES) {
  DB db;
  migrator m(db.source());
  m.up();
  db.script("CREATE TABLE sprung (n int)");
  std::string parameters;
  auto const put_there = [&] {
    drop_routine(db, "rowlock_renew");
    db.script(fmt::format(
        "CREATE PROCEDURE rowlock_renew({}) SQL SECURITY INVOKER INSERT INTO sprung VALUES (1)", parameters));
  };
  SUBCASE("without parameters") {}
  SUBCASE("with as many as are asked with") {
    for (int i = 0; i < 31; ++i) parameters += fmt::format("{}p{} INT", i == 0 ? "" : ", ", i);
  }
  put_there();
  // Sees tables, and no procedure.
  auto const user = unique_identifier();
  db.script(fmt::format("CREATE USER {0}@'%' IDENTIFIED BY 'x'; GRANT SELECT, INSERT ON {1}.* TO {0}@'%'",
                        user, db.name()));
  auto url = db.address();
  auto const at = url.find("://") + 3;
  url.replace(at, url.find('@') - at, user + ":x");
  migrator poor{with_toy(mysql::source(url))};
  CHECK(m.validate().empty());
  CHECK(poor.validate().empty());
  CHECK(poor.up().empty());
  // May call all of them; the catalog shows them to whoever may.
  db.script(fmt::format("GRANT EXECUTE ON {1}.* TO {0}@'%'", user, db.name()));
  CHECK(migrator{with_toy(mysql::source(url))}.validate().empty());
  // By no catalog: as if it were hidden.
  auto const& its = db.source().implementation()->sql().migrating;
  CHECK_THROWS_AS(db.script(its.call_in_vain("rowlock_renew")), error);
  CHECK(number(db, "SELECT count(*) FROM sprung") == 0);
  drop_routine(db, "rowlock_renew");
  CHECK(line_mentions(m.validate(), "rowlock_renew, for SQL"));
  db.script(fmt::format("DROP USER {}@'%'", user));
}

TEST_CASE_TEMPLATE(
    "C12: routines, migrate_strangers: one that another account has made, or that runs as its definer, is "
    "said",
    DB, ROWLOCK_MYSQL_DATABASES) {
  DB db;
  migrator m(db.source());
  m.up();
  auto const user = unique_identifier();
  db.script(
      fmt::format("CREATE USER {0}@'%' IDENTIFIED BY 'x'; GRANT ALL ON {1}.* TO {0}@'%'", user, db.name()));
  auto url = db.address();
  auto const at = url.find("://") + 3;
  url.replace(at, url.find('@') - at, user + ":x");
  migrator hers{with_toy(mysql::source(url))};
  CHECK(hers.validate().empty());  // another account looks than the one that migrated
  auto const only_line = [&](migrator& who, std::string const& part) {
    auto const lines = who.validate();
    CHECK(lines.size() == 1);
    CHECK_MESSAGE(line_mentions(lines, part), fmt::format("{}", fmt::join(lines, "; ")));
  };
  SUBCASE("another one's") {
    for (auto const* security : {"INVOKER", "DEFINER"}) {
      drop_routine(db, "rowlock_renew");
      hers_does(url,
                fmt::format("CREATE PROCEDURE rowlock_renew() SQL SECURITY {} SET @sprung = 1", security));
      bool const as_caller = std::string(security) == "INVOKER";
      only_line(m, as_caller ? fmt::format("rowlock_renew was made by account {}@%", user)
                             : fmt::format("rowlock_renew runs with the rights of account {}@%", user));
    }
    CHECK_NOTHROW(m.up());  // it calls none of them
  }
  SUBCASE("not what has another name, or is a function") {
    db.script("CREATE PROCEDURE another() SET @sprung = 1");
    db.script("CREATE FUNCTION rowlock_renew() RETURNS INT DETERMINISTIC RETURN 1");
    CHECK(m.validate().empty());
    db.script("DROP PROCEDURE another");
    db.script("DROP FUNCTION rowlock_renew");
  }
  SUBCASE("our own, changed") {
    db.script("ALTER PROCEDURE rowlock_renew SQL SECURITY DEFINER");
    only_line(m, "rowlock_renew runs with the rights of account ");
  }
  drop_routine(db, "rowlock_renew");
  m.up();
  CHECK(m.validate().empty());
  // All were made by the other account: tables belong to nobody, and it may be the one that migrates.
  for (auto const& name : routine_names(db)) drop_routine(db, name);
  hers.up();
  CHECK(m.validate().empty());
  db.script(fmt::format("DROP USER {}@'%'", user));
}
