// The reaper against live rows, by steps: what happens between two of its statements, or while rows are
// locked.
#include <unistd.h>

#include <algorithm>
#include <rowlock/postgresql.hpp>
#include <thread>

#include "contract/open_transaction.hpp"
#include "contract/reaping.hpp"
#include "contract/waits.hpp"

using namespace rowlock;
using namespace rowlock::test;

CONTRACT_CASE("reaper: P2, B24: a row that is renewed between the look and the delete stays") {
  stranger late(f);
  REQUIRE(late.take("x"));
  expire(f, 48 * hour);
  leave_dead(f, "y");
  once_before(f, before_delete, [&] { CHECK(late.renew("x")); });
  auto const r = reap_once(f);
  CHECK(r.deleted.lease + r.deleted.unique_insert == 1);
  CHECK(r.skipped == 1);
  CHECK(rows(f) == 1);
  CHECK(late.read("x")->holder.expires_in > 20s);
  CHECK(late.renew("x"));
}

CONTRACT_CASE("reaper: a row that is taken between the look and the delete stays") {
  leave_dead(f);
  stranger taker(f);
  once_before(f, before_delete, [&] { CHECK(taker.take("x")); });
  CHECK(reap_once(f, {.idle = 0ms}).skipped == 1);
  CHECK(taker.renew("x"));
}

LEASE_CASE("reaper: B40: a row that is taken and given back after the floor was raised keeps its new token") {
  leave_dead(f);
  shift_tokens(f, 2 * token_hour);
  stranger quick(f);
  auto const last = quick.token("x");
  once_before(f, before_delete, [&] {
    CHECK(quick.take("x"));
    CHECK(quick.release("x"));
  });
  CHECK(reap_once(f, {.idle = 0ms}).deleted.all() == 0);
  auto const m = f.manager();
  CHECK(take_once(*m) == last + 2);
}

INSERT_CASE("reaper: B40: a token that is drawn after the floor was raised is not deleted") {
  stranger quick(f);
  REQUIRE(quick.take("x"));
  REQUIRE(quick.release("x"));
  std::int64_t drawn = 0;
  once_before(f, "reap_tokens_delete", [&] {
    CHECK(quick.take("x"));
    drawn = quick.token("x");
    CHECK(quick.release("x"));
  });
  CHECK(reap_once(f, {.idle = 0ms}).deleted.tokens == 0);
  CHECK(number(f, "SELECT token FROM rowlock_tokens") == drawn);
  CHECK(floor_of(f) < drawn);
}

// Where there are several writers.
PAIRS_CASE("reaper: B39: the tokens' row is reaped just before a draw: the next token is above it",
           all<inserts, direct, on_a_server>) {
  auto const m = f.manager();
  auto const first = take_once(*m);
  constexpr std::int64_t ahead = 7'000'000'000;
  shift_tokens(f, ahead);
  // What the reaper does, as it would be after the clock had caught up.
  once_before(f, "token_draw", [&] {
    f.sql("UPDATE rowlock_meta SET token_floor = " + std::to_string(first + ahead));
    f.sql("DELETE FROM rowlock_tokens");
  });
  CHECK(take_once(*m) == first + ahead + 1);
}

// Sent in one piece, nothing can be put between its statements; but each may be made to wait.
PAIRS_CASE("B39: the entry for a token is deleted while a take that was sent at once waits for it",
           all<inserts, sent_at_once>) {
  auto const m = f.manager();
  stranger watcher(f);
  auto& watching = watcher.session();
  for (bool const locked_first : {false, true}) {
    take_once(*m);
    auto const floor = floor_of(f) + 5'000'000'000'000'000;
    open_transaction reaper(f);
    // Locked only, the entry is there for the statement that makes one, and gone for the draw.
    reaper.run(locked_first ? "SELECT token FROM rowlock_tokens FOR UPDATE" : "DELETE FROM rowlock_tokens");
    f.sql("UPDATE rowlock_meta SET token_floor = " + std::to_string(floor));
    wait_view view(f, watching);
    std::int64_t token = 0;
    std::atomic<int> thread{0};
    std::jthread taker([&] {
      thread = ::gettid();
      token = take_once(*m);
    });
    REQUIRE(view.shows_it(thread));
    if (locked_first) reaper.run("DELETE FROM rowlock_tokens");
    reaper.commit();
    taker.join();
    CHECK(token == floor + 1);
  }
}

PAIRS_CASE("a take that was sent at once and met a row changes nothing, and draws nothing",
           all<inserts, sent_at_once>) {
  auto const m = f.manager();
  take_once(*m);
  auto const drawn = number(f, "SELECT token FROM rowlock_tokens");
  stranger other(f);
  REQUIRE(other.take("x"));
  auto const held = other.read("x");
  auto const after = number(f, "SELECT token FROM rowlock_tokens");
  CHECK(after > drawn);
  auto x = m->make_mutex("x");
  CHECK_FALSE(x.try_acquire());
  CHECK(number(f, "SELECT token FROM rowlock_tokens") == after);
  CHECK(other.read("x")->term == held->term);
  CHECK(other.read("x")->renewals == held->renewals);
  REQUIRE(other.release("x"));
  auto const lock = x.try_acquire();
  REQUIRE(lock);
  CHECK(lock->token().value > after);
  CHECK(other.read("x")->holder.token == lock->token());
}

CONTRACT_CASE("reaper: B36: a term that only watching may end is left, and counted; a free row is not") {
  stranger watched(f);
  REQUIRE(watched.take("x", 30s, takeover::observed));
  REQUIRE(watched.take("y", 30s, takeover::observed));
  f.sql("UPDATE rowlock_locks SET term = NULL WHERE name = 'y'");
  expire(f, 48 * hour);
  auto const r = reap_once(f);
  CHECK(r.left_observed == 1);
  CHECK(r.deleted.lease + r.deleted.unique_insert == 1);
  CHECK(watched.renew("x"));
}

CONTRACT_CASE("reaper: T10: a name whose row was reaped is taken again by the same mutex") {
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  std::int64_t last = 0;
  for (int i = 0; i < 20; ++i) {
    {
      auto const lock = x.try_acquire();
      REQUIRE(lock);
      CHECK(lock->token().value > last);
      last = lock->token().value;
    }
    reap_once(f, {.idle = 0ms});
    CHECK(rows(f) == 0);
  }
}

LEASE_CASE("reaper: B4, T10: a fresh row that is reaped before it is taken is put there again") {
  auto const m = f.manager();
  m->connect();
  auto const once = std::make_shared<std::atomic<bool>>(false);
  f.probe->after = [&, once](std::string const& s) {
    if (s == "lock_insert_free" && !once->exchange(true)) {
      CHECK(reap_unbidden(f, {.idle = 0ms}).deleted.lease == 1);
      f.sql("UPDATE rowlock_meta SET token_floor = 5000000000000000");
    }
  };
  CHECK(take_once(*m) == 5000000000000001);
}

CONTRACT_CASE("reaper: two reapers at once, without the lease that keeps them apart, delete each row once") {
  std::string all;
  for (int i = 0; i < 1200; ++i) all += anchor(f, "n" + std::to_string(i), i < 1000 ? 48 * hour : 0);
  f.sql(all);
  std::atomic<std::int64_t> deleted{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&] { deleted += reap_unbidden(f, {.batch = 20}).deleted.row_lock; });
  }
  CHECK(deleted == 1000);
  CHECK(rows(f) == 200);
}

CONTRACT_CASE("reaper: a second reaper between the look and the delete of the first leaves it nothing") {
  leave_dead(f);
  shift_tokens(f, 2 * token_hour);
  stranger other(f);
  auto const last = other.token("x");
  once_before(f, before_delete, [&] { CHECK(reap_unbidden(f).deleted.all() == 1); });
  auto const r = reap_once(f);
  CHECK(r.deleted.all() == 0);
  CHECK(r.skipped == 1);
  CHECK(floor_of(f) == last);
}

PAIRS_CASE("reaper: a row that a transaction has locked is skipped, not waited for: all strategies",
           all<leases, direct, on_a_server>) {
  leave_dead(f, "lease");
  f.sql(
      "INSERT INTO rowlock_locks (name, strategy, term, token, expires_at) VALUES ('insert', "
      "'unique_insert', 't', 1, " +
      in_ms(f, -1000) + ")");
  make_anchor(f, "anchor", 48 * hour);
  f.sql("INSERT INTO rowlock_tokens (name, token) VALUES ('drawn', 1)");
  auto others = std::vector<std::unique_ptr<open_transaction>>();
  for (auto const* statement : {"UPDATE rowlock_locks SET note = 'guarded' WHERE name = 'lease'",
                                "UPDATE rowlock_locks SET renewals = 1 WHERE name = 'insert'",
                                "SELECT 1 FROM rowlock_locks WHERE name = 'anchor' FOR UPDATE",
                                "UPDATE rowlock_tokens SET token = 2 WHERE name = 'drawn'"}) {
    others.push_back(std::make_unique<open_transaction>(f));
    others.back()->run(statement);
  }
  make_anchor(f, "free", 48 * hour);
  auto const r = reap_once(f);
  CHECK(r.skipped == 4);
  CHECK(r.deleted.all() == 1);
  // A wait would be a second, each time. The rest is a busy machine.
  CHECK(eventually([&] {
    auto const began = boot_clock::now();
    return reap_once(f).skipped == 4 && boot_clock::now() - began < 900ms;
  }));
  CHECK(rows(f) == 3);
  for (auto& t : others) t->run("ROLLBACK");
  CHECK(reap_once(f).deleted.all() == 4);
}

TEST_CASE("reaper: an anchor that is waited for is not lost to its waiter: row_lock on postgresql") {
  postgresql_fixture f;
  make_anchor(f, "anchor", 48 * hour);
  auto holder = std::make_unique<open_transaction>(f);
  holder->run("SELECT 1 FROM rowlock_locks WHERE name = 'anchor' FOR UPDATE");
  open_transaction waiter(f);
  std::atomic<bool> had{false};
  std::jthread const waits([&] {
    try {
      waiter.run("SET LOCAL lock_timeout = 0; SELECT 1 FROM rowlock_locks WHERE name = 'anchor' FOR UPDATE");
      had = true;
    } catch (error const&) {  // the case has failed already
    }
  });
  REQUIRE(eventually([&] { return number(f, "SELECT count(*) FROM pg_locks WHERE NOT granted") > 0; }));
  CHECK(reap_once(f).deleted.all() == 0);
  holder.reset();
  REQUIRE(eventually([&] { return had.load(); }));
  CHECK(reap_once(f).deleted.all() == 0);
  CHECK(rows(f) == 1);
}
