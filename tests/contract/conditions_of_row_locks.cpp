// Rows that another transaction has locked: who has them, who waits for them, and who passes them over.
#include <set>
#include <string>
#include <vector>

#include "contract/conditions.hpp"
#include "contract/open_transaction.hpp"
#include "strategy/reaping.hpp"

using namespace rowlock;
using namespace rowlock::test;

PAIRS_CASE(
    "row_wait, row_try, row_touch, row_anchors, row_free_anchors, row_holders: anchors, by their names",
    direct_leases_on_servers) {
  held_lock_of_another x(f);
  bool const tells_holders = dialect_of(f) == dialect::postgresql;
  std::vector<backend::value> const name{text("x")};
  auto const among = [&](std::string const& from, std::string const& to) {
    std::vector<backend::value> range{text(from), text(to)};
    if (tells_holders) range.emplace_back(std::int64_t{0});
    return range;
  };
  std::vector<backend::value> const anchor{text("x"), std::int64_t{0}};
  auto const only_x = among("x", "x");
  auto const only_y = among("y", "y");
  auto const any = among("a", "z");
  f.sql("UPDATE rowlock_locks SET strategy = 'row_lock' WHERE name = 'y'");
  for (std::string const each : {"row_wait", "row_try", "row_touch"}) {
    CAPTURE(each);
    CHECK(x.s.meets(each, each == "row_touch" ? name : anchor) == 0);
  }
  auto const old_enough = [&](std::int64_t ends, std::string const& each) {
    return at_once([&] { x.set("strategy = 'row_lock', expires_at = " + in_ms(f, ends)); },
                   [&] { return backend::as_int(x.s.run(each, anchor).rows.at(0).at(0)) != 0; });
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
  for (std::string const each : {"x", "y"}) another.run("row_wait", {each, std::int64_t{0}});
  CHECK(x.s.meets("row_try", anchor) == 0);
  if (tells_holders) {
    CHECK(x.s.meets("row_touch", name) == 0);  // without waiting
    CHECK(x.s.meets("row_holders", only_x) == 1);
    CHECK(x.s.run("row_holders", only_x).rows[0].at(0) == text("x"));
    CHECK(x.s.meets("row_holders", any) == 2);
    CHECK(x.s.meets("row_holders", {text("a"), text("z"), std::int64_t{1}}) == 2);  // for a millisecond
    CHECK(x.s.meets("row_holders", {text("a"), text("z"), std::int64_t{3'600'000}}) == 0);
  } else {
    CHECK(x.s.meets("row_free_anchors", {text(R"(["x","y"])")}) == 0);
    CHECK(x.s.meets("row_anchors", only_x) == 1);
    CHECK(x.s.run("row_anchors", only_x).rows[0].at(0) == text("x"));
    CHECK(x.s.meets("row_anchors", any) == 2);
  }
  another.session->script("ROLLBACK", statements::soon());
  // Who has one anchor has no other one.
  another.session->script(begin_of(f), statements::soon());
  another.run("row_wait", anchor);
  if (tells_holders) {
    CHECK(x.s.meets("row_holders", any) == 1);
    CHECK(x.s.meets("row_holders", only_y) == 0);
  }
  another.session->script("ROLLBACK", statements::soon());
  f.sql("UPDATE rowlock_locks SET strategy = 'lease' WHERE name = 'y'");
  another.session->script(begin_of(f), statements::soon());
  another.run("row_wait", anchor);
  another.run("guard_require", {text("y"), x.other.read("y")->term.value});
  if (tells_holders) {
    CHECK(x.s.meets("row_holders", any) == 1);
    CHECK(x.s.meets("row_holders", only_y) == 0);
  } else {
    CHECK(x.s.meets("row_anchors", any) == 1);
    another.session->script("ROLLBACK", statements::soon());
    CHECK(x.s.meets("row_free_anchors", {text(R"(["x","y"])")}) == 1);
    CHECK(x.s.meets("row_free_anchors", {text(R"(["y"])")}) == 0);
  }
}

PAIRS_CASE(
    "C93: lock_waiters: tells of what is held, and of names that several may have, of those that it is asked "
    "about",
    direct_leases_on_servers) {
  held_lock_of_another x(f);
  bool const of_rows = dialect_of(f) == dialect::postgresql;
  put_name(f, "counted", "semaphore");
  put_name(f, "anchor", "row_lock");
  if (!of_rows) f.sql("UPDATE rowlock_locks SET term = 't' WHERE name = 'anchor'");  // a hand's
  auto const ask = [&](std::string const& names) {
    std::set<std::string> of;
    for (auto const& columns : x.s.run("lock_waiters", {text(names)}).rows) {
      CHECK(backend::is_null(columns.at(1)));
      of.insert(backend::as_text(columns.at(0)));
    }
    return of;
  };
  auto const told = ask(R"(["anchor","counted","no such","x","y","z"])");
  std::set<std::string> expected{"x", "y", "counted"};
  if (of_rows) expected.insert("anchor");
  CHECK(told == expected);
  CHECK(ask(R"(["y"])") == std::set<std::string>{"y"});
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
