// One permit becomes another: held_lock::try_upgrade() and downgrade(), by steps.
#include <functional>
#include <new>
#include <thread>

#include "contract/open_transaction.hpp"
#include "contract/permits.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// What is exchanged in a case, and by which of the two calls.
struct exchanged {
  exchanged(fixture& f, bool up) : m(f.manager()), x(m->make_shared_mutex("x")), up_(up) {
    auto got = up ? x.try_acquire_shared() : x.try_acquire();
    REQUIRE(got);
    held.emplace(*std::move(got));
  }
  bool exchange() { return up_ ? held->try_upgrade() : held->downgrade(); }

  std::unique_ptr<lock_manager> m;
  shared_mutex x;
  std::optional<held_lock> held;

 private:
  bool up_;
};

}  // namespace

LEASE_CASE("permits: one reader becomes a writer, and a writer a reader") {
  auto const m = f.manager();
  other_program other(f);
  auto x = m->make_shared_mutex("x");
  auto mine = x.try_acquire_shared();
  REQUIRE(mine);
  auto const as_reader = mine->token();
  REQUIRE(other.reads());
  CHECK_FALSE(mine->try_upgrade());
  CHECK(mine->valid());
  CHECK(mine->token() == as_reader);
  other.give_back();
  REQUIRE(mine->try_upgrade());
  CHECK(mine->valid());
  CHECK(mine->token() > as_reader);
  CHECK_FALSE(other.reads());
  CHECK(m->list().size() == 1);
  auto const as_writer = mine->token();
  REQUIRE(mine->downgrade());
  CHECK(mine->valid());
  CHECK(mine->token() > as_writer);
  CHECK(other.reads());
  CHECK_FALSE(other.writes());
  CHECK(mine->release() == release_result::released);
  other.give_back();
  CHECK(m->list().empty());
  auto plain = m->make_mutex("plain").try_acquire();
  CHECK(reason([&] { (void)plain->try_upgrade(); }) == errc::unsupported);
}

// Each counts the other, also if one is done while the other has looked and not taken yet.
LEASE_CASE("permits: of two that want to write at once both are refused, and neither waits") {
  auto const one = f.manager();
  lock_manager two(f.source, f.options);
  auto a = one->make_shared_mutex("x").try_acquire_shared();
  auto b = two.make_shared_mutex("x", {.owner = each_acquire{}}).try_acquire_shared();
  REQUIRE(a);
  REQUIRE(b);
  bool b_writes = true;
  once_before(f, "begin", [&] { b_writes = b->try_upgrade(); });
  CHECK_FALSE(a->try_upgrade());
  CHECK_FALSE(b_writes);
  std::jthread other([&] { b_writes = b->try_upgrade(); });
  bool const a_writes = a->try_upgrade();
  other.join();
  CHECK_FALSE(a_writes);
  CHECK_FALSE(b_writes);
  CHECK(a->valid());
  CHECK(b->valid());
  CHECK(a->release() == release_result::released);
  CHECK(b->try_upgrade());
  CHECK(permits_there(f) == 1);
}

LEASE_CASE("permits: who reads alone can write, although somebody has died as a reader") {
  permit_taker dead(f);
  REQUIRE(dead.take(permit_taker::reader()));
  exchanged mine(f, true);
  expire_permits(f, "term = '" + dead.term().value + "'");
  CHECK(mine.exchange());
  CHECK_FALSE(dead.is_there());
  CHECK(permits_there(f) == 1);
}

LEASE_CASE("permits: an upgrade obeys whoever is first in line, and a downgrade nobody [C44]") {
  for (bool const up : {true, false}) {
    CAPTURE(up);
    exchanged mine(f, up);
    f.sql("UPDATE rowlock_locks SET intent_units = " + std::to_string(strategies::all_units) +
          ", intent_term = 'somebody', intent_until = " + in_ms(f, 1900));
    CHECK(mine.exchange() == !up);
    CHECK(mine.held->valid());
    CHECK(mine.held->release() == release_result::released);
    CHECK(permits_there(f) == 0);
    f.sql("UPDATE rowlock_locks SET intent_until = NULL");
  }
}

LEASE_CASE("permits: what a transaction has locked is not exchanged, and stands") {
  for (bool const up : {true, false}) {
    CAPTURE(up);
    exchanged mine(f, up);
    auto const before = mine.held->term();
    open_transaction t(f);
    t.run("UPDATE rowlock_permits SET renewals = renewals + 1");
    f.probe->reset();
    CHECK(reason([&] { (void)mine.exchange(); }) == errc::row_locked);
    if (on_a_server(pair))
      CHECK(f.probe->executed("lock_take") == 0);  // it would wait with the anchor locked
    t.run("ROLLBACK");
    CHECK(mine.held->valid());
    CHECK(mine.held->term() == before);
    CHECK(mine.exchange());
    CHECK(mine.held->term() != before);
    CHECK(permits_there(f) == 1);
    CHECK(mine.held->release() == release_result::released);
  }
}

// It looks whether its row is locked; who locks it just after that is waited for, for a moment.
PAIRS_CASE("permits: a row that is locked just before it is exchanged leaves the former permit, too",
           all<leases, on_a_server>) {
  exchanged mine(f, false);
  auto const before = mine.held->term();
  std::optional<open_transaction> t;
  once_before(f, "begin", [&] {
    t.emplace(f);
    t->run("UPDATE rowlock_permits SET renewals = renewals + 1");
  });
  CHECK(reason([&] { (void)mine.exchange(); }) == errc::row_locked);
  CHECK(mine.held->valid());
  CHECK(mine.held->term() == before);
  CHECK(permits_there(f) == 1);
  t->run("ROLLBACK");
  CHECK(mine.exchange());
}

// Or could not be read, or came when there was no memory to keep it.
LEASE_CASE("permits: an exchange whose reply was lost is found by its term") {
  std::function<void()> lose = lose_reply;
  SUBCASE("lost") {}
  SUBCASE("nothing that it could be") {
    lose = [] { throw error(errc::failed, "no such reply, says the test"); };
  }
  SUBCASE("no memory") {
    lose = [] { throw std::bad_alloc(); };
  }
  for (bool const up : {true, false}) {
    CAPTURE(up);
    exchanged mine(f, up);
    auto const before = mine.held->token();
    std::atomic<int> lost{1};
    f.probe->after = [&](std::string const& s) {
      if (s == "lock_take" && lost-- > 0) lose();
    };
    CHECK(mine.exchange());
    CHECK(lost <= 0);
    f.probe->after = nullptr;
    CHECK(mine.held->valid());
    CHECK(mine.held->token() > before);
    CHECK(permits_there(f) == 1);
    CHECK(mine.m->list().at(0).term == mine.held->term());
    other_program other(f);
    CHECK(other.reads() == !up);
    other.give_back();
    CHECK(mine.held->release() == release_result::released);
    CHECK(permits_there(f) == 0);
  }
}

LEASE_CASE("permits: an exchange that the database refuses for good leaves the former permit") {
  for (bool const up : {true, false}) {
    CAPTURE(up);
    exchanged mine(f, up);
    auto const before = mine.held->term();
    f.probe->before = [](std::string const& s) {
      if (s == "lock_take") throw error(errc::failed, "refused by the test");
    };
    CHECK(reason([&] { (void)mine.exchange(); }) == errc::failed);
    f.probe->before = nullptr;
    CHECK(mine.held->valid());
    CHECK(mine.held->term() == before);
    CHECK(permits_there(f) == 1);
    CHECK(mine.held->release() == release_result::released);
  }
}

LEASE_CASE(
    "permits: an exchange whose reply could not be read, and that can't be kept, ends the former permit") {
  for (bool const up : {true, false}) {
    CAPTURE(up);
    exchanged mine(f, up);
    std::atomic<int> lost{1};
    f.probe->after = [&](std::string const& s) {
      if (s != "lock_take" || lost-- <= 0) return;
      CHECK(f.manager()->revoke("x", revoke_mode::at_renewal));
      throw error(errc::failed, "no such reply, says the test");
    };
    CHECK(reason([&] { (void)mine.exchange(); }) == errc::failed);
    f.probe->after = nullptr;
    CHECK_FALSE(mine.held->valid());
    CHECK(eventually([&] { return permits_there(f) == 0; }));
    CHECK(mine.held->release() == release_result::already_lost);
  }
}

// A writer that goes on to write while a reader's permit stands in the place of its own, or nothing does.
LEASE_CASE(
    "permits: what an exchange has left is not trusted while that can't be told, and nothing is left") {
  for (bool const up : {true, false})
    for (bool const applied : {true, false}) {
      CAPTURE(up);
      CAPTURE(applied);
      exchanged mine(f, up);
      std::atomic<int> lost{1};
      auto const lose = [&](std::string const& s) {
        if (s == "lock_take" && lost-- > 0) lose_reply();
      };
      if (applied)
        f.probe->after = lose;
      else
        f.probe->before = lose;
      std::atomic<bool> asked = false;
      f.probe->look = [&](std::string const& s, std::span<backend::value const>) {
        if (s != "permit_token" || lost > 0) return;
        asked = true;
        throw error(errc::unreachable, "cut off by the test");
      };
      CHECK(reason([&] { (void)mine.exchange(); }) == errc::in_doubt);
      CHECK(asked);
      f.probe->after = nullptr;
      f.probe->before = nullptr;
      f.probe->look = nullptr;
      CHECK_FALSE(mine.held->valid());
      CHECK(mine.held->loss());
      CHECK(eventually([&] { return permits_there(f) == 0; }));
      CHECK(mine.held->release() == release_result::already_lost);
    }
}

LEASE_CASE("permits: an exchange of what is not there any more, or is revoked, takes nothing") {
  for (bool const up : {true, false}) {
    permit_taker holder(f);
    REQUIRE(holder.take(up ? permit_taker::reader() : permit_taker::writer()));
    auto wanted = up ? permit_taker::writer() : permit_taker::reader();
    wanted.replaces = holder.term();
    wanted.replaced_units = up ? 1 : strategies::all_units;
    wanted.where = strategies::wanted_permit::place::first;
    REQUIRE(holder.revoke(revoke_mode::at_renewal));
    permit_taker late(f);
    CHECK_FALSE(late.take(wanted));
    CHECK(permits_there(f) == 1);
    REQUIRE(holder.release());  // and somebody may have written since
    CHECK_FALSE(late.take(wanted));
    CHECK(permits_there(f) == 0);
    f.sql("UPDATE rowlock_locks SET intent_until = NULL");
  }
}

LEASE_CASE("permits: what is lost is not exchanged, also if it is what is asked for already") {
  auto const m = f.manager();
  auto x = m->make_shared_mutex("x", {.ttl = 9s});
  auto reads = x.try_acquire_shared();
  REQUIRE(reads);
  CHECK(reads->downgrade());
  CHECK(m->revoke("x", revoke_mode::now));
  CHECK(eventually([&] { return reads->loss().has_value(); }));
  CHECK_FALSE(reads->downgrade());
  CHECK_FALSE(reads->try_upgrade());
  CHECK(permits_there(f) == 0);
}

LEASE_CASE("permits: an exchange does not prolong the hard limit") {
  auto const m = f.manager();
  auto held = m->make_shared_mutex("x", {.renew = false, .hard_limit = 60s}).try_acquire_shared();
  REQUIRE(held);
  f.probe->reset();
  std::vector<std::int64_t> limits;
  f.probe->look = [&](std::string const& s, std::span<backend::value const> with) {
    if (s.starts_with("lock_take") && with.size() > 9) limits.push_back(backend::as_int(with[9]));
    if (s.starts_with("permit_take") && with.size() > 9) limits.push_back(backend::as_int(with[9]));
  };
  std::this_thread::sleep_for(20ms);  // of which something must be seen
  CHECK(held->try_upgrade());
  REQUIRE(limits.size() == 1);
  CHECK(limits[0] <= 60'000 - 20);
  CHECK(limits[0] > 50'000);
}

LEASE_CASE(
    "B17: permits: an exchange that comes too late is not handed out, and what was held before is lost") {
  for (bool const up : {true, false}) {
    CAPTURE(up);
    std::atomic<bool> armed{false};
    auto o = f.options;
    o.on_event = [&](event const& e) {
      if (e.kind == event_kind::taken && armed.exchange(false))
        CHECK(eventually([&] { return boot_clock::now() >= e.trusted_until; }));
    };
    auto const m = f.manager(o);
    auto x = m->make_shared_mutex("x", {.ttl = 4s, .renew = false});
    auto mine = up ? x.try_acquire_shared() : x.try_acquire();
    REQUIRE(mine);
    armed = true;
    CHECK(reason([&] { (void)(up ? mine->try_upgrade() : mine->downgrade()); }) == errc::unreachable);
    CHECK_FALSE(armed);
    CHECK_FALSE(mine->valid());
    CHECK(mine->loss());
    CHECK(eventually([&] { return mine->loss_token().stop_requested(); }));
    CHECK(mine->release() == release_result::already_lost);
    CHECK(eventually([&] { return permits_there(f) == 0; }));
  }
}
