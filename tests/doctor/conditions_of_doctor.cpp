// What each condition of lib/sql/<dialect>/doctor.sql is for: the statements are asked directly, from both
// sides of each. What is built of them need not notice that one is gone (found by tools/dev/mutate).
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <rowlock/postgresql.hpp>
#include <string>
#include <utility>
#include <vector>

#include "contract/conditions.hpp"
#include "doctor/scene.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// Roles of PostgreSQL's, which own nothing any more at the end.
class some_roles {
 public:
  explicit some_roles(std::vector<std::string> const& names) : prefix_(unique_identifier()), names_(names) {
    for (auto const& name : names_) run("CREATE ROLE " + (*this)[name]);
  }
  ~some_roles() {
    for (auto const& name : names_)
      run(fmt::format("DROP OWNED BY {0} CASCADE; DROP ROLE {0}", (*this)[name]));
  }
  some_roles(some_roles const&) = delete;
  some_roles& operator=(some_roles const&) = delete;

  std::string operator[](std::string const& name) const { return prefix_ + "_" + name; }
  void run(std::string const& sql) const { admin_->script(sql, statements::soon()); }

 private:
  std::unique_ptr<backend::connection> const admin_ =
      postgresql::source(postgresql_conninfo()).implementation()->connect(statements::soon());
  std::string const prefix_;
  std::vector<std::string> const names_;
};

/// The one row that is told of a table, as `role` sees it if one is named.
backend::row row_of(statements& s, std::string const& schema, std::string const& table,
                    std::string const& role = "") {
  if (!role.empty()) s.session->script("SET ROLE " + role, statements::soon());
  auto const rows = s.run("doctor_tables", {schema, table}).rows;
  if (!role.empty()) s.session->script("RESET ROLE", statements::soon());
  REQUIRE(rows.size() == 1);
  return rows[0];
}

bool has(backend::row const& row, std::size_t column) { return backend::as_int(row.at(column)) != 0; }

}  // namespace

TEST_CASE_TEMPLATE("doctor_may: rights are asked for without a row being read or changed", Database,
                   sqlite_fixture, postgresql_fixture, mariadb_fixture, mysql_fixture) {
  Database f;
  statements s(f);
  f.sql("INSERT INTO rowlock_locks (name, strategy, term, token, expires_at) VALUES ('x', 'lease', 't', 5, " +
        in_ms(f, 60'000) + ")");
  f.sql("INSERT INTO rowlock_tokens (name, token) VALUES ('x', 5)");
  f.sql(
      "INSERT INTO rowlock_permits (name, strategy, term, token, expires_at, units, told, note) VALUES ('x', "
      "'semaphore', 't', 5, " +
      in_ms(f, 60'000) + ", 1, 5, 'n')");
  auto const untouched = [&] {
    return number(f,
                  "SELECT (SELECT count(*) FROM rowlock_locks WHERE name = 'x' AND term = 't') + (SELECT "
                  "count(*) FROM rowlock_tokens WHERE name = 'x' AND token = 5) + (SELECT count(*) FROM "
                  "rowlock_permits WHERE name = 'x' AND note = 'n')") == 3;
  };
  REQUIRE(untouched());
  for (std::string const right : {"select_meta", "select_locks", "insert_locks", "update_locks",
                                  "delete_locks", "select_tokens", "insert_tokens", "update_tokens",
                                  "select_permits", "insert_permits", "update_permits", "delete_permits"}) {
    CAPTURE(right);
    CHECK(s.meets("doctor_may_" + right, {}) == 0);
    CHECK(untouched());
  }
}

TEST_CASE_TEMPLATE("doctor_limits: names whose permits were taken under different limits", Database,
                   sqlite_fixture, postgresql_fixture, mariadb_fixture, mysql_fixture) {
  Database f;
  statements s(f);
  int terms = 0;
  for (auto const& [name, told] : {std::pair{"differ", 4}, {"differ", 5}, {"same", 5}, {"same", 5}})
    f.sql(fmt::format(
        "INSERT INTO rowlock_permits (name, strategy, term, token, expires_at, units, told) VALUES "
        "('{}', 'semaphore', '{}', 5, {}, 1, {})",
        name, ++terms, in_ms(f, 60'000), told));
  auto const found = s.run("doctor_limits", {}).rows;
  REQUIRE(found.size() == 1);
  CHECK(backend::as_text(found[0].at(0)) == "differ");
  CHECK(backend::as_int(found[0].at(1)) == 4);
  CHECK(backend::as_int(found[0].at(2)) == 5);
}

TEST_CASE(
    "doctor_settings, doctor_status, doctor_replicas, doctor_creators: what a file does not have <sqlite>") {
  sqlite_fixture f;
  statements s(f);
  for (auto const* statement : {"doctor_settings", "doctor_status", "doctor_replicas"})
    CHECK(s.run(statement, {}).rows.empty());
  CHECK(s.run("doctor_creators", {"", "rowlock_locks"}).rows.empty());
}

TEST_CASE("doctor_damage: what is wrong with a table, and in which file <sqlite>") {
  sqlite_fixture f;
  statements s(f);
  s.session->script("CREATE TEMP TABLE another (x)", statements::soon());
  auto const found = s.run("doctor_damage", {text("rowlock_locks")}).rows;
  REQUIRE(found.size() == 1);
  CHECK(found[0].at(0) == text("ok"));
  CHECK(std::filesystem::equivalent(backend::as_text(found[0].at(1)),
                                    f.url().substr(std::string("sqlite:").size())));
}

TEST_CASE_TEMPLATE("doctor_damage: not found out <server>", Database, postgresql_fixture, mariadb_fixture,
                   mysql_fixture) {
  Database f;
  CHECK(statements(f).run("doctor_damage", {text("rowlock_locks")}).rows.empty());
}

TEST_CASE_TEMPLATE("doctor_creators: not told apart", Database, mariadb_fixture, mysql_fixture) {
  Database f;
  CHECK(statements(f).run("doctor_creators", {"", "rowlock_locks"}).rows.empty());
}

TEST_CASE("doctor_tables: whether a name is there once <sqlite>") {
  sqlite_fixture f;
  statements s(f);
  auto const once = [&](std::string const& table) {
    f.sql("DROP TABLE rowlock_tokens");
    f.sql(table);
    return has(row_of(s, "", "rowlock_tokens"), 0);
  };
  std::string const plain = "CREATE TABLE rowlock_tokens (name TEXT, token INTEGER)";
  CHECK_FALSE(once(plain));
  CHECK_FALSE(once(plain + "; CREATE INDEX i ON rowlock_tokens (name)"));
  CHECK(once(plain + "; CREATE UNIQUE INDEX i ON rowlock_tokens (name)"));
  CHECK_FALSE(once(plain + "; CREATE UNIQUE INDEX i ON rowlock_tokens (name) WHERE token > 5"));
  CHECK_FALSE(once(plain + "; CREATE UNIQUE INDEX i ON rowlock_tokens (name COLLATE NOCASE)"));
  CHECK_FALSE(once(plain + "; CREATE UNIQUE INDEX i ON rowlock_tokens (name, token)"));
  CHECK_FALSE(once(plain + "; CREATE UNIQUE INDEX i ON rowlock_tokens (token)"));
  CHECK(once("CREATE TABLE rowlock_tokens (name TEXT PRIMARY KEY, token INTEGER) WITHOUT ROWID"));
  CHECK_FALSE(once("CREATE TABLE rowlock_tokens (name TEXT, token INTEGER PRIMARY KEY) WITHOUT ROWID"));
}

TEST_CASE_TEMPLATE("doctor_tables: of one table, where it was asked for", Database, mariadb_fixture,
                   mysql_fixture) {
  Database f;
  statements s(f);
  auto const here = backend::as_text(
      s.session->execute({"here", "SELECT database()"}, {}, statements::soon()).rows.at(0).at(0));
  auto const elsewhere = unique_identifier();
  f.sql("CREATE DATABASE " + elsewhere);
  f.sql("CREATE TABLE " + elsewhere +
        ".rowlock_tokens (name VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin) ENGINE = MyISAM");
  for (auto const& schema : {std::string(), here}) {
    auto const row = row_of(s, schema, "rowlock_tokens");
    CHECK(backend::as_text(row.at(0)) == "InnoDB");
    CHECK(backend::as_text(row.at(1)) == "varbinary");
    CHECK(backend::is_null(row.at(2)));
    CHECK(s.run("doctor_tables", {schema, "rowlock_none"}).rows.empty());
  }
  auto const row = row_of(s, elsewhere, "rowlock_tokens");
  CHECK(backend::as_text(row.at(0)) == "MyISAM");
  CHECK(backend::as_text(row.at(1)) == "varchar");
  CHECK(backend::as_text(row.at(2)) == "ascii_bin");
  CHECK(s.run("doctor_tables", {elsewhere, "rowlock_locks"}).rows.empty());
  f.sql("DROP DATABASE " + elsewhere);
}

TEST_CASE("doctor_tables: whether an index sees to it that a name is there once <postgresql>") {
  postgresql_fixture f;
  statements s(f);
  auto const& schema = f.options.schema;
  auto const once = [&](std::string const& index) {
    f.sql("DROP TABLE rowlock_tokens; CREATE TABLE rowlock_tokens (name text COLLATE \"C\", token bigint); " +
          index);
    auto const row = row_of(s, schema, "rowlock_tokens");
    CHECK(backend::as_text(row.at(0)) == "p");
    CHECK(backend::as_text(row.at(1)) == "C");
    CHECK(has(row, 2));
    CHECK(has(row, 3));
    return has(row, 4);
  };
  std::string const unique = "CREATE UNIQUE INDEX i ON rowlock_tokens ";
  CHECK_FALSE(once(""));  // though rowlock_locks has one
  CHECK(once(unique + "(name)"));
  CHECK_FALSE(once("CREATE INDEX ON rowlock_tokens (name)"));
  CHECK_FALSE(
      once(fmt::format("{}(name); UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{}.i'::regclass",
                       unique, schema)));
  CHECK_FALSE(once("ALTER TABLE rowlock_tokens ADD UNIQUE (name) DEFERRABLE"));
  CHECK_FALSE(once(unique + "(name) WHERE token > 5"));
  CHECK_FALSE(once(unique + "(lower(name))"));
  CHECK_FALSE(once(unique + "(name, token)"));
  CHECK_FALSE(once(unique + "(token)"));
  CHECK(s.run("doctor_tables", {schema, "rowlock_none"}).rows.empty());
  CHECK(s.run("doctor_tables", {"", "rowlock_tokens"}).rows.empty());  // nowhere, where nothing is looked for
}

TEST_CASE("C34: doctor_tables: whether rows may be hidden from a role <postgresql>") {
  some_roles const roles({"app", "family", "other"});
  postgresql_fixture f;
  statements s(f);
  auto const app = roles["app"];
  roles.run(fmt::format("GRANT USAGE ON SCHEMA {} TO {}; GRANT {} TO {}", f.options.schema, app,
                        roles["family"], app));
  auto const hides_from_app = [&] {
    auto const row = row_of(s, f.options.schema, "rowlock_tokens", app);
    CHECK(has(row, 5));
    return has(row, 6);
  };
  CHECK_FALSE(has(row_of(s, f.options.schema, "rowlock_tokens", app), 5));
  f.sql("ALTER TABLE rowlock_tokens ENABLE ROW LEVEL SECURITY");
  CHECK_FALSE(has(row_of(s, f.options.schema, "rowlock_tokens"), 5));  // from an administrator
  // What holds for other tables.
  f.sql("CREATE POLICY p ON rowlock_reaper USING (true)");
  CHECK(hides_from_app());
  f.sql("CREATE POLICY q ON rowlock_reaper AS RESTRICTIVE USING (false)");
  auto const hides = [&](std::string const& policy) {
    f.sql("CREATE POLICY p ON rowlock_tokens " + policy);
    auto const found = hides_from_app();
    f.sql("DROP POLICY p ON rowlock_tokens");
    return found;
  };
  CHECK_FALSE(hides("USING (true)"));
  CHECK_FALSE(hides("USING (true) WITH CHECK (true)"));
  CHECK(hides("FOR SELECT USING (true)"));
  CHECK(hides("USING (token > 5)"));
  CHECK(hides("USING (true) WITH CHECK (token > 5)"));
  CHECK_FALSE(hides("TO " + app + " USING (true)"));
  CHECK_FALSE(hides("TO " + roles["family"] + " USING (true)"));
  CHECK(hides("TO " + roles["other"] + " USING (true)"));
  f.sql("CREATE POLICY all_rows ON rowlock_tokens USING (true)");
  CHECK(hides("AS RESTRICTIVE USING (token > 5)"));
  CHECK_FALSE(hides_from_app());
}

TEST_CASE("C12: doctor_creators: who else may create where the tables are <postgresql>") {
  some_roles const roles({"app", "schema_s", "table_s", "super", "maker", "reader"});
  postgresql_fixture f;
  statements s(f);
  auto const& here = f.options.schema;
  auto const elsewhere = unique_identifier();
  auto const grant = [&](std::string const& right, std::string const& schema, std::string const& role) {
    roles.run(fmt::format("GRANT {} ON SCHEMA {} TO {}", right, schema, role));
  };
  roles.run(fmt::format("CREATE SCHEMA {0}; CREATE TABLE {0}.rowlock_locks (name text)", elsewhere));
  grant("CREATE", elsewhere, roles["reader"]);
  roles.run(fmt::format("ALTER ROLE {} SUPERUSER; ALTER SCHEMA {} OWNER TO {}", roles["super"], here,
                        roles["schema_s"]));
  f.sql("ALTER TABLE rowlock_locks OWNER TO " + roles["table_s"]);
  for (auto const* role : {"app", "schema_s", "table_s", "super"}) grant("CREATE", here, roles[role]);
  grant("USAGE", here, roles["reader"]);
  auto const found = [&] {
    s.session->script("SET ROLE " + roles["app"], statements::soon());
    std::vector<std::string> names;
    for (auto const& row : s.run("doctor_creators", {here, "rowlock_locks"}).rows)
      names.push_back(backend::as_text(row.at(0)));
    s.session->script("RESET ROLE", statements::soon());
    std::sort(names.begin(), names.end());
    return names;
  };
  CHECK(found().empty());
  grant("CREATE", here, roles["maker"]);
  grant("CREATE", here, "PUBLIC");
  CHECK(found() == std::vector<std::string>{"PUBLIC", roles["maker"]});
  roles.run(fmt::format("ALTER SCHEMA {} OWNER TO CURRENT_USER; DROP SCHEMA {} CASCADE", here, elsewhere));
}
