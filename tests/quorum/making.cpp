// How databases are made the members of a quorum, forget it, and are joined again.

#include <rowlock/error.hpp>
#include <thread>
#include <utility>

#include "base/event.hpp"
#include "quorum/members.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

std::string message_of(auto&& f, errc why) {
  try {
    f();
  } catch (error const& e) {
    CHECK(e.reason() == why);
    return e.what();
  }
  FAIL_CHECK("nothing was thrown");
  return {};
}

bool mentions(std::string const& text, std::string const& what) { return text.find(what) != text.npos; }

bool any_mentions(std::vector<std::string> const& all, std::string const& what) {
  return std::any_of(all.begin(), all.end(), [&](auto const& one) { return mentions(one, what); });
}

}  // namespace

TEST_CASE("quorum: databases that are none grant nothing, and init makes them one, once") {
  three_members members(false);
  auto a = members.program();
  CHECK(mentions(message_of([&] { (void)a->make_mutex("x", short_term()).try_acquire(); }, errc::not_voting),
                 "quorum init"));
  CHECK(any_mentions(quorum_findings(a->status()), "belongs to no quorum"));
  (void)message_of([&] { a->init(999ms); }, errc::invalid_argument);
  a->init(5s);
  a->init(5s);  // as after an interruption
  CHECK(mentions(message_of([&] { a->init(6s); }, errc::invalid_argument), "already"));
  auto const now = a->status();
  REQUIRE(now.size() == 3);
  for (auto const& m : now) {
    CHECK(m.votes);
    CHECK(m.epoch == 1);
    CHECK(m.max_ttl == 5s);
    CHECK(m.members.size() == 3);
    CHECK(m.quorum_id == now[0].quorum_id);
  }
  CHECK(quorum_findings(now).empty());
  CHECK(a->make_mutex("x", short_term()).try_acquire());
  CHECK(a->drop().done == 3);
  auto b = members.program();
  (void)message_of([&] { (void)b->make_mutex("x", short_term()).try_acquire(); }, errc::not_voting);
  (void)message_of([&] { (void)a->make_mutex("x", short_term()).try_acquire(); }, errc::not_voting);
}

TEST_CASE("quorum: C60: a member that was wiped is not let vote by a second init: it must join") {
  three_members members;
  auto a = members.program();
  CHECK(a->make_mutex("x", short_term()).acquire());
  members.wipe(1);
  auto const why = message_of([&] { a->init(short_ttl); }, errc::invalid_argument);
  CHECK(mentions(why, "knows nothing"));
  CHECK(mentions(why, "quorum join"));
  auto const now = a->status();
  CHECK(now[1].quorum_id.empty());
  CHECK(quorum_votes(now) == 2);
  CHECK(any_mentions(quorum_findings(now), "belongs to no quorum: join it"));
  a->join(1);
  CHECK(quorum_findings(a->status()).empty());
}

TEST_CASE(
    "quorum: an init that dies has let nobody vote before all have the list, and another one completes it") {
  three_members members(false);
  auto a = members.program();
  std::size_t dies_at = 0;
  int writes = 0;
  std::size_t votes = 0;
  SUBCASE("when the first has it") { dies_at = 1; }
  SUBCASE("when two have it") { dies_at = 2; }
  SUBCASE("when all have it") { writes = 1; }
  SUBCASE("when one votes") {
    dies_at = 1;
    writes = 1;
    votes = 1;
  }
  SUBCASE("when two vote") {
    dies_at = 2;
    writes = 1;
    votes = 2;
  }
  members.at(dies_at).probe->before = [&](std::string const& statement) {
    if (statement == "quorum_write" && writes-- == 0)
      throw error(errc::unreachable, "cut off by the test", statement, "", 0);
  };
  (void)message_of([&] { a->init(short_ttl); }, errc::unreachable);
  members.mend(dies_at);
  auto const then = a->status();
  CHECK(quorum_votes(then) == votes);
  CHECK(any_mentions(quorum_findings(then), "init was not finished; init again"));
  if (votes < 2) {
    auto const b = members.program();
    (void)message_of([&] { (void)b->make_mutex("x", short_term()).try_acquire(); }, errc::not_voting);
  }
  CHECK(mentions(message_of([&] { a->init(short_ttl + 1s); }, errc::invalid_argument), "already"));
  a->init(short_ttl);
  CHECK(quorum_findings(a->status()).empty());
  CHECK(quorum_votes(a->status()) == 3);
  CHECK(a->make_mutex("x", short_term()).acquire());
}

TEST_CASE("quorum: C60: an init that is slow lets nobody vote who has forgotten what it granted meanwhile") {
  three_members members(false);
  auto a = members.program();
  auto b = members.program();
  bool come = false;
  // `a` has given the list to two members. `b` makes the quorum, the third grants a lock, and forgets it.
  members.at(2).probe->before = [&](std::string const& statement) {
    if (statement != "quorum_write" || std::exchange(come, true)) return;
    b->init(short_ttl);
    members.wipe(2);
    members.at(2).sql("INSERT INTO rowlock_quorum (id) VALUES (1)");
  };
  (void)message_of([&] { a->init(short_ttl); }, errc::conflict);
  CHECK(come);
  members.mend(2);
  CHECK(quorum_votes(a->status()) == 2);
  CHECK(members.number(2, "SELECT CASE WHEN votes THEN 1 ELSE 0 END FROM rowlock_quorum") == 0);
  // What it has of `a` does not make it a member that only waits to vote.
  (void)message_of([&] { b->init(short_ttl); }, errc::invalid_argument);
  b->join(2);
  CHECK(quorum_findings(b->status()).empty());
}

// As a crash without a flush leaves it, or a backup from between the two rounds.
TEST_CASE("quorum: C60: a member that is as it was before it voted is let vote by init, but not at once") {
  three_members members(false);
  auto a = members.program();
  int writes = 0;
  members.at(2).probe->before = [&](std::string const& statement) {
    if (statement == "quorum_write" && ++writes == 2)
      members.at(2).sql("CREATE TABLE backup AS SELECT * FROM rowlock_quorum");
  };
  a->init(short_ttl);
  members.mend(2);
  REQUIRE(writes == 2);
  auto const got = a->make_mutex("x", short_term()).acquire();
  REQUIRE(got);
  REQUIRE(eventually([&] { return got->votes() == 3; }));
  members.wipe(2);
  members.at(2).sql("INSERT INTO rowlock_quorum SELECT * FROM backup");
  auto b = members.program();
  CHECK(any_mentions(quorum_findings(b->status()), "init was not finished; init again"));
  SUBCASE("it waits until nobody trusts what it had granted, and learns the tokens") {
    auto const began = boot_clock::now();
    b->init(short_ttl);
    CHECK(boot_clock::now() - began >= short_ttl);
    CHECK(members.number(2, "SELECT token_floor FROM rowlock_meta") >= got->token().value);
    CHECK(quorum_findings(b->status()).empty());
    CHECK(got->valid());
    CHECK(eventually([&] { return got->votes() == 3; }));
  }
  SUBCASE("an init that is stopped meanwhile lets it not vote, and the next one does") {
    std::stop_source stop;
    stop.request_stop();
    (void)message_of([&] { b->init(short_ttl, stop.get_token()); }, errc::closed);
    CHECK(quorum_votes(b->status()) == 2);
    b->init(short_ttl);
    CHECK(quorum_findings(b->status()).empty());
  }
  SUBCASE("of two at once the one that began later goes on") {
    bool come = false;
    members.at(2).probe->before = [&](std::string const& statement) {
      if (statement != "quorum_raise" || std::exchange(come, true)) return;
      std::stop_source stop;
      stop.request_stop();
      (void)message_of([&] { a->init(short_ttl, stop.get_token()); }, errc::closed);
    };
    (void)message_of([&] { b->init(short_ttl); }, errc::conflict);
    CHECK(come);
    members.mend(2);
    CHECK(quorum_votes(b->status()) == 2);
  }
}

TEST_CASE("quorum: fewer than three, one twice, and another list are refused") {
  three_members members;
  auto a = members.program();
  (void)message_of([&] { quorum({a.managers[0].get(), a.managers[1].get()}); }, errc::invalid_argument);
  (void)message_of(
      [&] {
        quorum({a.managers[0].get(), a.managers[1].get(), a.managers[1].get()});
      },
      errc::invalid_argument);
  sqlite_fixture other;
  sqlite_fixture another;
  auto const m = other.manager();
  auto const n = another.manager();
  // Two of them are not among the members of the third.
  quorum q({a.managers[0].get(), m.get(), n.get()});
  (void)message_of([&] { (void)q.make_mutex("x", short_term()).try_acquire(); }, errc::not_voting);
  // Five, of which three are.
  quorum five({a.managers[0].get(), a.managers[1].get(), a.managers[2].get(), m.get(), n.get()});
  CHECK(
      mentions(message_of([&] { (void)five.make_mutex("x", short_term()).try_acquire(); }, errc::not_voting),
               "has 3 members"));
  // The same database by two managers.
  auto const twin = members.at(0).manager();
  quorum twins({a.managers[0].get(), twin.get(), a.managers[2].get()});
  auto const seen = twins.status();
  CHECK(any_mentions(quorum_findings(seen), "the same database"));
  CHECK(quorum_votes(seen) == 2);
}

TEST_CASE("quorum: a database whose own id is not in its list, alone: it is said, nothing is granted") {
  three_members members;
  members.at(2).sql("UPDATE rowlock_quorum SET members = 'one another third'");
  members.cut_off(0);
  members.cut_off(1);
  auto a = members.program();
  CHECK(mentions(message_of([&] { (void)a->make_mutex("x", short_term()).try_acquire(); }, errc::not_voting),
                 "none of the databases that answer"));
}

// Asked all at once, the members would be given a token by those clocks, and keep it.
TEST_CASE("quorum: clocks that were years ahead when they were read do not raise anybody's tokens") {
  three_members members;
  constexpr std::int64_t two_years_us = 2 * 366LL * 24 * 3600 * 1'000'000;
  for (std::size_t i = 0; i < members.size; ++i)
    members.at(i).probe->reply = [](std::string const& statement, backend::result& r) {
      if (statement != "quorum_read") return;
      auto& clock = r.rows.at(0).at(7);
      clock = backend::as_int(clock) + two_years_us;
    };
  auto a = members.program();
  auto const got = a->make_mutex("x", short_term()).acquire();
  REQUIRE(got);
  CHECK(got->votes() >= 2);
  auto const tomorrow = std::chrono::duration_cast<std::chrono::microseconds>(
      (std::chrono::system_clock::now() + 24h).time_since_epoch());
  for (std::size_t i = 0; i < members.size; ++i) {
    CAPTURE(i);
    CHECK(members.number(i, "SELECT coalesce(max(token), 0) FROM rowlock_locks") < tomorrow.count());
    members.at(i).probe->reply = nullptr;
  }
}

TEST_CASE(
    "quorum: C60: a member that was wiped does not vote until it has joined; with a second one nothing can "
    "be "
    "had") {
  three_members members;
  auto a = members.program();
  auto got = a->make_mutex("x", short_term()).try_acquire();
  REQUIRE(got);
  REQUIRE(eventually([&] { return got->votes() == 3; }));
  auto const before = got->token();
  members.wipe(1);
  CHECK(eventually([&] { return got->votes() == 2; }));
  CHECK(got->valid());
  CHECK(any_mentions(quorum_findings(a->status()), "belongs to no quorum"));

  a->join(1);
  auto const now = a->status();
  CHECK(quorum_findings(now).empty());
  CHECK(now[1].epoch == 2);
  CHECK(now[1].votes);
  CHECK(got->valid());  // a join costs no lock
  CHECK(eventually([&] { return got->votes() == 3; }));
  CHECK(got->release() == release_result::released);

  // It knows what was granted before it forgot.
  members.cut_off(0);
  auto b = members.program();
  auto const next = b->make_mutex("x", short_term()).acquire();
  REQUIRE(next);
  CHECK(next->token() > before);
  members.mend(0);

  members.wipe(0);
  members.wipe(1);
  CHECK(eventually([&] { return next->loss_token().stop_requested(); }));
  auto c = members.program();
  // Until its ttl is over this process takes what it had for busy.
  CHECK(eventually([&] {
    try {
      (void)c->make_mutex("x", short_term()).try_acquire();
      return false;
    } catch (error const& e) {
      return e.reason() == errc::not_voting;
    }
  }));
  CHECK(mentions(message_of([&] { c->join(0); }, errc::not_voting), "are needed"));
}

TEST_CASE(
    "quorum: who joins is kept waiting for the longest ttl, and what it has granted before is not trusted "
    "then") {
  three_members members;
  auto a = members.program();
  members.wipe(2);
  auto const began = boot_clock::now();
  std::atomic<bool> voted_early = false;
  std::atomic<bool> joined = false;
  std::jthread joining([&] {
    auto b = members.program();
    b->join(2);
    joined = true;
  });
  CHECK(eventually(
      [&] { return members.number(2, "SELECT count(*) FROM rowlock_quorum WHERE epoch = 2") == 1; }));
  auto const early = [&] { return boot_clock::now() - began < short_ttl; };
  while (!joined && early())
    if (members.number(2, "SELECT CASE WHEN votes THEN 1 ELSE 0 END FROM rowlock_quorum") == 1 && early())
      voted_early = true;
  CHECK_FALSE(voted_early);
  joining.join();
  CHECK(boot_clock::now() - began >= short_ttl);
  CHECK(members.number(2, "SELECT CASE WHEN votes THEN 1 ELSE 0 END FROM rowlock_quorum") == 1);
}

TEST_CASE(
    "quorum: members that forgot, one after the other, grant above what they have forgotten, though that is "
    "ahead of the clock") {
  three_members members;
  auto a = members.program();
  auto const in_an_hour = std::chrono::duration_cast<std::chrono::microseconds>(
      (std::chrono::system_clock::now() + 1h).time_since_epoch());
  for (std::size_t i = 0; i < members.size; ++i)
    members.at(i).sql("UPDATE rowlock_meta SET token_floor = " + std::to_string(in_an_hour.count()));
  auto const before = a->make_mutex("x", short_term()).acquire()->token();
  REQUIRE(before.value > in_an_hour.count());
  members.wipe(2);
  a->join(2);
  members.wipe(1);
  a->join(1);
  // Now the only one that has not forgotten is gone.
  members.cut_off(0);
  auto const got = a->make_mutex("x", short_term()).acquire();
  REQUIRE(got);
  CHECK(got->token() > before);
}

TEST_CASE("quorum: a join that is stopped leaves a member that does not vote, and can be made again") {
  three_members members;
  auto a = members.program();
  members.wipe(0);
  std::stop_source stop;
  stop.request_stop();
  (void)message_of([&] { a->join(0, "", stop.get_token()); }, errc::closed);
  CHECK(any_mentions(quorum_findings(a->status()), "does not vote"));
  CHECK(a->make_mutex("x", short_term()).acquire());
  a->join(0);
  CHECK(quorum_findings(a->status()).empty());
}

TEST_CASE(
    "quorum: of two joins at once, the one that comes between the other's writes goes on, and that one says "
    "so") {
  three_members members;
  std::atomic<bool> come = false;
  auto a = members.program();
  auto b = members.program();
  members.wipe(2);
  std::jthread second;
  // `a` has written to the member that joins; now `b` does all its writing.
  members.at(0).probe->before = [&](std::string const& statement) {
    if (statement != "quorum_write" || come.exchange(true)) return;
    second = std::jthread([&] { b->join(2); });
    CHECK(eventually([&] {
      return members.number(0, "SELECT epoch FROM rowlock_quorum") == 2 &&
             members.number(1, "SELECT epoch FROM rowlock_quorum") == 2;
    }));
  };
  (void)message_of([&] { a->join(2); }, errc::conflict);
  second.join();
  members.mend(0);
  CHECK(come);
  CHECK(quorum_findings(a->status()).empty());
  CHECK(a->status()[2].epoch == 2);
  auto const got = a->make_mutex("x", short_term()).acquire();
  REQUIRE(got);
  CHECK(eventually([&] { return got->votes() == 3; }));
}

TEST_CASE("quorum: two joins that divide the members among themselves both fail; the next one mends it") {
  three_members members;
  base::event b_has_asked, a_has_first, b_is_over;
  auto a = members.program();
  auto b = members.program();
  members.wipe(2);
  auto held = a->make_mutex("held", short_term()).try_acquire();
  REQUIRE(held);
  std::thread::id const first = std::this_thread::get_id();
  std::jthread second;
  // The second asks when the first has written to the member that joins, ...
  members.at(0).probe->before = [&](std::string const& statement) {
    if (statement != "quorum_write") return;
    if (std::this_thread::get_id() != first) return;
    second = std::jthread([&] {
      (void)message_of([&] { b->join(2); }, errc::conflict);
      b_is_over.set();
    });
    CHECK(base::wait_for(b_has_asked, boot_clock::now() + 60s));
  };
  // ... writes there, too, when the first has written to member 0, ...
  members.at(2).probe->before = [&](std::string const& statement) {
    if (statement != "quorum_write" || std::this_thread::get_id() == first) return;
    b_has_asked.set();
    CHECK(base::wait_for(a_has_first, boot_clock::now() + 60s));
  };
  // ... and has member 1 before the first comes to it.
  members.at(1).probe->before = [&](std::string const& statement) {
    if (statement != "quorum_write" || std::this_thread::get_id() != first) return;
    a_has_first.set();
    CHECK(base::wait_for(b_is_over, boot_clock::now() + 60s));
  };
  (void)message_of([&] { a->join(2); }, errc::conflict);
  second.join();
  for (std::size_t i = 0; i < members.size; ++i) members.mend(i);
  // Each of them has an epoch of its own: nobody has a majority, and nobody is told that he has.
  auto const split = a->status();
  CHECK(split[0].epoch == 2);
  CHECK(split[1].epoch == 2);
  CHECK(quorum_votes(split) == 1);
  CHECK(any_mentions(quorum_findings(split), "1 of 3 members vote"));
  auto c = members.program();
  (void)message_of([&] { (void)c->make_mutex("x", short_term()).try_acquire(); }, errc::not_voting);
  CHECK(eventually([&] { return held->loss_token().stop_requested(); }));

  c->join(2);
  CHECK(quorum_findings(c->status()).empty());
  auto const got = c->make_mutex("x", short_term()).acquire();
  REQUIRE(got);
  CHECK(eventually([&] { return got->votes() == 3; }));
  auto const next = a->make_mutex("held", short_term()).acquire();
  CHECK(next->token() > held->token());
}

TEST_CASE(
    "quorum: a join that died between its writes: status says which one to join again, and that mends it") {
  three_members members;
  auto a = members.program();
  members.wipe(2);
  auto const before = a->make_mutex("x", short_term()).acquire()->token();
  // It dies before it has told the second of the others.
  members.at(1).probe->before = [](std::string const& statement) {
    if (statement == "quorum_write") throw error(errc::unreachable, "cut off by the test", statement, "", 0);
  };
  CHECK_THROWS_AS(a->join(2), error);
  members.mend(1);
  auto b = members.program();
  auto const found = quorum_findings(b->status());
  CHECK(any_mentions(found, "does not vote"));
  CHECK_FALSE(any_mentions(found, "is 2: join it"));  // that would ask for a majority, which there is not
  b->join(2);
  CHECK(quorum_findings(b->status()).empty());
  auto const got = b->make_mutex("x", short_term()).acquire();
  REQUIRE(got);
  CHECK(got->token() > before);
  CHECK(eventually([&] { return got->votes() == 3; }));
}

TEST_CASE(
    "quorum: a member that is replaced by another database; programs with the former list go on, and not by "
    "it") {
  three_members members;
  auto a = members.program();
  auto got = a->make_mutex("x", short_term()).try_acquire();
  REQUIRE(got);
  sqlite_fixture fresh;
  auto const m = fresh.manager();
  auto b = members.program();
  quorum q({b.managers[0].get(), b.managers[1].get(), m.get()});
  q.join(2);
  CHECK(quorum_findings(q.status()).empty());
  CHECK(q.status()[2].epoch == 2);
  // It was held by the former list, and is held by two members of the new one.
  CHECK(got->valid());
  CHECK_FALSE(q.make_mutex("x", short_term()).try_acquire());
  // The former member alone is no majority, whatever it grants.
  members.cut_off(0);
  CHECK(eventually([&] { return got->loss_token().stop_requested(); }));
  members.mend(0);
  auto const next = q.make_mutex("x", short_term()).try_acquire_for(60s);
  REQUIRE(next);
  CHECK(next->token() > got->token());
  CHECK_FALSE(a->make_mutex("x", short_term()).try_acquire());
}
