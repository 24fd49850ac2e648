// Time zones, a session's own idea of the time, and what else of the session must be left alone.

#include <fmt/format.h>

#include "functions/place.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

bool lasts_a_minute(place const& p, std::string const& name) {
  return p.ask(fmt::format(
             "SELECT count(*) FROM {} WHERE name = {} AND expires_at BETWEEN {} AND {} AND acquired_at "
             "BETWEEN {} AND {};",
             p.table("locks"), p.literal(name), p.in_seconds(30), p.in_seconds(61), p.in_seconds(-30),
             p.in_seconds(1))) == "1";
}

}  // namespace

FUNCTIONS_CASE("T14: in a session of any time zone") {
  Place const p;
  auto const sql = p.session();
  for (std::string const zone : {"+00:00", "-11:00", "+13:00", "SYSTEM"}) {
    if (!p.is_mysql() && zone == "SYSTEM") continue;
    CAPTURE(zone);
    CHECK(sql->run(fmt::format("SET {} = '{}';", p.is_mysql() ? "time_zone" : "timezone", zone)).empty());
    auto const t = p.take(*sql, zone);
    REQUIRE(t);
    CHECK(lasts_a_minute(p, zone));
    CHECK_FALSE(p.take(*sql, zone));
    CHECK(p.renew(*sql, zone, t->term) == "1");
    CHECK(lasts_a_minute(p, zone));
  }
}

TEST_CASE("functions: T2: in a transaction that is old, the time is the present one<postgresql>") {
  postgresql_place const p;
  auto const sql = p.session();
  sql->run("BEGIN; SELECT pg_sleep(1.2);");
  auto const t = p.take(*sql, "n", 1000);
  REQUIRE(t);
  // The transaction's time, now(), is 1.2 s old and more.
  CHECK(sql->run("SELECT expires_at > now() + interval '2.2 s' FROM rowlock_locks;") == "t");
  sql->run("COMMIT;");
}

// Costs of scans that are switched off make the server compile each plan, for tens of milliseconds.
TEST_CASE("functions: no plan is compiled, whatever the caller's session has<postgresql>") {
  postgresql_place const p;
  CHECK(p.ask("SELECT count(*) FROM pg_proc WHERE proname LIKE 'rowlock%' AND "
              "'enable_seqscan=off' = ANY (proconfig) AND NOT 'jit=off' = ANY (proconfig);") == "0");
}

// [B42]
MYSQL_FUNCTIONS_CASE("trap B42: a caller's SET timestamp moves no expiry, and takes no lock") {
  Place const p;
  auto const sql = p.session();
  auto const t = p.take(*sql, "n");
  REQUIRE(t);
  for (std::string const fake : {"1000000000", "2000000000"}) {
    CAPTURE(fake);
    CHECK(sql->run("SET timestamp = " + fake + ";").empty());
    CHECK(sql->run(p.take_text("n", 60'000)).find("ERROR 30004 (45000)") != std::string::npos);
    CHECK(sql->run(p.take_text("new", 60'000)).find("ERROR 30004 (45000)") != std::string::npos);
    CHECK(p.renew(*sql, "n", t->term) == "1");
    CHECK(lasts_a_minute(p, "n"));
    CHECK(p.require(*sql, "n", t->term).empty());
    CHECK(lasts_a_minute(p, "n"));
  }
  CHECK(p.ask("SELECT count(*) FROM rowlock_locks;") == "1");
  CHECK(p.release(*sql, "n", t->term) == "1");
  CHECK(p.ask(fmt::format("SELECT count(*) FROM rowlock_locks WHERE expires_at BETWEEN {} AND {};",
                          p.in_seconds(-30), p.in_seconds(1))) == "1");
  // A little off is made good.
  CHECK(sql->run("SET timestamp = unix_timestamp(sysdate(6)) + 100;").empty());
  REQUIRE(p.take(*sql, "n"));
  CHECK(lasts_a_minute(p, "n"));
  auto const other = p.session();
  CHECK(other->run("SET timestamp = unix_timestamp(sysdate(6)) + 100;").empty());
  CHECK_FALSE(p.take(*other, "n"));
}

// [B23]
MYSQL_FUNCTIONS_CASE("trap B23: LAST_INSERT_ID() is left alone") {
  Place const p;
  auto const sql = p.session();
  CHECK(
      sql->run(
             "CREATE TABLE work (id INT AUTO_INCREMENT PRIMARY KEY, v INT); INSERT INTO work VALUES (41, 0); "
             "INSERT INTO work (v) VALUES (1);")
          .empty());
  auto const t = p.take(*sql, "n");
  CHECK_FALSE(p.take(*sql, "n"));
  CHECK(p.renew(*sql, "n", t->term) == "1");
  CHECK(p.require(*sql, "n", t->term).empty());
  CHECK(p.release(*sql, "n", t->term) == "1");
  REQUIRE(p.take(*sql, "n"));
  CHECK(sql->run("SELECT last_insert_id();") == "42");
}

FUNCTIONS_CASE("one who waits by asking again gets the lock when it is given back, of many one at a time") {
  Place const p;
  constexpr int sessions = 4;
  CHECK(p.ask("CREATE TABLE work (n int); INSERT INTO work VALUES (0);").empty());
  std::vector<std::unique_ptr<client>> all;
  for (int i = 0; i < sessions; ++i) all.push_back(p.session());
  int done = 0;
  std::vector<std::optional<taken>> held(sessions);
  for (int round = 0; round < 40; ++round) {
    // All ask at the same time.
    for (auto const& c : all) c->send(p.take_text("n", 60'000));
    int winners = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto const reply = all[i]->reply();
      REQUIRE(reply);
      held[i] = place::taken_in(*reply);
      winners += held[i] ? 1 : 0;
    }
    CHECK(winners <= 1);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!held[i]) continue;
      CHECK(p.release(*all[i], "n", held[i]->term) == "1");
      ++done;
    }
  }
  CHECK(done > 20);
}
