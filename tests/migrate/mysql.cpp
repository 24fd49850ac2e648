// What MySQL and MariaDB have of their own: DDL that commits, table locks, databases as schemas.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>
#include <regex>
#include <rowlock/doctor.hpp>
#include <rowlock/lock_manager.hpp>
#include <rowlock/mysql.hpp>
#include <thread>

#include "database.hpp"
#include "support/source_path.hpp"

using namespace rowlock;
using namespace rowlock::test;
using namespace std::chrono_literals;

namespace {

using backend::value;

/// The statements of a migration, without comments.
std::vector<std::string> statements_of(database const& db, int version, bool up) {
  auto const& all = db.source().implementation()->sql().migrations;
  std::string text(up ? all[static_cast<std::size_t>(version - 1)].up
                      : all[static_cast<std::size_t>(version - 1)].down);
  for (auto at = text.find("--"); at != text.npos; at = text.find("--", at))
    text.erase(at, text.find('\n', at) - at);
  std::vector<std::string> out;
  for (std::size_t at = 0; text.find(';', at) != text.npos;) {
    bool const procedure = text.find_first_not_of(" \n", at) == text.find("CREATE PROCEDURE", at);
    auto const end = procedure ? text.find("\nEND;", at) + 4 : text.find(';', at);
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

/// Runs the first `count` of them on one session, which then ends.
void run_some(database const& db, std::vector<std::string> const& statements, std::size_t count) {
  auto const c = db.connect();
  for (std::size_t i = 0; i < count; ++i) c->script(statements[i], soon());
}

/// What schema/mysql-grants.sql gives to a role, each up to its TO.
std::vector<std::string> shipped_grants(std::string const& role) {
  std::ifstream in(source_path("schema/mysql-grants.sql"));
  std::string const text(std::istreambuf_iterator<char>(in), {});
  std::regex const statement("(GRANT [^;]*) TO " + role + ";");
  std::vector<std::string> all;
  for (std::sregex_iterator at(text.begin(), text.end(), statement), end; at != end; ++at)
    all.push_back(at->str(1));
  REQUIRE(all.size() > 3);
  return all;
}

/// A version's migration, cut off after each of its statements, and then completed, or undone.
template <class DB>
void die_anywhere(int version, bool up) {
  DB whole;
  auto const statements = statements_of(whole, version, up);
  REQUIRE(statements.size() >= 2);
  for (std::size_t count = 1; count < statements.size(); ++count)
    for (bool const then_up : {true, false}) {
      CAPTURE(version);
      CAPTURE(up);
      CAPTURE(count);
      CAPTURE(then_up);
      DB db;
      migrator m(db.source());
      int const before = up ? version - 1 : version;
      m.up(before);
      if (before > 0) db.script("UPDATE rowlock_meta SET token_floor = 7777");
      run_some(db, statements, count);
      if (then_up) {
        m.up();
        // Nothing of what was there is lost as long as rowlock_meta is there, which goes last.
        bool const meta_gone = std::any_of(
            statements.begin(), statements.begin() + static_cast<std::ptrdiff_t>(count),
            [](auto const& each) { return each.find("DROP TABLE rowlock_meta") != std::string::npos; });
        if (before > 0 && !meta_gone) CHECK(number(db, "SELECT token_floor FROM rowlock_meta") == 7777);
      } else {
        m.down(0, false, true);
        CHECK(number(db, "SELECT count(*) FROM information_schema.tables WHERE table_schema = database()") ==
              0);
        m.up();
      }
      CHECK(m.validate().empty());
      CHECK(m.status().back().applied);
    }
}

}  // namespace

// A case for each. MySQL takes its time for DDL: it has the toy alone, and MariaDB the same texts.
#define DIES_ON_THE_WAY_UP(version, ...)                                                               \
  TEST_CASE_TEMPLATE("a migration up to " #version " that died anywhere is completed, up or down", DB, \
                     __VA_ARGS__) {                                                                    \
    die_anywhere<DB>(version, true);                                                                   \
  }
#define DIES_ON_THE_WAY_DOWN(version, ...)                                                                 \
  TEST_CASE_TEMPLATE("a migration down from " #version " that died anywhere is completed, up or down", DB, \
                     __VA_ARGS__) {                                                                        \
    die_anywhere<DB>(version, false);                                                                      \
  }
DIES_ON_THE_WAY_UP(1, mariadb_database)
DIES_ON_THE_WAY_DOWN(1, mariadb_database)
DIES_ON_THE_WAY_DOWN(2, mariadb_database)  // up is one statement
DIES_ON_THE_WAY_UP(3, ROWLOCK_MYSQL_DATABASES)
DIES_ON_THE_WAY_DOWN(3, ROWLOCK_MYSQL_DATABASES)

TEST_CASE_TEMPLATE("migrations up may be run again, also beside later ones", DB, ROWLOCK_MYSQL_DATABASES) {
  DB db;
  migrator m(db.source());
  m.up();
  for (int const version : every_up) db.apply_raw(version, "up");
  CHECK(m.validate().empty());
  CHECK(m.up().empty());
}

// A view of somebody who may create views and functions in the database, and nothing else: with SQL SECURITY
// INVOKER both run with the rights of whoever reads it.
TEST_CASE_TEMPLATE("C12: views by the names of tables are not even read", DB, ROWLOCK_MYSQL_DATABASES) {
  DB db;
  db.script("CREATE TABLE marks (n INT)");
  db.script(
      "CREATE FUNCTION springs() RETURNS INT MODIFIES SQL DATA SQL SECURITY INVOKER BEGIN INSERT INTO marks "
      "VALUES (1);"
      " RETURN 1; END");
  std::string const invoker = "CREATE SQL SECURITY INVOKER VIEW ";
  std::string const meta =
      "rowlock_meta AS SELECT 1 AS id, repeat('a', 32) AS database_id, springs() AS schema_version, 1 AS "
      "oldest_reader,"
      " 0 AS token_floor";
  migrator_options options;
  SUBCASE("in the address's database") { db.script(invoker + meta); }
  SUBCASE("in a database that is named") {
    db.script(invoker + meta);
    options.schema = db.name();
  }
  SUBCASE("one of them") {
    migrator(db.source()).up();
    db.script("DROP TABLE rowlock_locks");
    db.script(invoker + "rowlock_locks AS SELECT 'n' AS name, springs() AS token");
  }
  migrator m(db.source(), options);
  for (auto const& e : {catch_error([&] { m.up(); }), catch_error([&] { m.down(0, true, true); }),
                        catch_error([&] { (void)m.repair(); }), catch_error([&] { (void)m.validate(); }),
                        catch_error([&] { (void)m.status(); })}) {
    CHECK((e.reason == errc::schema_missing || e.reason == errc::access_denied));
    CHECK(e.mentions("is not an ordinary table"));
  }
  auto const found = doctor(db.source(), {.schema = options.schema}).examine();
  CHECK(std::any_of(found.begin(), found.end(), [](auto const& f) { return f.result == verdict::error; }));
  manager_options locking;
  locking.schema = options.schema;
  auto const e = catch_error([&] { lock_manager(db.source(), locking).connect(); });
  CHECK(e.reason == errc::schema_missing);
  CHECK(e.mentions("is not an ordinary table"));
  CHECK(number(db, "SELECT count(*) FROM marks") == 0);
}

TEST_CASE_TEMPLATE(
    "an interrupted migration is said by validate, and is not taken for one by strangers' tables", DB,
    ROWLOCK_MYSQL_DATABASES) {
  DB db;
  migrator m(db.source());
  m.up(shipped_version);
  db.script("ALTER TABLE rowlock_locks ADD COLUMN toy BIGINT");
  auto const lines = m.validate();
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].find("from version 2 to 3, or back, was interrupted") != std::string::npos);
  CHECK_FALSE(m.status().back().applied);
  db.script("ALTER TABLE rowlock_tokens ADD COLUMN mine INT");
  CHECK(catch_error([&] { m.up(); }).reason == errc::schema_missing);
}

TEST_CASE_TEMPLATE("tables in an engine that locks no rows are refused", DB, ROWLOCK_MYSQL_DATABASES) {
  DB db;
  migrator m(db.source());
  m.up();
  db.script("ALTER TABLE rowlock_tokens ENGINE = MyISAM");
  auto const e = catch_error([&] { m.up(); });
  CHECK(e.reason == errc::schema_missing);
  CHECK(e.mentions("in MyISAM"));
}

TEST_CASE_TEMPLATE("a schema is a database: it is made, quoted, and used", DB, ROWLOCK_MYSQL_DATABASES) {
  DB db;
  std::string const schema = db.name() + "_Own";
  migrator m(db.source(), {.table_prefix = "p_", .schema = schema});
  CHECK(m.up() == every_up);
  CHECK(m.validate().empty());
  CHECK(number(db, fmt::format("SELECT count(*) FROM `{}`.p_migrations", schema)) == toy_version);
  CHECK(m.down(0) == every_down);
  CHECK(m.up() == every_up);  // the database was still there
  db.script(fmt::format("DROP DATABASE `{}`", schema));
  db.script(for_the_server(m.sql(0, toy_version)));
  CHECK(m.up().empty());
  CHECK(m.validate().empty());
  db.script(for_the_server(m.sql(toy_version, 0)));
  CHECK_FALSE(m.status()[0].applied);
  db.script(fmt::format("DROP DATABASE `{}`", schema));
  CHECK(m.sql(0, toy_version).find("BEGIN;") == std::string::npos);
  CHECK(m.sql(0, toy_version).find("COMMIT;") == std::string::npos);
}

TEST_CASE_TEMPLATE("trap B27: new columns behind a guarded transaction do not block the other names for long",
                   DB, ROWLOCK_MYSQL_DATABASES) {
  DB db;
  migrator(db.source()).up(shipped_version);
  db.hold("busy");
  auto const other = db.connect();
  other->script("START TRANSACTION; UPDATE rowlock_locks SET note = 'guarded' WHERE name = 'busy'", soon());
  auto up = std::async(std::launch::async,
                       [&] { return catch_error([&] { migrator(db.source(), {.timeout = 10s}).up(); }); });
  auto const& dialect = db.source().implementation()->sql();
  backend::statement_book const book(dialect, backend::table_names::of(dialect, "", "rowlock_"));
  auto const c = db.connect();
  std::chrono::nanoseconds slowest{0};
  int takes = 0;
  while (up.wait_for(0s) != std::future_status::ready) {
    auto const before = boot_clock::now();
    std::vector<value> const free{fmt::format("n{}", takes++), "lease"};
    try {
      c->execute(book.at("lock_insert_free"), free, soon());
    } catch (error const& e) {
      REQUIRE(e.reason() == errc::row_locked);  // which a manager calls busy, and tries again
    }
    slowest = std::max(slowest, boot_clock::now() - before);
  }
  CHECK(up.get().reason == errc::row_locked);
  MESSAGE(takes << " statements meanwhile, the slowest in " << slowest.count() / 1000 << " us");
  CHECK(takes > 20);
  CHECK(slowest < 7s);
  other->script("COMMIT", soon());
  CHECK(migrator(db.source()).up() == versions{toy_version});
}

TEST_CASE_TEMPLATE(
    "trap B27: down behind a guarded transaction does not block the acquires of all names for long", DB,
    ROWLOCK_MYSQL_DATABASES) {
  DB db;
  migrator(db.source()).up();
  db.hold("busy");
  auto const other = db.connect();
  other->script("START TRANSACTION; UPDATE rowlock_locks SET note = '' WHERE name = 'busy'", soon());
  auto down = std::async(std::launch::async, [&] {
    return catch_error([&] { migrator(db.source(), {.timeout = 10s}).down(0, true, true); });
  });
  auto const& dialect = db.source().implementation()->sql();
  backend::statement_book const book(dialect, backend::table_names::of(dialect, "", "rowlock_"));
  auto const c = db.connect();
  settle_for_takes(*c, book);
  std::chrono::nanoseconds slowest{0};
  int takes = 0;
  int busy = 0;
  while (down.wait_for(0s) != std::future_status::ready) {
    auto const before = boot_clock::now();
    auto const name = fmt::format("n{}", takes);
    try {
      c->execute(book.at("lock_insert_free"), std::vector<value>{name, "lease"}, soon());
      takes += static_cast<int>(c->execute(book.at("lock_take"), take_parameters(name), soon()).affected);
    } catch (error const& e) {
      REQUIRE(e.reason() == errc::row_locked);  // which a manager calls busy, and tries again
      ++busy;
    }
    slowest = std::max(slowest, boot_clock::now() - before);
  }
  auto const e = down.get();
  CHECK(e.reason == errc::row_locked);
  CHECK(e.mentions("gave up after 10000 ms"));
  CHECK(e.mentions("in the way: server process"));
  MESSAGE(takes << " takes meanwhile, " << busy << " busy, the slowest in " << slowest.count() / 1000
                << " us");
  CHECK(takes > 20);
  CHECK(slowest < 7s);
  other->script("COMMIT", soon());
  CHECK(migrator(db.source()).down(0, true, true) == every_down);
}

// A server may have a hundred thousand tables.
TEST_CASE("what is looked up about a table is not looked for in all tables of the server [mariadb]") {
  mariadb_database const db;
  migrator(db.source()).up();
  auto const& dialect = db.source().implementation()->sql();
  backend::statement_book const book(dialect, backend::table_names::of(dialect, "", "rowlock_"));
  auto const explain = [&](std::string const& statement, std::string const& first) {
    auto text = "EXPLAIN " + book.at(statement).sql;
    for (auto const& [mark, value] : {std::pair{"$1", first}, {"$2", std::string("'rowlock_locks'")}})
      for (auto at = text.find(mark); at != text.npos; at = text.find(mark, at)) text.replace(at, 2, value);
    return db.query(text);
  };
  for (auto const& plan : {explain("migrate_columns", "'`rowlock_locks`'"), explain("doctor_tables", "''")}) {
    CHECK(plan.size() == 2);
    for (auto const& table : plan)
      CHECK(backend::as_text(table.back()).find("Scanned 0 databases") != std::string::npos);
  }
}

TEST_CASE_TEMPLATE("a lock that is taken while down looks is not overlooked", DB, ROWLOCK_MYSQL_DATABASES) {
  DB db;
  migrator(db.source()).up();
  // A take whose transaction is open when down comes: down has to wait for it, and then sees the lock.
  auto const other = db.connect();
  other->script(
      "START TRANSACTION; INSERT INTO rowlock_locks (name, strategy, term, token, expires_at) "
      "VALUES ('late', 'lease', 'x', 1, utc_timestamp(6) + INTERVAL 1 MINUTE)",
      soon());
  std::promise<void> waiting;
  std::once_flag once;
  auto down = std::async(std::launch::async, [&] {
    migrator m(db.source(),
               {.progress = [&](std::string_view) { std::call_once(once, [&] { waiting.set_value(); }); }});
    return catch_error([&] { m.down(shipped_version); });
  });
  waiting.get_future().wait();
  other->script("COMMIT", soon());
  auto const e = down.get();
  CHECK(e.reason == errc::row_locked);
  CHECK(e.mentions("locks are held: 'late'"));
  // Refused, it leaves no table locked behind.
  db.script("UPDATE rowlock_locks SET term = NULL");
  CHECK(migrator(db.source()).down(shipped_version) == versions{toy_version});
}

TEST_CASE_TEMPLATE("a migrator that waits for another says so, and gives up at its timeout", DB,
                   ROWLOCK_MYSQL_DATABASES) {
  DB db;
  auto const& dialect = db.source().implementation()->sql();
  backend::statement_book const book(dialect, backend::table_names::of(dialect, "", "rowlock_"));
  auto const other = db.connect();
  auto const entered = other->execute(book.at("migrate_enter"), std::vector<value>{"", "rowlock_"}, soon());
  CHECK(entered.rows[0][0] == value{std::int64_t{1}});
  for (auto const& schema : {std::string(), db.name()}) {
    auto const e = catch_error([&] { migrator(db.source(), {.schema = schema, .timeout = 3s}).up(); });
    CHECK(e.reason == errc::row_locked);
    CHECK(e.mentions("another process is migrating the same tables"));
    CHECK(e.mentions("in the way: server process"));
  }
  CHECK(migrator(db.source(), {.table_prefix = "x_", .timeout = 60s}).up() == every_up);
  other->close();
  CHECK(migrator(db.source()).up() == every_up);
}

TEST_CASE_TEMPLATE("a connection that the server ends in the middle of a step is made again", DB,
                   ROWLOCK_MYSQL_DATABASES) {
  DB db;
  std::atomic<int> killed = 0;
  std::jthread const terminate([&](std::stop_token stop) {
    auto const killer = db.connect();
    backend::statement const find{
        "find", fmt::format("SELECT id FROM information_schema.processlist WHERE db = '{}' AND "
                            "id <> connection_id() AND rand() < 0.2",
                            db.name())};
    while (!stop.stop_requested()) {
      for (auto const& row : killer->execute(find, {}, soon()).rows) try {
          killer->script(fmt::format("KILL {}", backend::as_int(row.at(0))), soon());
          ++killed;
        } catch (error const&) {  // it has ended by itself
        }
      std::this_thread::sleep_for(20ms);  // so that some calls go through
    }
  });
  migrator m(db.source(), {.timeout = 30s});
  int whole = 0;
  for (int round = 0; round < 200 && killed < 15; ++round) {
    try {
      m.up();
      m.down(0);
      ++whole;
    } catch (error const& e) {
      // The very first connection of a call is not made again: rather a wrong address than an outage.
      REQUIRE((e.reason() == errc::unreachable || e.reason() == errc::in_doubt));
    }
  }
  MESSAGE(killed.load() << " connections were ended, " << whole << " rounds went through");
  CHECK(killed > 0);
  const_cast<std::jthread&>(terminate).request_stop();
  const_cast<std::jthread&>(terminate).join();
  m.up();
  CHECK(m.validate().empty());
}

TEST_CASE_TEMPLATE("missing rights are said, with the way out", DB, ROWLOCK_MYSQL_DATABASES) {
  DB db;
  auto const user = db.name();
  db.script(fmt::format("CREATE USER {0}@'%' IDENTIFIED BY 'poor'; GRANT SELECT ON {0}.* TO {0}@'%'", user));
  auto const at = db.address().find('@');
  migrator m(with_toy(mysql::source(fmt::format("mysql://{}:poor{}", user, db.address().substr(at)))));
  auto const create = catch_error([&] { m.up(); });
  CHECK(create.reason == errc::access_denied);
  CHECK(create.mentions("CREATE, ALTER, DROP, LOCK TABLES"));
  CHECK(create.mentions("rowlock migrate sql"));
  // Nothing to do needs no rights but reading.
  migrator(db.source()).up();
  CHECK(m.up().empty());
  CHECK(m.validate().empty());
  CHECK(catch_error([&] { m.down(0); }).reason == errc::access_denied);
  db.script(fmt::format("DROP USER {}@'%'", user));
}

TEST_CASE_TEMPLATE(
    "C26: with the rights of rowlock_locking and rowlock_reaping: what may not be read is said, not "
    "taken for missing",
    DB, ROWLOCK_MYSQL_DATABASES) {
  DB db;
  migrator(db.source()).up();
  for (std::string const role : {"rowlock_locking", "rowlock_reaping"}) {
    CAPTURE(role);
    auto const user = unique_identifier();
    db.script(fmt::format("CREATE USER {}@'%' IDENTIFIED BY 'poor'", user));
    for (auto const& grant : shipped_grants(role)) db.script(grant + " TO " + user + "@'%'");
    auto const at = db.address().find('@');
    migrator m(with_toy(mysql::source(fmt::format("mysql://{}:poor{}", user, db.address().substr(at)))));
    auto const check = [&](caught const& e) {
      CHECK(e.reason == errc::access_denied);
      CHECK(e.mentions("SELECT"));
      CHECK(e.mentions("rowlock_migrations"));
      CHECK_FALSE(e.mentions("by hand"));
    };
    check(catch_error([&] { (void)m.status(); }));
    check(catch_error([&] { (void)m.validate(); }));
    check(catch_error([&] { m.up(); }));
    check(catch_error([&] { m.repair(); }));
    check(catch_error([&] { m.down(0); }));
    db.script(fmt::format("REVOKE SELECT ON rowlock_meta FROM {}@'%'", user));
    check(catch_error([&] { (void)m.status(); }));
    db.script(fmt::format("GRANT SELECT ON * TO {}@'%'", user));
    CHECK(m.validate().empty());
    CHECK(m.up().empty());
    db.script(fmt::format("DROP USER {}@'%'", user));
  }
}

TEST_CASE_TEMPLATE("no such server and no such database are said at once", DB, ROWLOCK_MYSQL_DATABASES) {
  CHECK(catch_error([] { migrator(mysql::source("mysql://x:secret1@127.0.0.1:1/x")).up(); }).reason ==
        errc::unreachable);
  DB const db;
  auto const e = catch_error([&] { migrator(mysql::source(with_database(db.address(), "nowhere"))).up(); });
  CHECK(e.reason == errc::schema_missing);
  CHECK(e.mentions("nowhere"));
}
