// What each condition of lib/sql/<dialect>/migrate.sql is for: the statements are asked directly, from both
// sides of each. What is built of them need not notice that one is gone (found by tools/dev/mutate).

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <rowlock/postgresql.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "database.hpp"
#include "support/changed_sql.hpp"
#include "support/eventually.hpp"

using namespace rowlock;
using namespace rowlock::test;
using namespace std::chrono_literals;

namespace {

using backend::as_int;
using backend::as_text;
using backend::value;
using texts = std::vector<std::string>;
using numbers = std::vector<std::int64_t>;

/// Statements by themselves, on a session of their own.
class asked {
 public:
  asked(connection_source const& source, std::unique_ptr<backend::connection> c)
      : book(source.implementation()->sql(), tables_of(source, "")), session(std::move(c)) {}
  explicit asked(database const& db) : asked(db.source(), db.connect()) {}

  static backend::table_names tables_of(connection_source const& source, std::string const& schema) {
    return backend::table_names::of(source.implementation()->sql(), schema, "rowlock_");
  }
  std::vector<backend::row> rows(backend::statement const& statement,
                                 std::vector<value> const& with = {}) const {
    return session->execute(statement, with, soon()).rows;
  }
  std::vector<backend::row> rows(std::string const& statement, std::vector<value> const& with = {}) const {
    return rows(book.at(statement), with);
  }
  texts first_texts(std::string const& statement, std::vector<value> const& with = {}) const {
    texts all;
    for (auto const& row : rows(statement, with)) all.push_back(as_text(row.at(0)));
    return all;
  }
  std::int64_t one_number(std::string const& statement) const { return as_int(rows(statement).at(0).at(0)); }
  void script(std::string const& sql) const { session->script(sql, soon()); }

  backend::statement_book const book;
  std::unique_ptr<backend::connection> const session;
};

std::int64_t id_of(backend::connection& c, char const* its) {
  return as_int(c.execute({"id", its}, {}, soon()).rows.at(0).at(0));
}

/// Those of our own sessions that are among the rows, in the order of `ours`.
numbers own_among(std::vector<backend::row> const& rows, numbers const& ours) {
  numbers found;
  for (auto const id : ours)
    if (std::any_of(rows.begin(), rows.end(), [&](auto const& row) { return as_int(row.at(0)) == id; }))
      found.push_back(id);
  return found;
}

/// Of the names of rows that were made a moment ago those that the statement takes for held: what ends within
/// a second is, and what has ended a second ago is not.
texts held_at_once(database const& db, asked const& s, std::string const& statement,
                   std::function<void(std::string const& name, std::string const& expires_at)> const& put) {
  for (int tries = 0; tries < 60; ++tries) {
    auto const before = boot_clock::now();
    put("over", db.in_seconds(-1));
    put("near", db.in_seconds(1));
    auto found = s.first_texts(statement);
    if (boot_clock::now() - before < 500ms) return found;
  }
  throw std::runtime_error("a statement takes half a second");
}

}  // namespace

TEST_CASE_TEMPLATE(
    "migrate_version, migrate_held, migrate_highest_token, migrate_forget: what a "
    "migration asks before it takes tables away",
    DB, ROWLOCK_DATABASES) {
  DB const db;
  migrator(db.source()).up();
  asked const s(db);
  CHECK(as_int(s.rows("migrate_version").at(0).at(0)) == toy_version);

  db.hold("free");
  db.script("UPDATE rowlock_locks SET term = NULL");
  CHECK(s.first_texts("migrate_held").empty());
  auto const lock = [&](std::string const& name, std::string const& expires_at) {
    s.script("DELETE FROM rowlock_locks WHERE name = '" + name + "'");
    s.script("INSERT INTO rowlock_locks (name, strategy, term, token, expires_at) VALUES ('" + name +
             "', 'lease', 'x', 1, " + expires_at + ")");
  };
  CHECK(held_at_once(db, s, "migrate_held", lock) == texts{"near"});
  s.script("DELETE FROM rowlock_locks WHERE name <> 'free'");
  CHECK(s.first_texts("migrate_held").empty());
  auto const two_permits = [&](std::string const& name, std::string const& expires_at) {
    s.script("DELETE FROM rowlock_permits WHERE name = '" + name + "'");
    for (auto const* term : {"x", "y"})
      s.script(
          "INSERT INTO rowlock_permits (name, strategy, term, token, expires_at, units, told) VALUES ('" +
          name + "', 'semaphore', '" + term + "', 1, " + expires_at + ", 1, 5)");
  };
  CHECK(held_at_once(db, s, "migrate_held", two_permits) == texts{"near"});

  db.script("UPDATE rowlock_meta SET token_floor = 7");
  CHECK(s.one_number("migrate_highest_token") == 7);
  db.script("UPDATE rowlock_locks SET token = 9 WHERE name = 'free'");
  CHECK(s.one_number("migrate_highest_token") == 9);
  db.script("INSERT INTO rowlock_tokens (name, token) VALUES ('n', 11)");
  CHECK(s.one_number("migrate_highest_token") == 11);

  (void)s.rows("migrate_forget", {std::int64_t{toy_version}});
  CHECK(number(db, "SELECT max(version) FROM rowlock_migrations") == shipped_version);
  (void)s.rows("migrate_forget", {std::int64_t{2}});
  CHECK(number(db, "SELECT count(*) FROM rowlock_migrations") == 1);
  CHECK(number(db, "SELECT max(version) FROM rowlock_migrations") == 1);
}

TEST_CASE_TEMPLATE("down is refused while permits are held, and names them", DB, ROWLOCK_DATABASES) {
  DB const db;
  migrator m(db.source());
  m.up();
  auto const put = [&](char const* name, int seconds) {
    db.script(
        fmt::format("INSERT INTO rowlock_permits (name, strategy, term, token, expires_at, units, told) "
                    "VALUES ('{}', 'semaphore', 'x', 1, {}, 1, 5)",
                    name, db.in_seconds(seconds)));
  };
  put("over", -1);
  put("permit", 60);
  for (int const target : {0, 1, shipped_version}) {
    auto const e = catch_error([&] { m.down(target); });
    CHECK(e.reason == errc::row_locked);
    CHECK(e.mentions("locks are held: 'permit';"));
  }
  CHECK(number(db, "SELECT count(*) FROM rowlock_permits") == 2);
  db.script("DELETE FROM rowlock_permits WHERE name = 'permit'");
  CHECK(m.down(1) == versions{toy_version, 2});
}

TEST_CASE(
    "migrate_enter, migrate_schema_there, migrate_in_the_way, migrate_strangers, migrate_routines_missing: "
    "what a file does not have <sqlite>") {
  sqlite_database const db;
  db.source().implementation()->create_if_missing();
  asked const s(db);
  CHECK(as_int(s.rows("migrate_enter", {"", "rowlock_"}).at(0).at(0)) == 1);
  CHECK(s.rows("migrate_schema_there", {"any"}).size() == 1);
  CHECK(s.rows("migrate_in_the_way", {"", "rowlock_"}).empty());
  CHECK(s.rows("migrate_strangers", {"", "rowlock_", std::int64_t{1}}).empty());
  CHECK(s.rows("migrate_routines_missing", {"", "rowlock_", std::int64_t{toy_version}}).empty());
}

TEST_CASE_TEMPLATE("migrate_schema_there: a schema that is there, and one that is not", DB,
                   postgresql_database, mariadb_database, mysql_database) {
  DB const db;
  asked const s(db);
  auto const schema = [&] {
    if constexpr (std::is_base_of_v<mysql_like_database, DB>)
      return db.name();
    else
      return db.schema();
  }();
  CHECK(as_int(s.rows("migrate_schema_there", {schema}).at(0).at(0)) == 1);
  CHECK(as_int(s.rows("migrate_schema_there", {schema + "_b"}).at(0).at(0)) == 0);
}

TEST_CASE_TEMPLATE("migrate_columns: of one table, where it was asked for", DB, postgresql_database,
                   mariadb_database, mysql_database) {
  DB const db;
  asked const s(db);
  std::string const name = db.is_mysql() ? "varbinary(255)" : "text";
  auto const elsewhere = unique_identifier();
  db.script("CREATE TABLE rowlock_tokens (name " + name + " NOT NULL PRIMARY KEY, gone int, token bigint)");
  db.script("ALTER TABLE rowlock_tokens DROP COLUMN gone");
  db.script("CREATE UNIQUE INDEX also ON rowlock_tokens (token)");
  db.script("CREATE TABLE rowlock_other (name " + name + " PRIMARY KEY)");
  db.script("CREATE SCHEMA " + elsewhere);
  db.script("CREATE TABLE " + elsewhere + ".rowlock_tokens (token bigint, b int NOT NULL)" +
            (db.is_mysql() ? " ENGINE = MyISAM" : ""));
  auto const columns = [&](std::string const& schema, char const* table) {
    std::vector<std::pair<std::string, std::string>> all;
    for (auto const& row : s.rows("migrate_columns", {asked::tables_of(db.source(), schema).table(table)}))
      all.emplace_back(as_text(row.at(0)), as_text(row.at(1)));
    return all;
  };
  using found = std::vector<std::pair<std::string, std::string>>;
  CHECK(columns("", "tokens") == found{{"name", name + " not null primary key"}, {"token", "bigint"}});
  CHECK(columns(elsewhere, "tokens") ==
        (db.is_mysql() ? found{{"token", "bigint in MyISAM"}, {"b", "int not null in MyISAM"}}
                       : found{{"token", "bigint"}, {"b", "integer not null"}}));
  CHECK(columns("", "locks").empty());
  CHECK(columns(elsewhere, "other").empty());
  db.script("DROP TABLE " + elsewhere + ".rowlock_tokens");
  db.script("DROP SCHEMA " + elsewhere);
}

TEST_CASE_TEMPLATE("migrate_routines_missing: of a version, here, by their kind and parameters", DB,
                   postgresql_database, mariadb_database, mysql_database) {
  DB const db;
  migrator(db.source()).up();
  asked const s(db);
  bool const mysql = db.is_mysql();
  auto const here = [&] {
    if constexpr (std::is_base_of_v<mysql_like_database, DB>)
      return db.name();
    else
      return db.schema();
  }();
  auto const elsewhere = unique_identifier();
  db.script("CREATE SCHEMA " + elsewhere);
  auto const missing = [&](std::string const& schema, int version) {
    return s.first_texts("migrate_routines_missing", {schema, "rowlock_", std::int64_t{version}});
  };
  CHECK(missing(here, toy_version).empty());
  CHECK(missing(elsewhere, 0).empty());
  // In the order in which they can be made: take_once is made of the text of take_seen.
  auto const all = missing(elsewhere, toy_version);
  CHECK(all.size() == (mysql ? 17 : 21));
  if (!mysql) CHECK(all.back() == "take_once");
  for (std::string const name : {"renew", "done", "admit"})
    db.script((mysql ? "DROP PROCEDURE rowlock_" : "DROP FUNCTION rowlock_") + name);
  // By those names, and not what is missing.
  if (mysql) {
    db.script("CREATE FUNCTION rowlock_renew() RETURNS INT NO SQL RETURN 1");
    db.script("CREATE PROCEDURE " + elsewhere + ".rowlock_renew() SELECT 1");
  } else {
    db.script("CREATE FUNCTION rowlock_renew(text) RETURNS int LANGUAGE sql AS 'SELECT 1'");
    db.script("CREATE FUNCTION " + elsewhere +
              ".rowlock_renew(text, text) RETURNS int LANGUAGE sql AS 'SELECT 1'");
  }
  for (auto const& schema : mysql ? texts{here, ""} : texts{here}) {
    CHECK(missing(schema, 0).empty());
    CHECK(missing(schema, 1) == texts{"admit", "done", "renew"});
    CHECK(missing(schema, toy_version) == texts{"admit", "done", "renew"});
  }
  db.script(fmt::format("DROP SCHEMA {}{}", elsewhere, mysql ? "" : " CASCADE"));
}

TEST_CASE("migrate_in_the_way: who has the tables, or is migrating them, and nobody else <postgresql>") {
  postgresql_database const db;
  migrator(db.source()).up();
  asked const s(db);
  auto const other = db.connect();
  auto const waits = db.connect();
  auto const idle = db.connect();
  numbers ours;
  for (auto* const c : {s.session.get(), other.get(), waits.get(), idle.get()})
    ours.push_back(id_of(*c, "SELECT pg_backend_pid()::bigint"));
  auto const found_for = [&](std::string const& schema, std::string const& prefix) {
    return own_among(s.rows("migrate_in_the_way", {schema, prefix}), ours);
  };
  auto const found = [&] { return found_for("", "rowlock_"); };
  CHECK(found().empty());
  s.script("BEGIN; LOCK TABLE rowlock_locks IN ROW SHARE MODE");
  CHECK(found().empty());
  s.script("ROLLBACK");

  other->script("BEGIN; LOCK TABLE rowlock_meta IN ACCESS SHARE MODE", soon());
  CHECK(found() == numbers{ours[1]});
  auto waiting = std::async(std::launch::async, [&] {
    waits->script("BEGIN; LOCK TABLE rowlock_meta IN ACCESS EXCLUSIVE MODE", soon());
  });
  auto const look = fmt::format("SELECT count(*) FROM pg_locks WHERE pid = {} AND NOT granted", ours[2]);
  CHECK(eventually([&] { return number(db, look) == 1; }));
  CHECK(found() == numbers{ours[1]});
  other->script("ROLLBACK", soon());
  waiting.get();
  CHECK(found() == numbers{ours[2]});
  waits->script("ROLLBACK", soon());

  other->script("BEGIN", soon());
  auto const enter = [&](backend::connection& c) {
    std::vector<value> const here{db.schema(), "rowlock_"};
    REQUIRE(as_int(c.execute(s.book.at("migrate_enter"), here, soon()).rows.at(0).at(0)) == 1);
  };
  enter(*other);
  CHECK(found() == numbers{ours[1]});
  CHECK(found_for(db.schema(), "rowlock_") == numbers{ours[1]});
  CHECK(found_for("", "x_").empty());
  other->script("ROLLBACK", soon());

  // The same tables' names in another database.
  auto const elsewhere = unique_identifier();
  db.script("CREATE DATABASE " + elsewhere);
  {
    auto const there =
        postgresql::source(postgresql_conninfo() + " dbname=" + elsewhere).implementation()->connect(soon());
    ours.push_back(id_of(*there, "SELECT pg_backend_pid()::bigint"));
    there->script("BEGIN", soon());
    enter(*there);
    CHECK(found().empty());
  }
  db.script("DROP DATABASE " + elsewhere + " WITH (FORCE)");
}

TEST_CASE_TEMPLATE("migrate_in_the_way: who has a transaction open, or is migrating, and nobody else", DB,
                   ROWLOCK_MYSQL_DATABASES) {
  DB const db;
  migrator(db.source()).up();
  asked const s(db);
  auto const other = db.connect();
  auto const migrating = db.connect();
  auto const idle = db.connect();
  numbers ours;
  for (auto* const c : {s.session.get(), other.get(), migrating.get(), idle.get()})
    ours.push_back(id_of(*c, "SELECT connection_id()"));
  // Of the first three, which it shows to people, others on the server may be all.
  backend::statement all{"all_in_the_way", s.book.at("migrate_in_the_way").sql};
  auto const limit = all.sql.find(" LIMIT 3");
  REQUIRE(limit != all.sql.npos);
  all.sql.erase(limit);
  auto const found = [&](std::string const& schema, std::string const& prefix) {
    return own_among(s.rows(all, {schema, prefix}), ours);
  };
  s.script("START TRANSACTION; UPDATE rowlock_meta SET token_floor = 7");
  other->script("START TRANSACTION; INSERT INTO rowlock_tokens (name, token) VALUES ('n', 1)", soon());
  std::vector<value> const here{"", "rowlock_"};
  REQUIRE(as_int(migrating->execute(s.book.at("migrate_enter"), here, soon()).rows.at(0).at(0)) == 1);
  auto const open =
      fmt::format("SELECT count(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id IN ({}, {})",
                  ours[0], ours[1]);
  // innodb_trx shows nothing new as long as anybody on the server looks at it more often than ten times a
  // second: others do so in other cases.
  std::minstd_rand random{std::random_device{}()};
  CHECK(eventually([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150 + random() % 300));
    return as_int(s.rows({"open", open}).at(0).at(0)) == 2;
  }));
  for (auto const& schema : {std::string(), db.name()}) {
    CHECK(found(schema, "rowlock_") == numbers{ours[1], ours[2]});
    CHECK(found(schema, "x_") == numbers{ours[1]});
  }
  CHECK(found("elsewhere", "rowlock_") == numbers{ours[1]});
}

TEST_CASE_TEMPLATE("migrate_strangers: nobody is one where all may be trusted", DB, ROWLOCK_MYSQL_DATABASES) {
  DB const db;
  CHECK(asked(db).rows("migrate_strangers", {db.name(), "rowlock_", std::int64_t{1}}).empty());
}

namespace {

/// A database of PostgreSQL's with two schemas, and a role of each kind.
class roles {
 public:
  roles() {
    auto const admin = postgresql::source(postgresql_conninfo()).implementation()->connect(soon());
    for (auto const& r : all()) admin->script("CREATE ROLE " + r, soon());
    admin->script(fmt::format("ALTER ROLE {} SUPERUSER; GRANT {} TO {}", super, family, me), soon());
    admin->script(fmt::format("CREATE DATABASE {} OWNER {}", database_, owner), soon());
    source_ = std::make_unique<connection_source>(as_the_environment_has_it(
        postgresql::source(fmt::format("{} dbname={}", postgresql_conninfo(), database_))));
    session_ = std::make_unique<asked>(*source_, source_->implementation()->connect(soon()));
    session_->script(fmt::format(
        "CREATE SCHEMA a AUTHORIZATION {}; CREATE SCHEMA b; GRANT ALL ON SCHEMA a, b TO PUBLIC", maker));
  }
  ~roles() {
    session_.reset();
    auto const admin = postgresql::source(postgresql_conninfo()).implementation()->connect(soon());
    admin->script("DROP DATABASE " + database_ + " WITH (FORCE)", soon());
    for (auto const& r : all()) admin->script("DROP ROLE " + r, soon());
  }
  roles(roles const&) = delete;
  roles& operator=(roles const&) = delete;

  texts all() const { return {me, family, super, owner, maker, stranger}; }
  void does(std::string const& role, std::string const& sql) const {
    session_->script(fmt::format("SET ROLE {}; {}; RESET ROLE", role, sql));
  }
  /// What is said to that role. `deciding`: it is about to write.
  texts told(std::string const& role, bool deciding = true) const {
    session_->script("SET ROLE " + role);
    texts lines;
    for (auto const& row :
         session_->rows("migrate_strangers", {"a", "rowlock_", std::int64_t{deciding ? 1 : 0}}))
      lines.push_back(as_text(row.at(0)) + " " + as_text(row.at(1)));
    session_->script("RESET ROLE");
    return lines;
  }

 private:
  std::string const database_ = unique_identifier();

 public:
  std::string const me = database_ + "_me";
  std::string const family = database_ + "_family";  ///< I am a member of it
  std::string const super = database_ + "_super";
  std::string const owner = database_ + "_owner";  ///< of the database
  std::string const maker = database_ + "_maker";  ///< of schema a
  std::string const stranger = database_ + "_stranger";

 private:
  std::unique_ptr<connection_source> source_;
  std::unique_ptr<asked> session_;
};

}  // namespace

TEST_CASE(
    "migrate_strangers: whose tables, triggers, rules and functions are trusted, by whom <postgresql>") {
  roles const r;
  r.does(r.me, "CREATE TABLE a.rowlock_meta (id int PRIMARY KEY)");
  auto const strangers_to = [&](std::string const& role, bool deciding) {
    texts found;
    for (auto const& one : r.all()) {
      r.does(r.super, fmt::format("ALTER TABLE a.rowlock_meta OWNER TO {}", one));
      auto const told = r.told(role, deciding);
      if (told.empty()) continue;
      CHECK(told == texts{"rowlock_meta belongs to role " + one});
      found.push_back(one);
    }
    return found;
  };
  CHECK(strangers_to(r.me, true) == texts{r.maker, r.stranger});
  CHECK(strangers_to(r.me, false) == texts{r.stranger});
  CHECK(strangers_to(r.super, true) == texts{r.me, r.family, r.maker, r.stranger});
  CHECK(strangers_to(r.super, false) == texts{r.me, r.family, r.maker, r.stranger});
  r.does(r.super, fmt::format("ALTER TABLE a.rowlock_meta OWNER TO {}", r.me));

  // What a stranger has besides, elsewhere or by other names, and what I have myself.
  std::string const sql_function = " RETURNS int LANGUAGE sql AS 'SELECT 1'";
  std::string const trigger_function = " RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$";
  r.does(r.stranger,
         "CREATE TABLE b.rowlock_locks (id int); CREATE TABLE a.other (id int);"
         "CREATE RULE harmless AS ON UPDATE TO a.other DO ALSO SELECT 1;"
         "CREATE FUNCTION a.springs()" +
             trigger_function +
             ";"
             "CREATE TRIGGER t BEFORE UPDATE ON a.other FOR EACH ROW EXECUTE FUNCTION a.springs();"
             "CREATE FUNCTION b.rowlock_renew(text, text)" +
             sql_function);
  r.does(r.me,
         "CREATE TABLE a.of_it (id int REFERENCES a.rowlock_meta);"
         "CREATE VIEW a.rowlock_quorum AS SELECT 1 AS id;"
         "CREATE FUNCTION a.mine()" +
             trigger_function +
             ";"
             "CREATE TRIGGER mine BEFORE UPDATE ON a.rowlock_meta FOR EACH ROW EXECUTE FUNCTION a.mine();"
             "CREATE FUNCTION a.rowlock_renew(text, text)" +
             sql_function);
  CHECK(r.told(r.me).empty());

  auto const found_while = [&](std::string const& role, std::string const& make, std::string const& undo) {
    r.does(role, make);
    auto const told = r.told(r.me);
    r.does(role, undo);
    CHECK(r.told(r.me).empty());
    return told;
  };
  r.does(r.me, fmt::format("GRANT TRIGGER ON a.rowlock_meta TO {}", r.stranger));
  CHECK(found_while(
            r.stranger,
            "CREATE TRIGGER t BEFORE UPDATE ON a.rowlock_meta FOR EACH ROW EXECUTE FUNCTION a.springs()",
            "SET ROLE " + r.me + "; DROP TRIGGER t ON a.rowlock_meta") ==
        texts{"rowlock_meta has trigger t, whose function belongs to role " + r.stranger});
  CHECK(found_while(r.me, "CREATE RULE r AS ON UPDATE TO a.rowlock_meta DO ALSO SELECT 1",
                    "DROP RULE r ON a.rowlock_meta") == texts{"rowlock_meta has rule r"});
  CHECK(found_while(r.super,
                    fmt::format("ALTER FUNCTION a.rowlock_renew(text, text) OWNER TO {}", r.stranger),
                    fmt::format("ALTER FUNCTION a.rowlock_renew(text, text) OWNER TO {}", r.me)) ==
        texts{"rowlock_renew(text, text) belongs to role " + r.stranger});
  std::string const none_of_ours = " is none of rowlock's functions, but may be called instead of one";
  CHECK(found_while(r.me, "CREATE FUNCTION a.rowlock_renew(text)" + sql_function,
                    "DROP FUNCTION a.rowlock_renew(text)") == texts{"rowlock_renew(text)" + none_of_ours});
  auto const told =
      found_while(r.me, "CREATE PROCEDURE a.rowlock_release(text, text) LANGUAGE sql AS 'SELECT 1'",
                  "DROP PROCEDURE a.rowlock_release(text, text)");
  REQUIRE(told.size() == 1);
  CHECK(told[0].starts_with("rowlock_release("));  // servers write the arguments of procedures differently
  CHECK(told[0].ends_with(none_of_ours));
}
