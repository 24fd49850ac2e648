// Row locks of MySQL and MariaDB, and statements that meet them.

#include <cppconn/connection.h>
#include <cppconn/exception.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <mysql_driver.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <fstream>
#include <rowlock/lock_manager.hpp>
#include <rowlock/mysql.hpp>
#include <thread>

#include "backend/child.hpp"
#include "backend/database.hpp"
#include "backend/mysql/errors.hpp"
#include "backend/mysql/parameters.hpp"
#include "backend/mysql_tools.hpp"
#include "support/eventually.hpp"
#include "support/innodb.hpp"

namespace rowlock::test {

using backend::as_int;
using backend::as_text;
using backend::value;
using namespace std::chrono_literals;

TEST_CASE_TEMPLATE("connector: wait_for_row waits in the server, and leaves the transaction open", On,
                   ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const holder = db->connect();
  auto const waiter = db->connect();
  auto const third = db->connect();
  auto const& tables = db->tables();
  holder->execute(db->book().at("lock_insert_free"), with("n", "row_lock"), in(20'000));
  backend::statement const lock{"lock",
                                tables.render("SELECT 1 FROM rowlock_locks WHERE name = $1 FOR UPDATE")};
  backend::statement const look{
      "look", tables.render("SELECT 1 FROM rowlock_locks WHERE name = $1 FOR UPDATE SKIP LOCKED")};
  auto const is_locked = [&] { return third->execute(look, lock_parameters("n"), in(20'000)).rows.empty(); };
  auto const wait = [&](int ms, std::stop_token stop = {}) {
    return waiter->wait_for_row(lock, lock_parameters("n"), in(ms), 5s, std::move(stop));
  };
  CHECK(wait(5000).rows.size() == 1);
  CHECK(is_locked());
  waiter->script("ROLLBACK", in(20'000));
  CHECK_FALSE(is_locked());

  REQUIRE(holder->wait_for_row(lock, lock_parameters("n"), in(20'000), 5s, {}).rows.size() == 1);
  for (int ms : {1, 300, 1600}) {
    auto const start = boot_clock::now();
    auto const e = thrown_by([&] { wait(ms); });
    auto const took = boot_clock::now() - start;
    CHECK(e.reason() == errc::row_locked);
    CHECK(took >= std::chrono::milliseconds(ms) - 5ms);
    CHECK(took < std::chrono::milliseconds(ms) + 20s);  // whole seconds; the server's own limit is 50 s
    REQUIRE(waiter->usable());
  }
  std::stop_source stop;
  auto const waiter_id = own_id(*waiter);
  std::jthread const stopper([&] {
    CHECK(comes_to_wait(*third, waiter_id));
    stop.request_stop();
  });
  auto const start = boot_clock::now();
  CHECK(thrown_by([&] { wait(60'000, stop.get_token()); }).reason() == errc::row_locked);
  CHECK(boot_clock::now() - start < 20s);

  std::jthread const giver([&] {
    std::this_thread::sleep_for(1500ms);  // longer than one of the server's waits
    holder->script("ROLLBACK", in(20'000));
  });
  CHECK(wait(20'000).rows.size() == 1);
  CHECK(is_locked());
  waiter->close();
  auto const until = in(20'000);
  while (is_locked()) REQUIRE(boot_clock::now() < until);
}

TEST_CASE_TEMPLATE("connector: after a wait_for_row that failed there is no transaction", On,
                   ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  auto const d = db->connect();
  backend::statement const bad{"bad", db->tables().render("SELECT nosuch FROM rowlock_meta FOR UPDATE")};
  CHECK(thrown_by([&] { c->wait_for_row(bad, {}, in(20'000), 5s, {}); }).reason() == errc::schema_missing);
  c->script(db->tables().render("UPDATE rowlock_meta SET token_floor = 3"), in(20'000));
  CHECK(as_int(ask(*d, db->tables().render("SELECT token_floor FROM rowlock_meta"))) == 3);  // autocommit
}

// T8: on a table of three rows a scan would cost less.
TEST_CASE_TEMPLATE("T8: a renewal locks the rows that it wants and no other, and waits for none", On,
                   ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const book = db->book();
  auto const c = db->connect();
  auto const other = db->connect();
  for (std::string const name : {"a", "b", "c"}) {
    c->execute(book.at("lock_insert_free"), with(name, "lease"), in(20'000));
    c->execute(book.at("lock_take"), take_parameters(name, "t" + name), in(20'000));
  }
  other->script("START TRANSACTION", in(20'000));
  other->script(db->tables().render("UPDATE rowlock_locks SET note = 'guarded' WHERE name = 'a'"),
                in(20'000));
  c->script("START TRANSACTION", in(20'000));
  auto const wanted = with(
      R"([{"name":"a","term":"ta"},{"name":"b","term":"tb"},{"name":"c","term":"another"},{"name":"z","term":"tz"}])");
  auto const due = c->execute(book.at("lock_renew_due"), wanted, in(20'000));
  REQUIRE(due.rows.size() == 1);
  CHECK(as_text(due.rows[0][0]) == "b");
  CHECK(c->execute(book.at("lock_renew"), with(R"([{"name":"b","term":"tb"}])"), in(20'000)).affected == 1);
  // Whoever had waited for "a" would have had an error for it after a second.
  // "c" has another term: it was looked at, and let go.
  CHECK(other->execute(book.at("lock_release"), with("c", "tc"), in(20'000)).affected == 1);
  c->script("COMMIT", in(20'000));
}

// Each arm of the expression that makes a token, and what else could be in the reply.
TEST_CASE_TEMPLATE("a token comes with the reply of the statement that draws it, and is the row's", On,
                   ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const book = db->book();
  auto const c = db->connect();
  auto const sql = [&](std::string const& text) { c->script(db->tables().render(text), in(20'000)); };
  auto const in_row = [&] {
    return as_int(c->execute(book.at("lock_read"), with("n"), in(20'000)).rows[0][3]);
  };
  int terms = 0;
  auto const take = [&](bool fencing = true) {
    auto parameters = take_parameters("n", fmt::format("t{}", ++terms));
    parameters[11] = std::int64_t{fencing};
    return c->execute(book.at("lock_take"), parameters, in(20'000));
  };
  auto const free = [&] { sql("UPDATE rowlock_locks SET term = NULL"); };
  CHECK_FALSE(take().number);  // no row
  c->execute(book.at("lock_insert_free"), with("n", "lease"), in(20'000));
  auto const by_clock = take();
  REQUIRE(by_clock.number);
  CHECK(*by_clock.number == in_row());
  CHECK(*by_clock.number > 1'700'000'000'000'000);
  auto const refused = take();
  CHECK(refused.affected == 0);
  CHECK_FALSE(refused.number);
  for (std::int64_t const last : {3'000'000'000'000'000, 9'223'372'036'854'775'806}) {
    sql(fmt::format("UPDATE rowlock_locks SET term = NULL, token = {}", last));
    CHECK(take().number == last + 1);
    CHECK(in_row() == last + 1);
  }
  free();
  auto const too_high = thrown_by([&] { take(); });
  CHECK(too_high.reason() != errc::in_doubt);
  sql("UPDATE rowlock_locks SET token = 0; UPDATE rowlock_meta SET token_floor = 4000000000000000");
  CHECK(take().number == 4'000'000'000'000'001);
  sql("UPDATE rowlock_locks SET term = NULL, token = 0; INSERT INTO rowlock_tokens (name, token) VALUES "
      "('n', "
      "5000000000000000)");
  CHECK(take().number == 5'000'000'000'000'001);
  auto const drawn = c->execute(book.at("token_draw"), with("n"), in(20'000));
  CHECK(drawn.number == 5'000'000'000'000'001);
  CHECK_FALSE(c->execute(book.at("token_draw"), with("another"), in(20'000)).number);
  free();
  auto const unfenced = take(false);
  CHECK(unfenced.affected == 1);
  CHECK_FALSE(unfenced.number);
  CHECK(in_row() == 5'000'000'000'000'001);
  // Nobody has the wait queue.
  CHECK(c->execute(book.at("lock_release"), with("n", fmt::format("t{}", terms)), in(20'000)).number == 1);
}

// The servers tell no number then, or ours; the token is the row's in any case.
TEST_CASE_TEMPLATE("a token in the reply is ours, whatever somebody's triggers do", On, ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const book = db->book();
  auto const c = db->connect();
  auto const sql = [&](std::string const& text) { c->script(db->tables().render(text), in(20'000)); };
  sql("CREATE TABLE audit (id BIGINT AUTO_INCREMENT PRIMARY KEY, n BIGINT)");
  c->execute(book.at("lock_insert_free"), with("n", "lease"), in(20'000));
  int terms = 0;
  for (std::string const body :
       {"INSERT INTO audit (n) VALUES (1)", "INSERT INTO audit (n) VALUES (LAST_INSERT_ID(77))",
        "INSERT INTO audit (id, n) VALUES (NULL, LAST_INSERT_ID(77)), (NULL, 1)",
        "SET @seen = LAST_INSERT_ID(77)", "UPDATE audit SET n = LAST_INSERT_ID(n + 5)", "SET @seen = 1"})
    for (std::string const when : {"BEFORE", "AFTER"}) {
      CAPTURE(when);
      CAPTURE(body);
      sql(fmt::format("CREATE TRIGGER shapes {} UPDATE ON rowlock_locks FOR EACH ROW {}", when, body));
      auto const term = fmt::format("t{}", ++terms);
      auto const taken = c->execute(book.at("lock_take"), take_parameters("n", term), in(20'000));
      CHECK(taken.affected == 1);
      auto const row = as_int(c->execute(book.at("lock_read"), with("n"), in(20'000)).rows[0][3]);
      CHECK(taken.number.value_or(row) == row);
      CHECK(c->execute(book.at("lock_release"), with("n", term), in(20'000)).affected == 1);
      sql("DROP TRIGGER shapes");
    }
}

TEST_CASE_TEMPLATE(
    "over connections that the program opens, where no driver tells it, the token is read back", On,
    ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  lock_manager m(mysql::source([&] { return open_by_hand(db->url(), true); }));
  std::int64_t last = 0;
  for (auto const how : {strategy::lease, strategy::unique_insert}) {
    auto const lock = m.make_mutex(to_string(how), {.strategy = how}).try_acquire();
    REQUIRE(lock);
    CHECK(lock->token().value > last);
    CHECK(lock->token() == m.find(to_string(how))->holder.token);
    last = lock->token().value;
  }
}

// A floor that is raised while a take waits for the row: a sub-select that is planned as a constant is read
// before.
TEST_CASE_TEMPLATE("B4, B39: the token floor is read after the wait for the row", On, ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const book = db->book();
  auto const holder = db->connect();
  auto const taker = db->connect();
  auto const reaper = db->connect();
  auto const run = [&](backend::connection& c, char const* sql) {
    c.script(db->tables().render(sql), in(20'000));
  };
  auto const token = [&](char const* table) {
    return as_int(
        ask(*reaper, db->tables().render(std::string("SELECT token FROM ") + table + " WHERE name = 'n'")));
  };
  holder->execute(book.at("lock_insert_free"), with("n", "lease"), in(20'000));
  holder->execute(book.at("token_insert"), with("n"), in(20'000));
  auto const taker_id = own_id(*taker);
  auto const wait_behind = [&](char const* lock, auto const& statement) {
    run(*holder, "START TRANSACTION");
    run(*holder, lock);
    std::jthread const waiter(statement);
    REQUIRE(comes_to_wait(*reaper, taker_id));
    run(*reaper, "UPDATE rowlock_meta SET token_floor = token_floor + 6000000000000000");
    run(*holder, "ROLLBACK");
  };
  wait_behind("SELECT name FROM rowlock_locks WHERE name = 'n' FOR UPDATE", [&] {
    CHECK(taker->execute(book.at("lock_take"), take_parameters("n", "t"), in(20'000)).affected == 1);
  });
  CHECK(token("rowlock_locks") == 6000000000000001);
  wait_behind("SELECT name FROM rowlock_tokens WHERE name = 'n' FOR UPDATE",
              [&] { CHECK(taker->execute(book.at("token_draw"), with("n"), in(20'000)).affected == 1); });
  CHECK(token("rowlock_tokens") == 12000000000000001);
}

TEST_CASE_TEMPLATE("B18, B33: a renewal that waited behind another does not move the expiry back", On,
                   ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const book = db->book();
  auto const holder = db->connect();
  auto const late = db->connect();
  holder->execute(book.at("lock_insert_free"), with("n", "lease"), in(20'000));
  holder->execute(book.at("lock_take"), take_parameters("n", "t", 10'000), in(20'000));
  holder->script("START TRANSACTION", in(20'000));
  holder->script(db->tables().render("UPDATE rowlock_locks SET renewals = renewals + 1"), in(20'000));
  auto const expires = [&] {
    return as_text(ask(*holder, db->tables().render("SELECT concat(expires_at) FROM rowlock_locks")));
  };
  std::string prolonged;
  auto const watch = db->connect();
  auto const late_id = own_id(*late);
  for (auto const* statement : {"lock_renew", "lock_extend"}) {
    std::jthread waiter([&, statement] {
      auto const p = statement == std::string("lock_renew") ? with(R"([{"name":"n","term":"t"}])")
                                                            : with("n", "t", std::int64_t{10'000});
      CHECK(late->execute(book.at(statement), p, in(20'000)).affected == 1);
    });
    REQUIRE(comes_to_wait(*watch, late_id));
    holder->script(
        db->tables().render("UPDATE rowlock_locks SET expires_at = utc_timestamp(6) + INTERVAL 10 SECOND"),
        in(20'000));
    prolonged = expires();
    holder->script("COMMIT", in(20'000));
    waiter.join();
    CHECK(expires() == prolonged);
    holder->script("START TRANSACTION", in(20'000));
    holder->script(db->tables().render("UPDATE rowlock_locks SET renewals = renewals + 1"), in(20'000));
  }
  holder->script("ROLLBACK", in(20'000));
}

TEST_CASE_TEMPLATE(
    "T1, T5: an INSERT that meets a row says 2, changes no lock of another's and is rolled back", On,
    ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const book = db->book();
  auto const c = db->connect();
  auto parameters = take_parameters("n", "t1");
  parameters.resize(11);
  parameters[1] = std::string("unique_insert");
  CHECK(c->execute(book.at("unique_take"), parameters, in(20'000)).affected == 1);
  parameters[2] = std::string("t2");
  c->script("START TRANSACTION", in(20'000));
  CHECK(c->execute(book.at("unique_take"), parameters, in(20'000)).affected == 2);
  c->script("ROLLBACK", in(20'000));
  auto const row = c->execute(book.at("lock_read"), with("n"), in(20'000)).rows.at(0);
  CHECK(as_text(row[2]) == "t1");
  CHECK(as_int(row[8]) == 0);
}

}  // namespace rowlock::test
