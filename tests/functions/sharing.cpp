// The same locks, from SQL and from the library.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "functions/place.hpp"

using namespace rowlock;
using namespace rowlock::test;

FUNCTIONS_CASE("a lock that was taken in SQL is busy for the library, which shows its holder") {
  Place const p;
  auto const sql = p.session();
  auto const mine = p.take(*sql, "n", 600'000);
  REQUIRE(mine);
  auto const m = p.manager();
  auto x = m->make_mutex("n");
  auto const busy = x.try_acquire();
  CHECK(busy.status() == acquire_status::busy);
  REQUIRE(busy.holder());
  CHECK(busy.holder()->note == (p.is_mysql() ? "by mysql" : "by psql"));
  CHECK(busy.holder()->token.value == mine->token);
  CHECK(busy.holder()->expires_in > 500s);
  CHECK(busy.holder()->expires_in <= 600s);
  auto const all = m->list();
  REQUIRE(all.size() == 1);
  CHECK(all[0].name == "n");
  CHECK(all[0].holder.strategy == strategy::lease);
  CHECK(all[0].holder.owner.host == "127.0.0.1");
  CHECK(std::to_string(all[0].holder.owner.pid) ==
        sql->run(p.is_mysql() ? "SELECT connection_id();" : "SELECT pg_backend_pid();"));
  CHECK(all[0].holder.owner.thread == -1);
  CHECK(p.release(*sql, "n", mine->term) == "1");
  CHECK(m->list().empty());
  CHECK(x.try_acquire());
}

FUNCTIONS_CASE("a lock that the library holds is busy in SQL, and can't be renewed or given back there") {
  Place const p;
  auto const sql = p.session();
  auto const m = p.manager();
  auto x = m->make_mutex("n");
  auto held = x.try_acquire();
  REQUIRE(held);
  CHECK_FALSE(p.take(*sql, "n"));
  std::string const other(32, '0');
  CHECK(p.renew(*sql, "n", other) == "0");
  CHECK(p.release(*sql, "n", other) == "0");
  CHECK(p.require(*sql, "n", other).find(p.lost()) != std::string::npos);
  // With its term all of that is right.
  auto const term = held->term().value;
  CHECK(p.renew(*sql, "n", term) == "1");
  CHECK(p.require(*sql, "n", term).empty());
  CHECK(held->release() == release_result::released);
  CHECK(p.take(*sql, "n"));
}

FUNCTIONS_CASE("tokens of one name rise whoever takes it, and each term is another") {
  Place const p;
  auto const sql = p.session();
  auto const m = p.manager();
  auto x = m->make_mutex("n");
  std::int64_t last = 0;
  std::set<std::string> terms;
  for (int i = 0; i < 5; ++i) {
    auto const t = p.take(*sql, "n");
    REQUIRE(t);
    CHECK(t->token > last);
    last = t->token;
    CHECK(terms.insert(t->term).second);
    CHECK(p.release(*sql, "n", t->term) == "1");
    auto held = x.try_acquire();
    REQUIRE(held);
    CHECK(held->token().value > last);
    last = held->token().value;
    CHECK(terms.insert(held->term().value).second);
    CHECK(held->release() == release_result::released);
  }
}

FUNCTIONS_CASE("a token is above the floor, the name's entry, and what the clock has not reached yet") {
  Place const p;
  auto const sql = p.session();
  constexpr std::int64_t far = 9'000'000'000'000'000;
  CHECK(p.ask(fmt::format("UPDATE {} SET token_floor = {};", p.table("meta"), far)).empty());
  auto const fresh = p.take(*sql, "n");
  REQUIRE(fresh);
  CHECK(fresh->token == far + 1);
  CHECK(p.release(*sql, "n", fresh->term) == "1");
  CHECK(p.take(*sql, "n")->token == far + 2);
  CHECK(p.ask(fmt::format("INSERT INTO {} (name, token) VALUES ('known', {});", p.table("tokens"), far + 10))
            .empty());
  CHECK(p.take(*sql, "known")->token == far + 11);
}

FUNCTIONS_CASE("a wrong or old term, or another name's, does nothing and is told") {
  Place const p;
  auto const sql = p.session();
  auto const first = p.take(*sql, "n");
  auto const other = p.take(*sql, "m");
  REQUIRE(first);
  REQUIRE(other);
  CHECK(p.release(*sql, "n", first->term) == "1");
  CHECK(p.release(*sql, "n", first->term) == "0");
  CHECK(p.renew(*sql, "n", first->term) == "0");
  auto const second = p.take(*sql, "n");
  REQUIRE(second);
  auto const row =
      fmt::format("SELECT term, renewals, expires_at FROM {} WHERE name = 'n';", p.table("locks"));
  auto const before = p.ask(row);
  for (auto const& wrong : {first->term, other->term, std::string(), std::string("x"), second->term + "0",
                            second->term + " ", std::string(60'000, 'a'), std::string("é")}) {
    CAPTURE(wrong.substr(0, 40));
    CHECK(p.renew(*sql, "n", wrong) == "0");
    CHECK(p.release(*sql, "n", wrong) == "0");
    CHECK_FALSE(p.require(*sql, "n", wrong).empty());
  }
  CHECK(p.renew(*sql, "absent", second->term) == "0");
  CHECK(p.release(*sql, "absent", second->term) == "0");
  CHECK(p.require(*sql, "absent", second->term).find(p.lost()) != std::string::npos);
  CHECK(p.ask(row) == before);
  CHECK(p.renew(*sql, "n", second->term) == "1");
  CHECK(p.ask(row) != before);
}

FUNCTIONS_CASE("what has expired is taken over, from either side, and the former holder is told") {
  Place const p;
  auto const sql = p.session();
  auto const old = p.take(*sql, "n");
  REQUIRE(old);
  p.expire("n");
  CHECK(p.renew(*sql, "n", old->term) == "1");  // late, but nobody came in between
  p.expire("n");
  auto const m = p.manager();
  auto x = m->make_mutex("n", {.renew = false});
  auto held = x.try_acquire();
  REQUIRE(held);
  CHECK(held->token().value > old->token);
  CHECK(p.renew(*sql, "n", old->term) == "0");
  CHECK(p.require(*sql, "n", old->term).find(p.lost()) != std::string::npos);
  CHECK(p.release(*sql, "n", old->term) == "0");
  p.expire("n");
  auto const next = p.take(*sql, "n");
  REQUIRE(next);
  CHECK(next->token > held->token().value);
  CHECK(held->release() == release_result::already_lost);
  CHECK(p.renew(*sql, "n", next->term) == "1");
}

FUNCTIONS_CASE("a row that is taken over by observation alone is busy, however long it has expired") {
  Place const p;
  auto const sql = p.session();
  REQUIRE(p.take(*sql, "n"));
  CHECK(p.ask(fmt::format("UPDATE {} SET takeover = 'observed';", p.table("locks"))).empty());
  p.expire("n");
  CHECK_FALSE(p.take(*sql, "n"));
}

FUNCTIONS_CASE("revoked or at its hard limit: not renewed, and no guard; then it can be had") {
  Place const p;
  auto const sql = p.session();
  auto const m = p.manager();
  auto const row = fmt::format("SELECT renewals, expires_at FROM {};", p.table("locks"));
  for (bool const revoked : {true, false})
    for (bool const given_back : {true, false}) {
      CAPTURE(revoked);
      CAPTURE(given_back);
      auto const t = p.take(*sql, "n");
      REQUIRE(t);
      CHECK(p.renew(*sql, "n", t->term) == "1");
      if (revoked)
        CHECK(m->revoke("n", revoke_mode::at_renewal));
      else
        CHECK(
            p.ask(fmt::format("UPDATE {} SET hard_until = {};", p.table("locks"), p.in_seconds(-1))).empty());
      auto const before = p.ask(row);
      CHECK(p.renew(*sql, "n", t->term) == "0");
      CHECK(p.require(*sql, "n", t->term).find(p.lost()) != std::string::npos);
      CHECK(p.ask(row) == before);
      CHECK_FALSE(p.take(*sql, "n"));
      if (given_back)
        CHECK(p.release(*sql, "n", t->term) == "1");
      else
        p.expire("n");
      auto const next = p.take(*sql, "n");
      REQUIRE(next);
      CHECK(p.renew(*sql, "n", next->term) == "1");
      CHECK(p.release(*sql, "n", next->term) == "1");
    }
}

FUNCTIONS_CASE("a renewal never shortens, and stops at the hard limit") {
  Place const p;
  auto const sql = p.session();
  auto const t = p.take(*sql, "n", 1000);
  REQUIRE(t);
  auto const set = [&](std::string const& what, int seconds) {
    return p.ask(fmt::format("UPDATE {} SET {} = {};", p.table("locks"), what, p.in_seconds(seconds)));
  };
  auto const is = [&](std::string const& condition) {
    return p.ask(fmt::format("SELECT count(*) FROM {} WHERE {};", p.table("locks"), condition)) == "1";
  };
  CHECK(set("expires_at", 500).empty());
  CHECK(p.renew(*sql, "n", t->term) == "1");
  CHECK(p.require(*sql, "n", t->term).empty());
  CHECK(is("expires_at > " + p.in_seconds(400)));
  CHECK(p.ask(fmt::format("UPDATE {} SET ttl = 3600000;", p.table("locks"))).empty());
  CHECK(set("hard_until", 900).empty());
  CHECK(p.renew(*sql, "n", t->term) == "1");
  CHECK(is("expires_at = hard_until"));
}

FUNCTIONS_CASE("with a schema and a prefix of their own, and a search path that has neither") {
  Place const p(true);
  auto const sql = p.session();
  auto const t = p.take(*sql, "n");
  REQUIRE(t);
  auto const m = p.manager();
  CHECK(m->make_mutex("n").try_acquire().status() == acquire_status::busy);
  CHECK(p.renew(*sql, "n", t->term) == "1");
  CHECK(p.require(*sql, "n", t->term).empty());
  CHECK(p.release(*sql, "n", t->term) == "1");
  CHECK(p.require(*sql, "n", t->term).find(p.lost()) != std::string::npos);
  migrator(p.source(), {.table_prefix = p.prefix, .schema = p.schema}).down(0, true, true);
  CHECK(sql->run(p.take_text("n")).find("ERROR") != std::string::npos);
}

FUNCTIONS_CASE("`migrate sql` can be read by the client program") {
  Place const p;
  auto const sql = p.session();
  migrator m(p.source());
  m.down(0, true, true);
  CHECK(sql->run(m.sql(0, m.latest())).find("ERROR") == std::string::npos);
  CHECK(p.take(*sql, "n"));
  CHECK(m.up().empty());
  CHECK(m.validate().empty());
  CHECK(sql->run(m.sql(m.latest(), 0)).find("ERROR") == std::string::npos);
  CHECK_FALSE(m.status()[0].applied);
  CHECK(sql->run(p.take_text("m")).find("ERROR") != std::string::npos);
}

TEST_CASE("functions: the tables are found whatever the search path is, also a temporary one's<postgresql>") {
  postgresql_place const p;
  auto const sql = p.session();
  auto const home = sql->run("SELECT current_schema();");
  sql->run(
      "CREATE TEMP TABLE rowlock_locks (LIKE rowlock_locks INCLUDING ALL); SET search_path = pg_catalog;");
  auto const reply =
      sql->run(fmt::format("SELECT term, token FROM {}.rowlock_try_acquire('n', '1 min');", home));
  auto const t = place::taken_in(reply);
  REQUIRE(t);
  CHECK(p.ask("SELECT term FROM rowlock_locks;") == t->term);
  CHECK(sql->run(fmt::format("SELECT {}.rowlock_release(name => 'n', term => '{}');", home, t->term)) == "t");
}
