// Lost replies: what was applied, what was not, and what is said when that can't be found out. (K3)
#include <new>
#include <string>
#include <thread>

#include "base/boot_lead.hpp"
#include "contract/fixture.hpp"

using namespace rowlock;
using namespace rowlock::test;

CONTRACT_CASE("K3: a take whose reply was lost is found by its term") {
  stranger other(f);
  std::atomic<int> lost{1};
  boot_time_point sent;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  { auto const makes_row = x.acquire(); }
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_take") sent = boot_clock::now();
  };
  f.probe->after = [&](std::string const& s) {
    if (s == "lock_take" && lost-- > 0) lose_reply();
  };
  f.probe->reset();
  auto const before = boot_clock::now();
  auto const lock = x.try_acquire();
  REQUIRE(lock);
  CHECK(f.probe->executed("lock_take") == 1);  // not taken twice
  CHECK(other.read("x")->term == lock->term());
  CHECK(lock->token() == other.read("x")->holder.token);
  CHECK(*lock->trusted_until() >= before + 27s);
  CHECK(*lock->trusted_until() <= sent + 27s);
}

CONTRACT_CASE("a take that never arrived is tried again with another term") {
  std::atomic<int> lost{1};
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  { auto const makes_row = x.acquire(); }
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_take" && lost-- > 0) lose_reply();
  };
  f.probe->reset();
  auto const lock = x.try_acquire();
  REQUIRE(lock);
  CHECK(f.probe->executed("lock_take") == 2);
}

LEASE_CASE("B15: a ghost of the first try that is applied late is known by its term") {
  stranger other(f);
  std::atomic<int> takes{0};
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.retry = {.first = 5ms, .longest = 10ms}});
  { auto const makes_row = x.acquire(); }
  REQUIRE(other.take("x"));
  // The first try's reply is lost while somebody else has the row; later it is granted by the server all the
  // same.
  std::optional<acquisition> got;
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_take" && ++takes == 1) lose_reply();
  };
  std::jthread waiter([&] { got.emplace(x.try_acquire_for(60s)); });
  REQUIRE(eventually([&] { return takes >= 4; }));
  REQUIRE(other.release("x"));
  waiter.join();
  REQUIRE(*got);
  CHECK(other.read("x")->term == (*got)->term());
}

CONTRACT_CASE("in doubt is said to be in doubt") {
  std::atomic<bool> away{false};
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  { auto const makes_row = x.acquire(); }
  f.probe->after = [&](std::string const& s) {
    if (s != "lock_take") return;
    away = true;
    lose_reply();
  };
  f.probe->before = [&](std::string const&) {
    if (away) throw error(errc::unreachable, "away by the test");
  };
  try {
    (void)x.try_acquire();
    FAIL("granted or refused");
  } catch (error const& e) {
    CHECK(e.reason() == errc::in_doubt);
  }
  // What it had after all is given back once the database is there again.
  stranger other(f);
  CHECK_FALSE(other.sees_free("x"));
  f.probe->after = nullptr;
  away = false;
  CHECK(eventually([&] { return other.sees_free("x"); }));
}

CONTRACT_CASE("a waiter rides out an outage until its deadline, and without one for ever") {
  std::atomic<bool> away{true};
  auto const m = f.manager();
  f.probe->before = [&](std::string const&) {
    if (away) throw error(errc::unreachable, "away by the test");
  };
  auto x = m->make_mutex("x", {.retry = {.first = 5ms, .longest = 20ms}});
  CHECK_THROWS_AS((void)x.try_acquire_for(200ms), error);
  CHECK_THROWS_AS((void)x.try_acquire(), error);
  // It asks again and again.
  auto const asked_since = [&](int before) {
    return eventually([&] { return f.probe->executed_in_all() >= before + 3; });
  };
  std::stop_source stop;
  std::jthread([&] {
    std::jthread const canceller([&, before = f.probe->executed_in_all()] {
      CHECK(asked_since(before));
      stop.request_stop();
    });
    CHECK(x.acquire(stop.get_token()).status() == acquire_status::cancelled);
  }).join();
  std::atomic<bool> had{false};
  auto const before = f.probe->executed_in_all();
  std::jthread const waiter([&] {
    auto const lock = x.acquire();
    had = static_cast<bool>(lock);
  });
  CHECK(asked_since(before));
  CHECK_FALSE(had);
  away = false;
  CHECK(eventually([&] { return had.load(); }));
}

CONTRACT_CASE("R3: a release whose reply was lost is in doubt, and done by the keeper") {
  stranger other(f);
  std::atomic<int> lost{1};
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto lock = x.acquire();
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_release" && lost-- > 0) lose_reply();
  };
  CHECK(lock->release() == release_result::in_doubt);
  CHECK(eventually([&] { return other.sees_free("x"); }));
}

CONTRACT_CASE("a release that meets a locked row is handed over to the keeper") {
  stranger other(f);
  auto o = f.options;
  o.release_timeout = 20s;  // InnoDB looks once a second whether a wait is over
  auto const m = f.manager(o);
  auto x = m->make_mutex("x");
  auto lock = x.acquire();
  auto transaction = f.connect();
  auto const tables = f.tables();
  transaction->script(begin_of(f), boot_clock::now() + 30s);
  transaction->script(tables.render("UPDATE rowlock_locks SET note = 'guarded'"), boot_clock::now() + 30s);
  CHECK(lock->release() == release_result::handed_over);
  transaction->script("COMMIT", boot_clock::now() + 30s);
  CHECK(eventually([&] { return other.sees_free("x"); }));
}

CONTRACT_CASE(
    "B34: a row that a transaction has locked is not lost: trust runs on and renewal is tried again") {
  base::boot_clock_may_lead();
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto lock = x.acquire();
  auto const trust = *lock->trusted_until();
  auto transaction = f.connect();
  auto const tables = f.tables();
  transaction->script(begin_of(f), boot_clock::now() + 30s);
  transaction->script(tables.render("UPDATE rowlock_locks SET note = 'guarded'"), boot_clock::now() + 30s);
  base::boot_clock_leads_by(10s);  // it is to be renewed
  REQUIRE(eventually([&] { return f.probe->executed("lock_renew") >= 2; }));
  CHECK(lock->valid());
  transaction->script("COMMIT", boot_clock::now() + 30s);
  CHECK(eventually([&] { return *lock->trusted_until() > trust; }));
  CHECK(lock->valid());
}

namespace {

/// As a server, or something in between, that answers nonsense to what it has done.
void spoil(running_pair const& pair, backend::result& reply, bool shorten) {
  if (pair.engine == dialect::mysql) reply.number = -5;
  if (reply.rows.empty()) return;
  if (shorten)
    reply.rows.clear();
  else
    reply.rows[0].at(0) = std::int64_t{-5};
}

}  // namespace

LEASE_CASE("a take whose reply has no token, or one that none can be, is in doubt, and found by its term") {
  bool shorten = false;
  SUBCASE("none") { shorten = true; }
  SUBCASE("none that can be") { shorten = false; }
  stranger other(f);
  std::atomic<int> spoilt{1};
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  { auto const makes_row = x.acquire(); }
  f.probe->reply = [&](std::string const& s, backend::result& r) {
    if (s == "lock_take" && spoilt-- > 0) spoil(pair, r, shorten);
  };
  f.probe->reset();
  auto const lock = x.try_acquire();
  REQUIRE(lock);
  CHECK(f.probe->executed("lock_take") == 1);  // not taken twice
  CHECK(other.read("x")->term == lock->term());
  CHECK(lock->token() == other.read("x")->holder.token);
  CHECK(lock->token().value > 0);
}

CONTRACT_CASE("a take that is granted as memory runs out leaves nothing taken") {
  stranger other(f);
  std::atomic<int> failing{1};
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.ttl = 1h});
  { auto const makes_row = x.acquire(); }
  f.probe->after = [&](std::string const& s) {
    if (s == "lock_take" && failing-- > 0) throw std::bad_alloc();
  };
  CHECK_THROWS_AS((void)x.try_acquire(), std::bad_alloc);
  CHECK(eventually([&] { return other.sees_free("x"); }));
}

LEASE_CASE("several that are granted as memory runs out: nothing is left taken") {
  stranger other(f);
  std::atomic<int> failing{1};
  auto const m = f.manager();
  { auto const makes_rows = m->acquire_all({"a", "b"}); }
  f.probe->after = [&](std::string const& s) {
    if (s == "lock_take" && failing-- > 0) throw std::bad_alloc();
  };
  CHECK_THROWS_AS((void)m->try_acquire_all({"a", "b"}, {.ttl = 1h}), std::bad_alloc);
  CHECK(eventually([&] { return other.sees_free("a") && other.sees_free("b"); }));
}

CONTRACT_CASE("R3: what could not be given back is tried for as long as its row may last, not for one ttl") {
  base::boot_clock_may_lead();
  stranger other(f);
  std::atomic<bool> away{false};
  std::atomic<int> tries{0};
  auto const m = f.manager();
  f.probe->before = [&](std::string const& s) {
    if (s != "lock_release" || !away) return;
    ++tries;
    throw error(errc::unreachable, "away by the test");
  };
  mutex_options o{.renew = false};
  bool extend = true;
  SUBCASE("it was extended") {}
  SUBCASE("only silence ends it") {
    o.takeover = takeover::observed;
    extend = false;
  }
  auto lock = m->make_mutex("x", o).acquire();
  if (extend) REQUIRE(lock->extend(1h));
  away = true;
  CHECK(lock->release() != release_result::released);
  base::boot_clock_leads_by(35s);
  int const before = tries;
  CHECK(eventually([&] { return tries > before + 1; }));
  CHECK_FALSE(other.sees_free("x"));
  away = false;
  CHECK(eventually([&] { return other.sees_free("x"); }));
}

CONTRACT_CASE("R3: what is to be given back later is not forgotten when memory runs out") {
  stranger other(f);
  std::atomic<int> failing{4};
  auto const m = f.manager();
  auto lock = m->make_mutex("x", {.ttl = 1h}).acquire();
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_release" && failing-- > 0) throw std::bad_alloc();
  };
  CHECK(lock->release() == release_result::in_doubt);
  CHECK(eventually([&] { return other.sees_free("x"); }));
}

LEASE_CASE(
    "B15: a doubtful take that is applied after it was looked for in vain is given back all the same") {
  std::atomic<bool> away{false};
  std::atomic<bool> looked_for{false};
  std::atomic<bool> may_look{true};
  std::string term;
  stranger other(f);
  auto o = f.options;
  o.reply_timeout = 60s;  // the server may go on with it for as long
  auto const m = f.manager(o);
  auto x = m->make_mutex("x", {.ttl = 1h});
  { auto const makes_row = x.acquire(); }
  f.probe->look = [&](std::string const& s, std::span<backend::value const> p) {
    if (s == "lock_take") term = backend::as_text(p[2]);
  };
  f.probe->before = [&](std::string const& s) {
    if (away) throw error(errc::unreachable, "away by the test");
    if (s != "lock_take") return;
    away = true;
    lose_reply();
  };
  CHECK_THROWS_AS((void)x.try_acquire(), error);
  f.probe->look = nullptr;
  f.probe->after = [&](std::string const& s) {
    if (s != "lock_release" || looked_for.exchange(true)) return;
    may_look = false;
  };
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_release") (void)eventually([&] { return may_look.load(); });
  };
  REQUIRE(eventually([&] { return looked_for.load(); }));
  REQUIRE(other.take("x"));
  f.sql("UPDATE rowlock_locks SET term = '" + term + "' WHERE name = 'x'");
  CHECK_FALSE(other.sees_free("x"));
  may_look = true;
  CHECK(eventually([&] { return other.sees_free("x"); }));
  f.probe->after = nullptr;
  f.probe->before = nullptr;
}

LEASE_CASE("attempts that all fail, on a database that gives nothing back either, do not heap up for ever") {
  std::atomic<bool> away{true};
  auto m = f.manager();
  auto x = m->make_mutex("x", {.ttl = 1h, .takeover = takeover::observed});
  m->connect();
  f.probe->before = [&](std::string const& s) {
    if (!away) return;
    if (s == "lock_take") throw error(errc::failed, "refused by the test");
    if (s == "lock_release") throw error(errc::unreachable, "away by the test");
  };
  for (int i = 0; i < 1'200; ++i) CHECK_THROWS_AS((void)x.try_acquire(), error);
  away = false;
  f.probe->reset();
  m.reset();
  CHECK(f.probe->executed("lock_release") >= 1);
  CHECK(f.probe->executed("lock_release") <= 600);  // each of some 256 before the manager ends, and then
}

PAIRS_CASE("a late release does not wait for a row that somebody has locked: renewals come first",
           all<leases, on_a_server>) {
  stranger other(f);
  auto o = f.options;
  o.release_timeout = 20s;  // InnoDB looks once a second whether a wait is over
  auto const m = f.manager(o);
  auto lock = m->make_mutex("x").acquire();
  auto const renewed = m->make_mutex("y", {.ttl = 6s}).acquire();
  auto transaction = f.connect();
  transaction->script(begin_of(f), boot_clock::now() + 30s);
  transaction->script(f.tables().render("UPDATE rowlock_locks SET note = 'guarded' WHERE name = 'x'"),
                      boot_clock::now() + 30s);
  CHECK(lock->release() == release_result::handed_over);
  f.probe->reset();
  CHECK(eventually([&] { return f.probe->executed("lock_renew") >= 3; }));
  CHECK(f.probe->executed("lock_idle") >= 2);
  CHECK(f.probe->executed("lock_release") == 0);
  transaction->script("COMMIT", boot_clock::now() + 30s);
  CHECK(eventually([&] { return other.sees_free("x"); }));
}
