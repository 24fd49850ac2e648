// A condition on a name and a term is on both: two names may have rows with the same term (somebody has
// copied a row), and a name may have several permits. Others' rows stay as they are, and nobody waits for
// them.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "contract/conditions.hpp"
#include "contract/open_transaction.hpp"
#include "contract/waits.hpp"
#include "strategy/tokens.hpp"
#include "support/incarnation.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// A statement that is about one row.
struct asked {
  std::string statement;
  std::vector<backend::value> with;
  std::string strategy = "lease";
};

std::string list_of(std::string const& name, std::string const& term) {
  return R"([{"name":")" + name + R"(","term":")" + term + R"("}])";
}

/// Of locks: those that name a name and a term.
std::vector<asked> about(fixture& f, std::string const& name, std::string const& term) {
  using backend::value;
  std::int64_t const minute = 60'000;
  std::vector<value> const both{name, term};
  auto const with = [&](std::vector<value> more) {
    more.insert(more.begin(), both.begin(), both.end());
    return more;
  };
  std::vector<value> const list{list_of(name, term)};
  std::vector<asked> all{{"lock_extend", with({minute})},
                         {"lock_set_note", with({text("n")})},
                         {"lock_idle", both},
                         {"lock_renew", list},
                         {"lock_check", list},
                         {"lock_release", both},
                         {"lock_release_at_least", with({minute, text("new")})},
                         {"guard_require", both},
                         {"guard_record", with({text("new"), minute, text("r"), microseconds_now()}), "once"},
                         {"once_record", with({text("new"), minute, text("r")}), "once"},
                         {"once_keep", both, "once"},
                         {"unique_set_token", with({std::int64_t{9}}), "unique_insert"},
                         {"unique_release", both, "unique_insert"},
                         {"unique_release_at_least", with({minute, text("new")}), "unique_insert"},
                         {"quorum_confirm", with({std::int64_t{9}, text("e"), minute}), "quorum"}};
  if (dialect_of(f) == dialect::mysql) {
    all.push_back({"lock_renew_due", list});
    all.push_back({"guard_lock", both});
    all.push_back({"all_take_done", list});
  }
  return all;
}

/// Rows of "x" and "y" with the term "t", of "z" with the term "u".
struct copied_rows {
  explicit copied_rows(fixture& fixture) : f(fixture), s(f) {
    f.sql("UPDATE rowlock_quorum SET quorum_id = 'q', epoch = 1, epoch_id = 'e', votes = " + yes(f));
  }
  void again(std::string const& strategy) {
    auto const row = [&](std::string const& name, std::string const& term) {
      return "('" + name + "', '" + strategy + "', '" + term + "', 5, 30000, 7, 'as it was', " + in_ms(f, 0) +
             ", " + in_ms(f, 30'000) + ")";
    };
    f.sql(
        "DELETE FROM rowlock_locks; INSERT INTO rowlock_locks (name, strategy, term, token, ttl, renewals, "
        "note, "
        "acquired_at, expires_at) VALUES " +
        row("x", "t") + ", " + row("y", "t") + ", " + row("z", "u"));
  }
  /// How many of those rows are as they were.
  std::int64_t unchanged(std::string const& which = "1 = 1") {
    return rows(
        f, which +
               " AND token = 5 AND renewals = 7 AND note = 'as it was' AND NOT revoked AND ttl = 30000 AND "
               "term = CASE name WHEN 'z' THEN 'u' ELSE 't' END AND expires_at > " +
               in_ms(f, 10'000) + " AND expires_at < " + in_ms(f, 40'000));
  }
  /// @return how many were given back
  std::int64_t gives_back(std::string const& name, std::string const& term) {
    return s.meets("all_release", {list_of(name, term)});
  }

  fixture& f;
  statements s;
};

}  // namespace

STATEMENT_CASE(
    "lock_extend, lock_set_note, lock_idle, lock_renew, lock_check, lock_release, lock_release_at_least, "
    "guard_require, guard_record, once_record, once_keep, unique_set_token, unique_release, "
    "unique_release_at_least, quorum_confirm, guard_lock, all_release, all_take_done, all_read: the same "
    "term "
    "at another name is another's") {
  copied_rows c(f);
  for (auto const& a : about(f, "x", "t")) {
    CAPTURE(a.statement);
    c.again(a.strategy);
    CHECK(c.s.meets(a.statement, a.with) == 1);
    CHECK(c.unchanged("name <> 'x'") == 2);
  }
  for (auto const& a : about(f, "y", "u")) {  // which is z's
    CAPTURE(a.statement);
    c.again(a.strategy);
    CHECK(c.s.meets(a.statement, a.with) == 0);
    CHECK(c.unchanged() == 3);
  }
  c.again("lease");
  CHECK(c.gives_back("y", "u") == 0);
  CHECK(c.unchanged() == 3);
  CHECK(c.gives_back("x", "t") == 1);
  CHECK(rows(f, "name = 'x' AND term IS NULL") == 1);
  CHECK(c.unchanged("name <> 'x'") == 2);
  CHECK(c.s.meets("all_read", {text(R"([{"name":"x"},{"name":"none"}])")}) == 1);
}

// Without the name each would look at all rows, and wait for whoever has one of them locked.
PAIRS_CASE(
    "lock_extend, lock_set_note, lock_idle, lock_renew, lock_check, lock_release, lock_release_at_least, "
    "guard_require, guard_record, once_record, once_keep, unique_set_token, unique_release, "
    "unique_release_at_least, quorum_confirm, guard_lock, all_release: others' rows are not waited for",
    direct_leases_on_servers) {
  copied_rows c(f);
  for (auto const& a : about(f, "x", "t")) {
    CAPTURE(a.statement);
    c.again(a.strategy);
    open_transaction others(f);
    others.run("UPDATE rowlock_locks SET note = 'theirs' WHERE name <> 'x'");
    CHECK(c.s.meets(a.statement, a.with) == 1);
  }
  c.again("lease");
  open_transaction others(f);
  others.run("UPDATE rowlock_locks SET note = 'theirs' WHERE name <> 'x'");
  CHECK(c.gives_back("x", "t") == 1);
}

// A hand that deletes the row that keeps the name makes room for one: the next INSERT of the name meets no
// other row. The statements of unique_insert give back what that INSERT has put there. The lock above stays.
PAIRS_CASE("C92: no statement of a holder meets a term below the highest generation", leases_of_postgresql) {
  copied_rows c(f);
  std::set<std::string> const of_inserts{"once_keep", "unique_set_token", "unique_release",
                                         "unique_release_at_least"};
  auto all = about(f, "x", "t");
  all.push_back({"all_release", {list_of("x", "t")}});
  all.push_back({"at_once_guard", {text("x"), text("t")}});
  auto const meets = [&](asked const& a) {
    try {
      return c.s.meets(a.statement, a.with) == 1;
    } catch (error const& e) {
      CHECK(a.statement == "at_once_guard");
      CHECK(e.sqlstate() == "22012");
      return false;
    }
  };
  for (auto const& a : all) {
    CAPTURE(a.statement);
    c.again(a.strategy);
    CHECK(meets(a));
    c.again(a.strategy);
    f.sql("INSERT INTO rowlock_locks (name, generation, strategy, term, token, renewals, note, expires_at) " +
          ("VALUES ('x', 2, 'lease', 'above', 8, 7, 'above', " + in_ms(f, 30'000)) + ")");
    CHECK(meets(a) == of_inserts.contains(a.statement));
    CHECK(rows(f, "generation = 2 AND term = 'above' AND token = 8 AND renewals = 7 AND note = 'above'") ==
          1);
    if (!of_inserts.contains(a.statement)) CHECK(c.unchanged("generation = 0") == 3);
  }
}

// Who has the name by now goes on, whatever becomes of a transaction that asked for the former term. (InnoDB
// keeps locks on rows that it has looked at by their whole key.)
PAIRS_CASE("guard_require, guard_record: a term that is gone locks nobody's row", leases_of_postgresql) {
  copied_rows c(f);
  statements program(f);
  for (auto const& a : about(f, "x", "gone")) {
    if (!a.statement.starts_with("guard_")) continue;
    CAPTURE(a.statement);
    c.again(a.strategy);
    program.session->script(begin_of(f), statements::soon());
    CHECK(program.meets(a.statement, a.with) == 0);
    CHECK(c.s.meets("lock_idle", {text("x"), text("t")}) == 1);
    program.session->script("ROLLBACK", statements::soon());
  }
}

STATEMENT_CASE("guard_look: another term of the name is not told") {
  copied_rows c(f);
  c.again("lease");
  CHECK(backend::is_null(c.s.run("guard_look", {text("x"), text("gone")}).rows.at(0).at(0)));
  CHECK(c.s.run("guard_look", {text("x"), text("t")}).rows.at(0).at(0) == text("t"));
}

// There a plain read locks what it reads until the program's transaction ends.
PAIRS_CASE("guard_lock: in a transaction that is SERIALIZABLE it reads no other row", leases_of_mysql) {
  copied_rows c(f);
  c.again("lease");
  statements program(f);
  program.session->script("SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", statements::soon());
  {
    open_transaction others(f);
    others.run("UPDATE rowlock_locks SET note = 'theirs' WHERE name <> 'x'");
    program.session->script(begin_of(f), statements::soon());
    CHECK(program.meets("guard_lock", {text("x"), text("t")}) == 1);  // it waits for nobody
    program.session->script("ROLLBACK", statements::soon());
  }
  program.session->script(begin_of(f), statements::soon());
  CHECK(program.meets("guard_lock", {text("x"), text("t")}) == 1);
  CHECK(c.s.meets("lock_extend", {text("y"), text("t"), std::int64_t{60'000}}) == 1);  // and nobody for it
  CHECK(c.s.meets("lock_extend", {text("z"), text("u"), std::int64_t{60'000}}) == 1);
}

namespace {

/// Permits of "x" and of "y" with the terms "t" and "v", and of "y" alone with the term "w"; and their
/// anchors.
struct copied_permits {
  explicit copied_permits(fixture& fixture) : f(fixture), s(f) { again(); }
  void again(std::int64_t ends = 30'000) {
    std::string all = "DELETE FROM rowlock_permits; DELETE FROM rowlock_locks";
    for (std::string const name : {"x", "y"})
      all += "; INSERT INTO rowlock_locks (name, strategy, token, expires_at, permit_limit) VALUES ('" +
             name + "', 'semaphore', 5, " + in_ms(f, 0) + ", 10)";
    for (auto const& [name, term] : {std::pair("x", "t"), std::pair("x", "v"), std::pair("y", "t"),
                                     std::pair("y", "v"), std::pair("y", "w")})
      all +=
          std::string(
              "; INSERT INTO rowlock_permits (name, strategy, term, token, ttl, renewals, note, acquired_at, "
              "expires_at, units, told) VALUES ('") +
          name + "', 'semaphore', '" + term + "', 3, 30000, 7, 'as it was', " + in_ms(f, 0) + ", " +
          in_ms(f, ends) + ", 1, 10)";
    f.sql(all);
  }
  /// How many of the five are as they were.
  std::int64_t unchanged() {
    return number(f,
                  "SELECT count(*) FROM rowlock_permits WHERE token = 3 AND renewals = 7 AND note = "
                  "'as it was' AND NOT revoked AND ttl = 30000 AND expires_at < " +
                      in_ms(f, 40'000));
  }
  std::int64_t there(std::string const& condition) {
    return number(f, "SELECT count(*) FROM rowlock_permits WHERE " + condition);
  }

  fixture& f;
  statements s;
};

std::vector<asked> about_permits(fixture& f) {
  std::int64_t const minute = 60'000;
  std::vector<backend::value> const both{text("x"), text("t")};
  std::vector<backend::value> const list{list_of("x", "t")};
  std::vector<asked> all{{"permits_lock_extend", {text("x"), text("t"), minute}},
                         {"permits_lock_set_note", {text("x"), text("t"), text("n")}},
                         {"permits_lock_idle", both},
                         {"permits_lock_renew", list},
                         {"permits_lock_check", list},
                         {"permits_guard_require", both},
                         {"permits_guard_look", both},
                         {"permit_token", both},
                         {"permit_release", both},
                         {"permit_release_at_least", {text("x"), text("t"), minute, text("new")}}};
  if (dialect_of(f) == dialect::mysql) {
    all.push_back({"permits_lock_renew_due", list});
    all.push_back({"permits_guard_lock", both});
  }
  return all;
}

bool only_looks(fixture const& f, std::string const& statement) {
  static std::set<std::string> const all{"permits_lock_idle", "permits_lock_check",     "permits_guard_look",
                                         "permit_token",      "permits_lock_renew_due", "permits_guard_lock"};
  // PostgreSQL's guard locks the row, and does not write it.
  bool const guard = statement == "permits_guard_require" && dialect_of(f) == dialect::postgresql;
  return guard || all.contains(statement);
}

}  // namespace

STATEMENT_CASE(
    "lock_extend, lock_set_note, lock_idle, lock_renew, lock_check, guard_require, guard_look, guard_lock, "
    "permit_token, permit_release, permit_release_at_least: of one permit, not of the name's others, nor of "
    "another name's") {
  copied_permits p(f);
  for (auto const& a : about_permits(f)) {
    CAPTURE(a.statement);
    p.again();
    CHECK(p.s.meets(a.statement, a.with) == 1);
    CHECK(p.unchanged() == (only_looks(f, a.statement) ? 5 : 4));
  }
  p.again();
  CHECK(p.s.run("permits_guard_look", {text("x"), text("t")}).rows.at(0).at(0) == text("t"));
  CHECK(backend::is_null(p.s.run("permits_guard_look", {text("x"), text("w")}).rows.at(0).at(0)));
  // Two that guard permits of one name don't meet. [C49]
  if (!on_a_server(pair)) return;
  statements program(f);
  for (auto const& a : about_permits(f)) {
    CAPTURE(a.statement);
    p.again();
    program.session->script(begin_of(f), statements::soon());
    CHECK(program.meets(a.statement, a.with) == 1);
    CHECK(p.s.meets("permits_lock_idle", {text("x"), text("v")}) == 1);
    CHECK(p.s.meets("permits_lock_idle", {text("y"), text("t")}) == 1);
    program.session->script("ROLLBACK", statements::soon());
    open_transaction others(f);
    others.run("UPDATE rowlock_permits SET note = 'theirs' WHERE name = 'y' OR term = 'v'");
    CHECK(p.s.meets(a.statement, a.with) == 1);
  }
}

STATEMENT_CASE("permit_count, permit_replaced: of the name's own permit; the anchor's token never falls") {
  copied_permits p(f);
  auto const anchors = [&](std::string const& condition) { return rows(f, condition); };
  // "w" is y's alone.
  f.sql("UPDATE rowlock_permits SET token = 9 WHERE term = 'w'");
  CHECK(p.s.meets("permit_count", {text("x"), text("w"), text("mine")}) == 0);
  CHECK(anchors("token = 5") == 2);
  CHECK(p.s.meets("permit_count", {text("x"), text("t"), text("mine")}) == 1);
  CHECK(anchors("token = 5") == 2);  // the permit's is 3
  f.sql("UPDATE rowlock_permits SET token = 8 WHERE term = 't'");
  CHECK(p.s.meets("permit_count", {text("x"), text("t"), text("mine")}) == 1);
  CHECK(anchors("name = 'x' AND token = 8") == 1);
  CHECK(anchors("name = 'y' AND token = 5") == 1);

  p.again();
  CHECK(p.s.meets("permit_replaced", {text("x"), text("w"), text("v")}) == 0);
  CHECK(p.unchanged() == 5);
  CHECK(p.s.meets("permit_replaced", {text("x"), text("t"), text("w")}) == 0);
  CHECK(p.unchanged() == 5);
  CHECK(p.s.meets("permit_replaced", {text("x"), text("t"), text("v")}) == 1);
  CHECK(p.unchanged() == 4);
  CHECK(p.there("name = 'x' AND term = 'v'") == 0);
  if (!on_a_server(pair)) return;
  p.again();
  open_transaction others(f);
  others.run("UPDATE rowlock_permits SET note = 'theirs' WHERE name = 'y'");
  CHECK(p.s.meets("permit_count", {text("x"), text("t"), text("mine")}) == 1);
  CHECK(p.s.meets("permit_replaced", {text("x"), text("t"), text("v")}) == 1);
}

STATEMENT_CASE("permit_purge: the one that is named, and not what else has expired") {
  copied_permits p(f);
  auto const purges = [&](std::string const& name, std::string const& term) {
    std::vector<strategies::name_and_term> const one{{name, {term}}};
    return strategies::permits::purge(*p.s.session, p.s.book, one, statements::soon());
  };
  p.again(-500);
  CHECK(purges("x", "w") == 0);
  CHECK(p.unchanged() == 5);
  CHECK(purges("x", "t") == 1);
  CHECK(p.unchanged() == 4);
  CHECK(p.there("name = 'x' AND term = 't'") == 0);
  if (!on_a_server(pair)) return;
  // Nobody is waited for; nor is that one left out because another one is locked.
  p.again(-500);
  {
    open_transaction others(f);
    others.run("UPDATE rowlock_permits SET note = 'theirs' WHERE name = 'y' OR term = 'v'");
    CHECK(purges("x", "t") == 1);
  }
  p.again(-500);
  open_transaction its(f);
  its.run("UPDATE rowlock_permits SET note = 'guarded' WHERE name = 'x' AND term = 't'");
  CHECK(purges("x", "t") == 0);  // the same term of y's does not count
}

// It says that a name's token is not lifted by the floor, but that of a fresh one: a clock that was wrong
// when one name's token was drawn lifts no others for longer than that.
STATEMENT_CASE("lock_take, all_take, permit_take, quorum_take: the floor lifts tokens of fresh names alone") {
  statements s(f);
  f.sql("UPDATE rowlock_quorum SET quorum_id = 'q', epoch = 1, epoch_id = 'e', votes = " + yes(f));
  f.sql("UPDATE rowlock_meta SET token_floor = 8000000000000000");
  std::int64_t const one = 1;
  std::int64_t const lives = 30'000;
  auto const takes = [&](std::string const& statement) {
    f.sql("DELETE FROM rowlock_locks");
    f.sql("DELETE FROM rowlock_permits");
    put_name(f, "x",
             statement == "permit_take"   ? "semaphore"
             : statement == "quorum_take" ? "quorum"
                                          : "lease");
    std::vector<backend::value> const rest{text("elsewhere"), one,     text("process"), one, lives,
                                           text("clock"),     nullptr, text("")};
    std::vector<backend::value> with{text("x"), text("lease"), text("new")};
    if (statement == "all_take") with = {text(R"([{"name":"x","term":"new"}])"), text("lease")};
    if (statement == "permit_take") with[1] = text("semaphore");
    if (statement == "quorum_take") with[1] = text("quorum");
    with.insert(with.end(), rest.begin(), rest.end());
    if (statement == "all_take" || statement == "lock_take") with.emplace_back(one);
    if (statement == "all_take") with.emplace_back(one);
    if (statement == "lock_take")
      with.insert(with.end(),
                  {backend::value(nullptr), backend::value(nullptr), backend::value(std::int64_t{0})});
    if (statement == "permit_take")
      with.insert(with.end(), {backend::value(one), backend::value(one), backend::value(nullptr),
                               backend::value(nullptr)});
    if (statement == "quorum_take")
      with.insert(with.end(),
                  {backend::value(nullptr), backend::value(nullptr), text("e"), backend::value(nullptr),
                   backend::value(nullptr), backend::value(std::int64_t{0})});
    s.session->script(begin_of(f), statements::soon());
    if (statement == "permit_take") s.run("permit_anchor", {text("x"), text("semaphore"), text("new")});
    s.run(statement, with);
    s.session->script("COMMIT", statements::soon());
    return number(f, statement == "permit_take" ? "SELECT token FROM rowlock_permits"
                                                : "SELECT token FROM rowlock_locks WHERE term = 'new'");
  };
  for (std::string const each : {"lock_take", "all_take", "permit_take", "quorum_take"}) {
    CAPTURE(each);
    auto const token = takes(each);
    CHECK(token > microseconds_now() - 60'000'000);
    CHECK(token < microseconds_now() + 60'000'000);
  }
  if (dialect_of(f) == dialect::sqlite) return;
  // All are above the base of the incarnation, and without a pulse none is granted.
  bool const mysql = dialect_of(f) == dialect::mysql;
  std::string const stays = mysql ? "" : ", made_by = pg_current_xact_id()::xid";
  f.sql("UPDATE rowlock_pulse SET base = 7000000000000000" + stays);
  learn_incarnation(*s.session, s.book);
  for (std::string const each : {"lock_take", "all_take", "permit_take", "quorum_take"}) {
    CAPTURE(each);
    CHECK(takes(each) == 7'000'000'000'000'001);
  }
  s.run("token_insert", {text("x")});
  f.sql("UPDATE rowlock_meta SET token_floor = 0");
  s.run("token_draw", {text("x")});
  CHECK(number(f, "SELECT max(token) FROM rowlock_tokens") == 7'000'000'000'000'001);
  f.sql(mysql ? "UPDATE rowlock_pulse SET made_by = made_by + 1" : "DELETE FROM rowlock_pulse");
  for (std::string const each : {"lock_take", "all_take", "permit_take", "quorum_take"}) {
    CAPTURE(each);
    CHECK_THROWS_AS(takes(each), error);
  }
}

// Where several statements go together each must be right by itself. What expires at the very moment at which
// the first one looked has expired for the second one, too: otherwise it would take all but that one.
PAIRS_CASE("all_take, permit_purge: what expires at the moment of the look has expired", leases_of_mysql) {
  statements s(f);
  put_name(f, "x", "lease");
  put_name(f, "y", "lease");
  std::string const moment = "'2026-01-02 03:04:05.678901'";
  f.sql("UPDATE rowlock_locks SET term = 'former', expires_at = " + moment);
  s.session->script(
      "SET @rowlock_grants = 0, @rowlock_due = 3, @rowlock_at = CAST(" + moment + " AS DATETIME(6))",
      statements::soon());
  std::int64_t const one = 1;
  s.run("all_take",
        {text(R"([{"name":"x","term":"a"},{"name":"y","term":"b"}])"), text("lease"), text("elsewhere"), one,
         text("process"), one, std::int64_t{30'000}, text("clock"), nullptr, text(""), one, std::int64_t{2}});
  CHECK(rows(f, "term IN ('a', 'b')") == 2);
  f.sql("UPDATE rowlock_locks SET term = NULL");
  f.sql(permit_of_somebody(f, 1, 10, strategy::semaphore));
  f.sql("UPDATE rowlock_permits SET expires_at = " + moment);
  s.session->script("SET @rowlock_due = 1, @rowlock_at = CAST(" + moment + " AS DATETIME(6))",
                    statements::soon());
  s.run("permit_purge", {text(R"([{"name":"x","term":"theirs"}])")});
  CHECK(permits_there(f) == 0);
}

PAIRS_CASE("permit_anchor, permit_take: a name that is used with another strategy has no anchor",
           leases_of_mysql) {
  statements s(f);
  put_name(f, "x", "lease");
  auto const anchor = [&] {
    return s.session->execute({"anchor", "SELECT coalesce(@rowlock_anchor, '')"}, {}, statements::soon())
        .rows.at(0)
        .at(0);
  };
  s.run("permit_anchor", {text("x"), text("semaphore"), text("new")});
  CHECK(anchor() == text(""));
  s.session->script("SET @rowlock_anchor = 'new'", statements::soon());
  std::int64_t const one = 1;
  s.run("permit_take",
        {text("x"), text("semaphore"), text("new"), text("elsewhere"), one, text("process"), one,
         std::int64_t{30'000}, text("clock"), nullptr, text(""), one, one, nullptr, nullptr});
  CHECK(permits_there(f) == 0);
  f.sql("UPDATE rowlock_locks SET strategy = 'semaphore'");
  s.run("permit_anchor", {text("x"), text("semaphore"), text("new")});
  CHECK(anchor() == text("new"));
}

// The look-up depends on the row that is changed: so it comes behind the wait for it. (The servers may do
// what depends on nothing before.)
PAIRS_CASE("lock_take, token_draw, quorum_take: the floor is looked up behind the wait for the row [B4]",
           leases_of_mysql) {
  statements s(f);
  f.sql("UPDATE rowlock_quorum SET quorum_id = 'q', epoch = 1, epoch_id = 'e', votes = 1");
  std::int64_t const one = 1;
  auto const token_behind = [&](std::string const& table, std::string const& statement,
                                std::vector<backend::value> const& with) {
    f.sql("UPDATE rowlock_meta SET token_floor = 0");
    open_transaction others(f);
    others.run("UPDATE " + table + " SET token = 0 WHERE name = 'x'");
    while_it_waits(
        f, *s.session, [&] { s.run(statement, with); },
        [&] {
          f.sql("UPDATE rowlock_meta SET token_floor = 8000000000000000");
          others.commit();
        });
    return number(f, "SELECT token FROM " + table + " WHERE name = 'x'");
  };
  std::vector<backend::value> with{text("x"),     text("lease"),   text("new"), text("elsewhere"),
                                   one,           text("process"), one,         std::int64_t{30'000},
                                   text("clock"), nullptr,         text("")};
  put_name(f, "x", "lease");
  auto lease = with;
  lease.insert(lease.end(), {backend::value(one), backend::value(nullptr), backend::value(nullptr),
                             backend::value(std::int64_t{0})});
  CHECK(token_behind("rowlock_locks", "lock_take", lease) == 8'000'000'000'000'001);
  // As if the reaper had deleted the row meanwhile, and another session had put a fresh one.
  f.sql("UPDATE rowlock_locks SET token = 5, term = NULL");
  CHECK(token_behind("rowlock_locks", "lock_next_take", lease) == 0);
  f.sql("UPDATE rowlock_locks SET strategy = 'quorum', term = NULL");
  with[1] = text("quorum");
  with.insert(with.end(),
              {backend::value(nullptr), backend::value(nullptr), text("e"), backend::value(nullptr),
               backend::value(nullptr), backend::value(std::int64_t{0})});
  CHECK(token_behind("rowlock_locks", "quorum_take", with) == 8'000'000'000'000'001);
  f.sql("INSERT INTO rowlock_tokens (name, token) VALUES ('x', 5)");
  CHECK(token_behind("rowlock_tokens", "token_draw", {text("x")}) == 8'000'000'000'000'001);
}

PAIRS_CASE("lock_locked_by: whoever has the row of that name locked, and nobody else",
           direct_leases_on_servers) {
  put_name(f, "x", "lease");
  put_name(f, "y", "lease");
  statements s(f);
  auto const sessions = [&](std::string const& name) {
    return s.meets("lock_locked_by", {text("[\"" + name + "\"]")});
  };
  {
    open_transaction other(f);
    other.run("SELECT 1 FROM rowlock_locks WHERE name = 'x' FOR UPDATE");
    // MariaDB tells it only while a third session waits for the row.
    auto const told = std::string(pair.backend) == "mariadb" ? 0 : 1;
    CHECK(sessions("x") == told);
    CHECK(sessions("y") == 0);
    CHECK(s.meets("lock_locked_by", {text(R"(["a","x","y"])")}) == told);
    other.commit();
  }
  CHECK(sessions("x") == 0);
}
