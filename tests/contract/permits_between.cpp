// Permits by steps: who comes in between the statements of a take, a purge, a renewal, a release and the
// reaper, and what each of them sees. lib/doc/permits.md
#include <functional>
#include <thread>

#include "contract/open_transaction.hpp"
#include "contract/permits.hpp"
#include "contract/waits.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

constexpr auto whole = strategies::all_units;

/// Before the first statement of a purge.
void before_purge(fixture& f, std::function<void()> what) {
  once_before(f, dialect_of(f) == dialect::mysql ? "permit_purge_due" : "permit_purge", std::move(what));
}

/// What a renewal does.
std::string prolong(fixture& f, std::string const& term) {
  return "UPDATE rowlock_permits SET renewals = renewals + 1, expires_at = " + in_ms(f, 60'000) +
         " WHERE name = 'x' AND term = '" + term + "'";
}

}  // namespace

LEASE_CASE("permits: a take that waits for another one's COMMIT counts what that has taken [C43]") {
  struct {
    strategy how;
    std::int64_t theirs, mine, limit;
    bool fits;
  } const both[] = {
      {strategy::shared, whole, whole, whole, false}, {strategy::shared, 1, whole, whole, false},
      {strategy::shared, whole, 1, whole, false},     {strategy::shared, 1, 1, whole, true},
      {strategy::semaphore, 2, 2, 3, false},          {strategy::semaphore, 1, 2, 3, true}};
  for (auto const& two : both) {
    CAPTURE(two.theirs);
    CAPTURE(two.mine);
    f.sql("DELETE FROM rowlock_permits");
    f.sql("DELETE FROM rowlock_locks");
    make_name(f, two.how);
    permit_taker taker(f, two.how);
    bool had = !two.fits;
    open_transaction theirs(f);
    theirs.run("UPDATE rowlock_locks SET token = token + 1 WHERE name = 'x'");
    theirs.run(permit_of_somebody(f, two.theirs, two.limit, two.how));
    while_it_waits(
        f, taker.session(), [&] { had = taker.take(permit_taker::of(two.mine, two.limit)); },
        [&] { theirs.commit(); });
    CHECK(had == two.fits);
    CHECK_FALSE(taker.met_locked());
    CHECK(permits_there(f) == (two.fits ? 2 : 1));
  }
}

// By hand, because the statements of a take are sent at once: between the first two of them the name gets its
// row. Whoever has not locked that must not count.
PAIRS_CASE(
    "permits: a name that gets its row between the anchor and the count is not counted without its lock",
    all<leases, direct, on_a_server>) {
  auto const soon = [] { return boot_clock::now() + 30s; };
  backend::statement_book const book(f.source.implementation()->sql(), f.tables());
  auto const taker = f.connect();
  auto const run = [&](std::string const& text) { taker->execute({"by_hand", text}, {}, soon()); };
  auto const term = base::random_id();
  std::vector<backend::value> const name{std::string("x"), std::string("shared"), term};
  std::vector<backend::value> const wanted{std::string("x"),
                                           std::string("shared"),
                                           term,
                                           std::string("host"),
                                           std::int64_t{1},
                                           std::string("process"),
                                           std::int64_t{1},
                                           std::int64_t{30'000},
                                           std::string("clock"),
                                           nullptr,
                                           std::string("note"),
                                           whole,
                                           whole,
                                           nullptr,
                                           nullptr};
  auto const mine = "SELECT count(*) FROM rowlock_permits WHERE term = '" + term + "'";
  auto const had = [&] {
    return backend::as_int(taker->execute({"mine", f.tables().render(mine)}, {}, soon()).rows.at(0).at(0));
  };
  run(begin_of(f));
  taker->execute(book.at("permit_anchor"), name, soon());
  make_name(f, strategy::shared);
  taker->execute(book.at("permit_take"), wanted, soon());
  CHECK(had() == 0);
  run("ROLLBACK");
  // With the row there it is granted.
  run(begin_of(f));
  taker->execute(book.at("permit_anchor"), name, soon());
  taker->execute(book.at("permit_take"), wanted, soon());
  CHECK(had() == 1);
  run("ROLLBACK");
  // Of that nothing is left for the same take's next attempt, when the reaper has come in between.
  f.sql("DELETE FROM rowlock_locks");
  run(begin_of(f));
  taker->execute(book.at("permit_anchor"), name, soon());
  make_name(f, strategy::shared);
  taker->execute(book.at("permit_take"), wanted, soon());
  CHECK(had() == 0);
  run("ROLLBACK");
}

LEASE_CASE("permits: a take whose rival is rolled back, or dies in the middle of it, has what is free") {
  make_name(f);
  permit_taker taker(f);
  for (bool const dies : {false, true}) {
    bool had = false;
    auto theirs = std::make_unique<open_transaction>(f);
    theirs->run("UPDATE rowlock_locks SET token = token + 1 WHERE name = 'x'");
    theirs->run(permit_of_somebody(f, whole, whole, strategy::shared));
    while_it_waits(
        f, taker.session(), [&] { had = taker.take(permit_taker::writer()); },
        [&] { dies ? theirs.reset() : theirs->run("ROLLBACK"); });
    CHECK(had);
    CHECK(taker.release());
  }
}

LEASE_CASE("permits: tokens rise with each grant, whoever came in between") {
  make_name(f);
  permit_taker one(f);
  permit_taker two(f);
  f.sql("UPDATE rowlock_locks SET token = 8000000000000000");  // no clock says so much
  REQUIRE(one.take(permit_taker::reader()));
  REQUIRE(two.take(permit_taker::reader()));
  CHECK(number(f, "SELECT max(token) FROM rowlock_permits") == 8000000000000002);
  CHECK(number(f, "SELECT min(token) FROM rowlock_permits") == 8000000000000001);
  CHECK(number(f, "SELECT token FROM rowlock_locks WHERE name = 'x'") == 8000000000000002);
}

// At REPEATABLE READ a second take must fail by this, where tokens are not asked for, too.
LEASE_CASE("permits: each take changes the anchor, also without tokens [C43]") {
  auto const m = f.manager();
  auto x = m->make_shared_mutex("x", {.fencing = false, .owner = each_acquire{}});
  auto const first = x.try_acquire_shared();
  REQUIRE(first);
  auto const before = number(f, "SELECT token FROM rowlock_locks WHERE name = 'x'");
  REQUIRE(x.try_acquire_shared());
  CHECK(number(f, "SELECT token FROM rowlock_locks WHERE name = 'x'") > before);
}

PAIRS_CASE("permits: what a transaction guards is not waited for by a take or a purge, and counts [C42]",
           all<leases, on_a_server>) {
  permit_taker guarded(f, strategy::semaphore);
  permit_taker dead(f, strategy::semaphore);
  permit_taker taker(f, strategy::semaphore);
  REQUIRE(guarded.take(permit_taker::of(1, 2)));
  REQUIRE(dead.take(permit_taker::of(1, 2)));
  expire_permits(f);
  open_transaction t(f);
  t.run("UPDATE rowlock_permits SET renewals = renewals + 1 WHERE term = '" + guarded.term().value + "'");
  CHECK_FALSE(taker.take(permit_taker::of(2, 2)));  // it would throw if it waited for the row
  CHECK_FALSE(taker.met_locked());
  CHECK(guarded.is_there());
  CHECK_FALSE(dead.is_there());
  CHECK(taker.take(permit_taker::of(1, 2)));
  CHECK(taker.release());
  t.commit();
  CHECK(taker.take(permit_taker::of(2, 2)));
  CHECK_FALSE(guarded.is_there());
}

LEASE_CASE("permits: one that is renewed between the look at it and its purge stays") {
  permit_taker late(f);
  REQUIRE(late.take(permit_taker::reader()));
  expire_permits(f);
  auto const m = f.manager();
  bool renewed = false;
  before_purge(f, [&] { renewed = late.renew(); });
  CHECK_FALSE(m->make_shared_mutex("x").try_acquire());
  CHECK(renewed);
  CHECK(late.is_there());
  CHECK(late.renew());
}

PAIRS_CASE("permits: a purge beside a renewal that is not committed skips it", all<leases, on_a_server>) {
  permit_taker late(f);
  permit_taker writer(f);
  REQUIRE(late.take(permit_taker::reader()));
  expire_permits(f);
  open_transaction renewal(f);
  renewal.run(prolong(f, late.term().value));
  CHECK_FALSE(writer.take(permit_taker::writer()));
  CHECK_FALSE(writer.met_locked());
  renewal.commit();
  CHECK_FALSE(writer.take(permit_taker::writer()));
  CHECK(late.is_there());
}

PAIRS_CASE("permits: a renewal beside a purge that is not committed tells nothing, and then a loss",
           all<leases, on_a_server>) {
  permit_taker late(f);
  REQUIRE(late.take(permit_taker::reader()));
  for (std::string const end : {"ROLLBACK", "COMMIT"}) {
    open_transaction purge(f);
    purge.run("DELETE FROM rowlock_permits WHERE name = 'x'");
    CHECK_FALSE(late.renew());
    CHECK(late.is_there());  // as far as anybody knows
    purge.run(end);
    CHECK(late.renew() == (end == "ROLLBACK"));
    CHECK(late.is_there() == (end == "ROLLBACK"));
  }
}

LEASE_CASE("permits: one whose holder was stopped counts until it is in somebody's way") {
  permit_taker stopped(f, strategy::semaphore);
  permit_taker other(f, strategy::semaphore);
  REQUIRE(stopped.take(permit_taker::of(1, 2)));
  expire_permits(f);
  REQUIRE(other.take(permit_taker::of(1, 2)));  // there is room for both
  CHECK(stopped.renew());
  expire_permits(f, "term = '" + stopped.term().value + "'");
  REQUIRE(other.take(permit_taker::of(1, 2)));
  CHECK_FALSE(stopped.is_there());
  CHECK_FALSE(stopped.renew());
  CHECK(permits_there(f) == 2);
}

PAIRS_CASE("permits: a revocation that waits for a renewal comes after it", all<leases, on_a_server>) {
  for (auto const mode : {revoke_mode::at_renewal, revoke_mode::now}) {
    permit_taker holder(f);
    permit_taker operator_(f);
    REQUIRE(holder.take(permit_taker::reader()));
    open_transaction renewal(f);
    renewal.run(prolong(f, holder.term().value));
    bool revoked = false;
    while_it_waits(
        f, operator_.session(), [&] { revoked = operator_.revoke(mode); }, [&] { renewal.commit(); });
    CHECK(revoked);
    CHECK_FALSE(holder.renew());
    auto const left = holder.state();
    CHECK(left.has_value() == (mode == revoke_mode::at_renewal));
    if (left) CHECK(left->revoked);
    (void)holder.release();
  }
}

PAIRS_CASE("permits: one whose release is not committed counts still", all<leases, on_a_server>) {
  permit_taker holder(f);
  permit_taker writer(f);
  REQUIRE(holder.take(permit_taker::reader()));
  open_transaction release(f);
  release.run("DELETE FROM rowlock_permits WHERE name = 'x'");
  CHECK_FALSE(writer.take(permit_taker::writer()));
  CHECK_FALSE(writer.met_locked());
  release.commit();
  CHECK(writer.take(permit_taker::writer()));
}

LEASE_CASE("permits: an anchor that the reaper has deleted before a take, or while it waits, is made again") {
  auto const m = f.manager();
  auto x = m->make_shared_mutex("x");
  std::int64_t last = 0;
  {
    auto const first = x.try_acquire();
    REQUIRE(first);
    last = first->token().value;
  }
  // As the clock of then: nothing but the floor keeps the next token above it.
  constexpr std::int64_t ahead = 1'000'000'000'000'000;
  f.sql("UPDATE rowlock_locks SET token = token + " + std::to_string(ahead));
  once_before(f, "begin", [&] {
    f.sql("UPDATE rowlock_meta SET token_floor = " + std::to_string(last + ahead));
    f.sql("DELETE FROM rowlock_locks WHERE name = 'x'");
  });
  {
    auto const again = x.try_acquire();
    REQUIRE(again);
    CHECK(again->token().value > last + ahead);
    last = again->token().value;
  }
  permit_taker taker(f);
  bool had = false;
  open_transaction reaper(f);
  reaper.run("UPDATE rowlock_meta SET token_floor = " + std::to_string(last));
  reaper.run("DELETE FROM rowlock_locks WHERE name = 'x'");
  while_it_waits(
      f, taker.session(), [&] { had = taker.take(permit_taker::writer()); }, [&] { reaper.commit(); });
  CHECK(had);
  CHECK(number(f, "SELECT token FROM rowlock_permits") > last);
}

LEASE_CASE("permits: the reaper leaves an anchor whose name is taken between its look and its delete") {
  make_name(f);
  permit_taker taker(f);
  once_before(f, before_delete, [&] { CHECK(taker.take(permit_taker::reader())); });
  CHECK(reap_unbidden(f, {.idle = 0ms}).deleted.all() == 0);
  CHECK(number(f, "SELECT count(*) FROM rowlock_locks WHERE name = 'x'") == 1);
  permit_taker writer(f);
  CHECK_FALSE(writer.take(permit_taker::writer()));
}

PAIRS_CASE("permits: the reaper leaves an anchor that a take has locked", all<leases, on_a_server>) {
  make_name(f);
  open_transaction take(f);
  take.run("SELECT token FROM rowlock_locks WHERE name = 'x' FOR UPDATE");
  take.run(permit_of_somebody(f, 1, whole, strategy::shared));
  CHECK(reap_unbidden(f, {.idle = 0ms}).deleted.all() == 0);
  take.commit();
  CHECK(reap_unbidden(f, {.idle = 0ms}).deleted.all() == 0);
  permit_taker writer(f);
  CHECK_FALSE(writer.take(permit_taker::writer()));
}

// Unlike a lease it may not be ended by watching it.
LEASE_CASE("permits: if the clock went back, a dead holder's permit stays until somebody revokes it [C5]") {
  auto const m = f.manager();
  permit_taker dead(f);
  REQUIRE(dead.take(permit_taker::reader()));
  f.sql("UPDATE rowlock_permits SET ttl = 100, longest = 100, expires_at = " + in_ms(f, 3'600'000));
  auto x = m->make_shared_mutex("x");
  CHECK_FALSE(x.try_acquire_for(600ms));
  CHECK(dead.is_there());
  CHECK(m->revoke("x", revoke_mode::now, dead.term()));
  CHECK(eventually([&] { return bool(x.try_acquire()); }));  // once that it was waited for is forgotten
}

LEASE_CASE("permits: while takers are told different limits the largest counts") {
  permit_taker three(f, strategy::semaphore);
  permit_taker five(f, strategy::semaphore);
  REQUIRE(three.take(permit_taker::of(3, 3)));
  CHECK_FALSE(three.take(permit_taker::of(1, 3)));
  CHECK(five.take(permit_taker::of(2, 5)));
  CHECK_FALSE(five.take(permit_taker::of(1, 5)));
  CHECK(five.release());
  CHECK_FALSE(three.take(permit_taker::of(1, 3)));
  CHECK(three.release());
  CHECK(three.take(permit_taker::of(3, 3)));
}

LEASE_CASE("permits: wait_until_free_for waits for all of them, and for none that has expired") {
  auto const m = f.manager();
  permit_taker reader(f);
  permit_taker second(f);
  auto x = m->make_shared_mutex("x");
  CHECK(x.wait_until_free_for(0s));
  REQUIRE(reader.take(permit_taker::reader()));
  REQUIRE(second.take(permit_taker::reader()));
  CHECK_FALSE(x.wait_until_free_for(0s));
  CHECK(reader.release());
  CHECK_FALSE(x.wait_until_free_for(20ms));
  std::jthread const ends([&] {
    std::this_thread::sleep_for(50ms);
    CHECK(second.release());
  });
  CHECK(x.wait_until_free_for(60s));
  REQUIRE(reader.take(permit_taker::reader()));
  expire_permits(f);
  CHECK(x.wait_until_free_for(60s));
}

PAIRS_CASE("permits: busy is what somebody holds, also while the anchor is locked [C21]",
           all<leases, on_a_server>) {
  auto const m = f.manager();
  auto x = m->make_shared_mutex("x");
  permit_taker reader(f);
  REQUIRE(reader.take(permit_taker::reader()));
  open_transaction t(f);
  t.run("UPDATE rowlock_locks SET note = 'locked' WHERE name = 'x'");
  auto const writes = x.try_acquire();
  CHECK(writes.status() == acquire_status::busy);
  CHECK(writes.holder());
  CHECK(x.try_acquire_shared().status() == acquire_status::contended);  // there would be room for it
  t.run("ROLLBACK");
  CHECK(x.try_acquire_shared());
}

PAIRS_CASE("permits: one that can't be given back yet does not keep others of its name from that",
           all<leases, on_a_server>) {
  auto o = f.options;
  o.release_timeout = 20s;  // InnoDB looks once a second whether a wait is over
  std::atomic<int> lost{1};
  auto const m = f.manager(o);
  auto x = m->make_semaphore("x", 2);
  auto first = x.try_acquire();
  auto second = x.try_acquire();
  REQUIRE(first);
  REQUIRE(second);
  open_transaction t(f);
  t.run("UPDATE rowlock_permits SET note = 'locked' WHERE term = '" + first->term().value + "'");
  CHECK(first->release() == release_result::handed_over);
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_release" && lost-- > 0) lose_reply();
  };
  CHECK(second->release() == release_result::in_doubt);
  CHECK(eventually([&] { return permits_there(f) == 1; }));
  t.commit();
  CHECK(eventually([&] { return permits_there(f) == 0; }));
}
