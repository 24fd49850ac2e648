// transaction::admit(): what a fencing token can do in a database that has no row of the lock.
// lib/doc/quorum.md

#include <functional>

#include "guard/handles.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// How many changes of rows this session has asked the storage engine for: not those that would change
/// nothing.
int changes(program& p, bool mysql) {
  return std::stoi(*p.value(std::string("SELECT variable_value FROM ") +
                            (mysql ? "performance_schema" : "information_schema") +
                            ".session_status WHERE variable_name = 'HANDLER_UPDATE'"));
}

}  // namespace

TEST_CASE_TEMPLATE(
    "admit: a token, a higher one, the same again; a lower one is refused, and changes nothing", On,
    ROWLOCK_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const with = [&](std::int64_t token, std::string const& end) {
    begin(f, *p);
    std::optional<errc> why;
    {
      auto tx = p->view(*m);
      why = reason_of([&] { tx->admit("x", {token}); });
      if (!why) p->run(f.set_counter(static_cast<int>(token)));
    }
    p->run(end);
    return why;
  };
  begin(f, *p);
  for (auto const* other : {"a", "z"}) p->view(*m)->admit(other, {100});
  p->run("COMMIT");
  CHECK_FALSE(with(5, "COMMIT"));
  CHECK_FALSE(with(5, "COMMIT"));
  CHECK_FALSE(with(7, "ROLLBACK"));
  CHECK_FALSE(with(6, "COMMIT"));
  CHECK(with(5, "COMMIT") == errc::lock_lost);
  CHECK_FALSE(with(6, "COMMIT"));
  CHECK(p->value(f.read_counter()) == "6");
  begin(f, *p);
  auto tx = p->view(*m);
  CHECK(reason_of([&] { tx->admit("x", {0}); }) == errc::invalid_argument);
  CHECK(reason_of([&] { tx->admit("", {1}); }) == errc::invalid_argument);
  p->run("ROLLBACK");
  CHECK(reason_of([&] { tx->admit("x", {9}); }) == errc::not_in_transaction);
}

TEST_CASE_TEMPLATE("admit: who comes second waits for the first one's end, and decides by what it has left",
                   On, ROWLOCK_SERVER_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const first = f.open();
  auto const second = f.open();
  std::string end = "COMMIT";
  std::optional<errc> expected = errc::lock_lost;
  SUBCASE("committed") {}
  SUBCASE("rolled back") {
    end = "ROLLBACK";
    expected = std::nullopt;
  }
  begin(f, *first);
  first->view(*m)->admit("x", {6});
  begin(f, *second);
  std::optional<errc> why;
  std::atomic<bool> came = false;
  std::jthread waits([&] {
    auto const tx = second->view(*m);
    why = reason_of([&] { tx->admit("x", {5}); });
    came = true;
  });
  CHECK_FALSE(eventually([&] { return came.load(); }, 200ms));
  first->run(end);
  waits.join();
  CHECK(why == expected);
  second->run("ROLLBACK");
}

TEST_CASE_TEMPLATE("admit: a transaction whose snapshot is older than a higher token is refused", On,
                   ROWLOCK_SERVER_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const late = f.open();
  auto const first = f.open();
  begin(f, *first);
  first->view(*m)->admit("x", {1});
  first->run("COMMIT");
  for (std::string const level : {"READ COMMITTED", "REPEATABLE READ"}) {
    CAPTURE(level);
    std::int64_t const higher = level == "READ COMMITTED" ? 20 : 30;
    begin(f, *late, level);
    late->value(f.read_counter());  // what is read at REPEATABLE READ is as of now
    begin(f, *first);
    first->view(*m)->admit("x", {higher});
    first->run("COMMIT");
    auto const why = reason_of([&] { late->view(*m)->admit("x", {higher - 5}); });
    CHECK((why == errc::lock_lost || why == errc::snapshot_too_old));
    late->run("ROLLBACK");
  }
}

TEST_CASE_TEMPLATE("admit: the same token again changes the row, for Galera certifies no less [B7]", On,
                   ROWLOCK_INNODB_HANDLES) {
  On f;
  f.make_functions();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  bool const mysql = std::string_view(On::backend) == "mysql";
  auto const admitted = [&] { return p->value("SELECT token FROM rowlock_admitted WHERE name = 'x'"); };
  std::function<void()> admit = [&] { tx->admit("x", {5}); };
  SUBCASE("by the library") {}
  SUBCASE("by the procedure") {
    admit = [&] { p->run("CALL rowlock_admit('x', 5)"); };
  }
  for (int i = 0; i < 3; ++i) {
    begin(f, *p);
    auto const before = changes(*p, mysql);
    admit();
    CHECK(changes(*p, mysql) > before);
    CHECK(admitted() == "5");
    p->run("COMMIT");
    CHECK(admitted() == "5");
  }
}

// Such as by an operator who means that there is none.
TEST_CASE_TEMPLATE("admit: a token that was set to 0 by hand counts as none, and the next ones count", On,
                   ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const with = [&](std::int64_t token) {
    begin(f, *p);
    std::optional<errc> why;
    {
      auto tx = p->view(*m);
      why = reason_of([&] { tx->admit("x", {token}); });
    }
    p->run("COMMIT");
    return why;
  };
  CHECK_FALSE(with(40));
  f.sql("UPDATE rowlock_admitted SET token = 0");
  CHECK_FALSE(with(50));
  CHECK(with(7) == errc::lock_lost);
  CHECK_FALSE(with(50));
  CHECK_FALSE(with(51));
  CHECK(with(50) == errc::lock_lost);
}
