// transaction::admit(): what a fencing token can do in a database that has no row of the lock.
// lib/doc/quorum.md

#include "guard/handles.hpp"

using namespace rowlock;
using namespace rowlock::test;

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
