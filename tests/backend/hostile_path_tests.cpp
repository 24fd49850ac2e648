// PostgreSQL: somebody who may create in the tables' schema has put an operator, function, cast, type or
// table there for each that our statements use, where the search path comes to it first; and the session has
// temporary views by the names of our tables. Nothing of it may run. [C12]

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <libpq-fe.h>

#include <fstream>
#include <memory>
#include <regex>
#include <rowlock/postgresql.hpp>
#include <rowlock/rowlock.hpp>
#include <set>

#include "backend/database.hpp"
#include "support/source_path.hpp"

namespace rowlock::test {
namespace {

using backend::value;

struct finish_connection {
  void operator()(PGconn* c) const noexcept { PQfinish(c); }
};

/// A connection as any program has one.
class raw_session {
 public:
  explicit raw_session(std::string const& conninfo) : native_(PQconnectdb(conninfo.c_str())) {
    REQUIRE_MESSAGE(PQstatus(native_.get()) == CONNECTION_OK, PQerrorMessage(native_.get()));
    PQsetNoticeProcessor(
        native_.get(), [](void*, char const*) {}, nullptr);
  }
  /// What the server says of an error, on one line; empty if there is none.
  std::string refusal(std::string const& sql) {
    std::unique_ptr<PGresult, decltype(&PQclear)> const r(PQexec(native_.get(), sql.c_str()), &PQclear);
    return PQresultErrorMessage(r.get());
  }
  /// The first column of the first row; what the server says of an error fails the case.
  std::string run(std::string const& sql, std::vector<std::string> const& parameters = {}) {
    std::vector<char const*> texts;
    for (auto const& p : parameters) texts.push_back(p.c_str());
    auto const r = std::unique_ptr<PGresult, decltype(&PQclear)>(
        parameters.empty() ? PQexec(native_.get(), sql.c_str())
                           : PQexecParams(native_.get(), sql.c_str(), static_cast<int>(texts.size()), nullptr,
                                          texts.data(), nullptr, nullptr, 0),
        &PQclear);
    auto const status = PQresultStatus(r.get());
    auto const said = sql.substr(0, 300) + ": " + PQerrorMessage(native_.get());
    CHECK_MESSAGE((status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK), said);
    return PQntuples(r.get()) > 0 ? PQgetvalue(r.get(), 0, 0) : "";
  }

 private:
  std::unique_ptr<PGconn, finish_connection> native_;
};

std::string shipped(std::string const& file) {
  std::ifstream in(source_path(file));
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string quoted_list(std::set<std::string> const& words) {
  std::string out;
  for (auto const& w : words) out += (out.empty() ? "'" : ",'") + w + "'";
  return out;
}

// One trap per operator and pair of types, per function and combination of argument types, per cast; tables
// by the names of the catalogue's, domains by the names of types. A trap leaves a mark that no rollback takes
// away.
std::string traps(std::set<std::string> const& functions, std::set<std::string> const& tables) {
  return R"(
SET check_function_bodies = off;
CREATE SEQUENCE trapped.sprung;
CREATE TYPE trapped.evil AS (x pg_catalog.int4);
DO $do$
DECLARE
  body CONSTANT text := $$ AS 'BEGIN PERFORM pg_catalog.nextval(''trapped.sprung''); RAISE EXCEPTION ''sprung''; END'$$;
  types CONSTANT text[] := ARRAY['int4', 'int8', 'numeric', 'float8', 'text', 'varchar', 'name', 'json', 'timestamptz',
    'timestamp', 'interval', 'bool', 'char', 'xid', 'oid', 'regclass', 'evil'];
  few CONSTANT text[] := ARRAY['text', 'name', 'int8', 'bool', 'evil'];
  a text; b text; c text; f text; r text; place text;
BEGIN
  FOREACH a IN ARRAY types LOOP
    FOREACH b IN ARRAY types LOOP
      place := CASE WHEN a = 'evil' THEN 'trapped.' ELSE 'pg_catalog.' END || quote_ident(a) || ', '
        || CASE WHEN b = 'evil' THEN 'trapped.' ELSE 'pg_catalog.' END || quote_ident(b);
      r := CASE WHEN 'timestamptz' IN (a, b) THEN 'timestamptz' WHEN 'interval' IN (a, b) THEN 'interval' ELSE 'int8' END;
      EXECUTE format('CREATE FUNCTION trapped.says(%s) RETURNS pg_catalog.bool LANGUAGE plpgsql', place) || body;
      EXECUTE format('CREATE FUNCTION trapped.makes(%s) RETURNS pg_catalog.%s LANGUAGE plpgsql', place, r) || body;
      FOREACH f IN ARRAY ARRAY['=', '<>', '<', '<=', '>', '>=', '~~'] LOOP
        EXECUTE format('CREATE OPERATOR trapped.%s (FUNCTION = trapped.says, LEFTARG = %s, RIGHTARG = %s)', f,
          split_part(place, ', ', 1), split_part(place, ', ', 2));
      END LOOP;
      FOREACH f IN ARRAY ARRAY['+', '-', '*', '/', '||', '|', '<<'] LOOP
        EXECUTE format('CREATE OPERATOR trapped.%s (FUNCTION = trapped.makes, LEFTARG = %s, RIGHTARG = %s)', f,
          split_part(place, ', ', 1), split_part(place, ', ', 2));
      END LOOP;
    END LOOP;
    IF a <> 'evil' THEN
      EXECUTE format('CREATE FUNCTION trapped.spoils(pg_catalog.%I) RETURNS trapped.evil LANGUAGE plpgsql', a) || body;
      EXECUTE format('CREATE CAST (pg_catalog.%I AS trapped.evil) WITH FUNCTION trapped.spoils(pg_catalog.%I) AS IMPLICIT', a, a);
    END IF;
  END LOOP;
  FOR f, r IN SELECT p.proname, min(CASE WHEN t.typtype = 'b' AND NOT p.proretset THEN t.typname ELSE 'text' END)
    FROM pg_proc AS p JOIN pg_type AS t ON t.oid = p.prorettype
    WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname IN ()" +
         quoted_list(functions) + R"() GROUP BY 1
  LOOP
    r := format(' RETURNS pg_catalog.%I LANGUAGE plpgsql', r) || body;
    EXECUTE format('CREATE FUNCTION trapped.%I()', f) || r;
    FOREACH a IN ARRAY types LOOP
      CONTINUE WHEN a = 'evil';
      EXECUTE format('CREATE FUNCTION trapped.%I(pg_catalog.%I)', f, a) || r;
      EXECUTE format('CREATE FUNCTION trapped.%I(pg_catalog.%I, trapped.evil)', f, a) || r;
      FOREACH b IN ARRAY few LOOP
        CONTINUE WHEN b = 'evil';
        EXECUTE format('CREATE FUNCTION trapped.%I(pg_catalog.%I, pg_catalog.%I)', f, a, b) || r;
        FOREACH c IN ARRAY few LOOP
          CONTINUE WHEN c = 'evil' OR a NOT IN ('text', 'name', 'int8', 'bool');
          EXECUTE format('CREATE FUNCTION trapped.%I(pg_catalog.%I, pg_catalog.%I, pg_catalog.%I)', f, a, b, c) || r;
        END LOOP;
      END LOOP;
    END LOOP;
  END LOOP;
  EXECUTE 'CREATE FUNCTION trapped.always() RETURNS pg_catalog.bool LANGUAGE plpgsql' || body;
  FOR f IN SELECT relname FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relname IN ()" +
         quoted_list(tables) + R"()
  LOOP
    SELECT string_agg(attname, ', ') INTO r FROM pg_attribute
    WHERE attrelid = ('pg_catalog.' || f)::regclass AND attnum > 0 AND atttypid <> 'anyarray'::regtype;
    EXECUTE format('CREATE VIEW trapped.%I AS SELECT %s FROM pg_catalog.%I WHERE trapped.always()', f, r, f);
  END LOOP;
  FOREACH f IN ARRAY ARRAY['text', 'json', 'timestamptz', 'regclass', 'regprocedure', 'name'] LOOP
    EXECUTE format('CREATE DOMAIN trapped.%I AS pg_catalog.%I CHECK (trapped.always())', f, f);
  END LOOP;
END $do$)";
}

// A program's session may have such, and pg_temp comes first unless the search path says otherwise.
std::string temporary_views() {
  std::string text;
  for (auto const* what : {"locks", "tokens", "meta", "reaper", "migrations", "reach", "pulse", "quarantine"})
    text += fmt::format(
        "CREATE TEMPORARY VIEW rowlock_{0} AS SELECT * FROM trapped.rowlock_{0} WHERE trapped.always();",
        what);
  return text;
}

/// A database with traps in the schema that the search path leads to, which were there before the tables.
class trapped_database {
 public:
  trapped_database() : admin_(postgresql_conninfo()) {
    admin_.run("CREATE DATABASE " + name_);
    admin_.run("CREATE ROLE " + attacker_);
    raw_session owner(conninfo_with({{"dbname", name_}}));
    owner.run("CREATE SCHEMA trapped; GRANT USAGE, CREATE ON SCHEMA trapped TO " + attacker_);
    owner.run("SET ROLE " + attacker_);
    owner.run(traps(words("[a-z_0-9]+(?=\\()"), words("pg_[a-z_]+")));
    owner.run("RESET ROLE");
  }
  ~trapped_database() {
    admin_.run("DROP DATABASE " + name_ + " WITH (FORCE)");
    admin_.run("DROP ROLE " + attacker_);
  }
  trapped_database(trapped_database const&) = delete;
  trapped_database& operator=(trapped_database const&) = delete;

  /// The traps before the server's own.
  std::string conninfo() const {
    return conninfo_with({{"dbname", name_}, {"options", "-c search_path=trapped,pg_catalog"}});
  }
  /// As most people have it: the server's own first, and what fits better all the same.
  std::string as_people() const {
    return conninfo_with({{"dbname", name_}, {"options", "-c search_path=trapped"}});
  }
  std::string plain() const { return conninfo_with({{"dbname", name_}}); }
  /// Whoever connects plainly from now on.
  void look_in(std::string const& schema) const {
    raw_session(plain()).run(fmt::format("ALTER DATABASE {} SET search_path = \"{}\"", name_, schema));
  }
  std::string const& attacker() const noexcept { return attacker_; }
  bool sprung() const { return raw_session(plain()).run("SELECT is_called FROM trapped.sprung") == "t"; }

 private:
  // What our texts are made of.
  static std::set<std::string> words(std::string const& pattern) {
    std::string all;
    auto const& sql = postgresql::source(postgresql_conninfo()).implementation()->sql();
    for (auto const& s : sql.statements) all += s.text;
    for (auto const& m : sql.migrations) all += m.up;
    std::regex const one(pattern);
    std::set<std::string> found;
    for (std::sregex_iterator at(all.begin(), all.end(), one), end; at != end; ++at) found.insert(at->str());
    return found;
  }

  std::string name_ = unique_identifier();
  std::string attacker_ = unique_identifier();
  raw_session admin_;
};

}  // namespace

TEST_CASE("C12: no statement of our sessions runs what others have put on the search path <postgresql>") {
  trapped_database const db;
  postgresql::source const source(db.conninfo());
  REQUIRE_FALSE(migrator(source).up().empty());
  CHECK(raw_session(db.conninfo())
            .run("SELECT pg_catalog.count(*) OPERATOR(pg_catalog.>) 4 FROM pg_catalog.pg_class"
                 " WHERE relname OPERATOR(pg_catalog.~) '^rowlock_.*'"
                 " AND relnamespace OPERATOR(pg_catalog.=) 'trapped'::pg_catalog.regnamespace") == "t");
  auto const& sql = source.implementation()->sql();
  backend::statement_book book(sql, {});
  auto const c = source.implementation()->connect(in(20'000));
  c->script(temporary_views(), in(20'000));
  REQUIRE(c->find_schema("rowlock_meta", false, in(20'000)) == std::optional<std::string>("trapped"));
  REQUIRE(book.settle("trapped"));
  std::regex const foreign("trapped\"?[.](?!\"?rowlock_)");
  int looked_at = 0;
  for (auto const& s : sql.statements) {
    INFO(std::string(s.name));
    auto const& text = book.at(s.name).sql;
    std::size_t parameters = 0;
    for (std::size_t n = 1; text.find("$" + std::to_string(n)) != text.npos; ++n) parameters = n;
    // What the server understands by it, also where no row would come so far.
    auto const begin = text.find_first_not_of(" \n");
    if (std::regex_search(text, std::regex("^\\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\\b"))) {
      std::string nulls;
      for (std::size_t n = 0; n < parameters; ++n) nulls += n == 0 ? "(NULL" : ", NULL";
      c->script("SET plan_cache_mode = force_generic_plan; PREPARE looked_at AS " + text.substr(begin),
                in(20'000));
      auto const plan = c->execute({"explain", fmt::format("EXPLAIN (VERBOSE, COSTS OFF) EXECUTE looked_at{}",
                                                           nulls.empty() ? "" : nulls + ")")},
                                   {}, in(20'000));
      for (auto const& row : plan.rows) CHECK_FALSE(std::regex_search(backend::as_text(row.at(0)), foreign));
      c->script("DEALLOCATE looked_at", in(20'000));
      ++looked_at;
    }
    try {
      c->execute(book.at(s.name), std::vector<value>(parameters, nullptr), in(20'000));
    } catch (error const& e) {
      // (These fail if they find no row.)
      bool const guarded = (s.name == "at_once_guard" && e.sqlstate() == "22012") ||
                           (s.name == "guard_elsewhere" && e.sqlstate() == "22P02");
      CHECK_MESSAGE((guarded || e.sqlstate().substr(0, 2) == "23"), std::string(e.what()));
    }
    c->script("ROLLBACK", in(20'000));
  }
  CHECK(looked_at > 40);
  CHECK_FALSE(db.sprung());
}

TEST_CASE("C12: locks, lists, reaps and examinations run nothing of it, and find the tables <postgresql>") {
  trapped_database const db;
  postgresql::source const source(db.conninfo());
  migrator m(source);
  m.up();
  CHECK(m.validate().empty());
  {
    lock_manager manager(source);
    for (auto const how : {strategy::lease, strategy::unique_insert, strategy::row_lock}) {
      auto mutex = manager.make_mutex(to_string(how), {.strategy = how});
      for (int round = 0; round < 2; ++round) {
        auto held = mutex.try_acquire();
        REQUIRE(held);
        if (how != strategy::row_lock) CHECK(held->extend(std::chrono::minutes(1)));
      }
    }
    CHECK_NOTHROW((void)manager.list());
  }
  CHECK_NOTHROW((void)reaper(source, {.idle = std::chrono::milliseconds(0)}).run());
  for (auto const& found : doctor(source).examine())
    CHECK_MESSAGE(found.why.find("sprung") == std::string::npos,
                  fmt::format("{}: {}", found.check, found.why));
  m.down(0, true, true);
  CHECK_FALSE(db.sprung());
}

TEST_CASE("C12: statements in the program's own transaction run nothing of its search path <postgresql>") {
  trapped_database const db;
  postgresql::source const source(db.conninfo());
  migrator(source).up();
  backend::statement_book book(source.implementation()->sql(), {});
  REQUIRE(book.settle("trapped"));
  raw_session(db.plain())
      .run(
          "UPDATE trapped.rowlock_pulse SET reach = 300000, until = 'infinity', made_by = "
          "pg_current_xact_id()::xid");
  raw_session program(db.conninfo());
  program.run(temporary_views());
  program.run(
      "INSERT INTO trapped.rowlock_locks (name, strategy, term, token, ttl, expires_at)"
      " VALUES ('n', 'lease', 't', 1, 60000, pg_catalog.clock_timestamp()), ('a', 'row_lock', NULL, 0, 0,"
      " pg_catalog.clock_timestamp()), ('o', 'once', 't', 1, 60000, pg_catalog.clock_timestamp())");
  program.run("BEGIN");
  auto const run = [&](char const* name, std::vector<std::string> const& parameters) {
    INFO(name);
    return program.run(book.at(name).sql, parameters);
  };
  CHECK(run("guard_require", {"n", "t"}) == "t");
  CHECK(run("at_once_guard", {"n", "t"}) == "1");
  CHECK(run("guard_look", {"n", "t"}) == "t");
  CHECK(run("guard_record", {"o", "t", "d", "60000", "result", "1700000000000000"}) == "d");
  CHECK(run("guard_wait", {"a"}) == "a");
  CHECK(run("guard_try", {"a"}) == "a");
  CHECK(run("meta_read", {}).size() == 32);
  run("guard_insert", {"i", "ti", "host", "1", "process", "1", "60000", "1700000000000000", "note"});
  run("unique_set_token", {"i", "ti", "7"});
  CHECK(program.run("SELECT token FROM trapped.rowlock_locks WHERE name OPERATOR(pg_catalog.=) 'i'") == "7");
  program.run("COMMIT");
  CHECK_FALSE(db.sprung());
}

TEST_CASE("C12: shipped and printed SQL runs nothing of it when people apply it by hand <postgresql>") {
  trapped_database const db;
  raw_session person(db.as_people());
  migrator const m{postgresql::source(db.plain())};
  SUBCASE("the files") {
    person.run(shipped("migrations/postgresql/001_schema.up.sql"));
    person.run(shipped("migrations/postgresql/002_quarantine.up.sql"));
    person.run("CREATE TABLE methodLock (id serial PRIMARY KEY, method_name varchar(64) NOT NULL UNIQUE)");
    person.run(shipped("schema/postgresql-method-lock.sql"));
    CHECK(person.run("INSERT INTO methodLock (method_name) VALUES ('n') RETURNING 'taken'") == "taken");
    CHECK(person.run("SELECT owner_host FROM rowlock_locks") == "methodLock");
    person.run("DELETE FROM methodLock");
  }
  SUBCASE("migrate sql, up and down") {
    for (int v = 0; v < m.latest(); ++v) person.run(m.sql(v, v + 1));
    auto const wrong = migrator(postgresql::source(db.as_people())).validate();
    CHECK(wrong.size() == static_cast<std::size_t>(m.latest()));  // none is recorded
    for (int v = m.latest(); v > 0; --v) person.run(m.sql(v, v - 1));
  }
  SUBCASE("migrate sql of all versions at once, into a schema that is named") {
    migrator const named(postgresql::source(db.plain()), {.schema = "trapped"});
    person.run(named.sql(0, m.latest()));
    person.run(named.sql(m.latest(), 0));
  }
  CHECK_FALSE(db.sprung());
}

TEST_CASE("C12: the functions of leases run nothing of it <postgresql>") {
  trapped_database const db;
  migrator{postgresql::source(db.as_people())}.up();
  raw_session person(db.as_people());
  auto const term = person.run("SELECT term FROM rowlock_try_acquire('n', '1 min')");
  CHECK(term.size() == 32);
  CHECK(person.run("SELECT rowlock_renew('n', '" + term + "')") == "t");
  CHECK(person.run("SELECT rowlock_require('n', '" + term + "')").empty());
  CHECK(person.run("SELECT rowlock_release('n', '" + term + "')") == "t");
  CHECK_FALSE(db.sprung());
}

TEST_CASE("C12: so are those for permits and once <postgresql>") {
  trapped_database const db;
  migrator{postgresql::source(db.as_people())}.up();
  raw_session person(db.as_people());
  CHECK(person.run("SELECT count(*) FROM pg_proc WHERE proname ~ '^rowlock_'"
                   " AND proconfig @> ARRAY['search_path=pg_catalog, pg_temp']") == "21");
  CHECK(person.run("SELECT rowlock_enter_queue('n', 'p/n', 1000)") == "1");
  for (std::string const take :
       {"shared('n', '1 min')", "exclusive('n', '1 min')", "permit('s', 1, 2, '1 min')"}) {
    auto const term = person.run("SELECT term FROM rowlock_try_acquire_" + take);
    CHECK(term.size() == 32);
    auto const of = "('" + take.substr(take.find('\'') + 1, 1) + "', '" + term + "')";
    CHECK(person.run("SELECT rowlock_renew_permit" + of) == "t");
    CHECK(person.run("SELECT rowlock_require_permit" + of).empty());
    CHECK(person.run("SELECT rowlock_release_permit" + of) == "t");
  }
  auto term = person.run("SELECT term FROM rowlock_try_acquire_once('o', '1 min')");
  CHECK(person.run("SELECT rowlock_release_once('o', '" + term + "')") == "t");
  term = person.run("SELECT term FROM rowlock_try_acquire_once('o', '1 min')");
  CHECK(person.run("SELECT rowlock_done('o', '" + term + "', '1 day', 'fine')").empty());
  CHECK(person.run("SELECT result FROM rowlock_try_acquire_once('o', '1 min')") == "fine");
  CHECK_FALSE(db.sprung());
}

TEST_CASE(
    "C12: method-lock.sql does not put up with functions of its names that are somebody else's "
    "<postgresql>") {
  trapped_database const db;
  migrator(postgresql::source(db.as_people())).up();
  raw_session person(db.as_people());
  person.run("CREATE TABLE methodLock (id serial PRIMARY KEY, method_name varchar(64) NOT NULL UNIQUE)");
  for (std::string const name : {"method_lock_take", "method_lock_give_back"}) {
    CAPTURE(name);
    person.run(fmt::format("SET ROLE {}", db.attacker()));
    person.run(fmt::format("CREATE FUNCTION {}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
                           name));
    person.run("RESET ROLE");
    auto const said = person.refusal(shipped("schema/postgresql-method-lock.sql"));
    CHECK_MESSAGE(said.find("somebody else's") != std::string::npos, said);
    person.run("ROLLBACK");
    CHECK(person.run("SELECT count(*) FROM pg_trigger WHERE tgname ~ '^rowlock_'") == "0");
    person.run(fmt::format("DROP FUNCTION {}()", name));
  }
  person.run(shipped("schema/postgresql-method-lock.sql"));
  person.run(shipped("schema/postgresql-method-lock.sql"));  // once more, over one's own
  CHECK_FALSE(db.sprung());
}

TEST_CASE("C12: a schema whose name could end a string is refused, and any other is not <postgresql>") {
  trapped_database const db;
  raw_session program(db.plain());
  postgresql::source const source(db.plain());
  for (std::string const name : {"it's", "a$$b", "it\\s", "a \"\"b\"\" $1", "rowlock_meta"}) {
    CAPTURE(name);
    program.run(fmt::format("CREATE SCHEMA \"{}\"", name));
    db.look_in(name);
    if (name.find_first_of("'$") < name.find(' ')) {
      auto const refused = thrown_by([&] { migrator(source).up(); });
      CHECK(refused.reason() == errc::unsupported);
      CHECK(says(refused, "could end a string"));
      continue;
    }
    migrator(source).up();
    CHECK(lock_manager(source).make_mutex("x").try_acquire());
    CHECK(program.run(fmt::format("SELECT term FROM \"{}\".rowlock_try_acquire('f', '1 minute')", name))
              .size() == 32);
  }
}

TEST_CASE("C12: the functions for SQL run nothing of the caller's search path <postgresql>") {
  trapped_database const db;
  migrator(postgresql::source(db.conninfo())).up();
  raw_session program(db.conninfo());
  program.run(temporary_views());
  // Twice: an absent row, and one that is there.
  for (int round = 0; round < 2; ++round) {
    auto const term = program.run(
        "SELECT term FROM trapped.rowlock_try_acquire('f'::pg_catalog.text, interval '1 minute')");
    REQUIRE(term.size() == 32);
    CHECK(
        program.run("SELECT term FROM trapped.rowlock_try_acquire('f'::pg_catalog.text, interval '1 minute')")
            .empty());
    CHECK(program.run("SELECT trapped.rowlock_renew('f'::pg_catalog.text, $1::pg_catalog.text)", {term}) ==
          "t");
    program.run("SELECT trapped.rowlock_require('f'::pg_catalog.text, $1::pg_catalog.text)", {term});
    CHECK(program.run("SELECT trapped.rowlock_release('f'::pg_catalog.text, $1::pg_catalog.text)", {term}) ==
          "t");
    CHECK(program.run("SELECT trapped.rowlock_release('f'::pg_catalog.text, $1::pg_catalog.text)", {term}) ==
          "f");
  }
  CHECK_FALSE(db.sprung());
}

}  // namespace rowlock::test
