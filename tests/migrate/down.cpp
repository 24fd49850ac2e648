// Going down: each step, refusal while locks are held, and tokens that go on rising.

#include "base/hand_on.hpp"
#include "database.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

using backend::value;

// What a manager does for a name that has no row, in a database that has granted nothing yet; returns the
// token.
std::int64_t take(database const& db, std::string const& name) {
  auto const& dialect = db.source().implementation()->sql();
  backend::statement_book const book(dialect, backend::table_names::of(dialect, "", "rowlock_"));
  auto const c = db.connect();
  settle_for_takes(*c, book);
  c->execute(book.at("lock_insert_free"), std::vector<value>{name, "lease"}, soon());
  REQUIRE(c->execute(book.at("lock_take"), take_parameters(name), soon()).affected == 1);
  return backend::as_int(c->execute(book.at("lock_read"), std::vector<value>{name}, soon()).rows.at(0).at(3));
}

}  // namespace

TEST_CASE_TEMPLATE("down and up again, step by step and at once", DB, ROWLOCK_DATABASES) {
  DB db;
  migrator m(db.source());
  m.up();
  CHECK(m.down(toy_version).empty());
  CHECK(m.down(shipped_version) == versions{toy_version});
  CHECK_FALSE(m.status()[2].applied);
  CHECK(m.status()[1].applied);
  CHECK(m.down(1) == versions{2});
  CHECK_FALSE(m.status()[1].applied);
  CHECK(m.status()[0].applied);
  CHECK(m.down(0) == versions{1});
  CHECK(catch_error([&] { m.validate(); }).reason == errc::schema_missing);
  CHECK(m.up(1) == versions{1});
  CHECK(m.up(2) == versions{2});
  CHECK(m.up(toy_version) == versions{toy_version});
  CHECK(m.validate().empty());
  CHECK(m.down(0) == every_down);
  CHECK(m.up() == every_up);
  CHECK(m.validate().empty());
}

// Nobody can make the tables again, and take the name, before no thread can go on with the term that was
// there.
TEST_CASE_TEMPLATE("C62: down to nothing, while a lock is held, takes as long as a term may be handed on", DB,
                   ROWLOCK_DATABASES) {
  DB db;
  migrator m(db.source());
  m.up();
  (void)take(db, "x");
  CHECK(m.down(1, true).size() == 2);
  auto const start = boot_clock::now();
  CHECK(m.down(0, true, true) == versions{1});
  CHECK(boot_clock::now() - start >= base::closed_for);
}

TEST_CASE_TEMPLATE("down is refused while locks are held, names them, and --force goes on", DB,
                   ROWLOCK_DATABASES) {
  DB db;
  migrator m(db.source());
  m.up();
  db.hold("over", true);
  for (auto const* name : {"a1", "a2", "a3", "a4"}) db.hold(name);
  for (int const target : {0, 1, shipped_version}) {
    auto const e = catch_error([&] { m.down(target); });
    CHECK(e.reason == errc::row_locked);
    CHECK(e.mentions("'a1', 'a2', 'a3' and more"));
    CHECK(e.mentions("--force"));
  }
  CHECK(m.validate().empty());
  db.script("UPDATE rowlock_locks SET term = NULL WHERE name <> 'a4'");
  CHECK(catch_error([&] { m.down(1); }).mentions("locks are held: 'a4';"));
  CHECK(m.down(1, true) == versions{toy_version, 2});
  CHECK(number(db, "SELECT count(*) FROM rowlock_locks") == 5);
  CHECK(m.down(0, true, true) == versions{1});
}

TEST_CASE_TEMPLATE("expired and free rows do not keep down from going", DB, ROWLOCK_DATABASES) {
  DB db;
  migrator m(db.source());
  m.up();
  db.hold("over", true);
  db.hold("free");
  db.script("UPDATE rowlock_locks SET term = NULL WHERE name = 'free'");
  CHECK(m.down(0, false, true) == every_down);
}

TEST_CASE_TEMPLATE("C6: what would forget the tokens is refused, says which, and wants to be told", DB,
                   ROWLOCK_DATABASES) {
  DB db;
  migrator m(db.source());
  m.up();
  constexpr std::int64_t far = 9'000'000'000'000'000;  // as if the clock were far behind
  auto const known = std::to_string(far);
  SUBCASE("a token in a lock's row") {
    db.hold("n", true);
    db.script("UPDATE rowlock_locks SET term = NULL, token = " + known);
  }
  SUBCASE("the floor") { db.script("UPDATE rowlock_meta SET token_floor = " + known); }
  SUBCASE("the tokens' table") {
    db.script("INSERT INTO rowlock_tokens (name, token) VALUES ('n', " + known + ")");
  }
  for (bool const force : {false, true}) {
    auto const e = catch_error([&] { m.down(0, force); });
    CHECK(e.reason == errc::invalid_argument);
    CHECK(e.mentions("--forget-tokens"));
    CHECK(e.mentions("up to " + known));
    CHECK(m.validate().empty());  // not a step was made
  }
  CHECK(m.down(1) == versions{toy_version, 2});
  CHECK(catch_error([&] { m.down(0); }).mentions("up to " + known));
  CHECK(m.up() == versions{2, toy_version});
  CHECK(take(db, "n") > far);
  db.script("UPDATE rowlock_locks SET term = NULL");
  CHECK(m.down(0, false, true) == every_down);
}

TEST_CASE_TEMPLATE("C6: what would forget which tokens were admitted is refused, and wants to be told", DB,
                   ROWLOCK_DATABASES) {
  DB db;
  migrator m(db.source());
  m.up();
  db.script("INSERT INTO rowlock_admitted (name, token) VALUES ('a', 41), ('b', 42)");
  for (bool const force : {false, true}) {
    auto const e = catch_error([&] { m.down(0, force); });
    CHECK(e.reason == errc::invalid_argument);
    CHECK(e.mentions("--forget-tokens"));
    CHECK(e.mentions("up to 42"));
    CHECK(m.validate().empty());  // not a step was made
  }
  CHECK(m.down(1) == versions{toy_version, 2});
  CHECK(number(db, "SELECT count(*) FROM rowlock_admitted") == 2);
  CHECK(m.down(0, false, true) == versions{1});
  CHECK(m.up() == every_up);
  CHECK(m.down(0) == every_down);
}
