// The SQL of all dialects, run on migrated databases.

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <rowlock/postgresql.hpp>
#include <set>
#include <string>
#include <string_view>

#include "backend/database.hpp"

namespace rowlock::test {
namespace {

using backend::as_int;
using backend::as_text;
using backend::is_null;
using backend::value;

// The statement's highest parameter number.
std::size_t parameter_count(std::string_view sql, char mark) {
  std::size_t highest = 0;
  for (auto at = sql.find(mark); at != sql.npos; at = sql.find(mark, at + 1)) {
    std::size_t number = 0;
    for (auto i = at + 1; i < sql.size() && sql[i] >= '0' && sql[i] <= '9'; ++i)
      number = number * 10 + static_cast<std::size_t>(sql[i] - '0');
    highest = std::max(highest, number);
  }
  return highest;
}

bool without_returning(std::string_view statement) {
  return statement == "token_read" || statement == "token_try" || statement == "guard_lock" ||
         statement.ends_with("_due") || statement.ends_with("_done") || statement.ends_with("_anchors");
}

}  // namespace

// NOTIFY takes a lock over the whole server at COMMIT.
TEST_CASE_TEMPLATE("D5, C40: no statement, no migration and no function notifies", On, ROWLOCK_BACKENDS) {
  auto const one = make_empty_database(On::kind);
  auto const notifies = [](std::string_view text) {
    std::string upper(text);
    std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
    return upper.find("NOTIFY") != upper.npos;
  };
  for (auto const& s : one->source().sql().statements) CHECK_FALSE_MESSAGE(notifies(s.text), s.name);
  for (auto const& m : one->source().sql().migrations) CHECK_FALSE_MESSAGE(notifies(m.up), m.name);
}

/// PostgreSQL's, which has all of them: also where there is no server of it.
backend::dialect const& reference() {
  static postgresql::source const nowhere("host=127.0.0.1");
  return nowhere.implementation()->sql();
}

TEST_CASE_TEMPLATE("all dialects have the same statements and migrations", On, ROWLOCK_BACKENDS) {
  auto const one = make_empty_database(On::kind);
  auto const mine = one->source().sql();
  auto const names = [](backend::dialect const& d) {
    std::set<std::string> out;
    for (auto const& s : d.statements)
      if (!s.name.starts_with("row_") &&      // only where there are row locks
          !s.name.starts_with("at_once_") &&  // only where a transaction can be sent in one piece
          !s.name.starts_with("file_") &&     // only where the database is a file
          !s.name.starts_with("pulse_") &&    // only where the database may forget grants
          !without_returning(s.name))         // only where UPDATE gives nothing back
        out.emplace(s.name);
    return out;
  };
  auto const versions = [](backend::dialect const& d) {
    std::set<std::string> out;
    for (auto const& m : d.migrations) out.insert(std::to_string(m.version) + " " + std::string(m.name));
    return out;
  };
  CHECK(names(mine) == names(reference()));
  CHECK(names(mine).count("lock_take") == 1);
  CHECK(versions(mine) == versions(reference()));
  CHECK(versions(mine).count("1 schema") == 1);
  for (auto const* of_quarantine : {"pulse_look", "pulse_begin", "pulse_reach", "pulse_raise", "pulse_tidy",
                                    "pulse_watch", "pulse_set_frozen", "pulse_set_enabled", "pulse_thaw",
                                    "pulse_freeze", "pulse_forget", "pulse_in_the_way"}) {
    if (!mine.pulse_tables.empty()) CHECK_NOTHROW(one->book().at(of_quarantine));
    if (mine.pulse_tables.empty()) CHECK_THROWS_AS(one->book().at(of_quarantine), error);
  }
  if (mine.remembers_pulse) CHECK_NOTHROW(one->book().at("pulse_here"));
  if (!mine.remembers_pulse) CHECK_THROWS_AS(one->book().at("pulse_here"), error);
  bool const returns = mine.returning;
  for (auto const* more : {"lock_renew_due", "token_read", "reap_locks_due", "reap_tokens_due"}) {
    if (returns) CHECK_THROWS_AS(one->book().at(more), error);
    if (!returns) CHECK_NOTHROW(one->book().at(more));
  }
}

TEST_CASE_TEMPLATE("the same statement takes the same number of parameters in all dialects", On,
                   ROWLOCK_BACKENDS) {
  auto const one = make_empty_database(On::kind);
  backend::statement_book const other(reference(), backend::table_names::of(reference(), "", "rowlock_"));
  for (auto const& s : one->source().sql().statements) {
    INFO(std::string(s.name));
    // What the reaper deletes was chosen by the statement before.
    if (without_returning(s.name) || s.name.starts_with("file_") || s.name == "pulse_here" ||
        (is_mysql(On::kind) && s.name.starts_with("reap_")))
      continue;
    CHECK(parameter_count(s.text, is_sqlite(On::kind) ? '?' : '$') ==
          parameter_count(other.at(s.name).sql, '$'));
  }
}

TEST_CASE_TEMPLATE("every statement runs on a migrated database", On, ROWLOCK_BACKENDS) {
  auto const db = make_database(On::kind);
  auto const book = db->book();
  char const mark = is_sqlite(On::kind) ? '?' : '$';
  for (auto const& s : db->source().sql().statements) {
    INFO(std::string(s.name));
    auto const& ready = book.at(s.name);
    auto const c = db->connect();  // each its own: some begin a transaction
    std::vector<value> const nulls(parameter_count(ready.sql, mark), nullptr);
    try {
      c->execute(ready, nulls, in(20'000));
    } catch (error const& e) {
      // Understood by the database, and refused for the value.
      bool const constraint = is_sqlite(On::kind)
                                  ? (e.native_code() & 0xff) == 19 || (e.native_code() & 0xff) == 20
                                  : e.sqlstate().substr(0, 2) == "23";
      // A guard in front of a COMMIT fails if it finds no row: that is what it is for.
      bool const guarded =
          (s.name == "at_once_guard" && e.sqlstate() == "22012") ||
          (s.name == "guard_elsewhere" && (e.sqlstate() == "22P02" || e.native_code() == 1242));
      CHECK_MESSAGE((constraint || guarded), std::string(e.what()));
    }
  }
  auto const c = db->connect();
  auto const free = with("n", "lease");
  CHECK(c->execute(book.at("lock_insert_free"), free, in(20'000)).affected == 1);
  // Where it has to "change" the row that it meets, not to fail on it, that counts.
  CHECK(c->execute(book.at("lock_insert_free"), free, in(20'000)).affected == (is_mysql(On::kind) ? 1 : 0));
}

TEST_CASE_TEMPLATE("migrations go down and up again", On, ROWLOCK_BACKENDS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  auto const& migrations = db->source().sql().migrations;
  for (auto m = migrations.rbegin(); m != migrations.rend(); ++m)
    c->script(db->tables().render(m->down), in(20'000));
  CHECK(thrown_by([&] { c->execute(db->book().at("meta_read"), {}, in(20'000)); }).reason() ==
        errc::schema_missing);
  db->migrate();
  CHECK(c->execute(db->book().at("meta_read"), {}, in(20'000)).rows.size() == 1);
}

TEST_CASE_TEMPLATE("lease: take, busy, renew, release by name and term", On, ROWLOCK_BACKENDS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  auto const book = db->book();
  auto const run = [&](char const* name, std::vector<value> const& p) {
    return c->execute(book.at(name), p, in(20'000));
  };
  auto const name = std::string("job");
  auto const token = [&] { return as_int(run("lock_read", {name}).rows.at(0).at(3)); };

  CHECK(run("lock_take", take_parameters(name, "t1")).affected == 0);  // no row yet
  run("lock_insert_free", {name, std::string("lease")});
  CHECK(run("lock_take", take_parameters(name, "t1")).affected == 1);
  auto const first = token();
  CHECK(first > 1'700'000'000'000'000);
  CHECK(run("lock_take", take_parameters(name, "t2")).affected == 0);  // held

  auto const read = run("lock_read", {name});
  REQUIRE(read.rows.size() == 1);
  auto const& row = read.rows[0];
  REQUIRE(row.size() == 17);
  CHECK(as_text(row[2]) == "t1");
  CHECK(as_int(row[12]) > 25'000);
  CHECK(as_int(row[12]) <= 30'000);
  CHECK(as_int(row[13]) == 0);
  CHECK(is_null(row[15]));

  std::string const mine = R"([{"name":"job","term":"t1"}])";
  std::string const other = R"([{"name":"job","term":"t2"}])";
  CHECK(run("lock_renew", {other}).affected == 0);
  CHECK(run("lock_check", {other}).rows.empty());
  REQUIRE(run("lock_renew", {mine}).affected == 1);
  CHECK(as_int(run("lock_read", {name}).rows[0][8]) == 1);
  CHECK(run("lock_check", {mine}).rows.size() == 1);

  CHECK(run("lock_release", {name, std::string("t2")}).affected == 0);
  CHECK(run("lock_release", {name, std::string("t1")}).affected == 1);
  CHECK(run("lock_release", {name, std::string("t1")}).affected == 0);
  CHECK(run("lock_take", take_parameters(name, "t3")).affected == 1);
  CHECK(token() > first);
}

TEST_CASE_TEMPLATE("lease: an expired term may be taken over, and can't be released by its former holder", On,
                   ROWLOCK_BACKENDS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  auto const book = db->book();
  auto const run = [&](char const* name, std::vector<value> const& p) {
    return c->execute(book.at(name), p, in(20'000));
  };
  std::string const name = "job";
  auto const token = [&] { return as_int(run("lock_read", {name}).rows.at(0).at(3)); };
  run("lock_insert_free", {name, std::string("lease")});
  REQUIRE(run("lock_take", take_parameters(name, "t1", 1)).affected == 1);
  auto const first = token();
  bool taken = false;
  for (auto const until = in(20'000); !taken && boot_clock::now() < until;)
    taken = run("lock_take", take_parameters(name, "t2")).affected == 1;
  CHECK(taken);
  CHECK(token() > first);
  CHECK(run("lock_release", {name, std::string("t1")}).affected == 0);
  CHECK(run("lock_renew", {std::string(R"([{"name":"job","term":"t1"}])")}).affected == 0);
}

}  // namespace rowlock::test
