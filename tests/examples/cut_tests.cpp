// What the examples say when a connection ends in one of their statements is true.
#include <doctest/doctest.h>
#include <signal.h>

#include <cstdlib>
#include <functional>
#include <regex>
#include <string>
#include <vector>

#include "examples/place.hpp"
#include "outages/relay.hpp"
#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/soci_pool.hpp"
#include "support/support.hpp"

namespace rowlock::test {
namespace {

using namespace std::chrono_literals;

struct came {
  int status;
  std::string output;
  bool says(std::string const& text) const { return output.find(text) != output.npos; }
};

/// Both outputs of a program.
came run_one(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh"});
  child_process p(arguments);
  int const status = p.finish();
  return {status, p.output()};
}

/// Cuts each of the program's first `connections` at each of its messages, before the server has seen it and
/// after, with a program of its own each time. `run` is told an address; the number is another one each time.
/// @return how many were cut
int cut_everywhere(std::string const& address, int connections,
                   std::function<void(std::string const& there, int number)> const& run) {
  int cuts = 0;
  for (bool const answered : {false, true})
    for (int which = 1; which <= connections; ++which)
      for (int message = 1;; ++message) {
        REQUIRE(message < 100);
        CAPTURE(answered);
        CAPTURE(which);
        CAPTURE(message);
        relay wire(port_of(address));
        wire.cut(which, message, answered);
        run(wire.through(address), 10'000 * (answered ? 2 : 1) + 100 * which + message);
        if (!wire.was_cut()) break;
        ++cuts;
      }
  return cuts;
}

TEST_CASE("C73: order_service <postgresql>: cut in each statement, it counts what it has taken") {
  place p(kind::postgresql);
  p.script(
      "CREATE TABLE deliveries (article text NOT NULL, pieces integer NOT NULL);"
      "CREATE TABLE orders (article text NOT NULL, pieces integer NOT NULL);"
      "INSERT INTO deliveries SELECT 'cup' || n, 10 FROM generate_series(1, 30000) AS n");
  int whole = 0, in_doubt = 0, applied = 0;
  auto const cuts = cut_everywhere(p.url(), 1, [&](std::string const& there, int n) {
    auto const article = "cup" + std::to_string(n);
    auto const c = run_one({ROWLOCK_EXAMPLE_ORDER_SERVICE, there, article, "2", "2"});
    CAPTURE(c.output);
    auto const orders = [&] {
      return p.number("SELECT count(*) FROM orders WHERE article = '" + article + "'");
    };
    if (c.status == 0) {
      ++whole;
      CHECK(c.says("2 orders taken"));
      CHECK(orders() == 2);
      return;
    }
    CHECK(c.status == 1);
    if (c.says("one more may have been taken")) {
      ++in_doubt;
      auto const sure = c.says("1 orders taken") ? 1 : 0;
      CHECK(c.says(std::to_string(sure) + " orders taken"));
      CHECK((orders() == sure || orders() == sure + 1));
      applied += orders() == sure + 1 ? 1 : 0;
    } else {
      CHECK(orders() == (c.says("1 orders taken") ? 1 : 0));
    }
  });
  CHECK(cuts > 20);
  CHECK(whole > 10);
  CHECK(in_doubt == 4);  // each order's COMMIT, before the server has seen it and after
  CHECK(applied == 2);
}

void cut_nightly_job(kind k) {
  place p(k);
  p.script("CREATE TABLE runs (night varchar(20) NOT NULL, token bigint NOT NULL, finished datetime)");
  std::smatch part;
  auto const url = p.url();
  REQUIRE(std::regex_match(url, part, std::regex("mysql://([^:]*):([^@]*)@([^/]*)/(.*)")));
  ::setenv("MYSQL_PWD", part.str(2).c_str(), 1);
  int in_doubt = 0, ran_unsaid = 0;
  auto const cuts = cut_everywhere(url, 4, [&](std::string const& there, int n) {
    auto const night = "night " + std::to_string(n);
    auto const at = "127.0.0.1:" + std::to_string(port_of(there));
    auto const c = run_one({ROWLOCK_EXAMPLE_NIGHTLY_JOB, at, part.str(1), part.str(4), night});
    CAPTURE(c.output);
    auto const rows = p.number("SELECT count(*) FROM runs WHERE night = '" + night + "'");
    auto const locked = p.number("SELECT count(*) FROM rowlock_locks WHERE name = 'nightly " + night + "'");
    CHECK(locked == rows);
    if (c.says("it runs here")) {
      CHECK(rows == 1);
      if (c.status != 0) CHECK(c.says("it has run, but that may not be written down"));
      ran_unsaid += c.status == 0 ? 0 : 1;
    } else {
      CHECK(c.status == 1);
      CHECK(c.says("it does not run"));
      if (!c.says("but may be locked")) CHECK(rows == 0);
      in_doubt += c.says("but may be locked") ? 1 : 0;
    }
  });
  CHECK(cuts > 20);
  CHECK(in_doubt >= 2);
  CHECK(ran_unsaid >= 2);
}
TEST_CASE("C73: nightly_job <mariadb>: cut in each statement, it says whether it has run") {
  cut_nightly_job(kind::mariadb);
}
TEST_CASE("C73: nightly_job <mysql>: cut in each statement, it says whether it has run") {
  cut_nightly_job(kind::mysql);
}

TEST_CASE("C73: monthly_job <postgresql>: cut in each statement, and started again, it is done once") {
  place p(kind::postgresql);
  p.script(
      "CREATE TABLE orders (month text NOT NULL, customer text NOT NULL, amount integer NOT NULL);"
      "CREATE TABLE invoices (month text NOT NULL, customer text NOT NULL, amount integer NOT NULL);"
      "INSERT INTO orders SELECT 'm' || n, c, 3 FROM generate_series(1, 30000) AS n, (VALUES ('ann'), "
      "('bob')) AS "
      "t (c)");
  int again = 0;
  auto const cuts = cut_everywhere(p.url(), 1, [&](std::string const& there, int n) {
    auto const month = "m" + std::to_string(n);
    auto const invoices = [&] {
      return p.number("SELECT count(*) FROM invoices WHERE month = '" + month + "'");
    };
    auto const c = run_one({ROWLOCK_EXAMPLE_MONTHLY_JOB, there, month});
    CAPTURE(c.output);
    if (c.status == 0) {
      CHECK(invoices() == 2);
      return;
    }
    ++again;
    CHECK(c.status == 1);
    bool const done = invoices() == 2;
    CHECK((done || invoices() == 0));
    auto const second = run_one({ROWLOCK_EXAMPLE_MONTHLY_JOB, p.url(), month});
    CHECK(second.status == 0);
    CHECK(second.says(done ? " before: 2 invoices" : "done here: 2 invoices"));
    CHECK(invoices() == 2);
  });
  CHECK(cuts > 10);
  CHECK(again >= cuts - 2);  // at its farewell, all is done
}

TEST_CASE("C73: scheduler <postgresql>: cut in each statement, it goes on by a new connection") {
  place p(kind::postgresql);
  p.script("CREATE TABLE ticks (at timestamptz NOT NULL DEFAULT clock_timestamp(), token bigint NOT NULL)");
  auto const ticks = [&] { return p.number("SELECT count(*) FROM ticks"); };
  for (bool const answered : {false, true})
    for (int message = 1; message <= 8; ++message) {
      CAPTURE(answered);
      CAPTURE(message);
      relay wire(port_of(p.url()));
      wire.cut(1, message, answered);
      child_process one({ROWLOCK_EXAMPLE_SCHEDULER, wire.through(p.url()), "host1:80"});
      REQUIRE(one.next_line().value_or("").starts_with("leading, token "));
      CHECK(eventually([&] { return wire.was_cut(); }));
      auto const before = ticks();
      CHECK(eventually([&] { return ticks() > before; }));
      one.signal(SIGTERM);
      CHECK(one.finish() == 0);
    }
}

TEST_CASE_TEMPLATE("C73: transfer: cut in each statement, it says whether the money was moved", On,
                   on_postgresql, on_mariadb, on_mysql) {
  place p(On::kind);
  p.script(
      "CREATE TABLE accounts (owner varchar(40) PRIMARY KEY, balance integer NOT NULL);"
      "INSERT INTO accounts VALUES ('ann', 10000), ('bob', 0)");
  auto const balance = [&](std::string const& of) {
    return p.number("SELECT balance FROM accounts WHERE owner = '" + of + "'");
  };
  int moved = 0, in_doubt = 0, applied = 0;
  cut_everywhere(p.url(), 1, [&](std::string const& there, int) {
    auto const before = balance("bob");
    auto const back_end = is_mysql(On::kind) ? "mysql://" : "postgresql://";
    auto const c =
        run_one({ROWLOCK_EXAMPLE_TRANSFER, back_end + soci_connect_string(there), "ann", "bob", "20"});
    CAPTURE(c.output);
    auto const got = balance("bob") - before;
    CHECK((got == 0 || got == 20));
    CHECK(balance("ann") + balance("bob") == 10000);
    if (c.status == 0) {
      ++moved;
      CHECK(got == 20);
      CHECK(c.says("moved\n"));
    } else if (c.says("it may have been moved")) {
      ++in_doubt;
      applied += got == 20 ? 1 : 0;
    } else {
      CHECK(c.status == 1);
      CHECK(c.says("not moved: "));
      CHECK(got == 0);
    }
  });
  CHECK(moved >= 2);
  CHECK(in_doubt == 2);
  CHECK(applied == 1);
}

}  // namespace
}  // namespace rowlock::test
