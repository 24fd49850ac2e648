// PostgreSQL: what another role has put where rowlock's tables and functions are looked for. [C12]

#include <fmt/format.h>

#include <algorithm>
#include <rowlock/doctor.hpp>
#include <rowlock/lock_manager.hpp>
#include <rowlock/postgresql.hpp>

#include "database.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// A role that may create in the tables' schema. Whatever of hers is run leaves a mark that no rollback takes
/// away.
class stranger {
 public:
  explicit stranger(postgresql_database const& db) : db_(db) {
    db.script(
        fmt::format("CREATE ROLE {0} LOGIN; GRANT USAGE, CREATE ON SCHEMA {1} TO {0}", name_, db.schema()));
    does(
        fmt::format("CREATE SEQUENCE sprung; GRANT ALL ON sprung TO PUBLIC;"
                    "CREATE FUNCTION springs() RETURNS trigger LANGUAGE plpgsql AS"
                    " $$ BEGIN PERFORM nextval('{0}.sprung'); RETURN NEW; END $$;"
                    "CREATE FUNCTION says(a bigint) RETURNS bigint LANGUAGE plpgsql AS"
                    " $$ BEGIN PERFORM nextval('{0}.sprung'); RETURN a; END $$",
                    db.schema()));
  }
  ~stranger() { db_.script(fmt::format("DROP OWNED BY {0} CASCADE; DROP ROLE {0}", name_)); }
  stranger(stranger const&) = delete;
  stranger& operator=(stranger const&) = delete;

  std::string const& name() const { return name_; }
  void does(std::string const& sql) const {
    db_.script(fmt::format("SET ROLE {}; {}; RESET ROLE", name_, sql));
  }
  void traps(std::string const& table) const {
    does(fmt::format(
        "CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON {}.{} FOR EACH ROW EXECUTE FUNCTION"
        " {}.springs()",
        db_.schema(), table, db_.schema()));
  }
  bool sprang() const { return number(db_, "SELECT is_called::int::bigint FROM sprung") != 0; }
  postgresql::source source() const {
    return postgresql::source(
        fmt::format("{} user={} options='-c search_path={}'", postgresql_conninfo(), name_, db_.schema()));
  }

 private:
  postgresql_database const& db_;
  std::string name_ = unique_identifier();
};

bool has_part(std::vector<std::string> const& lines, std::string const& part) {
  return std::any_of(lines.begin(), lines.end(), [&](auto const& l) { return l.find(part) != l.npos; });
}

finding creators(connection_source const& source) {
  for (auto const& f : doctor(source).examine())
    if (f.check == "creators") return f;
  FAIL("not examined");
  return {};
}

// All that would write is refused, and says whose that is.
void check_refused(connection_source const& source, std::string const& why) {
  migrator m(source);
  for (auto const& e : {catch_error([&] { m.up(); }), catch_error([&] { m.down(0, true, true); }),
                        catch_error([&] { (void)m.repair(); })}) {
    CHECK(e.reason == errc::access_denied);
    CHECK(e.mentions(why));
  }
  CHECK(has_part(m.validate(), why));
  auto const found = creators(source);
  CHECK(found.result == verdict::error);
  CHECK_MESSAGE(found.why.find(why) != found.why.npos, found.why);
}

}  // namespace

TEST_CASE(
    "C12: tables that another role has put there are not adopted, and nothing of hers runs<postgresql>") {
  postgresql_database const db;
  stranger const her(db);
  her.does(read_source_file("migrations/postgresql/001_schema.up.sql"));
  for (auto const* table : {"rowlock_meta", "rowlock_migrations", "rowlock_locks"}) her.traps(table);
  her.does(fmt::format("GRANT ALL ON ALL TABLES IN SCHEMA {} TO PUBLIC", db.schema()));
  check_refused(db.source(), "rowlock_locks belongs to role " + her.name());
  CHECK(number(db, "SELECT count(*) FROM rowlock_migrations") == 0);
  CHECK_FALSE(her.sprang());
  // They are hers: her own migrator goes on with them.
  CHECK_NOTHROW(migrator(her.source()).up());
  CHECK(migrator(her.source()).validate().empty());
}

TEST_CASE("C12: so are the tables of the next version that another role has put there<postgresql>") {
  postgresql_database const db;
  stranger const her(db);
  migrator(db.source()).up(1);
  std::string table;
  SUBCASE("reach") { table = "rowlock_reach"; }
  SUBCASE("pulse") { table = "rowlock_pulse"; }
  SUBCASE("quarantine") { table = "rowlock_quarantine"; }
  her.does("CREATE TABLE " + table + " (ttl bigint); GRANT ALL ON " + table + " TO PUBLIC");
  her.traps(table);
  migrator m(db.source());
  for (auto const& e : {catch_error([&] { m.up(); }), catch_error([&] { m.down(0, true, true); })}) {
    CHECK(e.reason == errc::access_denied);
    CHECK(e.mentions(table + " belongs to role " + her.name()));
  }
  CHECK_FALSE(her.sprang());
}

TEST_CASE("C12: views by the names of tables are not even read<postgresql>") {
  postgresql_database const db;
  stranger const her(db);
  std::string const meta =
      "CREATE VIEW rowlock_meta AS SELECT 1 AS id, 'x'::text AS database_id, says(5)::int AS schema_version,"
      " 1 AS oldest_reader, 0::bigint AS token_floor";
  migrator_options options;
  SUBCASE("all of them, found by the search path") {
    her.does(meta + "; GRANT SELECT ON rowlock_meta TO PUBLIC");
  }
  SUBCASE("in a schema that is named") {
    her.does(meta + "; GRANT SELECT ON rowlock_meta TO PUBLIC");
    options.schema = db.schema();
  }
  SUBCASE("one of version 2") {
    migrator(db.source()).up();
    db.script("DROP TABLE rowlock_pulse");
    her.does("CREATE VIEW rowlock_pulse AS SELECT says(5) AS base; GRANT ALL ON rowlock_pulse TO PUBLIC");
  }
  SUBCASE("the setting of version 2") {
    migrator(db.source()).up();
    db.script("DROP TABLE rowlock_quarantine");
    her.does(
        "CREATE VIEW rowlock_quarantine AS SELECT says(5) AS id; GRANT ALL ON rowlock_quarantine TO PUBLIC");
  }
  SUBCASE("one of them") {
    migrator(db.source()).up();
    db.script("DROP TABLE rowlock_locks");
    her.does(
        "CREATE VIEW rowlock_locks AS SELECT 'n'::text AS name, says(5) AS token; GRANT ALL ON rowlock_locks"
        " TO PUBLIC");
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
  CHECK(catch_error([&] { lock_manager(db.source(), locking).connect(); }).reason == errc::schema_missing);
  CHECK_FALSE(her.sprang());
}

TEST_CASE(
    "C12: a trigger or rule of another role's on our tables is refused, one of the owner's is "
    "not<postgresql>") {
  postgresql_database const db;
  stranger const her(db);
  migrator m(db.source());
  m.up();
  db.script(
      "CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;"
      "CREATE TRIGGER mine BEFORE UPDATE ON rowlock_meta FOR EACH ROW EXECUTE FUNCTION mine()");
  CHECK(m.up().empty());
  CHECK(m.validate().empty());
  CHECK(creators(db.source()).result != verdict::error);
  std::string why;
  SUBCASE("trigger") {
    db.script("GRANT TRIGGER ON rowlock_meta TO " + her.name());
    her.traps("rowlock_meta");
    why = "has trigger t, whose function belongs to role " + her.name();
  }
  SUBCASE("rule") {
    db.script("CREATE RULE r AS ON UPDATE TO rowlock_meta DO ALSO SELECT says(1)");
    why = "has rule r";
  }
  check_refused(db.source(), why);
  CHECK_FALSE(her.sprang());
}

TEST_CASE("C12: a function that may be called instead of one of ours is found<postgresql>") {
  postgresql_database const db;
  stranger const her(db);
  migrator m(db.source());
  m.up();
  CHECK(creators(db.source()).result == verdict::warning);  // she may create
  std::string why;
  SUBCASE("of another role's") {
    her.does("CREATE FUNCTION rowlock_require(a varchar, b varchar) RETURNS void LANGUAGE sql AS ''");
    why = "rowlock_require(a character varying, b character varying) belongs to role " + her.name();
  }
  SUBCASE("of one's own") {
    db.script("CREATE FUNCTION rowlock_try_acquire(text, interval) RETURNS text LANGUAGE sql AS 'SELECT $1'");
    why = "is none of rowlock's functions";
  }
  SUBCASE("before there are tables") {
    m.down(0, true, true);
    her.does(
        "CREATE FUNCTION rowlock_renew(name text, term text) RETURNS boolean LANGUAGE sql AS 'SELECT true'");
    auto const e = catch_error([&] { m.up(); });
    CHECK(e.reason == errc::access_denied);
    CHECK(e.mentions("rowlock_renew(name text, term text) belongs to role " + her.name()));
    return;
  }
  check_refused(db.source(), why);
}
