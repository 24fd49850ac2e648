// lib/sql/<dialect>/repair.sql: its conditions, and who comes in between, by steps. [C81]
#include <rowlock/repair.hpp>
#include <string>
#include <vector>

#include "contract/conditions.hpp"
#include "contract/open_transaction.hpp"
#include "contract/waits.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

constexpr char const* still_enough = "9223372036854775743";
constexpr char const* too_high = "9223372036854775744";

/// Name x, a free row of a lease whose token leaves no room, and its entry the same.
struct name_without_room {
  explicit name_without_room(fixture& fixture) : f(fixture), s(f) {
    put_name(f, "x", "lease");
    f.sql(std::string("INSERT INTO rowlock_tokens (name, token) VALUES ('x', ") + too_high + ")");
    set("token = " + std::string(too_high));
  }
  void set(std::string const& columns) { f.sql("UPDATE rowlock_locks SET " + columns + " WHERE name = 'x'"); }
  /// Whether the statement changes a row; as it was before then, if it does.
  bool changes(std::string const& statement) {
    if (s.meets(statement, {text("x")}) == 0) return false;
    CHECK(number(f, "SELECT count(*) FROM " + table_of(statement) + " WHERE name = 'x' AND token = 0") == 1);
    f.sql("UPDATE " + table_of(statement) + " SET token = " + too_high + " WHERE name = 'x'");
    return true;
  }
  static std::string table_of(std::string const& statement) {
    return statement == "repair_lock" ? "rowlock_locks" : "rowlock_tokens";
  }

  fixture& f;
  statements s;
};

std::string held(fixture& f, std::string const& how, int expires_in_ms) {
  return "term = 'somebody', takeover = '" + how + "', expires_at = " + in_ms(f, expires_in_ms);
}

}  // namespace

STATEMENT_CASE(
    "C81: repair_lock, repair_tokens: neither changes a name that somebody has, or a token with room") {
  name_without_room n(f);
  for (std::string const statement : {"repair_lock", "repair_tokens"}) {
    CAPTURE(statement);
    n.set("term = NULL");
    CHECK(n.changes(statement));
    n.set(held(f, "clock", 60'000));
    CHECK_FALSE(n.changes(statement));
    n.set(held(f, "observed", -60'000));
    CHECK_FALSE(n.changes(statement));
    n.set(held(f, "clock", -60'000));
    CHECK(n.changes(statement));
    n.set("term = NULL");
    auto const set_token = [&](char const* token) {
      f.sql("UPDATE " + n.table_of(statement) + " SET token = " + token + " WHERE name = 'x'");
    };
    set_token(still_enough);
    CHECK_FALSE(n.changes(statement));
    set_token(too_high);
  }
  n.set("strategy = 'unique_insert'");
  CHECK_FALSE(n.changes("repair_lock"));
  CHECK(n.changes("repair_tokens"));
  n.set("strategy = 'semaphore'");
  f.sql(permit_of_somebody(f, 1, 2, strategy::semaphore));
  CHECK_FALSE(n.changes("repair_lock"));
  expire_permits(f);
  CHECK(n.changes("repair_lock"));
}

STATEMENT_CASE("C81: repair_lock behind a renewal, or a take without tokens, meets a term that lives") {
  name_without_room n(f);
  n.set(held(f, "clock", -60'000));
  for (std::string const first : {"renewals = renewals + 1", "term = 'another', renewals = 0"}) {
    CAPTURE(first);
    open_transaction t(f);
    t.run("UPDATE rowlock_locks SET " + first + ", expires_at = " + in_ms(f, 60'000) + " WHERE name = 'x'");
    std::int64_t changed = 1;
    while_it_waits(
        f, *n.s.session, [&] { changed = n.s.meets("repair_lock", {text("x")}); }, [&] { t.commit(); });
    CHECK(changed == 0);
    CHECK(number(f, "SELECT token FROM rowlock_locks WHERE name = 'x'") == highest_usable_token + 1);
    n.set(held(f, "clock", -60'000));
  }
}

STATEMENT_CASE("C81: a renewal behind repair_lock meets no term, and a take draws a token from the clock") {
  name_without_room n(f);
  n.set(held(f, "clock", -60'000));
  REQUIRE(n.s.meets("repair_lock", {text("x")}) == 1);
  strategies::term_rows const rows(n.s.book);
  strategies::name_and_term const mine{"x", {"somebody"}};
  CHECK(rows.renew(*n.s.session, std::span(&mine, 1), statements::soon()).empty());
  n.set("token = " + std::string(too_high));
  open_transaction t(f);
  for (std::string const table : {"rowlock_locks", "rowlock_tokens"})
    t.run("UPDATE " + table + " SET token = 0 WHERE name = 'x'");
  bool had = false;
  stranger taker(f);
  while_it_waits(
      f, taker.session(), [&] { had = taker.take("x"); }, [&] { t.commit(); });
  CHECK(had);
  CHECK(number(f, "SELECT token FROM rowlock_locks WHERE name = 'x'") > microseconds_now() / 2);
}
