// The examples of lib/doc/testing.md, word for word: each is the body of a case here.
#include <doctest/doctest.h>
#include <sqlite3.h>

#include <algorithm>
#include <fstream>
#include <rowlock/rowlock.hpp>
#include <rowlock/sqlite.hpp>
#include <rowlock/sqlite_transaction.hpp>
#include <rowlock/testing.hpp>
#include <sstream>
#include <string>

#include "support/eventually.hpp"
#include "support/source_path.hpp"

namespace {

using namespace std::chrono_literals;

void run(sqlite3* db, char const* sql) {
  REQUIRE(sqlite3_exec(db, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
}

TEST_CASE("C87: testing.md: a lock is tried beside one that is held, in one thread") {
  rowlock::sqlite::source database(":memory:");
  rowlock::migrator(database).up();
  rowlock::lock_manager ours(database);
  rowlock::lock_manager theirs(database);

  auto const held = ours.make_mutex("report").acquire();
  auto const refused = theirs.make_mutex("report", {.owner = rowlock::each_acquire{}}).try_acquire();
  CHECK(refused.status() == rowlock::acquire_status::busy);

  CHECK_THROWS_AS((void)theirs.make_mutex("report").try_acquire(), rowlock::error);  // would_deadlock
}

TEST_CASE("C87: testing.md: a transaction requires a lock, in memory") {
  rowlock::sqlite::source database(":memory:");
  rowlock::migrator(database).up();
  rowlock::lock_manager manager(database);

  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open_v2(database.memory_uri().c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI,
                          nullptr) == SQLITE_OK);
  sqlite3_busy_timeout(db, 5000);  // the manager renews meanwhile
  run(db, "CREATE TABLE account (balance INTEGER); INSERT INTO account VALUES (100)");

  auto lock = manager.make_mutex("account").acquire();
  run(db, "BEGIN IMMEDIATE; UPDATE account SET balance = balance - 10");
  rowlock::sqlite::transaction(manager, db).require(*lock);
  run(db, "COMMIT");

  rowlock::testing::lose(manager, *lock);
  run(db, "BEGIN IMMEDIATE; UPDATE account SET balance = balance - 10");
  CHECK_THROWS_AS(rowlock::sqlite::transaction(manager, db).require(*lock), rowlock::error);  // lock_lost
  run(db, "ROLLBACK");
  sqlite3_close(db);
}

TEST_CASE("C87: testing.md: the lock is lost while the work goes on") {
  rowlock::lock_manager manager("sqlite::memory:");
  auto lock = manager.make_mutex("report").acquire();

  rowlock::testing::lose(manager, *lock);
  CHECK(lock->loss_token().stop_requested());  // what the work looks at, or waits with
  CHECK_FALSE(lock->valid());
  CHECK(lock->release() == rowlock::release_result::already_lost);
}

TEST_CASE("C87: testing.md: the server is unreachable, at first and while a lock is held") {
  rowlock::sqlite::source database(":memory:");
  rowlock::migrator(database).up();
  rowlock::testing::faults faults;
  rowlock::lock_manager manager(faults.between(database));

  auto lock = manager.make_mutex("report", {.ttl = 2s}).acquire();
  faults.cut();
  try {
    (void)manager.make_mutex("other").try_acquire();
    FAIL("granted");
  } catch (rowlock::error const& e) {
    CHECK(e.reason() == rowlock::errc::unreachable);
    CHECK(e.retryable());
  }
  while (lock->valid()) std::this_thread::sleep_for(10ms);  // until trust ends
  CHECK(rowlock::test::eventually([&] { return lock->loss().has_value(); }));

  faults.mend();
  CHECK(manager.make_mutex("other").try_acquire());
}

TEST_CASE("C87: testing.md: an answer is in doubt") {
  rowlock::sqlite::source database(":memory:");
  rowlock::migrator(database).up();
  rowlock::testing::faults faults;
  rowlock::lock_manager manager(faults.between(database));
  auto report = manager.make_mutex("report");
  manager.connect();

  faults.lose_reply(rowlock::testing::statement::take);
  CHECK(report.try_acquire());  // the manager has found out that it was granted

  faults.lose_reply_and_cut(rowlock::testing::statement::take);
  try {
    (void)report.try_acquire();
    FAIL("granted");
  } catch (rowlock::error const& e) {
    CHECK(e.reason() == rowlock::errc::in_doubt);
  }
  faults.mend();
  CHECK(report.try_acquire_for(60s));  // what was granted is given back
}

TEST_CASE("C87: a statement that is refused is not sent, and a release whose reply is lost was applied") {
  rowlock::sqlite::source database(":memory:");
  rowlock::migrator(database).up();
  rowlock::testing::faults faults;
  rowlock::lock_manager manager(faults.between(database));
  rowlock::lock_manager others(database);
  auto report = manager.make_mutex("report");
  manager.connect();
  faults.refuse(rowlock::testing::statement::take);
  try {
    (void)report.try_acquire();
    FAIL("granted");
  } catch (rowlock::error const& e) {
    CHECK(e.reason() == rowlock::errc::unreachable);
  }
  CHECK(others.list().empty());

  auto held = report.acquire();
  faults.lose_reply_and_cut(rowlock::testing::statement::release);
  CHECK(held->release() == rowlock::release_result::in_doubt);
  CHECK(others.list().empty());
  faults.mend();

  rowlock::mutex_options const brief{.ttl = 3s};
  held = manager.make_mutex("renewed", brief).acquire();
  faults.refuse(rowlock::testing::statement::renew);
  auto const trust = *held->trusted_until();
  CHECK(rowlock::test::eventually([&] { return *held->trusted_until() > trust; }));  // by the next one
}

TEST_CASE("C87: testing.md: each example is one of these cases, word for word") {
  std::ifstream page(rowlock::test::source_path("lib/doc/testing.md"));
  std::ifstream file(rowlock::test::source_path("tests/examples/testing_tests.cpp"));
  std::string const cases{std::istreambuf_iterator<char>(file), {}};
  int examples = 0;
  std::string example;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line == "```cpp") {
      inside = true;
      example.clear();
    } else if (line == "```" && inside) {
      inside = false;
      ++examples;
      CHECK_MESSAGE(cases.find("{\n" + example + "}\n") != cases.npos, example);
    } else if (inside) {
      example += line.empty() ? "\n" : "  " + line + "\n";
    }
  }
  CHECK(examples == 5);
}

}  // namespace
