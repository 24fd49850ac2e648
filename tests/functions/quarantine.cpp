// After a crash or a promotion the functions grant nothing until the longest lease is over, and
// they begin that time themselves, in the caller's transaction. lib/doc/quarantine.md

#include <string>

#include "functions/place.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

template <class Place>
struct forgetful : Place {
  using Place::Place;
  /// As a crash leaves it, or a promotion.
  void forget_pulses() const {
    CHECK(this->ask((this->is_mysql() ? "UPDATE " + this->table("pulse") + " SET made_by = 1"
                                      : "TRUNCATE " + this->table("pulse")) +
                    ";")
              .empty());
  }
  void wait_it_out() const {
    CHECK(this->ask("UPDATE " + this->table("pulse") +
                    (this->is_mysql()
                         ? " SET safe_from = utc_timestamp(6);"
                         : " SET safe_from = clock_timestamp(), made_by = pg_current_xact_id()::xid;"))
              .empty());
  }
  /// Of the newest incarnation, if that is this server's.
  std::string pulses() const {
    return this->ask("SELECT count(*) FROM " + this->table("pulse") + " WHERE reach = 60000 AND " +
                     (this->is_mysql() ? "made_by <> 1 AND begun = (SELECT max(m.begun) FROM " +
                                             this->table("pulse") + " AS m)"
                                       : "made_by = xmin") +
                     ";");
  }
};

}  // namespace

FUNCTIONS_CASE("quarantine: each take by a function is refused, and the first begins the pulse") {
  for (bool const own_schema : {false, true}) {
    CAPTURE(own_schema);
    forgetful<Place> const p(own_schema);
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

FUNCTIONS_CASE("freeze: no take by a function is granted, and none begins an incarnation") {
  forgetful<Place> const p;
  auto const sql = p.session();
  auto const lease = p.take(*sql, "x");
  REQUIRE(lease);
  auto const frozen_until = [&](std::string const& when) {
    CHECK(p.ask("UPDATE " + p.table("quarantine") + " SET frozen_until = " + when + ";").empty());
  };
  p.forget_pulses();
  frozen_until(p.in_seconds(3600));
  CHECK_FALSE(p.take(*sql, "y"));
  CHECK_FALSE(p.permit(*sql, "s", 1, 3));
  CHECK_FALSE(p.once(*sql, "o"));
  CHECK(p.renew(*sql, "x", lease->term) == "1");
  CHECK(p.release(*sql, "x", lease->term) == "1");
  CHECK(p.pulses() == "0");
  frozen_until("NULL");
  CHECK_FALSE(p.take(*sql, "y"));
  CHECK(p.pulses() == "1");
}

FUNCTIONS_CASE("quarantine: off: a function grants at once what begins an incarnation") {
  forgetful<Place> const p;
  auto const sql = p.session();
  auto const before = p.take(*sql, "x", 1000);
  REQUIRE(before);
  CHECK(p.ask("UPDATE " + p.table("quarantine") + " SET enabled = " + (p.is_mysql() ? "0;" : "false;"))
            .empty());
  p.forget_pulses();
  auto const after = p.take(*sql, "y", 60'000);
  REQUIRE(after);
  CHECK(after->token > before->token + 3'600'000'000);
}

FUNCTIONS_CASE(
    "quarantine: a pulse that was begun in a savepoint counts, and one that was rolled back does "
    "not") {
  forgetful<Place> const p;
  auto const sql = p.session();
  REQUIRE(p.take(*sql, "x"));
  p.forget_pulses();
  CHECK(sql->run("BEGIN;").empty());
  CHECK(sql->run(p.take_text("y")).empty());
  CHECK(sql->run("ROLLBACK;").empty());
  CHECK(p.pulses() == "0");
  CHECK(sql->run("BEGIN; SAVEPOINT a;").empty());
  CHECK(sql->run(p.take_text("y")).empty());
  CHECK(sql->run("RELEASE SAVEPOINT a; COMMIT;").empty());
  CHECK(p.pulses() == "1");
}

FUNCTIONS_CASE("quarantine: a longer lease than all before is granted at once, flushed, and remembered") {
  forgetful<Place> const p;
  auto const sql = p.session();
  if (!p.is_mysql()) CHECK(sql->run("SET synchronous_commit = off;").empty());
  CHECK(sql->run("BEGIN; SAVEPOINT a;").empty());
  CHECK(place::taken_in(sql->run(p.take_text("x", 60'000))));
  if (!p.is_mysql()) CHECK(sql->run("SHOW synchronous_commit;") == "on");
  CHECK(sql->run("COMMIT;").empty());
  if (!p.is_mysql()) CHECK(sql->run("SHOW synchronous_commit;") == "off");
  if (!p.is_mysql()) CHECK(p.ask("SELECT max(ttl) FROM " + p.table("reach") + ";") == "60000");
  CHECK(p.pulses() == "1");
  CHECK(p.manager()->make_mutex("z", {.ttl = 60s}).try_acquire());
}

FUNCTIONS_CASE("quarantine: a pulse grants for an hour, and the next take asks for another one") {
  forgetful<Place> const p;
  auto const sql = p.session();
  REQUIRE(p.take(*sql, "x"));
  std::string const now = p.is_mysql() ? "utc_timestamp(6)" : "clock_timestamp()";
  std::string const over = " SET until = " + now;
  CHECK(
      p.ask("UPDATE " + p.table("pulse") + over +
            (p.is_mysql() ? ";" : ", made_by = pg_current_xact_id()::xid; UPDATE rowlock_reach" + over + ";"))
          .empty());
  CHECK(p.take(*sql, "y"));
  CHECK(p.ask("SELECT count(*) FROM " + p.table("pulse") + " WHERE until > " + now + " + interval " +
              (p.is_mysql() ? "50 minute;" : "'50 minutes';")) == "1");
  CHECK(p.manager()->make_mutex("z", {.ttl = 1s}).try_acquire());
}

FUNCTIONS_CASE("quarantine: what has expired when the database forgot is renewed and required no more") {
  forgetful<Place> const p;
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
    CHECK(p.require(*sql, "x", lease->term).find(p.lost()) != std::string::npos);
    CHECK(renews("renew_permit", "s", permit->term) == "0");
    CHECK(renews("require_permit", "s", permit->term).find(p.lost()) != std::string::npos);
    CHECK(sql->run(p.done_text("o", *run, "r")).find(p.lost()) != std::string::npos);
    CHECK(p.take(*sql, "fresh").has_value() == over);
    p.wait_it_out();
  }
  CHECK(p.take(*sql, "x"));
}
