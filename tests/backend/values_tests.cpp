// What goes in comes out again.

#include <doctest/doctest.h>

#include <limits>

#include "backend/database.hpp"

namespace rowlock::test {
namespace {

using backend::as_int;
using backend::as_text;
using backend::is_null;
using backend::value;

char const* echo_sql(kind k) {
  if (is_mysql(k)) return "SELECT $1, $2, $3";
  return is_sqlite(k) ? "SELECT ?1, ?2, ?3" : "SELECT $1::bigint, $2::text, $3::text";
}

}  // namespace

TEST_CASE_TEMPLATE("values: integers up to the limits", On, ROWLOCK_BACKENDS) {
  auto const db = make_empty_database(On::kind);
  auto const c = db->connect();
  auto const echo = adhoc(*db, "echo", echo_sql(On::kind));
  for (auto number : {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(),
                      std::int64_t{-1}, std::int64_t{0}}) {
    auto const r = c->execute(echo, with(number, std::string(), nullptr), in(20'000));
    REQUIRE(r.rows.size() == 1);
    CHECK(as_int(r.rows[0][0]) == number);
    CHECK(as_text(r.rows[0][1]).empty());  // empty text is not null
    CHECK(is_null(r.rows[0][2]));
    CHECK(r.affected == 0);
  }
}

TEST_CASE_TEMPLATE("values: text that a careless driver would change", On, ROWLOCK_BACKENDS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  auto const book = db->book();
  auto const names = {"'",
                      "\"; DROP TABLE x; --",
                      "a\\b",
                      "$1 ?1 %s :a",
                      "\xF0\x9F\x94\x92",
                      "\xF0\x9F\x94\x93",
                      "job",
                      "job ",
                      "JOB",
                      "\n\t\r"};
  for (std::string const name : names) {
    auto const r = c->execute(book.at("lock_insert_free"), with(name, "lease"), in(20'000));
    CHECK(r.affected == 1);
  }
  auto const list = c->execute(book.at("lock_list"), list_parameters(), in(20'000));
  CHECK(list.rows.size() == names.size());
  for (std::string const name : names) {
    auto const r = c->execute(book.at("lock_read"), with(name), in(20'000));
    REQUIRE(r.rows.size() == 1);
    CHECK(as_text(r.rows[0][0]) == name);
  }
}

TEST_CASE_TEMPLATE("values: U+0000 is refused, not cut off there", On, ROWLOCK_BACKENDS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  auto const name = std::string("a\0b", 3);
  auto const e = thrown_by([&] { c->execute(db->book().at("lock_read"), with(name), in(20'000)); });
  CHECK(e.reason() == errc::invalid_argument);
  CHECK(c->usable());
}

TEST_CASE_TEMPLATE("values: booleans and computed integers are integers", On, ROWLOCK_BACKENDS) {
  auto const db = make_empty_database(On::kind);
  auto const c = db->connect();
  auto const r = c->execute(adhoc(*db, "facts", "SELECT 1 = 1, 1 = 2, 7 + 1, 'x'"), {}, in(20'000));
  REQUIRE(r.rows.size() == 1);
  CHECK(r.rows[0] == backend::row{std::int64_t{1}, std::int64_t{0}, std::int64_t{8}, std::string("x")});
}

TEST_CASE_TEMPLATE("affected rows: of changes, not of reads", On, ROWLOCK_BACKENDS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  for (std::string const name : {"a", "b", "c"})
    c->execute(db->book().at("lock_insert_free"), with(name, "lease"), in(20'000));
  auto const run = [&](char const* name, char const* sql) {
    return c->execute(adhoc(*db, name, sql), {}, in(20'000));
  };
  CHECK(run("u", "UPDATE rowlock_locks SET note = 'n' WHERE name < 'c'").affected == 2);
  CHECK(run("s", "SELECT name FROM rowlock_locks").affected == 0);
  CHECK(run("n", "UPDATE rowlock_locks SET note = 'n' WHERE name = 'z'").affected == 0);
  // Rows met, not rows changed.
  CHECK(run("u", "UPDATE rowlock_locks SET note = 'n' WHERE name < 'c'").affected == 2);
  if (is_mysql(On::kind)) {
    CHECK(run("d", "DELETE FROM rowlock_locks").affected == 3);
    return;
  }
  auto const deleted = run("d", "DELETE FROM rowlock_locks RETURNING name");
  CHECK(deleted.affected == 3);
  CHECK(deleted.rows.size() == 3);
}

}  // namespace rowlock::test
