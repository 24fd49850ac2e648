#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "examples/place.hpp"
#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/soci_pool.hpp"
#include "support/support.hpp"

namespace rowlock::test {
namespace {

using namespace std::chrono_literals;

struct ended {
  std::vector<std::string> outputs;
  std::vector<int> statuses;
  auto with_status(int s) const { return std::ranges::count(statuses, s); }
  auto saying(std::string const& text) const {
    return std::ranges::count_if(outputs, [&](auto const& o) { return o.find(text) != o.npos; });
  }
};

/// Runs one program so many times at once.
ended run_together(int processes, std::vector<std::string> const& arguments) {
  std::vector<child_process> all;
  for (int i = 0; i < processes; ++i) all.emplace_back(arguments);
  ended e;
  for (auto& each : all) {
    e.statuses.push_back(each.finish());
    e.outputs.push_back(each.output());
  }
  return e;
}

TEST_CASE("order_service <postgresql>: many processes take orders, and no more than there is") {
  place p(kind::postgresql);
  p.script(
      "CREATE TABLE deliveries (article text NOT NULL, pieces integer NOT NULL);"
      "CREATE TABLE orders (article text NOT NULL, pieces integer NOT NULL);"
      "INSERT INTO deliveries VALUES ('cup', 30), ('cup', 21), ('plate', 7)");
  auto const together = run_together(6, {ROWLOCK_EXAMPLE_ORDER_SERVICE, p.url(), "cup", "2", "8"});
  CHECK(together.with_status(0) == 6);
  CHECK(p.number("SELECT sum(pieces) FROM orders WHERE article = 'cup'") == 50);  // one is left
  int taken = 0;
  for (auto const& o : together.outputs) taken += std::stoi(o);
  CHECK(taken == 25);

  auto const alone = run_together(1, {ROWLOCK_EXAMPLE_ORDER_SERVICE, p.url(), "plate", "4", "2"});
  CHECK(alone.outputs.at(0) == "1 orders taken\n");
}

void start_nightly_job(kind k) {
  place p(k);
  p.script("CREATE TABLE runs (night varchar(20) NOT NULL, token bigint NOT NULL, finished datetime)");
  std::smatch part;
  auto const url = p.url();
  REQUIRE(std::regex_match(url, part, std::regex("mysql://([^:]*):([^@]*)@([^/]*)/(.*)")));
  ::setenv("MYSQL_PWD", part.str(2).c_str(), 1);
  auto night = [&](char const* date) {
    return run_together(5, {ROWLOCK_EXAMPLE_NIGHTLY_JOB, part.str(3), part.str(1), part.str(4), date});
  };
  auto const first = night("2026-11-21");
  CHECK(first.with_status(0) == 5);
  CHECK(first.saying("it runs here") == 1);
  CHECK(first.saying("it runs elsewhere, or has run") == 4);
  CHECK(night("2026-11-21").saying("it runs here") == 0);
  CHECK(night("2026-11-22").saying("it runs here") == 1);
  CHECK(p.number("SELECT count(*) FROM runs") == 2);
  CHECK(p.number("SELECT count(*) FROM runs WHERE finished IS NOT NULL") == 2);
}
TEST_CASE("nightly_job <mariadb>: started five times at once, it runs once a night") {
  start_nightly_job(kind::mariadb);
}
TEST_CASE("nightly_job <mysql>: started five times at once, it runs once a night") {
  start_nightly_job(kind::mysql);
}

TEST_CASE("monthly_job <postgresql>: started five times at once, it writes the invoices once") {
  place p(kind::postgresql);
  p.script(
      "CREATE TABLE orders (month text NOT NULL, customer text NOT NULL, amount integer NOT NULL);"
      "CREATE TABLE invoices (month text NOT NULL, customer text NOT NULL, amount integer NOT NULL);"
      "INSERT INTO orders VALUES ('2026-11', 'ann', 3), ('2026-11', 'ann', 4), ('2026-11', 'bob', 5)");
  auto const month = [&] { return run_together(5, {ROWLOCK_EXAMPLE_MONTHLY_JOB, p.url(), "2026-11"}); };
  auto const first = month();
  CHECK(first.with_status(0) == 5);
  CHECK(first.saying("done here: 2 invoices") == 1);
  CHECK(first.saying(" before: 2 invoices") == 4);
  CHECK(month().saying(" before: 2 invoices") == 5);
  CHECK(p.number("SELECT count(*) FROM invoices") == 2);
  CHECK(p.number("SELECT sum(amount) FROM invoices") == 12);
}

TEST_CASE_TEMPLATE("cached_page: one makes it, the others wait for it, or show the old one", On, on_sqlite,
                   on_postgresql, on_mariadb, on_mysql) {
  place p(On::kind);
  scratch_folder const folder;
  auto const file = folder.file("page");
  auto const show = [&] { return run_together(6, {ROWLOCK_EXAMPLE_CACHED_PAGE, p.url(), file, "3600"}); };
  auto const first = show();
  CHECK(first.with_status(0) == 6);
  CHECK(first.saying("the page") == 6);
  CHECK(first.saying("made") == 1);
  CHECK(show().saying("made") == 0);
  std::ofstream(file) << "the old page";
  std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - 2h);
  auto const later = show();
  CHECK(later.with_status(0) == 6);
  CHECK(later.saying("made") == 1);
  CHECK(later.saying("page") == 6);
}

TEST_CASE("paused_worker <sqlite>: stopped for longer than its lock lasts, it overwrites nothing") {
  place p(kind::sqlite);
  p.script(
      "CREATE TABLE pages (title text PRIMARY KEY, content text NOT NULL);"
      "INSERT INTO pages VALUES ('news', '')");
  std::vector<std::string> const arguments{ROWLOCK_EXAMPLE_PAUSED_WORKER, p.file(), "3000"};
  child_process stopped(arguments);
  REQUIRE(stopped.next_line() == "the page: ");
  stopped.signal(SIGSTOP);

  child_process other(arguments);
  auto taken_over = other.next_line(15s);
  for (int i = 0; i < 5 && !taken_over; ++i) {
    // It was stopped amid a renewal, and keeps everybody from writing to the file.
    stopped.signal(SIGCONT);
    stopped.signal(SIGSTOP);
    taken_over = other.next_line(15s);
  }
  REQUIRE(taken_over == "the page: ");
  other.write_line("of the other");
  CHECK(other.next_line() == "stored");
  CHECK(other.finish() == 0);

  stopped.signal(SIGCONT);
  stopped.write_line("of the stopped");
  CHECK(stopped.next_line().value_or("").starts_with("not stored: "));
  CHECK(stopped.finish() == 75);
  CHECK(p.number("SELECT content = 'of the other;' FROM pages") == 1);

  // And one that is not stopped goes on from there.
  child_process next(arguments);
  CHECK(next.next_line() == "the page: of the other;");
  next.write_line("of the next");
  CHECK(next.next_line() == "stored");
  CHECK(next.finish() == 0);
  CHECK(p.number("SELECT content = 'of the other;of the next;' FROM pages") == 1);
}

TEST_CASE(
    "scheduler <postgresql>: one of three leads, the next one when it resigns or dies, and each writes as "
    "itself") {
  place p(kind::postgresql);
  p.script("CREATE TABLE ticks (at timestamptz NOT NULL DEFAULT clock_timestamp(), token bigint NOT NULL)");
  auto const there = p.url();
  child_process first({ROWLOCK_EXAMPLE_SCHEDULER, there, "host1:80"});
  auto const leading = first.next_line();
  REQUIRE(leading.value_or("").starts_with("leading, token "));
  child_process second({ROWLOCK_EXAMPLE_SCHEDULER, there, "host2:80"});
  child_process third({ROWLOCK_EXAMPLE_SCHEDULER, there, "host3:80"});
  first.signal(SIGTERM);
  CHECK(first.finish() == 0);
  bool by_second = false, by_third = false;
  for (int i = 0; i < 300 && !by_second && !by_third; ++i) {
    by_second = second.next_line(200ms).has_value();
    by_third = !by_second && third.next_line(200ms).has_value();
  }
  REQUIRE((by_second || by_third));
  auto& leader = by_second ? second : third;
  auto& last = by_second ? third : second;
  auto const leaders = [&] { return p.number("SELECT count(DISTINCT token) FROM ticks"); };
  REQUIRE(eventually([&] { return leaders() == 2; }));
  leader.signal(SIGKILL);
  REQUIRE(last.next_line());
  last.signal(SIGTERM);
  CHECK(last.finish() == 0);
  CHECK(leaders() == 3);
  CHECK(
      p.number("SELECT count(*) FROM (SELECT token, lag(token) OVER (ORDER BY at) AS former FROM ticks) AS t "
               "WHERE former > token") == 0);
}

TEST_CASE_TEMPLATE("transfer: many processes move money, and none appears or disappears", On, on_sqlite,
                   on_postgresql, on_mariadb, on_mysql) {
  place p(On::kind);
  p.script(
      "CREATE TABLE accounts (owner varchar(40) PRIMARY KEY, balance integer NOT NULL);"
      "INSERT INTO accounts VALUES ('ann', 100), ('bob', 0)");
  auto const back_end = is_sqlite(On::kind)  ? "sqlite3://"
                        : is_mysql(On::kind) ? "mysql://"
                                             : "postgresql://";
  auto const there = back_end + soci_connect_string(p.url());
  auto const together = run_together(6, {ROWLOCK_EXAMPLE_TRANSFER, there, "ann", "bob", "20"});
  CHECK(together.with_status(0) == 5);
  CHECK(together.saying("moved") == 5);
  CHECK(together.saying("not enough money") == 1);
  CHECK(p.number("SELECT balance FROM accounts WHERE owner = 'ann'") == 0);
  CHECK(p.number("SELECT balance FROM accounts WHERE owner = 'bob'") == 100);
}

TEST_CASE_TEMPLATE("event_loop: a hundred coroutines of two loops take a lock one after the other", On,
                   on_sqlite, on_postgresql, on_mariadb, on_mysql) {
  place p(On::kind);
  auto const both = run_together(2, {ROWLOCK_EXAMPLE_EVENT_LOOP, p.url(), "100"});
  CHECK(both.with_status(0) == 2);
  CHECK(both.saying("100 sections, 1 at a time") == 2);
}

/// A program that counts over a driver of its own: none of many processes counts over another, and what is
/// not held any more is not committed. `revoking` makes each count revoke the lock itself, in the same
/// transaction: the guard sees that, and nothing of it is left.
void count_guarded(kind k, std::string const& program, std::string const& revoking) {
  place p(k);
  p.script("CREATE TABLE counter (n integer NOT NULL); INSERT INTO counter VALUES (0)");
  auto const together = run_together(4, {program, p.url(), "10"});
  CHECK(together.with_status(0) == 4);
  CHECK(together.saying("counted") == 4);
  CHECK(p.number("SELECT n FROM counter") == 40);
  p.script(revoking);
  auto const alone = run_together(1, {"/bin/sh", "-c", "exec \"$0\" \"$@\" 2>&1", program, p.url(), "1"});
  CHECK(alone.statuses.at(0) == 1);
  auto const* const why = k == kind::postgresql
                              ? "not committed: ERROR:  invalid input syntax for type bigint: "
                                "\"rowlock: the lock is not held"
                          : is_sqlite(k) ? "not committed: NOT NULL constraint failed"
                                         : "not committed: Subquery returns more than 1 row";
  CHECK(alone.saying(why) == 1);
  CHECK(p.number("SELECT n FROM counter") == 40);
}

constexpr char const* revoking_postgresql =
    "CREATE FUNCTION revoke_it() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE rowlock_locks SET "
    "revoked "
    "= true; RETURN NEW; END $$; CREATE TRIGGER revoking AFTER UPDATE ON counter FOR EACH ROW EXECUTE "
    "FUNCTION "
    "revoke_it()";
constexpr char const* revoking_others =
    "CREATE TRIGGER revoking AFTER UPDATE ON counter FOR EACH ROW BEGIN UPDATE rowlock_locks SET revoked = "
    "1; "
    "END";

TEST_CASE("guard_pqxx <postgresql>: commits only while the lock is held") {
  count_guarded(kind::postgresql, ROWLOCK_EXAMPLE_GUARD_PQXX, revoking_postgresql);
}
#ifdef ROWLOCK_EXAMPLE_GUARD_ASIO
TEST_CASE("guard_asio <postgresql>: commits only while the lock is held") {
  count_guarded(kind::postgresql, ROWLOCK_EXAMPLE_GUARD_ASIO, revoking_postgresql);
}
#endif
TEST_CASE_TEMPLATE("guard_qt: commits only while the lock is held", On, on_sqlite, on_postgresql, on_mariadb,
                   on_mysql) {
  bool const postgresql = On::kind == kind::postgresql;
  count_guarded(On::kind, ROWLOCK_EXAMPLE_GUARD_QT, postgresql ? revoking_postgresql : revoking_others);
}

}  // namespace
}  // namespace rowlock::test
