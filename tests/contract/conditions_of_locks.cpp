// The conditions of lib/sql/<dialect>/lock.sql, all.sql, guard.sql and once.sql.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "contract/conditions.hpp"
#include "contract/open_transaction.hpp"
#include "strategy/reaping.hpp"
#include "strategy/tokens.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

constexpr bool leases_of_mysql(running_pair const& p) {
  return leases_directly(p) && p.engine == dialect::mysql;
}
constexpr bool direct_leases_on_servers(running_pair const& p) {
  return leases_directly(p) && on_a_server(p);
}
constexpr bool leases_of_postgresql(running_pair const& p) {
  return leases_directly(p) && p.engine == dialect::postgresql;
}

/// Locks "x" and "y" that somebody else holds; and "z", which is free.
struct held_lock_of_another {
  explicit held_lock_of_another(fixture& fixture) : f(fixture), s(f), rows(s.book), other(f) {
    REQUIRE(other.take("x", 30s));
    REQUIRE(other.take("y", 30s));
    put_name(f, "z", "lease");
    term = other.read("x")->term;
  }
  void set(std::string const& columns) { f.sql("UPDATE rowlock_locks SET " + columns + " WHERE name = 'x'"); }
  bool is(std::string const& condition) {
    return number(f, "SELECT count(*) FROM rowlock_locks WHERE name = 'x' AND " + condition) == 1;
  }
  /// The lowest token, if it got the lock. `tokens`: 0 for none.
  std::optional<fencing_token> takes(std::string const& name,
                                     std::optional<strategies::superseded> const& old, int tokens = 1,
                                     std::chrono::milliseconds hard_limit = 0ms) {
    strategies::catalogue const all(s.book);
    strategies::take_request r{
        name, {base::random_id()}, {"elsewhere", 1, "taker", 1}, 30s, hard_limit, takeover::clock, tokens > 0,
        ""};
    r.tokens = std::max(tokens, 1);
    boot_time_point sent_at;
    auto const came = all.of(strategy::lease).take(*s.session, r, old, statements::soon(), sent_at);
    auto const* const got = std::get_if<strategies::granted>(&came);
    return got ? std::optional(got->token) : std::nullopt;
  }
  /// As it was at first.
  void again() {
    set("term = '" + term.value + "', strategy = 'lease', takeover = 'clock', revoked = " + no(f) +
        ", renewals = 0, hard_until = NULL, acquired_at = " + in_ms(f, 0) +
        ", expires_at = " + in_ms(f, 30'000));
  }

  fixture& f;
  statements s;
  strategies::term_rows rows;
  stranger other;
  term_id term;
};

void put_permit_that_is_over(fixture& f) {
  f.sql(permit_of_somebody(f, 1, 10, strategy::semaphore));
  expire_permits(f);
}

}  // namespace

STATEMENT_CASE("lock_take: a free row, one that is over by the clock, or what was read of it") {
  held_lock_of_another x(f);
  auto const takes = [&](std::optional<strategies::superseded> const& old) {
    return x.takes("x", old).has_value();
  };
  auto const by_clock = [&](std::string const& with) {
    return at_once(
        [&] {
          x.again();
          x.set(with);
        },
        [&] { return takes({}); });
  };
  CHECK_FALSE(by_clock("expires_at = " + in_ms(f, 1500)));
  CHECK_FALSE(by_clock("takeover = 'observed', expires_at = " + in_ms(f, -500)));
  CHECK(by_clock("expires_at = " + in_ms(f, -500)));
  CHECK(by_clock("term = NULL, expires_at = " + in_ms(f, 3'600'000)));
  x.again();
  x.set("strategy = 'row_lock', term = NULL");
  CHECK(reason([&] { (void)takes({}); }) == errc::strategy_mismatch);
  CHECK(x.is("term IS NULL"));
  // For its ttl, or up to its hard limit.
  for (auto const& [limit, lasts_for] :
       std::map<std::chrono::milliseconds, std::int64_t>{{0ms, 30'000}, {10s, 10'000}, {60s, 30'000}}) {
    x.set("strategy = 'lease', term = NULL");
    REQUIRE(x.takes("x", {}, 1, limit));
    CHECK(lasts(f, lasts_for - 5'000));
    CHECK_FALSE(lasts(f, lasts_for));
    CHECK(x.is("hard_until IS NULL") == (limit == 0ms));
  }
  // Exactly that one.
  using strategies::superseded;
  x.again();
  CHECK_FALSE(takes(superseded{{base::random_id()}, {}}));
  CHECK_FALSE(takes(superseded{{base::random_id()}, 0}));
  CHECK_FALSE(takes(superseded{x.term, 1}));
  x.set("revoked = " + yes(f));
  CHECK_FALSE(takes(superseded{x.term, {}}));
  CHECK(takes(superseded{x.term, 0}));
  x.again();
  CHECK(takes(superseded{x.term, {}}));
  CHECK(x.other.has_still("y"));
  CHECK(x.other.sees_free("z"));
}

STATEMENT_CASE(
    "lock_take: the tokens are above the row's, the floor, the name's entry, and the clock [C45]") {
  held_lock_of_another x(f);
  // The highest of them; the lowest is what the taker is told.
  auto const token = [&](int tokens) {
    x.set("term = NULL");
    auto const got = x.takes("x", {}, tokens);
    REQUIRE(got);
    CHECK(x.is("token = " + std::to_string(got->value + tokens - 1)));
    return got->value;
  };
  x.set("token = 5000000000000000");
  CHECK(token(1) == 5'000'000'000'000'001);
  CHECK(token(7) == 5'000'000'000'000'002);
  CHECK(token(1) == 5'000'000'000'000'009);
  f.sql("INSERT INTO rowlock_tokens (name, token) VALUES ('a', 1), ('x', 7000000000000000)");
  f.sql("UPDATE rowlock_meta SET token_floor = 6000000000000000");
  x.set("token = 0");
  CHECK(token(7) == 7'000'000'000'000'001);
  f.sql("UPDATE rowlock_meta SET token_floor = 8000000000000000");
  x.set("token = 0");
  CHECK(token(7) == 8'000'000'000'000'001);
  x.set("token = 1");
  auto const now = microseconds_now();
  CHECK(token(1) > now - 60'000'000);
  x.set("token = 1");
  auto const of_block = token(7);
  CHECK(of_block > now - 60'000'000);
  CHECK(of_block < now + 3'600'000'000);
  // Who wants none draws none.
  x.set("term = NULL, token = 3");
  CHECK(x.takes("x", {}, 0));
  CHECK(x.is("token = 3"));
}

STATEMENT_CASE("lock_extend: by name and term, what is not revoked, up to its hard limit") {
  held_lock_of_another x(f);
  auto const extends = [&](std::string const& name, term_id const& term, std::chrono::milliseconds by = 60s) {
    return x.rows.extend(*x.s.session, {name, term}, by, statements::soon());
  };
  CHECK_FALSE(extends("x", {base::random_id()}));
  CHECK_FALSE(extends("y", x.term));
  CHECK(x.other.has_still("y"));
  x.set("revoked = " + yes(f));
  CHECK_FALSE(extends("x", x.term));
  x.set("revoked = " + no(f) + ", hard_until = " + in_ms(f, -500));
  CHECK_FALSE(extends("x", x.term));
  CHECK(at_once([&] { x.set("hard_until = " + in_ms(f, 1500)); }, [&] { return extends("x", x.term); }));
  x.set("expires_at = " + in_ms(f, 500) + ", hard_until = " + in_ms(f, 20'000));
  CHECK(extends("x", x.term));
  CHECK(lasts(f, 10'000));
  CHECK_FALSE(lasts(f, 21'000));
  x.set("hard_until = " + in_ms(f, 3'600'000));
  CHECK(extends("x", x.term));
  CHECK(lasts(f, 50'000));
  CHECK_FALSE(lasts(f, 61'000));
  CHECK(x.is("ttl = 30000"));
  CHECK(x.is("longest = 60000"));
  // It never shortens.
  x.set("takeover = 'observed', hard_until = NULL");
  CHECK(extends("x", x.term, 1s));
  CHECK(lasts(f, 40'000));
  CHECK(x.is("ttl = 30000"));
  CHECK(x.is("longest = 60000"));
  CHECK(extends("x", x.term, 90s));
  CHECK(x.is("ttl = 90000"));
}

STATEMENT_CASE("lock_check, lock_idle, lock_set_note, lock_release: by name and term") {
  held_lock_of_another x(f);
  strategies::catalogue const all(x.s.book);
  term_id const nobodys{base::random_id()};
  for (strategies::name_and_term const& wrong :
       {strategies::name_and_term{"x", nobodys}, {"z", x.term}, {"y", x.term}}) {
    CHECK_FALSE(x.rows.check(*x.s.session, wrong, statements::soon()));
    CHECK(x.s.meets("lock_idle", {wrong.name, wrong.term.value}) == 0);
    CHECK_FALSE(x.rows.set_note(*x.s.session, wrong, "n", statements::soon()));
    CHECK_FALSE(all.of(strategy::lease).give_back(*x.s.session, wrong, 0ms, statements::soon()).was_there);
  }
  CHECK(x.s.meets("lock_idle", {text("x"), x.term.value}) == 1);
  CHECK(x.rows.set_note(*x.s.session, {"x", x.term}, "n", statements::soon()));
  CHECK(number(f, "SELECT count(*) FROM rowlock_locks WHERE note = 'n'") == 1);
  auto const limit_reached = [&](std::int64_t hard_until) {
    return at_once([&] { x.set("hard_until = " + in_ms(f, hard_until)); },
                   [&] {
                     return x.rows.check(*x.s.session, {"x", x.term}, statements::soon())->hard_limit_reached;
                   });
  };
  CHECK_FALSE(limit_reached(1500));
  CHECK(limit_reached(-500));
  CHECK(all.of(strategy::lease).give_back(*x.s.session, {"x", x.term}, 0ms, statements::soon()).was_there);
  CHECK(x.other.has_still("y"));
}

STATEMENT_CASE("lock_read, lock_list, all_read: what is told of a term is this term's") {
  held_lock_of_another x(f);
  std::vector<strategies::name_and_term> const one{{"x", {}}};
  std::vector<strategies::term_row> const all{*x.other.read("x"),
                                              x.rows.list(*x.s.session, false, statements::soon()).at(0),
                                              *x.rows.read_all(*x.s.session, one, statements::soon()).at(0)};
  for (auto const& row : all) {
    CHECK(row.name == "x");
    auto const age = std::chrono::system_clock::now() - row.holder.acquired_at;
    CHECK((age > -60s && age < 60s));
    CHECK((row.holder.expires_in > 0s && row.holder.expires_in <= 30s));
  }
  auto const longest = [&] {
    std::vector<std::optional<std::chrono::milliseconds>> told;
    told.push_back(x.other.read("x")->longest);
    told.push_back(x.rows.list(*x.s.session, false, statements::soon()).at(0).longest);
    told.push_back(x.rows.read_all(*x.s.session, one, statements::soon()).at(0)->longest);
    return told;
  };
  CHECK(longest() == std::vector<std::optional<std::chrono::milliseconds>>(3, 30s));
  x.set("longest_term = 'another'");
  CHECK(longest() == std::vector<std::optional<std::chrono::milliseconds>>(3));
  // Free rows are listed for those who ask.
  REQUIRE(x.other.release("y"));
  CHECK(x.rows.list(*x.s.session, false, statements::soon()).size() == 1);
  CHECK(x.rows.list(*x.s.session, true, statements::soon()).size() == 3);
}

STATEMENT_CASE("lock_release_at_least, unique_release_at_least: by name and term, until then or not at all") {
  held_lock_of_another x(f);
  struct form {
    std::string strategy;
    bool also_over;  ///< it also gives back what is over already
  };
  for (form const& how : {form{"lease", true}, form{"unique_insert", false}}) {
    CAPTURE(how.strategy);
    auto const keeps = [&](std::string const& name, term_id const& term,
                           std::chrono::milliseconds least = 5s) {
      return how.also_over ? x.rows.release_at_least(*x.s.session, {name, term}, least, statements::soon())
                           : x.rows.release_until(*x.s.session, {name, term}, least, statements::soon());
    };
    auto const fresh = [&](std::int64_t acquired) {
      x.again();
      x.set("strategy = '" + how.strategy + "', acquired_at = " + in_ms(f, acquired));
    };
    fresh(0);
    CHECK_FALSE(keeps("x", {base::random_id()}));
    CHECK_FALSE(keeps("y", x.term));
    CHECK(x.other.has_still("x"));
    CHECK(x.other.has_still("y"));
    auto const taken = [&](std::int64_t acquired) {
      return at_once(
          [&] { fresh(acquired); },
          [&] { return keeps("x", x.term) && x.is("term IS NOT NULL AND term <> '" + x.term.value + "'"); });
    };
    // For a second and a half yet; a second and a half ago; and since a moment ago, as the clock went back.
    CHECK(taken(-3500));
    CHECK(x.is("ttl BETWEEN 1 AND 2000 AND longest = 5000 AND longest_term = term"));
    CHECK(lasts(f, 0));
    CHECK_FALSE(lasts(f, 2000));
    CHECK_FALSE(taken(-6500));
    CHECK(x.is("term = '" + x.term.value + "'") != how.also_over);
    if (how.also_over) {
      CHECK(x.is("ttl = 0"));
      CHECK(at_once([&] { fresh(-6500); },
                    [&] { return keeps("x", x.term) && lasts(f, -1000); }));  // it is idle from now on
    }
    CHECK(taken(3'600'000));
    CHECK(x.is("ttl = 5000"));
    CHECK(lasts(f, 2000));
    CHECK_FALSE(lasts(f, 6000));
  }
}

STATEMENT_CASE("lock_revoke, lock_revoke_now, unique_revoke_now: of the name, what has a term") {
  held_lock_of_another x(f);
  std::vector<backend::value> const name{text("x")};
  auto const others = [&](std::string const& condition) {
    return number(f, "SELECT count(*) FROM rowlock_locks WHERE name = 'y' AND " + condition) == 1;
  };
  CHECK(x.s.meets("lock_revoke", name) == 1);
  CHECK(x.is("revoked"));
  CHECK(others("NOT revoked"));
  x.again();
  CHECK(x.s.meets("unique_revoke_now", name) == 0);
  x.set("strategy = 'unique_insert'");
  CHECK(x.s.meets("lock_revoke_now", name) == 0);
  x.set("strategy = 'lease'");
  CHECK(x.s.meets("lock_revoke_now", name) == 1);
  CHECK(x.is("term IS NULL AND revoked"));
  CHECK(others("term IS NOT NULL"));
  // Free rows: nothing to take back.
  x.set("revoked = " + no(f));
  CHECK(x.s.meets("lock_revoke", name) == 0);
  CHECK(x.s.meets("lock_revoke_now", name) == 0);
  CHECK(x.is("NOT revoked"));
  x.set("strategy = 'unique_insert'");
  CHECK(x.s.meets("unique_revoke_now", name) == 0);
  f.sql(
      "UPDATE rowlock_locks SET strategy = 'unique_insert', term = CASE name WHEN 'x' THEN 'one' ELSE 'two' "
      "END");
  CHECK(x.s.meets("unique_revoke_now", name) == 1);
  CHECK(others("term = 'two'"));
}

STATEMENT_CASE("unique_clear: what a take may replace, and nothing else") {
  held_lock_of_another x(f);
  x.set("strategy = 'unique_insert'");
  f.sql("UPDATE rowlock_locks SET strategy = 'unique_insert' WHERE name <> 'x'");
  auto const clears = [&](backend::value const& term, backend::value const& renewals) {
    return x.s.meets("unique_clear", {text("x"), text("unique_insert"), term, renewals}) == 1;
  };
  auto const fresh = [&](std::string const& with) {
    f.sql("DELETE FROM rowlock_locks WHERE name = 'x'");
    put_name(f, "x", "unique_insert");
    x.again();
    x.set("strategy = 'unique_insert'");
    if (!with.empty()) x.set(with);
  };
  // By the clock.
  auto const by_clock = [&](std::string const& with) {
    return at_once([&] { fresh(with); }, [&] { return clears(nullptr, nullptr); });
  };
  CHECK_FALSE(by_clock("expires_at = " + in_ms(f, 1500)));
  CHECK_FALSE(by_clock("takeover = 'observed', expires_at = " + in_ms(f, -500)));
  CHECK_FALSE(by_clock("strategy = 'lease', expires_at = " + in_ms(f, -500)));
  CHECK(by_clock("expires_at = " + in_ms(f, -500)));
  CHECK(by_clock("term = NULL, expires_at = " + in_ms(f, 3'600'000)));
  // Exactly that one.
  std::string const its = x.term.value;
  fresh("");
  CHECK_FALSE(clears(base::random_id(), nullptr));
  CHECK_FALSE(clears(base::random_id(), std::int64_t{0}));
  CHECK_FALSE(clears(its, std::int64_t{1}));
  x.set("revoked = " + yes(f));
  CHECK_FALSE(clears(its, nullptr));
  CHECK(clears(its, std::int64_t{0}));
  fresh("");
  CHECK(clears(its, nullptr));
  CHECK(x.other.has_still("y"));
  CHECK(rows(f, "name = 'z'") == 1);
}

STATEMENT_CASE(
    "unique_take, token_draw, token_read, unique_set_token, unique_release: for its ttl, or up to its hard "
    "limit; by "
    "name and term") {
  statements s(f);
  strategies::catalogue const all(s.book);
  auto const& inserts = all.of(strategy::unique_insert);
  auto const take = [&](std::string const& name, std::chrono::milliseconds hard_limit) {
    strategies::take_request const r{
        name, {base::random_id()}, {"elsewhere", 1, "taker", 1}, 30s, hard_limit, takeover::clock, true, ""};
    boot_time_point sent_at;
    auto const came = inserts.take(*s.session, r, {}, statements::soon(), sent_at);
    REQUIRE(std::holds_alternative<strategies::granted>(came));
    return std::pair(r.term, std::get<strategies::granted>(came).token.value);
  };
  auto const gives_back = [&](std::string const& name, term_id const& term) {
    return inserts.give_back(*s.session, {name, term}, 0ms, statements::soon()).was_there;
  };
  for (auto const& [limit, lasts_for] :
       std::map<std::chrono::milliseconds, std::int64_t>{{0ms, 30'000}, {10s, 10'000}, {60s, 30'000}}) {
    auto const term = take("x", limit).first;
    CHECK(lasts(f, lasts_for - 5'000));
    CHECK_FALSE(lasts(f, lasts_for));
    CHECK(gives_back("x", term));
  }
  // The token is above the last one, the floor, and the clock.
  auto const token = [&] {
    auto const [term, drawn] = take("x", 0ms);
    CHECK(number(f, "SELECT token FROM rowlock_locks WHERE name = 'x'") == drawn);
    CHECK(gives_back("x", term));
    return drawn;
  };
  CHECK(token() > microseconds_now() - 60'000'000);
  f.sql("UPDATE rowlock_tokens SET token = 5000000000000000 WHERE name = 'x'");
  CHECK(token() == 5'000'000'000'000'001);
  f.sql("UPDATE rowlock_meta SET token_floor = 6000000000000000");
  CHECK(token() == 6'000'000'000'000'001);
  if (dialect_of(f) == dialect::mysql) {
    f.sql("INSERT INTO rowlock_tokens (name, token) VALUES ('a', 4)");
    CHECK(s.meets("token_read", {text("x")}) == 1);
    CHECK(s.run("token_read", {text("x")}).rows.at(0).at(0) ==
          backend::value(std::int64_t{6'000'000'000'000'001}));
  }
  auto const [x, token_of_x] = take("x", 0ms);
  auto const [y, token_of_y] = take("y", 0ms);
  CHECK(token_of_y == 6'000'000'000'000'001);
  CHECK(number(f, "SELECT token FROM rowlock_locks WHERE name = 'x'") == token_of_x);
  CHECK_FALSE(gives_back("x", {base::random_id()}));
  CHECK_FALSE(gives_back("y", x));
  CHECK(s.meets("unique_set_token", {text("x"), text("another"), std::int64_t{9}}) == 0);
  CHECK(s.meets("unique_set_token", {text("y"), x.value, std::int64_t{9}}) == 0);
  CHECK(gives_back("x", x));
  CHECK(gives_back("y", y));
}

STATEMENT_CASE("once_record, once_keep: by name and term, of strategy once") {
  held_lock_of_another x(f);
  term_id const record{base::random_id()};
  auto const records = [&](std::string const& name, term_id const& term) {
    return x.s.meets("once_record", {name, term.value, record.value, std::int64_t{60'000}, text("result")}) ==
           1;
  };
  CHECK_FALSE(records("x", x.term));
  f.sql("UPDATE rowlock_locks SET strategy = 'once'");
  CHECK_FALSE(records("x", {base::random_id()}));
  CHECK_FALSE(records("y", x.term));
  CHECK(records("x", x.term));
  CHECK(x.is("note = 'result'"));
  CHECK(x.other.has_still("y"));
  CHECK_FALSE(x.rows.keep_record(*x.s.session, {"x", x.term}, statements::soon()));
  CHECK_FALSE(x.rows.keep_record(*x.s.session, {"y", record}, statements::soon()));
  CHECK(x.rows.keep_record(*x.s.session, {"x", record}, statements::soon()));
  CHECK(x.other.has_still("y"));
}

STATEMENT_CASE("guard_require, guard_record: by name and term, what is not revoked") {
  held_lock_of_another x(f);
  term_id const record{base::random_id()};
  auto const requires_ = [&](std::string const& name, term_id const& term) {
    return x.s.meets("guard_require", {name, term.value}) == 1;
  };
  auto const records = [&](std::string const& name, term_id const& term) {
    return x.s.meets("guard_record", {name, term.value, record.value, std::int64_t{60'000}, text("result"),
                                      microseconds_now()}) == 1;
  };
  auto const refused = [&](std::string const& name, term_id const& term) {
    return !requires_(name, term) && !records(name, term);
  };
  CHECK(requires_("x", x.term));
  CHECK_FALSE(records("x", x.term));  // of another strategy
  f.sql("UPDATE rowlock_locks SET strategy = 'once'");
  CHECK(refused("x", {base::random_id()}));
  CHECK(refused("y", x.term));
  x.set("revoked = " + yes(f));
  CHECK(refused("x", x.term));
  x.set("revoked = " + no(f));
  CHECK(requires_("x", x.term));
  CHECK(records("x", x.term));
  CHECK(x.other.has_still("y"));
}

PAIRS_CASE("at_once_guard: COMMIT behind it fails unless it finds name and term, not revoked",
           leases_of_postgresql) {
  held_lock_of_another x(f);
  auto const goes_on = [&](std::string const& name, term_id const& term) {
    try {
      x.s.run("at_once_guard", {name, term.value});
      return true;
    } catch (error const& e) {
      CHECK(e.sqlstate() == "22012");
      return false;
    }
  };
  CHECK(goes_on("x", x.term));
  CHECK_FALSE(goes_on("x", {base::random_id()}));
  CHECK_FALSE(goes_on("y", x.term));
  x.set("revoked = " + yes(f));
  CHECK_FALSE(goes_on("x", x.term));
  x.set("revoked = " + no(f));
  CHECK(goes_on("x", x.term));
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

PAIRS_CASE("at_once_entry, at_once_draw: for the term that has just been put there, and for no other name",
           leases_of_postgresql) {
  held_lock_of_another x(f);
  f.sql("DELETE FROM rowlock_tokens");
  auto const tokens = [&](std::string const& condition) {
    return number(f, "SELECT count(*) FROM rowlock_tokens WHERE " + condition);
  };
  std::vector<std::pair<std::string, std::string>> const wrong{{"x", "another"}, {"y", x.term.value}};
  for (auto const& [name, term] : wrong) x.s.run("at_once_entry", {name, term});
  CHECK(tokens("1 = 1") == 0);
  x.s.run("at_once_entry", {text("x"), x.term.value});
  CHECK(tokens("name = 'x' AND token = 0") == 1);
  f.sql("INSERT INTO rowlock_tokens (name, token) VALUES ('y', 3)");
  f.sql("UPDATE rowlock_locks SET token = 3");
  for (auto const& [name, term] : wrong) CHECK(x.s.meets("at_once_draw", {name, term}) == 0);
  CHECK(tokens("token = 0") == 1);
  CHECK(tokens("token = 3") == 1);
  CHECK(x.s.meets("at_once_draw", {text("x"), x.term.value}) == 1);
  CHECK(tokens("name = 'x' AND token > 3") == 1);
  CHECK(tokens("name = 'y' AND token = 3") == 1);
  CHECK(rows(f, "token = 3") == 2);
}

// Where several statements go together each must be right by itself: a proxy may have sent the one before
// elsewhere.
PAIRS_CASE("all_take, all_release: what the first statement has marked is looked at again", leases_of_mysql) {
  held_lock_of_another x(f);
  auto const takes = [&](std::string const& more) {
    std::int64_t const one = 1;
    std::vector<backend::value> const with{R"([{"name":"x","term":"new")" + more + "}]",
                                           text("lease"),
                                           text("elsewhere"),
                                           one,
                                           text("process"),
                                           one,
                                           std::int64_t{30'000},
                                           text("clock"),
                                           nullptr,
                                           text(""),
                                           one,
                                           one};
    x.s.run("all_take_due", with);
    auto const bits = x.s.session->execute({"bits", "SELECT CAST(coalesce(@rowlock_due, 0) AS SIGNED)"}, {},
                                           statements::soon());
    x.s.session->script("SET @rowlock_due = 1, @rowlock_at = utc_timestamp(6)", statements::soon());
    x.s.run("all_take", with);
    bool const took = x.is("term = 'new'");
    CHECK((backend::as_int(bits.rows.at(0).at(0)) == 1) == took);
    x.again();
    return took;
  };
  std::string const old = R"(,"old":")" + x.term.value + '"';
  CHECK_FALSE(takes(""));
  x.set("strategy = 'unique_insert', term = NULL");
  CHECK_FALSE(takes(""));
  x.set("takeover = 'observed', expires_at = " + in_ms(f, -5000));
  CHECK_FALSE(takes(""));
  CHECK_FALSE(takes(R"(,"old":"nobody's")"));
  CHECK_FALSE(takes(old + R"(,"renewals":1)"));
  x.set("revoked = 1");
  CHECK_FALSE(takes(old));
  x.set("expires_at = " + in_ms(f, -5000));
  CHECK(takes(""));
  CHECK(takes(old));
  CHECK(takes(old + R"(,"renewals":0)"));
  auto const gives_back = [&](std::string const& term) {
    x.s.run("all_release", {R"([{"name":"x","term":")" + term + R"("}])"});
    return x.is("term IS NULL");
  };
  CHECK_FALSE(gives_back(base::random_id()));
  x.s.session->script("SET @rowlock_due = 0", statements::soon());
  CHECK_FALSE(gives_back(x.term.value));
  x.s.session->script("SET @rowlock_due = 1", statements::soon());
  CHECK(gives_back(x.term.value));
}

STATEMENT_CASE("lock_renew: by name and term, what is not revoked, up to its ttl and its hard limit") {
  statements s(f);
  stranger other(f);
  REQUIRE(other.take("x", 30s));
  auto const term = other.read("x")->term.value;
  // By the statement alone, and as it is used: where several are sent, the first one's word is told.
  auto const renewed = [&](std::string const& name, std::string const& which) {
    std::vector<strategies::name_and_term> const one{{name, {which}}};
    auto const told = strategies::term_rows(s.book).renew(*s.session, one, statements::soon()).size();
    auto const alone =
        s.run("lock_renew", {R"([{"name":")" + name + R"(","term":")" + which + R"("}])"}).affected;
    CHECK(told == static_cast<std::size_t>(alone));
    return alone;
  };
  CHECK(renewed("x", base::random_id()) == 0);
  CHECK(renewed("y", term) == 0);
  f.sql("UPDATE rowlock_locks SET revoked = " + yes(f));
  CHECK(renewed("x", term) == 0);
  f.sql("UPDATE rowlock_locks SET revoked = " + no(f) + ", hard_until = " + in_ms(f, -500));
  CHECK(renewed("x", term) == 0);
  f.sql("UPDATE rowlock_locks SET hard_until = " + in_ms(f, 3'600'000));
  CHECK(renewed("x", term) == 1);
  CHECK_FALSE(lasts(f, 31'000));
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, 500) + ", hard_until = " + in_ms(f, 20'000));
  CHECK(renewed("x", term) == 1);
  CHECK_FALSE(lasts(f, 21'000));
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, 500) + ", hard_until = NULL");
  CHECK(renewed("x", term) == 1);
  CHECK(lasts(f, 20'000));
  CHECK_FALSE(lasts(f, 30'000));
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, 600'000));
  CHECK(renewed("x", term) == 1);
  CHECK(lasts(f, 500'000));
  auto const before_its_end =
      at_once([&] { f.sql("UPDATE rowlock_locks SET hard_until = " + in_ms(f, 1500)); },
              [&] { return renewed("x", term); });
  CHECK(before_its_end == 1);
}

STATEMENT_CASE("token_draw: above the last one, the floor, and the clock") {
  statements s(f);
  auto const draw = [&](std::string const& name) {
    return strategies::tokens(s.book).draw(*s.session, name, statements::soon()).value;
  };
  auto const now = microseconds_now();
  CHECK(draw("x") > now - 60'000'000);
  f.sql("UPDATE rowlock_tokens SET token = 5000000000000000 WHERE name = 'x'");
  CHECK(draw("x") == 5'000'000'000'000'001);
  f.sql("UPDATE rowlock_meta SET token_floor = 6000000000000000");
  CHECK(draw("x") == 6'000'000'000'000'001);
  CHECK(draw("y") == 6'000'000'000'000'001);
}

STATEMENT_CASE("guard_look, guard_lock: the term of the name, if it is there") {
  held_lock_of_another x(f);
  auto const seen = [&](std::string const& name, term_id const& term) {
    return x.s.run("guard_look", {name, term.value}).rows.at(0).at(0) == backend::value(term.value);
  };
  CHECK(seen("x", x.term));
  CHECK_FALSE(seen("y", x.term));
  CHECK_FALSE(seen("x", {base::random_id()}));
  if (dialect_of(f) != dialect::mysql) return;
  auto const locks = [&](std::string const& name, term_id const& term) {
    auto const found = x.s.run("guard_lock", {name, term.value}).rows;
    return found.size() == 1 && found[0].at(0) == backend::value(term.value);
  };
  CHECK(locks("x", x.term));
  CHECK_FALSE(locks("y", x.term));
  CHECK_FALSE(locks("x", {base::random_id()}));
  x.set("revoked = 1");
  CHECK_FALSE(locks("x", x.term));
}

STATEMENT_CASE("guard_wait, guard_try: the anchor of the name") {
  held_lock_of_another x(f);
  std::vector<backend::value> const name{text("x")};
  for (std::string const each : {"guard_wait", "guard_try"}) {
    CAPTURE(each);
    f.sql("UPDATE rowlock_locks SET strategy = 'row_lock' WHERE name = 'y'");
    x.set("strategy = 'lease'");
    CHECK(x.s.meets(each, name) == 0);
    f.sql("UPDATE rowlock_locks SET strategy = 'lease' WHERE name = 'y'");
    x.set("strategy = 'row_lock'");
    CHECK(x.s.meets(each, name) == 1);
  }
}

PAIRS_CASE(
    "row_wait, row_try, row_touch, row_anchors, row_free_anchors, row_holders: anchors, by their names",
    direct_leases_on_servers) {
  held_lock_of_another x(f);
  bool const tells_holders = dialect_of(f) == dialect::postgresql;
  std::vector<backend::value> const name{text("x")};
  std::vector<backend::value> const any{text("")};
  f.sql("UPDATE rowlock_locks SET strategy = 'row_lock' WHERE name = 'y'");
  for (std::string const each : {"row_wait", "row_try", "row_touch"}) {
    CAPTURE(each);
    CHECK(x.s.meets(each, name) == 0);
  }
  auto const old_enough = [&](std::int64_t ends, std::string const& each) {
    return at_once([&] { x.set("strategy = 'row_lock', expires_at = " + in_ms(f, ends)); },
                   [&] { return backend::as_int(x.s.run(each, name).rows.at(0).at(0)) != 0; });
  };
  for (std::string const each : {"row_wait", "row_try"}) {
    CHECK(old_enough(-hour - 500, each));
    CHECK_FALSE(old_enough(-hour + 1500, each));
  }
  CHECK(x.s.meets("row_touch", name) == 1);
  CHECK(lasts(f, -60'000));

  // Another session has both rows locked.
  statements another(f);
  another.session->script(begin_of(f), statements::soon());
  for (std::string const each : {"x", "y"}) another.run("row_wait", {each});
  CHECK(x.s.meets("row_try", name) == 0);
  if (tells_holders) {
    CHECK(x.s.meets("row_touch", name) == 0);  // without waiting
    CHECK(x.s.meets("row_holders", name) == 1);
    CHECK(x.s.run("row_holders", name).rows[0].at(0) == text("x"));
    CHECK(x.s.meets("row_holders", any) == 2);
  } else {
    CHECK(x.s.meets("row_free_anchors", {text(R"(["x","y"])")}) == 0);
    CHECK(x.s.meets("row_anchors", name) == 1);
    CHECK(x.s.run("row_anchors", name).rows[0].at(0) == text("x"));
    CHECK(x.s.meets("row_anchors", any) == 2);
  }
  another.session->script("ROLLBACK", statements::soon());
  // Who has one anchor has no other one.
  another.session->script(begin_of(f), statements::soon());
  another.run("row_wait", name);
  if (tells_holders) {
    CHECK(x.s.meets("row_holders", any) == 1);
    CHECK(x.s.meets("row_holders", {text("y")}) == 0);
  }
  another.session->script("ROLLBACK", statements::soon());
  f.sql("UPDATE rowlock_locks SET strategy = 'lease' WHERE name = 'y'");
  another.session->script(begin_of(f), statements::soon());
  another.run("row_wait", name);
  another.run("guard_require", {text("y"), x.other.read("y")->term.value});
  if (tells_holders) {
    CHECK(x.s.meets("row_holders", any) == 1);
    CHECK(x.s.meets("row_holders", {text("y")}) == 0);
  } else {
    CHECK(x.s.meets("row_anchors", any) == 1);
    another.session->script("ROLLBACK", statements::soon());
    CHECK(x.s.meets("row_free_anchors", {text(R"(["x","y"])")}) == 1);
    CHECK(x.s.meets("row_free_anchors", {text(R"(["y"])")}) == 0);
  }
}

PAIRS_CASE("lock_waiters: tells of what is held, and of names that several may have",
           direct_leases_on_servers) {
  held_lock_of_another x(f);
  bool const of_rows = dialect_of(f) == dialect::postgresql;
  put_name(f, "counted", "semaphore");
  put_name(f, "anchor", "row_lock");
  if (!of_rows) f.sql("UPDATE rowlock_locks SET term = 't' WHERE name = 'anchor'");  // a hand's
  std::set<std::string> told;
  for (auto const& columns : x.s.run("lock_waiters", {}).rows) {
    CHECK(backend::is_null(columns.at(1)));
    told.insert(backend::as_text(columns.at(0)));
  }
  std::set<std::string> expected{"x", "y", "counted"};
  if (of_rows) expected.insert("anchor");
  CHECK(told == expected);
}

// Each waits for nobody.
PAIRS_CASE(
    "lock_renew, lock_idle, guard_require, guard_record, at_once_guard, guard_try, token_try, permit_purge, "
    "reap_locks_delete: what is locked is skipped",
    direct_leases_on_servers) {
  held_lock_of_another x(f);
  bool const halves = dialect_of(f) == dialect::mysql;  // what locks is a statement of its own
  std::string const list = R"([{"name":"x","term":")" + x.term.value + R"("}])";
  std::string const free = R"([{"name":"x","term":"new"}])";
  put_permit_that_is_over(f);
  f.sql("INSERT INTO rowlock_tokens (name, token) VALUES ('x', 5)");
  f.sql("UPDATE rowlock_meta SET token_floor = 6");
  strategies::reaping const reaping(x.s.book, 1h);
  auto const reaped = [&](strategies::reaped_table table) {
    strategies::page_look seen;
    seen.last = "x";
    auto const gone = reaping.remove(*x.s.session, {table, "", 100}, seen, statements::soon());
    return gone.lease + gone.tokens;
  };
  auto const purged = [&] {
    std::vector<strategies::name_and_term> const one{{"x", {"theirs"}}};
    return strategies::permits::purge(*x.s.session, x.s.book, one, statements::soon());
  };
  auto const records = [&] {
    return x.s.meets("guard_record", {text("x"), x.term.value, text("record"), std::int64_t{60'000}, text(""),
                                      microseconds_now()});
  };
  statements another(f);
  for (std::string const how : {"lease", "once"}) {
    x.set("token = 5, strategy = '" + how + "', expires_at = " + in_ms(f, -2 * hour));
    another.session->script(begin_of(f), statements::soon());
    another.run("guard_require", {text("x"), x.term.value});
    CHECK(x.s.meets(halves ? "lock_renew_due" : "lock_renew", {list}) == 0);
    CHECK(x.s.meets("lock_idle", {text("x"), x.term.value}) == 0);
    if (halves) {
      CHECK(x.s.meets("guard_lock", {text("x"), x.term.value}) == 0);
    } else {
      CHECK(x.s.meets("guard_require", {text("x"), x.term.value}) == 0);
      CHECK(records() == 0);
      try {
        x.s.run("at_once_guard", {text("x"), x.term.value});
        FAIL_CHECK("it goes on");
      } catch (error const& e) {
        CHECK(e.sqlstate() == "22012");
      }
    }
    CHECK(reaped(strategies::reaped_table::locks) == 0);
    another.session->script("ROLLBACK", statements::soon());
  }
  x.set("strategy = 'lease'");
  another.session->script(begin_of(f), statements::soon());
  another.session->script(f.tables().render("UPDATE rowlock_permits SET note = 'n'"), statements::soon());
  another.session->script(f.tables().render("UPDATE rowlock_tokens SET token = 4"), statements::soon());
  CHECK(purged() == 0);
  CHECK(reaped(strategies::reaped_table::tokens) == 0);
  if (halves) CHECK(x.s.meets("token_try", {text("x")}) == 0);
  put_name(f, "anchor", "row_lock");
  another.run("guard_wait", {text("anchor")});
  CHECK(x.s.meets("guard_try", {text("anchor")}) == 0);
  CHECK(reason([&] { x.s.run("guard_wait", {text("anchor")}); }) == errc::row_locked);
  // But who counts permits waits.
  put_name(f, "counted", "semaphore");
  std::vector<backend::value> const anchor{text("counted"), text("semaphore"), text("t")};
  another.run("permit_anchor", anchor);
  x.s.session->script(begin_of(f), statements::soon());
  CHECK(reason([&] { x.s.run("permit_anchor", anchor); }) == errc::row_locked);
  x.s.session->script("ROLLBACK", statements::soon());
  another.session->script("ROLLBACK", statements::soon());
  if (halves) {
    CHECK(x.s.meets("token_try", {text("x")}) == 1);
    CHECK(x.s.meets("token_try", {text("y")}) == 0);
  }
  CHECK(purged() == 1);
  CHECK(reaped(strategies::reaped_table::tokens) == 1);
  CHECK(reaped(strategies::reaped_table::locks) == 1);
}

PAIRS_CASE("lock_hidden, permit_take: whether row-level security may hide rows [C34]", leases_of_postgresql) {
  struct role_of_its_own {
    explicit role_of_its_own(fixture& fixture) : f(fixture), name("r" + base::random_id()) {
      f.sql("CREATE ROLE " + name);
      f.sql("GRANT ALL ON rowlock_locks, rowlock_permits, rowlock_tokens, rowlock_meta TO " + name);
      if (!f.options.schema.empty()) f.sql("GRANT USAGE ON SCHEMA " + f.options.schema + " TO " + name);
    }
    ~role_of_its_own() { f.sql("DROP OWNED BY " + name + "; DROP ROLE " + name); }
    fixture& f;
    std::string name;
  } const role(f);
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
