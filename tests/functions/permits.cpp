// Locks that several may hold, from SQL and from the library.

#include <fmt/format.h>

#include "functions/place.hpp"

using namespace rowlock;
using namespace rowlock::test;

FUNCTIONS_CASE("permits: readers of SQL and of the library share a name, and a writer of either is alone") {
  Place const p;
  auto const sql = p.session();
  auto const m = p.manager();
  auto x = m->make_shared_mutex("n");
  auto const one = p.read(*sql, "n");
  auto const two = p.read(*sql, "n");
  REQUIRE(one);
  REQUIRE(two);
  CHECK(one->term != two->term);
  CHECK(two->token > one->token);
  auto reader = x.try_acquire_shared();
  REQUIRE(reader);
  CHECK(reader->token().value > two->token);
  CHECK_FALSE(p.write(*sql, "n"));
  CHECK(reader->release() == release_result::released);
  CHECK_FALSE(p.write(*sql, "n"));
  CHECK(sql->run(p.call("release_permit", "n", one->term)) == "1");
  CHECK(x.try_acquire().status() == acquire_status::busy);
  CHECK(sql->run(p.call("release_permit", "n", two->term)) == "1");
  {
    auto writer = x.try_acquire();
    REQUIRE(writer);
    CHECK_FALSE(p.read(*sql, "n"));
    CHECK_FALSE(p.write(*sql, "n"));
  }
  auto const mine = p.write(*sql, "n");
  REQUIRE(mine);
  CHECK(mine->token > two->token);
  CHECK_FALSE(p.read(*sql, "n"));
  CHECK(x.try_acquire_shared().status() == acquire_status::busy);
  CHECK(x.try_acquire().status() == acquire_status::busy);
}

FUNCTIONS_CASE("permits: what SQL holds is shown with its holder, renewed, revoked, and given back") {
  Place const p;
  auto const sql = p.session();
  auto const m = p.manager();
  auto const one = p.permit(*sql, "n", 2, 3);
  REQUIRE(one);
  auto const all = m->list();
  REQUIRE(all.size() == 1);
  CHECK(all[0].holder.strategy == strategy::semaphore);
  CHECK(all[0].holder.note == (p.is_mysql() ? "by mysql" : "by psql"));
  CHECK(all[0].holder.token.value == one->token);
  CHECK(all[0].holder.owner.host == "127.0.0.1");
  CHECK(all[0].holder.owner.thread == -1);
  CHECK(all[0].holder.expires_in > 20s);
  p.expire_permits("n");
  CHECK(sql->run(p.call("renew_permit", "n", one->term)) == "1");  // late, but nobody came in between
  CHECK(m->list()[0].holder.expires_in > 20s);
  CHECK(m->revoke("n", revoke_mode::at_renewal));
  CHECK(sql->run(p.call("renew_permit", "n", one->term)) == "0");
  CHECK(sql->run(p.call("require_permit", "n", one->term)).find(p.lost()) != std::string::npos);
  CHECK(sql->run(p.call("release_permit", "n", one->term)) == "1");
  CHECK(m->list().empty());
}

FUNCTIONS_CASE("permits: as many units as the limit says, with those of the library") {
  Place const p;
  auto const sql = p.session();
  auto const m = p.manager();
  auto x = m->make_semaphore("n", 5);
  auto theirs = x.try_acquire(2);
  REQUIRE(theirs);
  CHECK_FALSE(p.permit(*sql, "n", 4, 5));
  auto const mine = p.permit(*sql, "n", 3, 5);
  REQUIRE(mine);
  CHECK_FALSE(p.permit(*sql, "n", 1, 5));
  CHECK(x.try_acquire().status() == acquire_status::busy);
  // Each obeys the limit that it was told.
  REQUIRE(p.permit(*sql, "n", 1, 6));
  CHECK_FALSE(p.permit(*sql, "n", 1, 6));
  CHECK(theirs->release() == release_result::released);
  CHECK(x.try_acquire());
  CHECK_FALSE(p.permit(*sql, "n", 1, 4));
}

FUNCTIONS_CASE("permits: the limit that was set counts for all who name none; units beyond it are refused") {
  Place const p;
  auto const sql = p.session();
  CHECK(sql->run(p.permit_text("n", 1)).find(p.invalid()) != std::string::npos);
  p.manager()->make_semaphore("n", std::nullopt).set_limit(2);
  CHECK(sql->run(p.permit_text("n", 3)).find(p.invalid()) != std::string::npos);
  REQUIRE(p.permit(*sql, "n", 2));
  CHECK_FALSE(p.permit(*sql, "n", 1));
  CHECK(p.ask(fmt::format("SELECT told FROM {};", p.table("permits"))) == "2");
  for (auto const& wrong : {p.permit_text("n", 0, 5), p.permit_text("n", -1, 5), p.permit_text("n", 6, 5),
                            p.permit_text("n", 1, -5), p.permit_text("n", 1, 2147483647),
                            p.permit_text("", 1, 5), p.permit_text(std::string(256, 'x'), 1, 5),
                            p.permit_text("n", 1, 5, 99), p.read_text("", 1000), p.write_text("m", 0)})
    CHECK_MESSAGE(sql->run(wrong).find(p.invalid()) != std::string::npos, wrong.substr(0, 200));
  CHECK(p.permits_of("m") == 0);
}

FUNCTIONS_CASE("permits: a name has one strategy, and a lock's functions don't know a permit's term") {
  Place const p;
  auto const sql = p.session();
  auto const lock = p.take(*sql, "leased");
  auto const permit = p.read(*sql, "shared");
  REQUIRE(lock);
  REQUIRE(permit);
  for (auto const& wrong : {p.read_text("leased"), p.write_text("leased"), p.permit_text("leased", 1, 2),
                            p.permit_text("shared", 1, 2), p.take_text("shared"), p.once_text("shared")})
    CHECK_MESSAGE(sql->run(wrong).find(p.other_strategy()) != std::string::npos, wrong);
  CHECK(p.renew(*sql, "shared", permit->term) == "0");
  CHECK(p.release(*sql, "shared", permit->term) == "0");
  CHECK(p.require(*sql, "shared", permit->term).find(p.lost()) != std::string::npos);
  for (auto const& wrong : {lock->term, std::string(), std::string("x"), permit->term + "0",
                            permit->term + " ", std::string(60'000, 'a'), std::string("é")}) {
    CAPTURE(wrong.substr(0, 40));
    CHECK(sql->run(p.call("renew_permit", "shared", wrong)) == "0");
    CHECK(sql->run(p.call("release_permit", "shared", wrong)) == "0");
    CHECK(sql->run(p.call("require_permit", "shared", wrong)).find(p.lost()) != std::string::npos);
  }
  CHECK(sql->run(p.call("renew_permit", "leased", lock->term)) == "0");
  CHECK(sql->run(p.call("renew_permit", "other", permit->term)) == "0");
  CHECK(p.ask(fmt::format("SELECT renewals FROM {};", p.table("permits"))) == "0");
  CHECK(sql->run(p.call("renew_permit", "shared", permit->term)) == "1");
  CHECK(sql->run(p.call("release_permit", "shared", permit->term)) == "1");
  CHECK(sql->run(p.call("release_permit", "shared", permit->term)) == "0");
}

FUNCTIONS_CASE("permits: what has expired is in nobody's way, and what is not, and other names, stay") {
  Place const p;
  auto const sql = p.session();
  auto const gone = p.read(*sql, "n");
  REQUIRE(gone);
  REQUIRE(p.read(*sql, "m"));
  p.expire_permits("n");
  p.expire_permits("m");
  REQUIRE(p.read(*sql, "n"));  // beside it: there is no need to delete it
  CHECK(p.permits_of("n") == 2);
  CHECK_FALSE(p.write(*sql, "n"));
  p.expire_permits("n");
  auto const mine = p.write(*sql, "n");  // at once
  REQUIRE(mine);
  CHECK(mine->token > gone->token);
  CHECK(p.permits_of("n") == 1);
  CHECK(p.permits_of("m") == 1);
  CHECK(sql->run(p.call("renew_permit", "n", gone->term)) == "0");
  CHECK(sql->run(p.call("require_permit", "n", gone->term)).find(p.lost()) != std::string::npos);
  // `observed` is not over by any clock.
  CHECK(p.ask(fmt::format("UPDATE {} SET takeover = 'observed';", p.table("permits"))).empty());
  p.expire_permits("n");
  CHECK_FALSE(p.read(*sql, "n"));
}

FUNCTIONS_CASE("C44: permits: nobody takes what the head of the line waits for, as long as that counts") {
  Place const p;
  auto const sql = p.session();
  REQUIRE(p.permit(*sql, "n", 2, 10));
  auto const intends = [&](int seconds) {
    CHECK(p.ask(fmt::format("UPDATE {} SET intent_units = 8, intent_term = 'somebody', intent_until = {};",
                            p.table("locks"), p.in_seconds(seconds)))
              .empty());
  };
  // At most 2 s ahead: told anew until the take has met it.
  bool refused = false;
  for (int i = 0; i < 20 && !refused; ++i) {
    intends(2);
    auto const got = p.permit(*sql, "n", 1, 10);
    refused = !got;
    if (got) CHECK(sql->run(p.call("release_permit", "n", got->term)) == "1");
  }
  CHECK(refused);
  intends(60);  // the clock went back
  CHECK(p.permit(*sql, "n", 1, 10));
  intends(-1);
  CHECK(p.permit(*sql, "n", 1, 10));
}

FUNCTIONS_CASE("permits: a token is above the floor, the name's entry, and all that were drawn") {
  Place const p;
  auto const sql = p.session();
  constexpr std::int64_t far = 9'000'000'000'000'000;
  CHECK(p.ask(fmt::format("UPDATE {} SET token_floor = {};", p.table("meta"), far)).empty());
  CHECK(p.read(*sql, "n")->token == far + 1);
  CHECK(p.read(*sql, "n")->token == far + 2);
  CHECK(p.manager()->make_shared_mutex("n").try_acquire_shared()->token().value == far + 3);
  CHECK(p.ask(fmt::format("INSERT INTO {} (name, token) VALUES ('known', {});", p.table("tokens"), far + 10))
            .empty());
  CHECK(p.permit(*sql, "known", 1, 1)->token == far + 11);
}

FUNCTIONS_CASE("permits: names are bytes, also with a schema and a prefix of their own") {
  Place const p(true);
  auto const sql = p.session();
  auto const m = p.manager();
  for (std::string const name :
       {"job", "job ", "Job", "jöb", "j'; DROP TABLE rowlock_locks; --", "j\\b", "🔒", "🔑"}) {
    CAPTURE(name);
    auto const t = p.write(*sql, name);
    REQUIRE(t);
    CHECK_FALSE(p.read(*sql, name));
    CHECK(m->make_shared_mutex(name).try_acquire_shared().status() == acquire_status::busy);
    CHECK(sql->run(p.call("renew_permit", name, t->term)) == "1");
    CHECK(sql->run(p.call("require_permit", name, t->term)).empty());
    CHECK(p.once(*sql, "once " + name));
  }
  CHECK(m->list().size() == 16);
}

TEST_CASE("functions: permits: a permit is not taken above READ COMMITTED, with a hint<postgresql>") {
  postgresql_place const p;
  auto const c = p.session();
  for (std::string const level : {"REPEATABLE READ", "SERIALIZABLE"}) {
    c->run("BEGIN ISOLATION LEVEL " + level + ";");
    auto const reply = c->run(p.read_text("n"));
    CHECK(reply.find("0A000") != std::string::npos);
    CHECK(reply.find("READ COMMITTED") != std::string::npos);
    c->run("ROLLBACK;");
  }
  CHECK(p.ask("SELECT count(*) FROM rowlock_locks;") == "0");
}

// What a caller has put where names are looked up is never met. [C12]
TEST_CASE("functions: permits: tables, functions and operators of the caller's are not met<postgresql>") {
  postgresql_place const p;
  auto const sql = p.session();
  auto const home = sql->run("SELECT current_schema();");
  sql->run(
      "CREATE TEMP TABLE rowlock_locks (LIKE rowlock_locks INCLUDING ALL); "
      "CREATE TEMP TABLE rowlock_permits (LIKE rowlock_permits INCLUDING ALL); "
      "CREATE FUNCTION rowlock_take_permit(text, text, bigint, bigint, interval, varchar, xid, bigint, "
      "bigint, "
      "  text[], text[], xid[]) RETURNS TABLE (term text, token bigint) LANGUAGE sql AS "
      "  'SELECT ''stranger'', 1::bigint'; "
      "CREATE FUNCTION no(text, text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT false'; "
      "CREATE OPERATOR = (LEFTARG = text, RIGHTARG = text, FUNCTION = no); "
      "CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT timestamptz ''epoch'''; "
      "SET search_path = " +
      home + ", pg_catalog;");
  auto const one = place::taken_in(
      sql->run(fmt::format("SELECT term, token FROM {}.rowlock_try_acquire_shared('n', '1 min');", home)));
  REQUIRE(one);
  CHECK(p.ask("SELECT term FROM rowlock_permits;") == one->term);
  auto const given_back =
      fmt::format("SELECT {}.rowlock_release_permit(name => 'n', term => '{}');", home, one->term);
  CHECK(sql->run(given_back) == "t");
  CHECK(p.once(*sql, "k"));
  CHECK(p.ask("SELECT count(*) FROM rowlock_permits;") == "0");
}

MYSQL_FUNCTIONS_CASE("permits: a take leaves the session as it was, whatever comes of it") {
  Place const p;
  auto const c = p.session();
  auto const state =
      "SELECT concat_ws('|', @@SESSION.innodb_lock_wait_timeout, @@SESSION.autocommit, "
      "@@SESSION.tx_isolation, "
      "last_insert_id());";
  auto const state_of_mysql =
      "SELECT concat_ws('|', @@SESSION.innodb_lock_wait_timeout, @@SESSION.autocommit, "
      "@@SESSION.transaction_isolation, last_insert_id());";
  auto const settings = [&] {
    auto const said = c->run(state);
    return said.find("ERROR") == std::string::npos ? said : c->run(state_of_mysql);
  };
  CHECK(
      c->run("SET SESSION innodb_lock_wait_timeout = 33; SET SESSION completion_type = 'CHAIN'; "
             "CREATE TABLE work (id INT AUTO_INCREMENT PRIMARY KEY, v INT); INSERT INTO work VALUES (41, 0); "
             "INSERT INTO work (v) VALUES (1);")
          .empty());
  auto const before = settings();
  CHECK(before.starts_with("33|"));
  CHECK(before.ends_with("|REPEATABLE-READ|42"));
  auto const t = p.write(*c, "n");
  REQUIRE(t);
  CHECK_FALSE(p.read(*c, "n"));
  CHECK(c->run(p.read_text("")).find("ERROR") != std::string::npos);
  CHECK(c->run(p.permit_text("n", 1, 1)).find("ERROR") != std::string::npos);
  auto const other = p.session();
  CHECK(other->run("START TRANSACTION; SELECT 0 FROM rowlock_locks WHERE name = 'n' FOR UPDATE;") == "0");
  CHECK(c->run(p.call("release_permit", "n", t->term)) == "1");
  CHECK_FALSE(p.read(*c, "n"));  // after a second
  CHECK(other->run("ROLLBACK;").empty());
  CHECK(settings() == before);
  // And no transaction was left open, or chained to.
  CHECK(c->run("INSERT INTO work (v) VALUES (2);").empty());
  CHECK(p.ask("SELECT count(*) FROM work;") == "3");
}

// [B42]
MYSQL_FUNCTIONS_CASE("permits: trap B42: a caller's SET timestamp moves no expiry, and takes no permit") {
  Place const p;
  auto const sql = p.session();
  auto const t = p.read(*sql, "n");
  REQUIRE(t);
  for (std::string const fake : {"1000000000", "2000000000"}) {
    CHECK(sql->run("SET timestamp = " + fake + ";").empty());
    CHECK(sql->run(p.read_text("n")).find("ERROR 30004 (45000)") != std::string::npos);
    CHECK(sql->run(p.call("renew_permit", "n", t->term)) == "1");
    CHECK(sql->run(p.call("require_permit", "n", t->term)).empty());
    CHECK(p.ask(fmt::format("SELECT count(*) FROM rowlock_permits WHERE expires_at BETWEEN {} AND {};",
                            p.in_seconds(30), p.in_seconds(61))) == "1");
  }
}

TEST_CASE("functions: C34: postgresql: permits that row-level security hides are an error, and not taken") {
  postgresql_place const p;
  auto const admin = p.session();
  auto const sql = p.session();
  auto const role = unique_identifier();
  CHECK(admin
            ->run(fmt::format(
                "CREATE ROLE {0}; GRANT USAGE ON SCHEMA {1} TO {0}; GRANT SELECT, INSERT, UPDATE, "
                "DELETE ON ALL TABLES IN SCHEMA {1} TO {0};",
                role, admin->run("SELECT current_schema();")))
            .empty());
  CHECK(sql->run(fmt::format("SET ROLE {};", role)).empty());
  CHECK(
      admin
          ->run(
              "ALTER TABLE rowlock_permits ENABLE ROW LEVEL SECURITY; CREATE POLICY mine ON rowlock_permits "
              "USING (note = 'by psql');")
          .empty());
  auto const theirs = p.taken_in(
      admin->run("SELECT term, token FROM rowlock_try_acquire_exclusive('n', '1 min', 'theirs');"));
  REQUIRE(theirs);
  for (auto const& text : {p.write_text("n"), p.read_text("n"), p.permit_text("m", 1, 1)}) {
    auto const refused = sql->run(text);
    CAPTURE(refused);
    CHECK(refused.find("42501") != std::string::npos);
    CHECK(refused.find("row-level security") != std::string::npos);
  }
  CHECK(admin->run("CREATE POLICY all_rows ON rowlock_permits USING (true);").empty());
  CHECK(sql->run(p.write_text("n")).empty());
  CHECK(admin->run(p.call("release_permit", "n", theirs->term)) == "1");
  CHECK(p.write(*sql, "n"));
  CHECK(admin->run(fmt::format("DROP OWNED BY {0}; DROP ROLE {0};", role)).empty());
}
