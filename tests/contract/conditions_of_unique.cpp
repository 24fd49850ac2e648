// What a take by INSERT asks of lib/sql/<dialect>/lock.sql.
#include <string>
#include <vector>

#include "contract/conditions.hpp"
#include "sessions/retry_deadlocks.hpp"
#include "strategy/tokens.hpp"

using namespace rowlock;
using namespace rowlock::test;

STATEMENT_CASE("unique_clear: what a take may replace, and nothing else") {
  held_lock_of_another x(f);
  x.set("strategy = 'unique_insert'");
  f.sql("UPDATE rowlock_locks SET strategy = 'unique_insert' WHERE name <> 'x'");
  auto const clears = [&](backend::value const& term, backend::value const& renewals) {
    return x.s.meets("unique_clear", {text("x"), text("unique_insert"), term, renewals, std::int64_t{0}}) ==
           1;
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
    // As in conditions_of_permits.cpp.
    auto const came = sessions::retry_deadlocks(sessions::events({}), name, statements::soon(), [&] {
      return inserts.take(*s.session, r, {}, statements::soon(), sent_at);
    });
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
