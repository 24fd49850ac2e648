// Taking, being busy, giving back.
#include <algorithm>
#include <mutex>
#include <thread>

#include "contract/fixture.hpp"

using namespace rowlock;
using namespace rowlock::test;

EVERY_CASE(
    "an uncontended take and give back costs two round trips, of unique_insert six where they can't be sent "
    "at "
    "once") {
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  { auto const first = x.acquire(); }  // connects, makes the row
  f.probe->reset();
  {
    auto lock = x.acquire();
    REQUIRE(lock);
    CHECK(lock->release() == release_result::released);
  }
  // The transaction of unique_insert: begin, the row, its token, into the row, commit.
  bool const by_steps = pair.strategy == strategy::unique_insert && pair.engine != dialect::postgresql;
  CHECK(f.probe->executed_in_all() == (by_steps ? 6 : 2));
  CHECK(f.probe->connections == 1);
}

LEASE_CASE("an uncontended take and give back without a token is two round trips") {
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.fencing = false});
  { auto const first = x.acquire(); }  // connects, makes the row
  f.probe->reset();
  { auto const lock = x.acquire(); }
  CHECK(f.probe->executed_in_all() == 2);
}

CONTRACT_CASE("what is held says so, and is free afterwards") {
  stranger other(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.note = "nightly"});
  auto lock = x.try_acquire();
  REQUIRE(lock);
  CHECK(lock->name() == "x");
  CHECK(lock->valid());
  CHECK_FALSE(lock->loss());
  CHECK(lock->token().value > 0);
  CHECK_FALSE(other.take("x"));
  auto const row = other.read("x");
  CHECK(row->term == lock->term());
  CHECK(row->holder.note == "nightly");
  CHECK(row->holder.owner.same(lock->owner()));
  auto const listed = m->list();
  REQUIRE(listed.size() == 1);
  CHECK(listed[0].name == "x");
  CHECK(listed[0].held);
  CHECK(lock->release() == release_result::released);
  CHECK(lock->release() == release_result::released);
  CHECK_FALSE(lock->valid());
  CHECK(m->list().empty());
  CHECK(m->list({.idle = true}).size() == (pair.keeps_row() ? 1 : 0));
  CHECK(other.take("x"));
}

CONTRACT_CASE("busy names the holder and how long it lasts at most") {
  stranger other(f);
  REQUIRE(other.take("x", 20s));
  auto const m = f.manager();
  auto const got = m->make_mutex("x").try_acquire();
  CHECK_FALSE(got);
  CHECK(got.status() == acquire_status::busy);
  REQUIRE(got.holder());
  CHECK(got.holder()->owner.host == "elsewhere");
  CHECK(got.holder()->expires_in > 10s);
  CHECK(got.holder()->expires_in <= 20s);
  auto const age = std::chrono::system_clock::now() - got.holder()->acquired_at;
  CHECK(age > -60s);
  CHECK(age < 60s);
}

CONTRACT_CASE("R1: a release names its term and leaves another's lock alone") {
  stranger other(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.renew = false});
  auto lock = x.acquire();
  REQUIRE(lock);
  REQUIRE(other.take_over("x"));
  auto const theirs = other.read("x")->term;
  CHECK(lock->release() == release_result::already_lost);
  CHECK(lock->loss() == loss_reason::taken_over);
  CHECK(other.read("x")->term == theirs);
}

EVERY_CASE("T1: competing for a name that has no row yet ends with one owner and no error") {
  constexpr int owners = 6;
  std::atomic<int> won{0};
  {
    std::vector<std::unique_ptr<stranger>> all;
    std::vector<std::jthread> threads;
    for (int i = 0; i < owners; ++i) all.push_back(std::make_unique<stranger>(f, std::to_string(i)));
    for (auto& s : all)
      threads.emplace_back([&won, &s] {
        if (s->take("fresh")) ++won;
      });
  }
  CHECK(won == 1);
}

EVERY_CASE("T10: a row that was deleted while idle is made again") {
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  { auto const first = x.acquire(); }
  f.sql("DELETE FROM rowlock_locks");
  CHECK(x.try_acquire());
}

CONTRACT_CASE("B41: a name in use with another strategy is refused, free or not") {
  auto const m = f.manager();
  stranger other(f);
  REQUIRE(other.take("x"));
  auto x = m->make_mutex("x");
  for (auto const* change : {"strategy = 'row_lock'", "term = NULL"}) {
    f.sql(std::string("UPDATE rowlock_locks SET ") + change);
    try {
      (void)x.try_acquire();
      FAIL("granted");
    } catch (error const& e) {
      CHECK(e.reason() == errc::strategy_mismatch);
      CHECK(std::string(e.what()).find("row_lock") != std::string::npos);
    }
  }
}

EVERY_CASE("works with the standard library's guards") {
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto y = m->make_mutex("y");
  {
    std::scoped_lock const both(x, y);
    REQUIRE(x.current() != nullptr);
    CHECK(x.current()->valid());
    CHECK(m->list().size() == 2);
  }
  CHECK(x.current() == nullptr);
  CHECK(m->list().empty());
  std::unique_lock const timed(x, 5s);
  CHECK(timed.owns_lock());
}

CONTRACT_CASE("R5: unlocking what is not locked, or lost, does not throw") {
  stranger other(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.renew = false});
  x.unlock();
  x.lock();
  REQUIRE(other.take_over("x"));
  x.unlock();
  CHECK(other.read("x")->holder.owner.host == "elsewhere");
}

EVERY_CASE("a manager gives back what is held when it ends, and handles may outlive it") {
  stranger other(f);
  auto m = f.manager();
  auto x = m->make_mutex("x");
  auto lock = x.acquire();
  REQUIRE(lock);
  m.reset();
  CHECK(other.take("x"));
  CHECK_FALSE(lock->valid());
  CHECK(lock->release() == release_result::already_lost);
  CHECK_FALSE(stranger(f, "third").take("x"));
}

CONTRACT_CASE("at_least keeps the name taken until its time is over") {
  stranger other(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.at_least = 5s});
  auto lock = x.acquire();
  auto const term = lock->term();
  CHECK(lock->release() == release_result::released);
  auto const row = other.read("x");
  CHECK_FALSE(row->term.empty());
  CHECK(row->term != term);
  CHECK(row->holder.expires_in <= 5s);
  CHECK_FALSE(other.take("x"));
  CHECK(eventually([&] { return other.take("x"); }));
}

CONTRACT_CASE("at_least that is over already frees the name at once") {
  stranger other(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.at_least = 100ms});
  auto lock = x.acquire();
  f.sql("UPDATE rowlock_locks SET acquired_at = " + in_ms(f, -1000));
  CHECK(lock->release() == release_result::released);
  CHECK(other.sees_free("x"));
  // A row, also one without a term, keeps out who locks by INSERT.
  CHECK(other.read("x").has_value() == pair.keeps_row());
}

// Each has a manager of its own, which has seen the row never before: who has to watch it is busy.
CONTRACT_CASE("at_least that is over is over for those who try once, also if the lock was observed") {
  auto const m = f.manager();
  fencing_token before;
  {
    auto const lock =
        m->make_mutex("x", {.ttl = 300s, .at_least = 6s, .takeover = takeover::observed}).acquire();
    before = lock->token();
  }
  auto const try_once = [&] {
    auto const fresh = f.manager();
    auto const lock = fresh->make_mutex("x", {.takeover = takeover::observed}).try_acquire();
    return lock && lock->token() > before;
  };
  CHECK_FALSE(try_once());
  CHECK(eventually(try_once));
}

CONTRACT_CASE("events tell of taken, renewed, released, lost and errors") {
  std::mutex guard;
  std::vector<event_kind> kinds;
  auto o = f.options;
  o.on_event = [&](event const& e) {
    std::lock_guard const hold(guard);
    kinds.push_back(e.kind);
    throw std::runtime_error("a hook that fails must not matter");
  };
  auto const saw = [&](event_kind k) {
    std::lock_guard const hold(guard);
    return std::find(kinds.begin(), kinds.end(), k) != kinds.end();
  };
  stranger other(f);
  auto const m = f.manager(o);
  auto x = m->make_mutex("x", {.ttl = 9s});
  {
    auto lock = x.acquire();
    CHECK(saw(event_kind::taken));
    CHECK(eventually([&] { return saw(event_kind::renewed); }));
    REQUIRE(lock->release() == release_result::released);
    CHECK(saw(event_kind::released));
  }
  auto lock = x.acquire();
  REQUIRE(other.take_over("x"));
  CHECK(eventually([&] { return saw(event_kind::lost); }));
  CHECK_FALSE(saw(event_kind::error));
}

EVERY_CASE("what was moved from is empty, and an assignment gives back what was there") {
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto y = m->make_mutex("y");
  x.lock();
  y = std::move(x);
  CHECK(y.name() == "x");
  CHECK(y.current());
  // NOLINTBEGIN(bugprone-use-after-move): what they say is promised
  CHECK(x.name().empty());
  CHECK_FALSE(x.current());
  x.unlock();
  CHECK_THROWS_AS(x.lock(), error);
  CHECK_THROWS_AS((void)x.try_acquire(), error);
  y = m->make_mutex("z");
  CHECK(m->list().empty());  // x was given back

  auto got = y.acquire();
  auto lock = std::move(got).value();
  CHECK(lock.valid());
  CHECK_FALSE(got);
  CHECK(got.status() == acquire_status::cancelled);
  auto const second = std::move(lock);
  CHECK(second.valid());
  CHECK_FALSE(lock.valid());
  CHECK(lock.name() == "z");
  CHECK(lock.term() == second.term());
  CHECK(lock.release() == release_result::released);
  CHECK(second.valid());
  // NOLINTEND(bugprone-use-after-move)
}
