// A lock that a majority of three databases grants, by steps.

#include <atomic>
#include <mutex>
#include <rowlock/error.hpp>
#include <rowlock/postgresql_transaction.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/event.hpp"
#include "quorum/members.hpp"
#include "support/threads.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// Also at a member without which the lock is granted.
void make_rows(quorum_mutex x) {
  auto got = x.acquire();
  REQUIRE(got);
  REQUIRE(eventually([&] { return got->votes() == 3; }));
}

}  // namespace

TEST_CASE(
    "quorum: try_lock_until() a time long ago waits for nothing, and does not wrap around to the future") {
  three_members members;
  auto a = members.program();
  auto b = members.program();
  auto const held = a->make_mutex("x", short_term()).acquire();
  REQUIRE(held);
  auto x = b->make_mutex("x", short_term());
  CHECK_FALSE(x.try_lock_until(std::chrono::system_clock::time_point::min()));
  CHECK_FALSE(x.try_lock_until(std::chrono::steady_clock::time_point::min()));
}

TEST_CASE(
    "quorum: one has it, another one is told who; tokens rise; what was given back can be taken at once") {
  three_members members;
  auto a = members.program();
  auto b = members.program();
  auto mine = a->make_mutex("x", short_term());
  auto theirs = b->make_mutex("x", short_term());
  auto got = mine.try_acquire();
  REQUIRE(got);
  CHECK(got->valid());
  CHECK(got->token());
  CHECK(eventually([&] { return got->votes() == 3; }));
  auto const refused = theirs.try_acquire();
  CHECK_FALSE(refused);
  CHECK(refused.status() == acquire_status::busy);
  REQUIRE(refused.holder());
  CHECK(refused.holder()->strategy == strategy::quorum);
  auto const first = got->token();
  CHECK(got->release() == release_result::released);
  CHECK_FALSE(got->valid());
  CHECK_FALSE(got->loss());
  auto const again = theirs.try_acquire();
  REQUIRE(again);
  CHECK(again->token() > first);
}

TEST_CASE("quorum: a minority that is gone costs no lock: neither one that is held, nor the next") {
  three_members members;
  auto a = members.program();
  auto got = a->make_mutex("x", short_term()).try_acquire();
  REQUIRE(got);
  for (std::size_t gone = 0; gone < three_members::size; ++gone) {
    CAPTURE(gone);
    members.cut_off(gone);
    auto const until = got->trusted_until();
    CHECK(eventually([&] { return got->trusted_until() > until + short_ttl / 2; }));
    CHECK(got->valid());
    auto other = a->make_mutex("y" + std::to_string(gone), short_term()).acquire();
    CHECK(other);
    members.mend(gone);
    CHECK(eventually([&] { return got->votes() == 3; }));
  }
  CHECK_FALSE(got->loss_token().stop_requested());
}

TEST_CASE("quorum: without a majority the loss is reported before trust ends, and it does not come back") {
  three_members members(false);
  auto a = members.program();
  a->init(10s);
  // Half a second before trust ends it is told, which is for a busy machine.
  auto got = a->make_mutex("x", {.ttl = 10s}).try_acquire();
  REQUIRE(got);
  std::atomic<boot_clock::rep> left = 0;
  std::stop_callback const at_loss(got->loss_token(),
                                   [&] { left = (got->trusted_until() - boot_clock::now()).count(); });
  members.cut_off(0);
  members.cut_off(2);
  CHECK(eventually([&] { return got->loss_token().stop_requested(); }));
  CHECK(left.load() > 0);
  CHECK_FALSE(got->valid());
  CHECK(got->loss() == loss_reason::database_unreachable);
  auto const until = got->trusted_until();
  members.mend(0);
  members.mend(2);
  // The rows are its own still: whoever would take them again, would own the lock beside a later owner.
  auto b = members.program();
  auto const next = b->make_mutex("x", short_term()).acquire();
  REQUIRE(next);
  CHECK(next->token() > got->token());
  CHECK_FALSE(got->valid());
  CHECK(got->trusted_until() == until);
  CHECK(got->release() == release_result::already_lost);
  CHECK(next->valid());
}

TEST_CASE("quorum: what an operator takes away at one member is taken again; at two of them it is lost") {
  three_members members;
  auto a = members.program();
  auto got = a->make_mutex("x", short_term()).try_acquire();
  REQUIRE(got);
  REQUIRE(eventually([&] { return got->votes() == 3; }));
  members.at(1).sql("UPDATE rowlock_locks SET term = NULL");
  CHECK(eventually(
      [&] { return members.number(1, "SELECT count(*) FROM rowlock_locks WHERE term IS NOT NULL") == 1; }));
  CHECK(eventually([&] { return got->votes() == 3; }));
  CHECK(token_at(members, 1) >= got->token().value);
  CHECK(got->valid());
  CHECK(a->revoke("x", revoke_mode::at_renewal).done == 3);
  CHECK(eventually([&] { return got->loss_token().stop_requested(); }));
  CHECK(got->loss() == loss_reason::revoked);
}

// Renewals had no reply when it was revoked, so that the member's term is given back and asked for again
// without anybody having met the mark.
TEST_CASE("quorum: what an operator takes away at a member whose term lapses meanwhile is not taken again") {
  three_members members;
  auto a = members.program();
  auto got = a->make_mutex("x", short_term()).try_acquire();
  REQUIRE(got);
  REQUIRE(eventually([&] { return got->votes() == 3; }));
  auto& lapsing = *members.at(1).probe;
  lapsing.before = [](std::string const& statement) {
    if (statement == "quorum_confirm") throw error(errc::unreachable, "cut off by the test");
  };
  auto const takes = lapsing.executed("lock_take");
  bool asks = false;
  SUBCASE("while it still had it") { members.at(1).sql("UPDATE rowlock_locks SET revoked = true"); }
  SUBCASE("after it has looked, before it is given back") {
    asks = true;
    lapsing.before = [&members, once = std::make_shared<std::once_flag>()](std::string const& statement) {
      if (statement == "quorum_confirm") throw error(errc::unreachable, "cut off by the test");
      if (statement == "lock_release")
        std::call_once(*once, [&] { members.at(1).sql("UPDATE rowlock_locks SET revoked = true"); });
    };
  }
  REQUIRE(eventually([&] { return lapsing.executed("lock_release") > 0; }));
  // It would be asked ten times meanwhile.
  auto const renewed = members.at(0).probe->executed("quorum_confirm");
  auto const since = boot_clock::now();
  REQUIRE(eventually([&] { return members.at(0).probe->executed("quorum_confirm") >= renewed + 2; }));
  CHECK((lapsing.executed("lock_take") > takes) == asks);
  // Three times, as for any row that is found free, whenever the keeper asks.
  CHECK(lapsing.executed("lock_take") - takes <= 3 * (2 + (boot_clock::now() - since) / (short_ttl / 30)));
  CHECK(got->votes() == 2);
  CHECK(got->valid());
  members.at(2).sql("UPDATE rowlock_locks SET revoked = 1");
  CHECK(eventually([&] { return got->loss_token().stop_requested(); }));
  CHECK(got->loss() == loss_reason::revoked);
  lapsing.before = nullptr;
}

TEST_CASE("quorum: C61: the highest token is written back to each that has granted, before the lock is had") {
  three_members members;
  auto a = members.program();
  make_rows(a->make_mutex("x", short_term()));
  std::int64_t far = 0;
  for (std::size_t high = 0; high < three_members::size; ++high) {
    CAPTURE(high);
    REQUIRE(eventually([&] {
      for (std::size_t i = 0; i < 3; ++i)
        if (members.number(i, "SELECT count(*) FROM rowlock_locks WHERE term IS NOT NULL") != 0) return false;
      return true;
    }));
    far = token_at(members, high) + 1'000'000'000;
    members.at(high).sql("UPDATE rowlock_locks SET token = " + std::to_string(far));
    members.cut_off((high + 1) % 3);  // so that this one is in the majority
    auto got = a->make_mutex("x", short_term()).acquire();
    REQUIRE(got);
    CHECK(got->token().value > far);
    CHECK(token_at(members, high) >= got->token().value);
    CHECK(token_at(members, (high + 2) % 3) >= got->token().value);
    members.mend((high + 1) % 3);
    CHECK(eventually([&] { return got->release() == release_result::released; }));
  }
}

TEST_CASE("quorum: a member that is in doubt is found out by its term, or given back") {
  three_members members;
  std::atomic<int> cuts = 1;
  auto a = members.program();
  make_rows(a->make_mutex("x", short_term()));
  REQUIRE(eventually(
      [&] { return members.number(1, "SELECT count(*) FROM rowlock_locks WHERE term IS NULL") == 1; }));
  members.at(1).probe->after = [&](std::string const& statement) {
    if (statement == "lock_take" && cuts-- > 0)
      throw error(errc::in_doubt, "its reply was lost", statement, "", 0);
  };
  auto got = a->make_mutex("x", short_term()).try_acquire();
  REQUIRE(got);
  CHECK(eventually([&] { return cuts <= 0; }));
  members.at(1).probe->after = nullptr;
  CHECK(eventually([&] { return got->votes() == 3; }));
  CHECK(got->release() == release_result::released);
  CHECK(eventually(
      [&] { return members.number(1, "SELECT count(*) FROM rowlock_locks WHERE term IS NOT NULL") == 0; }));
}

TEST_CASE("quorum: members that a dead owner has left are watched, and taken within two ttl") {
  three_members members;
  {
    auto a = members.program();
    auto got = a->make_mutex("x", short_term()).try_acquire();
    REQUIRE(got);
    for (std::size_t i = 0; i < 3; ++i) members.cut_off(i);  // nothing is given back
  }
  for (std::size_t i = 0; i < 3; ++i) members.mend(i);
  // Their expiry is by the database's clock, which may be an hour ahead: nobody goes by that.
  for (std::size_t i = 0; i < 3; ++i)
    members.at(i).sql("UPDATE rowlock_locks SET expires_at = " + in_ms(members.at(i), -3'600'000));
  auto b = members.program();
  auto const began = boot_clock::now();
  CHECK_FALSE(b->make_mutex("x", short_term()).try_acquire());
  auto const got = b->make_mutex("x", short_term()).try_acquire_for(30s);
  REQUIRE(got);
  CHECK(boot_clock::now() - began > short_ttl - 100ms);
  CHECK(boot_clock::now() - began < 2 * short_ttl + 30s);
}

TEST_CASE(
    "quorum: a plain lock of the same name and a quorum's exclude each other on no member: it is an error") {
  three_members members;
  auto a = members.program();
  {
    auto const plain = a.managers[0]->make_mutex("x").try_acquire();
    CHECK(plain);
  }
  CHECK(reason_of([&] { (void)a->make_mutex("x", short_term()).acquire(); }) == errc::strategy_mismatch);
  // What the others had granted by then is given back.
  for (std::size_t i = 0; i < members.size; ++i)
    CHECK(eventually(
        [&] { return members.number(i, "SELECT count(*) FROM rowlock_locks WHERE term IS NOT NULL") == 0; }));
  {
    auto const got = a->make_mutex("y", short_term()).acquire();
    CHECK(got);
  }
  CHECK(reason_of([&] { (void)a.managers[0]->make_mutex("y").try_acquire(); }) == errc::strategy_mismatch);
  CHECK(reason_of([&] {
          mutex_options o;
          o.strategy = strategy::quorum;
          (void)a.managers[0]->make_mutex("z", o);
        }) == errc::unsupported);
}

TEST_CASE("quorum: extended, at most to the longest ttl; a hard limit ends it; a fixed one is not renewed") {
  three_members members;
  auto a = members.program();
  auto options = short_term();
  options.ttl = 4500ms;
  SUBCASE("extended") {
    options.renew = false;
    auto got = a->make_mutex("x", options).try_acquire();
    REQUIRE(got);
    REQUIRE(eventually([&] { return got->votes() == 3; }));
    CHECK(got->extend(short_ttl));
    CHECK(got->trusted_until() > boot_clock::now() + 1500ms);
    CHECK(reason_of([&] { (void)got->extend(short_ttl + 1ms); }) == errc::invalid_argument);
    CHECK(eventually([&] { return !got->valid(); }));
    CHECK_FALSE(got->extend(short_ttl));
  }
  SUBCASE("by what a tenth of is no whole number") {
    auto got = a->make_mutex("x", options).try_acquire();
    REQUIRE(got);
    REQUIRE(eventually([&] { return got->votes() == 3; }));
    int refused = 0;
    for (int i = 0; i < 20; ++i)
      if (!got->extend(4509ms)) ++refused;
    CHECK(refused == 0);
  }
  SUBCASE("hard limit") {
    options.hard_limit = 8s;
    auto got = a->make_mutex("x", options).try_acquire();
    auto const taken_at = boot_clock::now();
    REQUIRE(got);
    CHECK(eventually([&] { return got->loss_token().stop_requested(); }));
    CHECK(boot_clock::now() - taken_at > 5s);
    CHECK(got->trusted_until() <= taken_at + 8s);
    CHECK(got->loss() == loss_reason::expired);
  }
  SUBCASE("fixed") {
    options.renew = false;
    auto got = a->make_mutex("x", options).try_acquire();
    REQUIRE(got);
    CHECK(eventually([&] { return got->loss_token().stop_requested(); }));
    CHECK(got->loss() == loss_reason::expired);
  }
  SUBCASE("too long") {
    options.ttl = short_ttl + 1ms;
    CHECK(reason_of([&] { (void)a->make_mutex("x", options).try_acquire(); }) == errc::invalid_argument);
  }
}

TEST_CASE("quorum: a hard limit that is much shorter than the ttl is not over at once") {
  three_members members(false);
  auto a = members.program();
  a->init(60s);
  std::atomic<boot_clock::rep> left = 0;
  mutex_options options;
  options.ttl = 60s;
  options.hard_limit = 2s;
  auto const got = a->make_mutex("x", options).acquire();
  REQUIRE(got);
  std::stop_callback const at_loss(got->loss_token(),
                                   [&] { left = (got->trusted_until() - boot_clock::now()).count(); });
  CHECK(eventually([&] { return got->loss_token().stop_requested(); }));
  CHECK(boot_clock::duration(left.load()) <= options.hard_limit / 20);
  CHECK(got->loss() == loss_reason::expired);
}

// The keeper is kept from its work by somebody's hook.
TEST_CASE("quorum: a loss that nobody has come to yet is told by who gives the lock back") {
  three_members members(false);
  base::event keeper_is_busy, keeper_may_go;
  std::mutex mutex;
  std::vector<std::string> lost;
  auto a = members.program({.on_event = [&](event const& e) {
    if (e.kind != event_kind::lost) return;
    {
      std::lock_guard const guard(mutex);
      lost.emplace_back(e.name);
    }
    if (e.name != "first") return;
    keeper_is_busy.set();
    CHECK(base::wait_for(keeper_may_go, boot_clock::now() + 60s));
  }});
  auto const losses = [&] {
    std::lock_guard const guard(mutex);
    return lost;
  };
  a->init(5s);
  mutex_options fixed;
  fixed.ttl = 1s;
  fixed.renew = false;
  auto const first = a->make_mutex("first", fixed).acquire();
  REQUIRE(first);
  fixed.ttl = 5s;
  auto x = a->make_mutex("x", fixed);
  auto got = x.acquire();
  REQUIRE(got);
  REQUIRE(base::wait_for(keeper_is_busy, boot_clock::now() + 60s));
  CHECK(eventually([&] { return !got->valid(); }));
  CHECK_FALSE(got->loss_token().stop_requested());
  CHECK(got->release() == release_result::already_lost);
  CHECK(got->loss_token().stop_requested());
  CHECK(got->loss() == loss_reason::expired);
  CHECK(losses() == std::vector<std::string>{"first", "x"});
  x.lock();
  auto const over = boot_clock::now() + fixed.ttl;
  CHECK(eventually([&] { return boot_clock::now() > over; }));
  x.unlock();
  CHECK(losses() == std::vector<std::string>{"first", "x", "x"});
  keeper_may_go.set();
  CHECK(eventually([&] { return first->loss_token().stop_requested(); }));
  CHECK(losses().size() == 3);
}

TEST_CASE("quorum: it is a TimedLockable; the same thread is told that it has it") {
  three_members members;
  auto a = members.program();
  auto x = a->make_mutex("x", short_term());
  {
    std::unique_lock const held(x);
    CHECK(reason_of([&] { (void)x.try_lock(); }) == errc::would_deadlock);
    std::thread([&] {
      CHECK_FALSE(x.try_lock());
      CHECK_FALSE(x.try_lock_for(50ms));
    }).join();
  }
  CHECK(x.try_lock_for(60s));
  x.unlock();
}

TEST_CASE("quorum: a stop token ends the waiting, and nothing is left taken") {
  three_members members;
  auto a = members.program();
  auto b = members.program();
  auto const held = a->make_mutex("x", short_term()).acquire();
  REQUIRE(held);
  std::stop_source stop;
  quorum_acquisition got{acquire_status::busy, {}};
  std::jthread waits([&] { got = b->make_mutex("x", short_term()).acquire(stop.get_token()); });
  CHECK(eventually([&] { return members.at(0).probe->executed("lock_read") > 0; }));
  stop.request_stop();
  waits.join();
  CHECK(got.status() == acquire_status::cancelled);
}

TEST_CASE("quorum: list shows each member's rows side by side; events tell what became of the lock") {
  three_members members;
  std::mutex mutex;
  std::vector<event_kind> told;
  auto a = members.program({.on_event = [&](event const& e) {
    std::lock_guard const guard(mutex);
    told.push_back(e.kind);
  }});
  {
    auto options = short_term();
    options.note = "who";
    auto const got = a->make_mutex("x", options).acquire();
    REQUIRE(eventually([&] { return got->votes() == 3; }));
    members.cut_off(2);
    auto const lists = a->list();
    REQUIRE(lists.size() == 3);
    for (std::size_t i = 0; i < 2; ++i) {
      auto const& locks = std::get<std::vector<lock_info>>(lists[i]);
      REQUIRE(locks.size() == 1);
      CHECK(locks[0].name == "x");
      CHECK(locks[0].holder.note == "who");
    }
    CHECK(std::get<std::string>(lists[2]).find("cut off") != std::string::npos);
    members.mend(2);
  }
  std::lock_guard const guard(mutex);
  CHECK(told == std::vector{event_kind::taken, event_kind::released, event_kind::ended});
}

TEST_CASE("quorum: many threads of three programs, one at a time, with rising tokens") {
  three_members members;
  std::vector<program_of_members> programs;
  for (int i = 0; i < 3; ++i) programs.push_back(members.program());
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  std::atomic<int> turns = 0;
  std::atomic<std::int64_t> last = 0;
  std::atomic<int> falls = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 6; ++i)
    threads.emplace_back([&, i] {
      for (int n = 0; n < 8; ++n) {
        auto const got = programs[static_cast<std::size_t>(i % 3)]->make_mutex("x", short_term()).acquire();
        most = std::max(most.load(), ++inside);
        if (got->token().value <= last.exchange(got->token().value)) ++falls;
        if (!got->valid()) ++falls;
        ++turns;
        --inside;
      }
    });
  threads.clear();
  CHECK(turns == 48);
  CHECK(most == 1);
  CHECK(falls == 0);
}

TEST_CASE(
    "quorum: a member that can't be renewed is trusted to its end, and not given back before it is taken "
    "again") {
  three_members members;
  std::atomic<int> takes = 0;
  std::atomic<boot_clock::rep> again = 0;
  auto a = members.program();
  make_rows(a->make_mutex("x", short_term()));  // and connects
  REQUIRE(eventually(
      [&] { return members.number(0, "SELECT count(*) FROM rowlock_locks WHERE term IS NULL") == 1; }));
  // It is taken again as soon as the former term may be given back.
  members.at(0).probe->before = [&](std::string const& statement) {
    if (statement == "quorum_confirm") throw error(errc::unreachable, "by the test", statement, "", 0);
    if (statement == "lock_take" && ++takes == 2) again = boot_clock::now().time_since_epoch().count();
  };
  auto const before = boot_clock::now();
  auto got = a->make_mutex("x", short_term()).try_acquire();
  REQUIRE(got);
  CHECK(eventually([&] { return again != 0; }));
  CHECK(boot_time_point(boot_clock::duration(again)) - before >= short_ttl * 9 / 10);
  CHECK(got->valid());
  members.mend(0);
  CHECK(eventually([&] { return got->votes() == 3; }));
}
