// PostgreSQL: permits and tokens of a name that is used often. The anchor moves on from generation to
// generation, and counts permits from a token on; the name's token moves on as well. [C92]

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "contract/old_snapshots.hpp"
#include "contract/open_transaction.hpp"
#include "contract/reaping.hpp"
#include "contract/waits.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

using taker = permit_taker;

void use(taker& by, int times, std::int64_t units = 1, std::int64_t limit = 5) {
  for (int i = 0; i < times; ++i) {
    REQUIRE(by.take(taker::of(units, limit)));
    REQUIRE(by.release());
  }
}

std::int64_t newest(fixture& f) { return number(f, "SELECT max(generation) FROM rowlock_locks"); }

std::int64_t noted(fixture& f) {
  return number(f,
                "SELECT coalesce(cardinality(counted_too), 0) FROM rowlock_locks ORDER BY generation DESC "
                "LIMIT 1");
}

/// Of "x"'s five units, in the session's transaction.
void take_by_hand(statements& s, std::string const& term, std::int64_t units) {
  s.run("permit_anchor", {text("x"), text("semaphore"), text(term)});
  s.run("permit_take",
        {text("x"), text("semaphore"), text(term), text("h"), std::int64_t{1}, text("p"), std::int64_t{1},
         std::int64_t{30'000}, text("clock"), nullptr, text(""), units, std::int64_t{5}, nullptr, nullptr});
  s.run("permit_count", {text("x"), text(term), text("i")});
}

}  // namespace

OFTEN_CASE("C92: permits of all generations count, and free what they have when they are given back") {
  taker first(f, strategy::semaphore);
  taker second(f, strategy::semaphore);
  taker busy(f, strategy::semaphore);
  REQUIRE(first.take(taker::of(2, 5)));
  use(busy, 126);
  REQUIRE(second.take(taker::of(2, 5)));  // the 128th
  CHECK(newest(f) == 1);
  CHECK(rows(f, "generation = 0 AND term = 'name'") == 1);
  CHECK(noted(f) == 1);
  CHECK_FALSE(busy.take(taker::of(2, 5)));
  use(busy, 300);
  CHECK(newest(f) == 3);
  CHECK(noted(f) == 2);
  CHECK_FALSE(busy.take(taker::of(2, 5)));
  CHECK(f.manager()->make_semaphore("x", 5).available() == 1);
  CHECK(first.renew());
  CHECK(first.release());
  use(busy, 1, 3);
  CHECK_FALSE(busy.take(taker::of(4, 5)));
  use(busy, 128, 3);
  CHECK(noted(f) == 1);
  CHECK(second.is_there());
  CHECK(second.release());
  use(busy, 1, 5);
  use(busy, 128);
  CHECK(noted(f) == 0);
  CHECK(rows(f) == 2);
  // One that has expired is purged, whatever its generation.
  REQUIRE(first.take(taker::of(3, 5)));
  use(busy, 128);
  expire_permits(f);
  CHECK(busy.take(taker::of(5, 5)));
  CHECK_FALSE(first.is_there());
}

OFTEN_CASE("C81: repair_lock that waits for a permit's take leaves the name to that") {
  for (int const takes : {5, 127}) {
    f.sql("DELETE FROM rowlock_locks; DELETE FROM rowlock_permits");
    f.sql(
        "INSERT INTO rowlock_locks (name, strategy, token, expires_at, takes) VALUES ('x', 'semaphore', "
        "9223372036854775750, clock_timestamp(), " +
        std::to_string(takes) + ")");
    statements first(f);
    statements repairs(f);
    first.session->script("BEGIN", statements::soon());
    take_by_hand(first, "t", 1);
    std::int64_t changed = 0;
    while_it_waits(
        f, *repairs.session, [&] { changed = repairs.meets("repair_lock", {text("x")}); },
        [&] { first.session->script("COMMIT", statements::soon()); });
    CHECK(changed == 0);
    CHECK(rows(f, "token < 9223372036854775750") == 0);
    f.sql("DELETE FROM rowlock_permits");
    CHECK(repairs.meets("repair_lock", {text("x")}) == (takes == 127 ? 2 : 1));
    CHECK(rows(f, "token = 0 AND counted_from = 0") == rows(f));
  }
}

OFTEN_CASE("C92: of many permits that stay, each counts after each move") {
  std::vector<std::unique_ptr<taker>> all;
  taker busy(f, strategy::semaphore);
  for (int i = 0; i < 40; ++i) {
    all.push_back(std::make_unique<taker>(f, strategy::semaphore));
    REQUIRE(all.back()->take(taker::of(1, 41)));
    if (i % 10 == 9) use(busy, 100, 1, 41);
  }
  use(busy, 200, 1, 41);
  CHECK(noted(f) == 16);
  CHECK_FALSE(busy.take(taker::of(2, 41)));
  // The lowest, and some of those above.
  for (auto const i : {0, 1, 15, 16, 17, 38}) CHECK(all.at(static_cast<std::size_t>(i))->release());
  use(busy, 128, 7, 41);
  CHECK_FALSE(busy.take(taker::of(8, 41)));
  for (auto const& one : all) one->release();
  use(busy, 128, 41, 41);
  CHECK(noted(f) == 0);
}

OFTEN_CASE("C92: a name of permits that is used often is one name, with one strategy and its limit") {
  auto const m = f.manager();
  m->make_semaphore("x", {}).set_limit(4);
  taker busy(f, strategy::semaphore);
  taker early(f, strategy::semaphore);
  REQUIRE(early.take(taker::of(1, 4)));
  use(busy, 200, 1, 4);
  CHECK(rows(f) == 2);
  auto o = f.options;
  for (auto const how : {strategy::lease, strategy::once, strategy::unique_insert, strategy::row_lock}) {
    o.strategy = how;
    CHECK(reason([&] { (void)f.manager(o)->make_mutex("x").try_acquire(); }) == errc::strategy_mismatch);
  }
  CHECK(reason([&] { (void)m->make_shared_mutex("x").try_acquire(); }) == errc::strategy_mismatch);
  CHECK_FALSE(inserts(f));
  m->make_semaphore("x", {}).set_limit(3);
  CHECK(m->make_semaphore("x", {}).available() == 2);
  auto two = m->make_semaphore("x", {}).try_acquire(2);
  REQUIRE(two);
  CHECK_FALSE(m->make_semaphore("x", {}).try_acquire());
  CHECK(m->list().size() == 2);
  // By hand: what is left keeps the name, its limit as it was when it moved, and what counts.
  f.sql("DELETE FROM rowlock_locks WHERE generation > 0");
  CHECK(reason([&] { (void)m->make_shared_mutex("x").try_acquire(); }) == errc::strategy_mismatch);
  CHECK_FALSE(busy.take(taker::of(1, 3)));
  CHECK(busy.take(taker::of(1, 4)));
  CHECK(newest(f) == 1);
  CHECK_FALSE(busy.take(taker::of(1, 4)));
  f.sql("DELETE FROM rowlock_locks WHERE generation > 0");
  m->make_semaphore("x", {}).set_limit(5);
  CHECK(m->make_semaphore("x", {}).available() == 1);
  f.sql("DELETE FROM rowlock_locks");
  CHECK_FALSE(busy.take(taker::of(2, 5)));
  CHECK(busy.take(taker::of(1, 5)));
}

OFTEN_CASE(
    "C92: a take that waits for the anchor while that moves on counts what moved it, and has its share") {
  std::string const first =
      "INSERT INTO rowlock_locks (name, strategy, token, expires_at, takes) VALUES ('x', 'semaphore', 5, "
      "clock_timestamp(), 127)";
  std::string const second =
      "INSERT INTO rowlock_locks (name, generation, strategy, term, token, expires_at, takes) VALUES ('x', "
      "0, "
      "'semaphore', 'name', 5, '9999-12-31', 0), ('x', 1, 'semaphore', NULL, 5, clock_timestamp(), 255)";
  for (auto const& anchor : {first, second})
    for (std::int64_t const units : {2, 3}) {
      CAPTURE(anchor);
      CAPTURE(units);
      f.sql("DELETE FROM rowlock_locks; DELETE FROM rowlock_permits");
      f.sql(anchor);
      auto const before = newest(f);
      statements s(f);
      std::string const term = base::random_id();
      s.session->script("BEGIN", statements::soon());
      take_by_hand(s, term, 3);
      taker waits(f, strategy::semaphore);
      bool had = false;
      while_it_waits(
          f, waits.session(), [&] { had = waits.take(taker::of(units, 5)); },
          [&] { s.session->script("COMMIT", statements::soon()); });
      CHECK(newest(f) == before + 1);
      CHECK(rows(f) == 2);
      CHECK(had == (units == 2));
    }
}

OFTEN_CASE("C92: the reaper takes an anchor's two rows, and those of a name's token, along") {
  auto const m = f.manager();
  taker busy(f, strategy::semaphore);
  use(busy, 130);
  auto o = f.options;
  o.strategy = strategy::unique_insert;
  auto const inserting = f.manager(o);
  std::int64_t last = 0;
  for (int i = 0; i < 300; ++i) {
    auto held = inserting->make_mutex("y").try_acquire();
    REQUIRE(held);
    CHECK(held->token().value > last);
    last = held->token().value;
  }
  CHECK(number(f, "SELECT count(*) FROM rowlock_tokens WHERE name = 'y'") == 2);
  CHECK(number(f, "SELECT max(token) FROM rowlock_tokens WHERE generation = 2") == last);
  // The one that keeps the name is none by itself.
  CHECK(reap_unbidden(f, {.idle = 1h}).deleted.all() == 0);
  CHECK(number(f, "SELECT count(*) FROM rowlock_tokens") == 2);
  CHECK(reap_unbidden(f, {.idle = 0ms}).deleted.all() >= 2);
  CHECK(rows(f) == 0);
  CHECK(number(f, "SELECT count(*) FROM rowlock_tokens") == 0);
  auto held = inserting->make_mutex("y").try_acquire();
  REQUIRE(held);
  CHECK(held->token().value > last);
  CHECK(busy.take(taker::of(5, 5)));
}

OFTEN_CASE("C92: a draw that waits for one that moves on has the next token") {
  statements s(f);
  auto const draw = [&](statements& by) {
    for (;;) {
      auto const drawn = by.run("token_draw", {text("y")});
      if (!drawn.rows.empty()) return backend::as_int(drawn.rows[0].at(0));
      by.run("token_insert", {text("y")});
    }
  };
  for (int i = 0; i < 127; ++i) draw(s);
  // Ahead of the clock, so that the clock does not lift what is drawn.
  f.sql("UPDATE rowlock_tokens SET token = 5000000000000000");
  for (int i = 0; i < 2; ++i) {
    statements waits(f);
    s.session->script("BEGIN", statements::soon());
    auto const first = draw(s);
    std::int64_t second = 0;
    while_it_waits(
        f, *waits.session, [&] { second = draw(waits); },
        [&] { s.session->script("COMMIT", statements::soon()); });
    CHECK(second == first + 1);
    CHECK(number(f, "SELECT count(*) FROM rowlock_tokens") == 2);
    for (int n = 0; n < 126; ++n) draw(s);
  }
}

OFTEN_CASE("C92: beside an old snapshot a permit and a token meet a bounded number of dead rows") {
  taker busy(f, strategy::semaphore);
  taker all_the_time(f, strategy::semaphore);
  statements s(f);
  auto const cycles = [&](int times) {
    for (int i = 0; i < times; ++i) {
      REQUIRE(busy.take(taker::of(1, 5)));
      REQUIRE(busy.release());
      if (s.run("token_draw", {text("y")}).rows.empty()) s.run("token_insert", {text("y")});
    }
  };
  REQUIRE(all_the_time.take(taker::of(1, 5)));
  cycles(300);
  CHECK(s.meets("token_insert", {text("y")}) == 0);
  f.sql("ANALYZE rowlock_locks, rowlock_permits, rowlock_tokens");
  using texts = std::vector<std::string>;
  std::vector<std::pair<char const*, texts>> const in_turn{
      {"permit_look", {"'x'", "NULL"}},
      {"permit_expired", {"'x'"}},
      {"permit_anchor", {"'x'", "'semaphore'", "'t'"}},
      {"permit_take",
       {"'x'", "'semaphore'", "'t'", "'h'", "1", "'p'", "1", "30000", "'clock'", "NULL", "''", "1", "5",
        "NULL", "NULL"}},
      {"permit_count", {"'x'", "'t'", "'i'"}},
      {"permit_release", {"'x'", "'t'"}},
      {"token_draw", {"'y'"}}};
  auto const pages = [&] {
    std::map<std::string, std::int64_t> all;
    s.session->script("BEGIN", statements::soon());
    for (auto const& [name, with] : in_turn) all[name] = pages_of(f, *s.session, name, with);
    s.session->script("ROLLBACK", statements::soon());
    return all;
  };
  auto const at_first = pages();
  open_transaction old(f);
  old.run(
      "SET idle_in_transaction_session_timeout = 0; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT "
      "count(*) FROM rowlock_locks");
  cycles(3000);
  for (auto const& page : pages()) {
    CAPTURE(page.first);
    CHECK(page.second <= at_first.at(page.first) + 60);
  }
  old.run("SELECT 1");  // it was there all the time
}
