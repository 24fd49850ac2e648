// The conditions of lib/sql/<dialect>/lock.sql.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "contract/conditions.hpp"
#include "strategy/tokens.hpp"

using namespace rowlock;
using namespace rowlock::test;

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
  // One that a lock without tokens has left, or still has.
  x.set("token = 0, term = 'gone', takeover = 'clock', expires_at = " + in_ms(f, -500));
  REQUIRE(x.takes("x", {}, 1));
  CHECK(x.is("token = 8000000000000001"));
  x.again();
  x.set("token = 0");
  CHECK(x.takes("x", strategies::superseded{x.term, {}}));
  CHECK(x.is("token = 8000000000000001"));
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
  std::vector<strategies::term_row> const all{
      *x.other.read("x"), x.rows.list(*x.s.session, {.to = "~"}, statements::soon()).at(0),
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
    told.push_back(x.rows.list(*x.s.session, {.to = "~"}, statements::soon()).at(0).longest);
    told.push_back(x.rows.read_all(*x.s.session, one, statements::soon()).at(0)->longest);
    return told;
  };
  CHECK(longest() == std::vector<std::optional<std::chrono::milliseconds>>(3, 30s));
  x.set("longest_term = 'another'");
  CHECK(longest() == std::vector<std::optional<std::chrono::milliseconds>>(3));
  // Free rows are listed for those who ask.
  REQUIRE(x.other.release("y"));
  CHECK(x.rows.list(*x.s.session, {.to = "~"}, statements::soon()).size() == 1);
  CHECK(x.rows.list(*x.s.session, {.idle = true, .to = "~"}, statements::soon()).size() == 3);
}

STATEMENT_CASE(
    "C77: lock_list, lock_list_end: names from one to another, by a pattern, so many, held for so long") {
  held_lock_of_another x(f);  // x and y are held, z is free
  for (auto const* name : {"%x", "|x", "X"}) put_name(f, name, "lease");
  auto const names = [&](strategies::rows_wanted w) {
    if (w.to.empty()) w.to = "~";
    std::string all;
    for (auto const& row : x.rows.list(*x.s.session, w, statements::soon())) all += row.name + ' ';
    return all;
  };
  CHECK(names({.idle = true}) == "%x X x y z |x ");
  CHECK(names({.idle = true, .from = "x"}) == "x y z |x ");
  CHECK(names({.idle = true, .from = "x", .to = "y"}) == "x y ");
  CHECK(names({.idle = true, .from = "x", .most = 1}) == "x ");
  CHECK(names({.idle = true, .like = "|%%"}) == "%x ");
  CHECK(names({.idle = true, .like = "||_"}) == "|x ");
  CHECK(names({.idle = true, .like = "%y"}) == "y ");
  CHECK(names({}) == "x y ");
  x.set("acquired_at = " + in_ms(f, -hour));
  CHECK(names({.idle = true, .held_longer_than = std::chrono::milliseconds(hour - 60'000)}) == "x ");
  CHECK(names({.held_longer_than = std::chrono::milliseconds(hour + 60'000)}).empty());
  auto const end = [&](std::string const& from, int rows) {
    return x.rows.list_end(*x.s.session, from, rows, statements::soon());
  };
  CHECK(end("", 2) == "X");
  CHECK(end("x", 2) == "y");
  CHECK(end("x", 99) == "|x");
  CHECK_FALSE(end("}", 9));
}

STATEMENT_CASE("C77: lock_list: a record that work is done is listed for those who ask") {
  held_lock_of_another x(f);
  auto const listed = [&](bool done) {
    return x.rows.list(*x.s.session, {.done = done, .to = "~"}, statements::soon()).size();
  };
  x.set("strategy = 'once', owner_process = NULL, renewals = 0");
  CHECK(listed(false) == 1);  // y
  CHECK(listed(true) == 2);
  for (auto const* no_record :
       {"owner_process = 'p'", "owner_process = NULL, renewals = 1", "renewals = 0, strategy = 'lease'"}) {
    x.set(no_record);
    CHECK(listed(false) == 2);
  }
}

STATEMENT_CASE("C77: permit_list: by names and terms, from one on, so many, held for so long") {
  statements s(f);
  strategies::term_rows const permits(s.book, strategies::term_rows::table::permits);
  for (auto const* one : {"'a', 'semaphore', 't1'", "'a', 'semaphore', 't2'", "'b', 'shared', 't0'"})
    f.sql(
        "INSERT INTO rowlock_permits (name, strategy, term, token, acquired_at, expires_at, units, told) "
        "VALUES (" +
        std::string(one) + ", 1, " + in_ms(f, one[1] == 'b' ? -hour : 0) + ", " + in_ms(f, hour) + ", 2, 9)");
  auto const terms = [&](strategies::permits_wanted const& w) {
    std::string all;
    for (auto const& row : permits.list_permits(*s.session, w, statements::soon())) {
      CHECK(row.holder.units == 2);
      CHECK(row.holder.limit == 9);
      all += row.name + row.term.value + ' ';
    }
    return all;
  };
  CHECK(terms({}) == "at1 at2 bt0 ");
  CHECK(terms({.most = 1}) == "at1 ");
  CHECK(terms({.from = "a", .after = "t1"}) == "at2 bt0 ");
  CHECK(terms({.from = "a", .after = "t2", .most = 1}) == "bt0 ");
  CHECK(terms({.from = "aa"}) == "bt0 ");
  CHECK(terms({.like = "b%"}) == "bt0 ");
  CHECK(terms({.held_longer_than = std::chrono::milliseconds(hour - 60'000)}) == "bt0 ");
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

STATEMENT_CASE("lock_revoke, lock_revoke_now, quorum_revoke_now: by name and term") {
  held_lock_of_another x(f);
  auto const of = [&](char const* term) { return std::vector<backend::value>{text("x"), text(term)}; };
  auto const others = [&](std::string const& condition) {
    return number(f, "SELECT count(*) FROM rowlock_locks WHERE name = 'y' AND " + condition) == 1;
  };
  CHECK(x.s.meets("lock_revoke", of("another")) == 0);
  CHECK(x.s.meets("lock_revoke", of(x.term.value.c_str())) == 1);
  CHECK(x.is("revoked"));
  CHECK(others("NOT revoked"));
  // Nobody's for so long, and nobody's own. [C62]
  auto const closed = [&](char const* term) {
    return std::vector<backend::value>{text("x"), text("closed"), std::int64_t{2000}, text(term)};
  };
  for (auto const* const how : {"lease", "unique_insert", "once"}) {
    x.again();
    x.set("strategy = '" + std::string(how) + "', hard_until = " + in_ms(f, 60'000) +
          ", takeover = 'observed'");
    auto const held = x.term.value;
    CHECK(x.s.meets("lock_revoke_now", closed("another")) == 0);
    CHECK(x.is("NOT revoked"));
    CHECK(x.s.meets("lock_revoke_now", closed(held.c_str())) == 1);
    CHECK(
        x.is("term = 'closed' AND revoked AND owner_process IS NULL AND hard_until IS NULL AND takeover = "
             "'clock'"));
    CHECK(x.is("ttl = 2000 AND longest = 2000 AND longest_term = 'closed' AND renewals = 1"));
    CHECK_FALSE(lasts(f, 2001));
    CHECK(others("term <> 'closed' AND NOT revoked"));
  }
  x.again();
  x.set("strategy = 'quorum', longest_term = term");
  CHECK(x.s.meets("quorum_revoke_now", of("another")) == 0);
  CHECK(x.is("NOT revoked"));
  CHECK(x.s.meets("quorum_revoke_now", of(x.term.value.c_str())) == 1);
  CHECK(x.is("term IS NULL AND revoked AND longest_term = '" + x.term.value + "'"));
  CHECK(others("term IS NOT NULL"));
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
