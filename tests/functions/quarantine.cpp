// PostgreSQL: after a crash or a promotion the functions grant nothing until the longest lease is over, and
// they begin that time themselves, in the caller's transaction. lib/doc/quarantine.md

#include <string>

#include "functions/place.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

struct forgetful : postgresql_place {
  using postgresql_place::postgresql_place;
  /// As a crash leaves it, or a promotion.
  void forget_pulses() const { CHECK(ask("TRUNCATE " + table("pulse") + ";").empty()); }
  void wait_it_out() const {
    CHECK(ask("UPDATE " + table("pulse") +
              " SET safe_from = clock_timestamp(), made_by = pg_current_xact_id()::xid;")
              .empty());
  }
  std::string pulses() const {
    return ask("SELECT count(*) FROM " + table("pulse") + " WHERE made_by = xmin AND reach = 60000;");
  }
};

}  // namespace

TEST_CASE("quarantine: postgresql: each take by a function is refused, and the first begins the pulse") {
  for (bool const own_schema : {false, true}) {
    CAPTURE(own_schema);
    forgetful const p(own_schema);
    auto const sql = p.session();
    auto const before = p.take(*sql, "x");
    REQUIRE(before);
    CHECK(p.release(*sql, "x", before->term) == "1");
    REQUIRE(p.take(*sql, "held"));
    p.forget_pulses();
    CHECK_FALSE(p.take(*sql, "x"));
    CHECK(p.pulses() == "1");
    CHECK_FALSE(p.take(*sql, "fresh"));
    CHECK_FALSE(p.permit(*sql, "s", 1, 3));
    CHECK_FALSE(p.read(*sql, "r"));
    CHECK_FALSE(p.once(*sql, "o"));
    CHECK(p.manager()->make_mutex("x").try_acquire().status() == acquire_status::quarantined);
    CHECK(p.pulses() == "1");
    p.wait_it_out();
    auto const after = p.take(*sql, "x");
    REQUIRE(after);
    CHECK(after->token > before->token + 3'600'000'000);
    auto const permit = p.permit(*sql, "s", 1, 3);
    REQUIRE(permit);
    CHECK(permit->token > before->token + 3'600'000'000);
    CHECK(p.read(*sql, "r"));
    CHECK(p.once(*sql, "o"));
  }
}

TEST_CASE(
    "quarantine: postgresql: a pulse that was begun in a savepoint counts, and one that was rolled back does "
    "not") {
  forgetful const p;
  auto const sql = p.session();
  REQUIRE(p.take(*sql, "x"));
  p.forget_pulses();
  CHECK(sql->run("BEGIN;").empty());
  CHECK(sql->run(p.take_text("y")).empty());
  CHECK(sql->run("ROLLBACK;").empty());
  CHECK(p.pulses() == "0");
  CHECK(sql->run("BEGIN; SAVEPOINT a;").empty());
  CHECK(sql->run(p.take_text("y")).empty());
  CHECK(sql->run("RELEASE a; COMMIT;").empty());
  CHECK(p.pulses() == "1");
}

TEST_CASE(
    "quarantine: postgresql: a longer lease than all before is granted at once, flushed, and remembered") {
  forgetful const p;
  auto const sql = p.session();
  CHECK(sql->run("SET synchronous_commit = off; BEGIN; SAVEPOINT a;").empty());
  CHECK(place::taken_in(sql->run(p.take_text("x", 60'000))));
  CHECK(sql->run("SHOW synchronous_commit;") == "on");
  CHECK(sql->run("COMMIT;").empty());
  CHECK(sql->run("SHOW synchronous_commit;") == "off");
  CHECK(p.ask("SELECT max(ttl) FROM rowlock_reach;") == "60000");
  CHECK(p.pulses() == "1");
  CHECK(p.manager()->make_mutex("z", {.ttl = 60s}).try_acquire());
}

TEST_CASE(
    "quarantine: postgresql: what has expired when the database forgot is renewed and required no more") {
  forgetful const p;
  auto const sql = p.session();
  auto const lease = p.take(*sql, "x");
  auto const permit = p.permit(*sql, "s", 1, 3);
  auto const run = p.once(*sql, "o");
  REQUIRE((lease && permit && run));
  auto const expire_all = [&] {
    p.expire("x");
    p.expire("o");
    p.expire_permits("s");
  };
  auto const renews = [&](char const* function, std::string const& name, std::string const& term) {
    return sql->run(p.call(function, name, term));
  };
  // A late holder whose term was not taken over goes on.
  expire_all();
  CHECK(p.renew(*sql, "x", lease->term) == "1");
  CHECK(renews("renew_permit", "s", permit->term) == "1");
  expire_all();
  p.forget_pulses();
  for (bool const over : {false, true}) {
    CAPTURE(over);
    CHECK(p.renew(*sql, "x", lease->term) == "0");
    CHECK(p.require(*sql, "x", lease->term).find("RL001") != std::string::npos);
    CHECK(renews("renew_permit", "s", permit->term) == "0");
    CHECK(renews("require_permit", "s", permit->term).find("RL001") != std::string::npos);
    CHECK(sql->run(p.done_text("o", *run, "r")).find("RL001") != std::string::npos);
    CHECK(p.take(*sql, "fresh").has_value() == over);
    p.wait_it_out();
  }
  CHECK(p.take(*sql, "x"));
}
