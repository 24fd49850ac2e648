// PostgreSQL: several statements in one round trip.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <rowlock/postgresql.hpp>
#include <thread>

#include "backend/database.hpp"
#include "support/eventually.hpp"

namespace rowlock::test {
namespace {

using backend::as_int;
using backend::value;
using namespace std::chrono_literals;

/// A table of the case's own, and statements on it.
struct scene {
  std::unique_ptr<database> db = make_database(kind::postgresql);
  std::unique_ptr<backend::connection> c = db->connect();
  std::unique_ptr<backend::connection> other = db->connect();
  std::string table = db->tables().schema + ".t";
  backend::statement insert{"insert", "INSERT INTO " + table + " VALUES ($1::bigint)"};
  backend::statement count{"count", "SELECT count(*) FROM " + table};
  backend::statement fail{"fail", "SELECT (1 / $1::bigint)::bigint"};

  scene() {
    c->script("CREATE TABLE " + table + " (n bigint UNIQUE DEFERRABLE INITIALLY DEFERRED)", in(20'000));
  }
  std::vector<backend::result> run(std::vector<backend::step> const& steps) {
    return c->execute_at_once(steps, in(20'000));
  }
  std::int64_t seen_by(backend::connection& who) {
    return as_int(who.execute(count, {}, in(20'000)).rows.at(0).at(0));
  }
};

}  // namespace

TEST_CASE("postgresql: what is sent at once is one transaction, whose steps see those before them") {
  scene s;
  auto const one = with(std::int64_t{1});
  auto const two = with(std::int64_t{2});
  for (int round = 1; round <= 3; ++round) {
    auto const done = s.run({{s.insert, one}, {s.count, {}}, {s.insert, two}, {s.count, {}}});
    REQUIRE(done.size() == 4);
    CHECK(done[0].affected == 1);
    CHECK(as_int(done[1].rows.at(0).at(0)) == 1);
    CHECK(as_int(done[3].rows.at(0).at(0)) == 2);
    CHECK(s.seen_by(*s.other) == 2);
    s.c->script("DELETE FROM " + s.table, in(20'000));
    if (round == 1)
      s.c->script("DISCARD PLANS; DEALLOCATE ALL", in(20'000));  // what was prepared is forgotten
  }
}

TEST_CASE("postgresql: of what is sent at once nothing is done if a step fails, or the commit") {
  scene s;
  auto const one = with(std::int64_t{1});
  auto const zero = with(std::int64_t{0});
  auto const at_step = thrown_by([&] { s.run({{s.insert, one}, {s.fail, zero}, {s.insert, one}}); });
  CHECK(at_step.sqlstate() == "22012");
  CHECK(at_step.statement() == "fail");
  CHECK(s.seen_by(*s.c) == 0);  // in a transaction of its own: the failed one is gone
  auto const at_commit = thrown_by([&] { s.run({{s.insert, one}, {s.insert, one}}); });
  CHECK(at_commit.sqlstate() == "23505");
  CHECK(at_commit.reason() == errc::failed);
  CHECK(s.c->usable());
  CHECK(s.seen_by(*s.c) == 0);
  CHECK(s.run({{s.insert, one}}).front().affected == 1);
  CHECK(s.seen_by(*s.other) == 1);
}

TEST_CASE("postgresql: what was sent at once and lost its reply is in doubt, and may be done later") {
  scene s;
  auto const one = with(std::int64_t{1});
  s.run({{s.insert, one}});  // what is to be prepared is
  s.c->script("DELETE FROM " + s.table, in(20'000));
  s.other->script("BEGIN; LOCK TABLE " + s.table, in(20'000));
  backend::step const step{s.insert, one};
  auto const e = thrown_by([&] { s.c->execute_at_once(std::span(&step, 1), in(700)); });
  CHECK(e.reason() == errc::in_doubt);
  CHECK_FALSE(s.c->usable());
  s.other->script("COMMIT", in(20'000));
  // Done, or not: the server may notice first that the client has gone.
  CHECK(s.seen_by(*s.other) <= 1);
}

TEST_CASE("postgresql: what is sent one by one is committed one by one: one that waits has no other locked") {
  scene s;
  s.c->script("CREATE TABLE " + s.table + "2 (n bigint PRIMARY KEY)", in(20'000));
  backend::statement const insert{"insert_2", "INSERT INTO " + s.table + "2 VALUES ($1::bigint)"};
  backend::statement const count{"count_2", "SELECT count(*) FROM " + s.table + "2"};
  std::vector<std::vector<value>> numbers;
  for (std::int64_t n = 0; n < 5; ++n) numbers.push_back(with(n));
  auto const put = [&](std::size_t from, std::size_t to) {
    std::vector<backend::step> steps;
    for (auto i = from; i < to; ++i) steps.push_back({insert, numbers[i]});
    s.c->execute_each(steps, in(20'000));
  };
  auto const all = [&] { return as_int(s.other->execute(count, {}, in(20'000)).rows.at(0).at(0)); };
  put(0, 2);
  CHECK(all() == 2);
  s.c->script("DEALLOCATE ALL", in(20'000));  // what was prepared is forgotten
  put(2, 4);
  CHECK(all() == 4);
  s.other->script("DELETE FROM " + s.table + "2", in(20'000));
  s.other->script("BEGIN; INSERT INTO " + s.table + "2 VALUES (1)", in(20'000));
  auto const e = thrown_by([&] { put(0, 5); });
  CHECK(e.reason() == errc::row_locked);
  CHECK(e.statement() == "insert_2");
  CHECK(s.c->usable());
  CHECK(all() == 5);  // its own, and those before and behind the one that waited
  s.other->script("ROLLBACK", in(20'000));
  put(1, 2);
  CHECK(all() == 5);
  CHECK(thrown_by([&] { put(1, 2); }).sqlstate() == "23505");
  s.c->execute_each({}, in(20'000));
}

TEST_CASE("postgresql: what was sent one by one and lost its reply is in doubt") {
  scene s;
  auto const one = with(std::int64_t{1});
  auto const two = with(std::int64_t{2});
  std::vector<backend::step> const steps{{s.insert, one}, {s.insert, two}};
  s.c->execute_each(steps, in(20'000));
  s.c->script("DELETE FROM " + s.table, in(20'000));
  s.other->script("BEGIN; LOCK TABLE " + s.table, in(20'000));
  auto const e = thrown_by([&] { s.c->execute_each(steps, in(700)); });
  CHECK(e.reason() == errc::in_doubt);
  CHECK_FALSE(s.c->usable());
  s.other->script("COMMIT", in(20'000));
}

TEST_CASE("postgresql: what begins a wait for a row is prepared, and sets no more than it needs") {
  scene s;
  auto const setting = [&](std::string const& name) {
    return backend::as_text(
        s.c->execute({"setting", "SELECT current_setting($1)"}, with(name), in(20'000)).rows.at(0).at(0));
  };
  s.c->execute(s.insert, with(std::int64_t{1}), in(20'000));
  auto const text = "SELECT n FROM " + s.table + " WHERE n = $1::bigint FOR UPDATE";
  backend::statement const wait{"wait", text};
  backend::statement const look{"look", text + " SKIP LOCKED"};
  for (int round = 0; round < 3; ++round) {
    for (auto const* one : {&look, &wait}) {
      REQUIRE(s.c->wait_for_row(*one, with(std::int64_t{1}), in(60'000), 5s, {}).rows.size() == 1);
      CHECK((setting("lock_timeout") == "1s") == (one == &look));
      CHECK(setting("idle_in_transaction_session_timeout") == "30s");
      CHECK(setting("transaction_isolation") == "read committed");
      s.c->script("ROLLBACK", in(20'000));
      CHECK(setting("lock_timeout") == "1s");
    }
    backend::statement const begun{
        "begun", "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'BEGIN %'"};
    CHECK(as_int(s.c->execute(begun, {}, in(20'000)).rows.at(0).at(0)) == 1);
    if (round == 1) s.c->script("DEALLOCATE ALL", in(20'000));
  }
}

TEST_CASE("postgresql: a step that waits too long is a locked row, and the session goes on") {
  scene s;
  auto const one = with(std::int64_t{1});
  s.other->script("BEGIN; LOCK TABLE " + s.table, in(20'000));
  CHECK(thrown_by([&] { s.run({{s.insert, one}}); }).reason() == errc::row_locked);
  s.other->script("ROLLBACK", in(20'000));
  CHECK(s.run({{s.insert, one}}).front().affected == 1);
}

}  // namespace rowlock::test
