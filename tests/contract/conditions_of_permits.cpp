// The conditions of lib/sql/<dialect>/permits.sql.
#include <map>
#include <optional>
#include <variant>

#include "contract/conditions.hpp"
#include "sessions/retry_deadlocks.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// What permit_look says for somebody with that intent: units that have not expired, of all, and intended.
std::vector<std::int64_t> look(statements& s, std::string const& name, backend::value const& intent) {
  auto const row = s.run("permit_look", {name, intent}).rows.at(0);
  return {backend::as_int(row.at(2)), backend::as_int(row.at(3)), backend::as_int(row.at(4))};
}

void put_permit(fixture& f, std::string const& name, std::string const& term, int units, std::int64_t ends) {
  f.sql(
      "INSERT INTO rowlock_permits (name, strategy, term, token, ttl, acquired_at, expires_at, units, told) "
      "VALUES ('" +
      name + "', 'semaphore', '" + term + "', 1, 30000, " + in_ms(f, 0) + ", " + in_ms(f, ends) + ", " +
      std::to_string(units) + ", 10)");
}

void intend(fixture& f, std::string const& name, std::string const& who, int units, std::int64_t until) {
  f.sql("UPDATE rowlock_locks SET intent_term = '" + who + "', intent_units = " + std::to_string(units) +
        ", intent_until = " + in_ms(f, until) + " WHERE name = '" + name + "'");
}

}  // namespace

STATEMENT_CASE(
    "permit_look: units of the name alone, of those that last, and what somebody else intends [C44]") {
  statements s(f);
  for (auto const* name : {"a", "x", "y"}) put_name(f, name, "semaphore");
  put_permit(f, "y", "of y", 7, 30'000);
  put_permit(f, "x", "over", 4, -200);
  auto const counted = at_once(
      [&] {
        f.sql("DELETE FROM rowlock_permits WHERE term = 'short'");
        put_permit(f, "x", "short", 2, 1500);
      },
      [&] { return look(s, "x", nullptr); });
  CHECK(counted == std::vector<std::int64_t>{2, 6, 0});
  auto const intended = [&](std::int64_t until, backend::value const& who) {
    return at_once([&] { intend(f, "x", "theirs", 3, until); }, [&] { return look(s, "x", who).at(2); });
  };
  CHECK(intended(1500, std::string("mine")) == 3);
  CHECK(intended(1500, std::string("theirs")) == 0);
  CHECK(intended(1500, nullptr) == 0);
  CHECK(intended(-500, std::string("mine")) == 0);
  CHECK(intended(2700, std::string("mine")) == 0);  // the clock went back
}

STATEMENT_CASE(
    "permit_take, permit_count: obeys an intent that lasts, of somebody else, and no other [C44]") {
  permit_taker taker(f, strategy::semaphore);
  put_name(f, "x", "semaphore");
  auto const takes = [&](std::int64_t until, std::string const& whose) {
    auto const got = at_once([&] { intend(f, "x", whose, 9, until); },
                             [&] {
                               auto wanted = permit_taker::of(2, 10);
                               wanted.intent = "mine";
                               bool const took = taker.take(wanted);
                               if (took) taker.release();
                               return took;
                             });
    return got;
  };
  CHECK_FALSE(takes(1500, "theirs"));
  CHECK(takes(-500, "theirs"));
  CHECK(takes(2700, "theirs"));
  CHECK(takes(1500, "mine"));
  // Who gets nothing intends it still.
  put_permit(f, "x", "theirs", 9, 30'000);
  intend(f, "x", "mine", 2, 1500);
  auto refused = permit_taker::of(2, 10);
  refused.intent = "mine";
  CHECK_FALSE(taker.take(refused));
  CHECK(number(f, "SELECT count(*) FROM rowlock_locks WHERE intent_until IS NOT NULL") == 1);
  f.sql("DELETE FROM rowlock_permits");
  // What others intend stays.
  intend(f, "x", "theirs", 1, 1500);
  REQUIRE(taker.take(permit_taker::of(1, 10)));
  CHECK(number(f, "SELECT count(*) FROM rowlock_locks WHERE intent_until IS NOT NULL") == 1);
}

STATEMENT_CASE("permit_take: for its ttl, or up to its hard limit; its token is above all that were drawn") {
  statements s(f);
  strategies::permits const permits(s.book, strategy::semaphore);
  put_name(f, "x", "semaphore");
  put_name(f, "y", "semaphore");
  // Whatever else is there stays as it is: somebody's lock, above all.
  stranger other(f);
  REQUIRE(other.take("held", 3600s));
  f.sql("UPDATE rowlock_locks SET token = 7 WHERE name IN ('y', 'held')");
  auto const take = [&](std::chrono::milliseconds hard_limit) {
    f.sql("DELETE FROM rowlock_permits WHERE name = 'x'");
    strategies::take_request r{
        "x", {base::random_id()}, {"elsewhere", 1, "taker", 1}, 30s, hard_limit, takeover::clock, true, ""};
    r.permit = permit_taker::of(1, 10);
    boot_time_point sent_at;
    // On a file: a token that is far ahead of the clock is drawn by a transaction that is flushed, the next
    // one.
    auto const came = sessions::retry_deadlocks(sessions::events({}), "x", statements::soon(), [&] {
      return permits.take(*s.session, r, {}, statements::soon(), sent_at);
    });
    REQUIRE(std::holds_alternative<strategies::granted>(came));
    auto const told = std::get<strategies::granted>(came).token.value;
    CHECK(number(f, "SELECT token FROM rowlock_permits WHERE name = 'x'") == told);
    CHECK(number(f, "SELECT token FROM rowlock_locks WHERE name = 'x'") == told);
    CHECK(rows(f, "name IN ('y', 'held') AND token = 7") == 2);
    CHECK(rows(f, "name = 'held' AND expires_at > " + in_ms(f, 600'000)) == 1);
    return told;
  };
  auto const permit_lasts = [&](std::int64_t ms) {
    return number(f, "SELECT count(*) FROM rowlock_permits WHERE expires_at > " + in_ms(f, ms)) == 1;
  };
  for (auto const& [limit, lasts_for] :
       std::map<std::chrono::milliseconds, std::int64_t>{{0ms, 30'000}, {10s, 10'000}, {60s, 30'000}}) {
    auto const token = take(limit);
    CHECK(token > microseconds_now() - 60'000'000);
    CHECK(permit_lasts(lasts_for - 5'000));
    CHECK_FALSE(permit_lasts(lasts_for));
  }
  f.sql("UPDATE rowlock_locks SET token = 5000000000000000 WHERE name = 'x'");
  CHECK(take(0ms) == 5'000'000'000'000'001);
  f.sql("INSERT INTO rowlock_tokens (name, token) VALUES ('a', 1), ('x', 7000000000000000)");
  f.sql("UPDATE rowlock_meta SET token_floor = 6000000000000000");
  f.sql("UPDATE rowlock_locks SET token = 0 WHERE name = 'x'");
  CHECK(take(0ms) == 7'000'000'000'000'001);
  f.sql("UPDATE rowlock_meta SET token_floor = 8000000000000000");
  f.sql("UPDATE rowlock_locks SET token = 0 WHERE name = 'x'");
  CHECK(take(0ms) == 8'000'000'000'000'001);
}

STATEMENT_CASE(
    "permit_anchor, permit_take, permit_token: counts the units of the name, up to the limit that is told or "
    "set") {
  statements s(f);
  permit_taker taker(f, strategy::semaphore);
  put_name(f, "x", "semaphore", 4);
  put_name(f, "y", "semaphore", 9);
  put_permit(f, "y", "of y", 7, 30'000);
  put_permit(f, "x", "theirs", 2, 30'000);
  auto const takes = [&](std::int64_t units, std::optional<std::int64_t> limit) {
    bool const took = taker.take({.units = units, .limit = limit, .intent = "mine"});
    if (took) {
      auto const its = s.run("permit_token", {text("x"), taker.term().value}).rows;
      CHECK(its.size() == 1);
      CHECK(s.meets("permit_token", {text("y"), taker.term().value}) == 0);
      CHECK(taker.release());
      CHECK_FALSE(taker.is_there());
    }
    return took;
  };
  CHECK(takes(2, std::nullopt));
  CHECK_FALSE(takes(3, std::nullopt));
  CHECK(takes(3, 5));
  CHECK_FALSE(takes(4, 5));
  CHECK(reason([&] { (void)permit_taker(f, strategy::shared).take(permit_taker::reader()); }) ==
        errc::strategy_mismatch);
  CHECK(s.meets("permit_token", {text("x"), text("nobody's")}) == 0);
}

STATEMENT_CASE("permit_take, permit_replaced: replaces what is there and not revoked, and nothing else") {
  permit_taker taker(f, strategy::semaphore);
  put_name(f, "x", "semaphore");
  put_name(f, "y", "semaphore");
  put_permit(f, "x", "theirs", 1, 30'000);
  put_permit(f, "y", "of y", 1, 30'000);
  auto const replaces = [&](std::string const& term, std::int64_t limit = 10) {
    auto wanted = permit_taker::of(2, limit);
    wanted.replaces = {term};
    wanted.replaced_units = 1;
    return taker.take(wanted);
  };
  CHECK_FALSE(replaces("nobody's"));
  CHECK_FALSE(replaces("of y"));
  f.sql("UPDATE rowlock_permits SET revoked = " + yes(f));
  CHECK_FALSE(replaces("theirs"));
  f.sql("UPDATE rowlock_permits SET revoked = " + no(f));
  CHECK(replaces("theirs", 2));  // which does not count
  CHECK(taker.is_there());
  CHECK(number(f, "SELECT count(*) FROM rowlock_permits WHERE name = 'x'") == 1);
  CHECK(number(f, "SELECT count(*) FROM rowlock_permits WHERE name = 'y'") == 1);
}

STATEMENT_CASE("C96: permit_intend: for the name, its strategy, and as long as was said") {
  statements s(f);
  put_name(f, "x", "semaphore");
  put_name(f, "y", "semaphore");
  auto const there = [&](std::string const& name, std::int64_t after) {
    return number(f, "SELECT count(*) FROM rowlock_locks WHERE name = '" + name + "' AND intent_until > " +
                         in_ms(f, after));
  };
  auto const says = [&](std::string const& how, backend::value const& lasts) {
    return s.run("permit_intend", {std::string("x"), how, std::int64_t{3}, std::string("mine"), lasts})
        .affected;
  };
  CHECK(says("shared", std::int64_t{1900}) == 0);
  CHECK(at_once([&] { CHECK(says("semaphore", std::int64_t{1900}) == 1); },
                [&] { return there("x", 1000); }) == 1);
  CHECK(there("y", -3'600'000) == 0);
  CHECK_FALSE(eventually([&] { return says("semaphore", std::int64_t{1900}) == 0; }, 700ms));
  // Without a line: in every other half second, until that is over, and not while somebody else intends.
  bool const for_half_a_second =
      at_once([&] { f.sql("UPDATE rowlock_locks SET intent_until = NULL"); },
              [&] { return says("semaphore", nullptr) == 0 || there("x", 501) == 0; });
  CHECK(for_half_a_second);
  CHECK(eventually(
      [&] {
        return at_once([&] { f.sql("UPDATE rowlock_locks SET intent_until = NULL"); },
                       [&] { return says("semaphore", nullptr); }) == 0;
      },
      10s));
  CHECK(eventually(
      [&] {
        return at_once([&] { f.sql("UPDATE rowlock_locks SET intent_term = 'theirs', intent_until = NULL"); },
                       [&] { return says("semaphore", nullptr); }) == 1;
      },
      10s));
  auto const comes = [&](std::string const& whose, std::int64_t until, std::chrono::seconds patience = 10s) {
    return eventually(
        [&] {
          return at_once([&] { intend(f, "x", whose, 1, until); },
                         [&] { return says("semaphore", nullptr); }) == 1;
        },
        patience);
  };
  CHECK(comes("mine", 1500));
  CHECK_FALSE(comes("theirs", 1500, 2s));
  CHECK(comes("theirs", -500));
  CHECK(comes("theirs", 2700));
}

STATEMENT_CASE(
    "permit_release_at_least, permit_revoke, permit_revoke_now, permit_units, permit_set_limit: by name and "
    "term") {
  statements s(f);
  put_name(f, "x", "semaphore");
  put_name(f, "y", "semaphore");
  auto const fresh = [&](std::int64_t acquired) {
    f.sql("DELETE FROM rowlock_permits");
    put_permit(f, "x", "one", 1, 30'000);
    put_permit(f, "x", "two", 2, 30'000);
    put_permit(f, "y", "of y", 3, 30'000);
    f.sql("UPDATE rowlock_permits SET acquired_at = " + in_ms(f, acquired));
  };
  auto const keeps = [&](std::string const& name, std::string const& term, std::int64_t acquired) {
    return at_once([&] { fresh(acquired); },
                   [&] {
                     return s.meets("permit_release_at_least",
                                    {name, term, std::int64_t{5000}, text("nobody knows")}) == 1;
                   });
  };
  auto const there = [&](std::string const& condition) {
    return number(f, "SELECT count(*) FROM rowlock_permits WHERE " + condition);
  };
  CHECK_FALSE(keeps("x", "of y", 0));
  CHECK_FALSE(keeps("y", "one", 0));
  CHECK_FALSE(keeps("x", "one", -6500));
  CHECK(there("term = 'nobody knows'") == 0);
  CHECK(keeps("x", "one", -3500));
  CHECK(there("term = 'nobody knows' AND units = 1 AND expires_at <= " + in_ms(f, 2000)) == 1);
  CHECK(there("term = 'two'") == 1);
  CHECK(keeps("x", "one", 3'600'000));
  CHECK(there("term = 'nobody knows' AND expires_at <= " + in_ms(f, 5500)) == 1);

  fresh(0);
  CHECK(s.meets("permit_units", {text("x")}) == 2);
  CHECK(s.meets("permit_units", {text("")}) == 3);
  CHECK(s.meets("permit_revoke", {text("x"), text("of y")}) == 0);
  CHECK(s.meets("permit_revoke", {text("x"), text("one")}) == 1);
  CHECK(there("revoked") == 1);
  CHECK(s.meets("permit_revoke", {text("x"), nullptr}) == 2);
  CHECK(there("revoked") == 2);
  CHECK(s.meets("permit_revoke_now", {text("x"), text("of y")}) == 0);
  CHECK(s.meets("permit_revoke_now", {text("x"), text("one")}) == 1);
  CHECK(there("name = 'x'") == 1);
  fresh(0);
  CHECK(s.meets("permit_revoke_now", {text("x"), nullptr}) == 2);
  CHECK(there("name = 'y'") == 1);

  CHECK(s.meets("permit_set_limit", {text("x"), text("shared"), std::int64_t{3}}) == 0);
  CHECK(s.meets("permit_set_limit", {text("x"), text("semaphore"), std::int64_t{3}}) == 1);
  CHECK(number(f, "SELECT count(*) FROM rowlock_locks WHERE name = 'x' AND permit_limit = 3") == 1);
  CHECK(number(f, "SELECT count(*) FROM rowlock_locks WHERE permit_limit = 3") == 1);
}

STATEMENT_CASE("permit_expired, permit_purge: what has expired by the clock, and nothing else") {
  statements s(f);
  put_name(f, "x", "semaphore");
  auto const purged = [&](std::int64_t ends, std::string const& how) {
    return at_once(
        [&] {
          f.sql("DELETE FROM rowlock_permits");
          put_permit(f, "x", "its", 1, ends);
          put_permit(f, "x", "another", 1, -500);
          f.sql("UPDATE rowlock_permits SET takeover = 'observed' WHERE term = 'another'");
          put_permit(f, "y", "of y", 1, -500);
          f.sql("UPDATE rowlock_permits SET takeover = '" + how + "' WHERE term = 'its'");
        },
        [&] {
          auto const found = s.run("permit_expired", {std::string("x")}).rows.size();
          std::vector<strategies::name_and_term> const one{{"x", {"its"}}};
          auto const gone = strategies::permits::purge(*s.session, s.book, one, statements::soon());
          return std::pair(found, gone);
        });
  };
  using found_and_gone = std::pair<std::size_t, std::int64_t>;
  CHECK(purged(1500, "clock") == found_and_gone{0, 0});
  CHECK(purged(-500, "observed") == found_and_gone{0, 0});
  CHECK(purged(-500, "clock") == found_and_gone{1, 1});
}

PAIRS_CASE("permit_purge: what the first statement has found is looked at again", leases_of_mysql) {
  statements s(f);
  put_name(f, "x", "semaphore");
  auto const purges = [&](std::int64_t ends, std::string const& takeover) {
    return at_once(
        [&] {
          f.sql("DELETE FROM rowlock_permits");
          f.sql(permit_of_somebody(f, 1, 10, strategy::semaphore));
          f.sql("UPDATE rowlock_permits SET takeover = '" + takeover + "', expires_at = " + in_ms(f, ends));
        },
        [&] {
          std::vector<backend::value> const list{text(R"([{"name":"x","term":"theirs"}])")};
          s.run("permit_purge_due", list);
          auto const bits = s.session->execute({"bits", "SELECT CAST(coalesce(@rowlock_due, 0) AS SIGNED)"},
                                               {}, statements::soon());
          s.session->script("SET @rowlock_due = 1, @rowlock_at = utc_timestamp(6)", statements::soon());
          s.run("permit_purge", list);
          bool const gone = permits_there(f) == 0;
          CHECK(gone == (backend::as_int(bits.rows.at(0).at(0)) == 1));
          return gone;
        });
  };
  CHECK_FALSE(purges(1500, "clock"));
  CHECK_FALSE(purges(-500, "observed"));
  CHECK(purges(-500, "clock"));
}

PAIRS_CASE("lock_hidden, permit_take: whether row-level security may hide rows [C34]", leases_of_postgresql) {
  ordinary_role const role(f);
  statements s(f);
  permit_taker taker(f, strategy::semaphore);
  for (auto* session : {s.session.get(), &taker.session()})
    session->script("SET ROLE " + role.name, statements::soon());
  put_name(f, "x", "semaphore");
  auto const on_both = [&](std::string const& how) {
    for (std::string const table : {"rowlock_locks", "rowlock_permits"}) {
      auto sql = how;
      f.sql(sql.replace(sql.find("THAT"), 4, table));
    }
  };
  auto const drop = [&](std::string const& name) { on_both("DROP POLICY IF EXISTS " + name + " ON THAT"); };
  // Whether it may, where the only other policy is that one.
  auto const hides = [&](std::string const& policy) {
    drop("other");
    if (!policy.empty()) on_both("CREATE POLICY other ON THAT " + policy);
    bool const locks = s.run("lock_hidden", {}).rows.at(0).at(0) != backend::value(std::int64_t{0});
    bool permits = false;
    try {
      permits = !taker.take(permit_taker::of(1, 10));
    } catch (error const& e) {
      CHECK(e.reason() == errc::access_denied);
      permits = true;
    }
    if (!permits) taker.release();
    CHECK(permits == locks);
    return locks;
  };
  CHECK_FALSE(hides(""));
  CHECK_FALSE(hides("AS RESTRICTIVE USING (true)"));  // it is not switched on
  on_both("ALTER TABLE THAT ENABLE ROW LEVEL SECURITY");
  CHECK(hides(""));
  CHECK(hides("FOR SELECT USING (true)"));
  CHECK(hides("USING (name <> 'z')"));
  CHECK(hides("USING (true) WITH CHECK (name <> 'z')"));
  CHECK(hides("TO pg_monitor USING (true)"));
  CHECK(hides("AS RESTRICTIVE USING (true)"));
  CHECK_FALSE(hides("USING (true)"));
  CHECK_FALSE(hides("USING (true) WITH CHECK (true)"));
  CHECK_FALSE(hides("TO " + role.name + " USING (true)"));
  on_both("CREATE POLICY good ON THAT USING (true)");
  CHECK(hides("AS RESTRICTIVE USING (true)"));
  CHECK_FALSE(hides("FOR SELECT USING (name <> 'z')"));
  // What is on other tables is of no matter.
  f.sql("ALTER TABLE rowlock_tokens ENABLE ROW LEVEL SECURITY");
  f.sql("CREATE POLICY of_tokens ON rowlock_tokens AS RESTRICTIVE USING (true)");
  CHECK_FALSE(hides(""));
  drop("good");
  f.sql("CREATE POLICY good_of_tokens ON rowlock_tokens USING (true)");
  CHECK(hides(""));
}
