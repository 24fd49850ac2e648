// A lock that is given back goes to the next thread in line without a round trip: lib/doc/hand_on.md.

#include <deque>
#include <thread>

#include "contract/by_hand.hpp"
#include "contract/reaping.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// Each call of it has an owner of its own, as threads have.
mutex_options each(mutex_options o = {}) {
  o.owner = each_acquire{};
  return o;
}

/// One that holds a term of which it has drawn a block of tokens, if its strategy has them: it stood in line.
/// A busy machine has an hour to hand it on, unless it is as in programs.
struct hot {
  explicit hot(fixture& f, mutex_options o = each(), bool as_in_programs = false)
      : probe(f.probe), here(f, std::move(o)) {
    if (!as_in_programs) {
      here.m->parts().hand_on_for = 1h;
      here.m->parts().confirmed_for = 1h;
    }
    call first(here);
    auto before = first.won();
    REQUIRE(before);
    call second(here);
    REQUIRE(second.pauses());
    REQUIRE(give_back(before) == release_result::released);
    held = second.won();
    REQUIRE(held);
    probe->reset();
  }
  release_result give_back(std::shared_ptr<holding::hold> const& h) { return here.m->release(h); }
  /// Gives back what is held to `next`.
  void pass_to(call& next) {
    REQUIRE(give_back(held) == release_result::released);
    held = next.won();
    REQUIRE(held);
  }
  int asked() const { return probe->executed("lock_take") + probe->executed("lock_release"); }

  std::shared_ptr<test::statement_probe> probe;
  inside here;
  std::shared_ptr<holding::hold> held;
};

/// As far as the strategy hands on what has tokens.
mutex_options of_pair(running_pair const& pair) {
  return each({.fencing = pair.strategy == strategy::lease});
}

/// What has come to the next in line in this way needed the database.
void expect_a_round_trip(hot& h, call& next) {
  REQUIRE(next.pauses());
  auto const before = h.held->facts().term;
  h.pass_to(next);
  CHECK(h.asked() == 2);
  CHECK(h.held->facts().term != before);
}

}  // namespace

LEASE_CASE(
    "hand-on: the next in line has the lock without a round trip, with the next token and the same term") {
  stranger other(f);
  hot h(f);
  auto const before = h.held;
  call next(h.here);
  REQUIRE(next.pauses());
  h.pass_to(next);
  CHECK(h.asked() == 0);
  CHECK(h.held->facts().term == before->facts().term);
  CHECK(h.held->facts().token.value == before->facts().token.value + 1);
  CHECK_FALSE(h.held->facts().owner.same(before->facts().owner));
  CHECK(h.held->trusted_until() <= before->offered_until());
  CHECK(h.held->valid());
  CHECK_FALSE(before->valid());
  CHECK_FALSE(before->loss());
  CHECK_FALSE(other.take("x"));
  CHECK(h.give_back(h.held) == release_result::released);
  CHECK(h.asked() == 1);
  CHECK(other.take("x"));
  CHECK(other.token("x") > h.held->facts().token.value);
}

LEASE_CASE("C88: what is handed on counts for the label of who has it then") {
  hot h(f, each({.label = "one"}));
  h.here.spec.options.label = "two";
  call next(h.here);
  REQUIRE(next.pauses());
  h.pass_to(next);
  CHECK(h.asked() == 0);
  CHECK(h.held->facts().label() == "two");
}

LEASE_CASE("hand-on: tokens of a block are above all that were drawn before, also if the row is new (C45)") {
  stranger other(f);
  REQUIRE(other.take("x"));
  auto last = other.token("x");
  REQUIRE(other.release("x"));
  for (int i = 0; i < 3; ++i) {
    hot h(f);
    CHECK(h.held->facts().token.value > last);
    call next(h.here);
    REQUIRE(next.pauses());
    h.pass_to(next);
    last = h.held->facts().token.value;
    REQUIRE(h.give_back(h.held) == release_result::released);
    REQUIRE(other.take("x"));
    CHECK(other.token("x") > last);
    last = other.token("x");
    REQUIRE(other.release("x"));
  }
}

// Where the clock is behind what was drawn before, each arm of the token's greatest() must rise by a block.
LEASE_CASE(
    "hand-on: a block is above what is ahead of the clock: the row's token, the floor, the name's entry "
    "[C45]") {
  inside here(f, each());
  call first(here);
  auto before = first.won();
  REQUIRE(before);
  call second(here);
  REQUIRE(second.pauses());
  auto const ahead = before->facts().token.value + 100 * token_hour;
  REQUIRE(here.m->release(before) == release_result::released);
  auto const text = std::to_string(ahead);
  SUBCASE("the row's token") { f.sql("UPDATE rowlock_locks SET token = " + text + " WHERE name = 'x'"); }
  SUBCASE("the floor") {
    f.sql("DELETE FROM rowlock_locks WHERE name = 'x'");
    f.sql("UPDATE rowlock_meta SET token_floor = " + text);
  }
  SUBCASE("the name's entry") {
    f.sql("DELETE FROM rowlock_locks WHERE name = 'x'");
    f.sql("INSERT INTO rowlock_tokens (name, token) VALUES ('x', " + text + ")");
  }
  auto const held = second.won();
  REQUIRE(held);
  CHECK(held->facts().token.value > ahead);
  CHECK(held->facts().tokens_left > 0);
}

// Whoever crashes in the middle of a block has used tokens that no statement of its own has told.
LEASE_CASE("hand-on: after a crash in the middle of a block, and after the reaper, tokens go on above it") {
  stranger other(f);
  std::int64_t last = 0;
  {
    hot h(f);
    for (int i = 0; i < 3; ++i) {
      call next(h.here);
      REQUIRE(next.pauses());
      h.pass_to(next);
    }
    last = h.held->facts().token.value;
    REQUIRE(other.take_over("x"));  // as if it had died, and its term were over
    CHECK(other.token("x") > last);
    last = other.token("x");
    REQUIRE(other.release("x"));
  }
  hot h(f);
  call next(h.here);
  REQUIRE(next.pauses());
  h.pass_to(next);
  last = h.held->facts().token.value;
  REQUIRE(h.give_back(h.held) == release_result::released);
  expire(f, 2 * hour);
  REQUIRE(reap_once(f, {.idle = 1h}).deleted.lease == 1);
  REQUIRE(other.take("x"));
  CHECK(other.token("x") > last);
}

LEASE_CASE("hand-on: a block is used up, then the database is asked again; tokens rise throughout") {
  hot h(f);
  std::deque<call> line;
  for (int i = 0; i < 70; ++i) REQUIRE(line.emplace_back(h.here).pauses());
  auto last = h.held->facts().token.value;
  int longest = 0;
  for (auto& one : line) {
    h.pass_to(one);
    CHECK(h.held->facts().token.value > last);
    last = h.held->facts().token.value;
    longest = std::max<int>(longest, h.held->facts().handed_on);
  }
  CHECK(longest <= 63);
  CHECK(h.asked() >= 2);
  CHECK(h.give_back(h.held) == release_result::released);
}

CONTRACT_CASE("hand-on: without tokens, too") {
  hot h(f, each({.fencing = false}));
  call next(h.here);
  REQUIRE(next.pauses());
  h.pass_to(next);
  CHECK(h.asked() == 0);
  CHECK(h.held->facts().token.value == 0);
  CHECK(h.give_back(h.held) == release_result::released);
}

LEASE_CASE("hand-on: not of a term that somebody may ask by (C46)") {
  hot h(f);
  CHECK(h.held->share_term());
  call next(h.here);
  expect_a_round_trip(h, next);
  CHECK(h.give_back(h.held) == release_result::released);
}

LEASE_CASE("hand-on: a term that has gone on is not told any more (C46)") {
  hot h(f);
  auto const before = h.held;
  call next(h.here);
  REQUIRE(next.pauses());
  h.pass_to(next);
  CHECK_FALSE(before->share_term());
  CHECK(h.held->share_term());
  CHECK(h.give_back(h.held) == release_result::released);
}

LEASE_CASE("hand-on: handles say so") {
  auto const m = f.manager();
  auto x = m->make_mutex("x", each());
  {
    auto term_shared = x.acquire();
    CHECK_FALSE(term_shared->term().empty());
    REQUIRE(term_shared->release() == release_result::released);
    CHECK_FALSE(term_shared->term().empty());  // it has ended with the handle
  }
  // Three threads that never pause: nearly all of it is handed on.
  std::atomic<int> gone_on{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&] {
        for (int k = 0; k < 1000 && (k < 50 || gone_on == 0); ++k) {
          auto got = x.acquire();
          REQUIRE(got);
          REQUIRE(got->valid());
          REQUIRE(got->release() == release_result::released);
          if (got->term().empty()) ++gone_on;
        }
      });
  }
  CHECK(gone_on > 0);
  stranger other(f);
  CHECK(other.take("x"));
}

LEASE_CASE("hand-on: not after extend() or set_note(), nor to who wants other terms") {
  for (auto const& o :
       {each({.ttl = 20s}), each({.note = "other"}), each({.at_least = 1ms}), each({.hard_limit = 1h}),
        each({.renew = false}), each({.fencing = false}), each({.takeover = takeover::observed})}) {
    hot h(f);
    h.here.spec = h.here.m->spec("x", o, false);
    call next(h.here);
    expect_a_round_trip(h, next);
    CHECK(h.give_back(h.held) != release_result::already_lost);
    stranger other(f);
    CHECK(eventually([&] { return other.take("x"); }));
    REQUIRE(other.release("x"));
  }
  for (bool const extended : {true, false}) {
    hot h(f);
    REQUIRE((extended ? h.here.m->extend(h.held, 60s) : h.here.m->set_note(h.held, "other")));
    call next(h.here);
    expect_a_round_trip(h, next);
    CHECK(h.give_back(h.held) == release_result::released);
  }
}

LEASE_CASE("hand-on: not to another manager, which would not renew it") {
  hot h(f);
  inside there(f, each());
  call next(there);
  REQUIRE(next.pauses());
  REQUIRE(h.give_back(h.held) == release_result::released);
  CHECK(h.probe->executed("lock_release") == 1);
  auto const won = next.won();
  REQUIRE(won);
  CHECK(won->facts().term != h.held->facts().term);
  CHECK(there.m->release(won) == release_result::released);
}

LEASE_CASE("hand-on: not for longer than 50 ms") {
  hot h(f, each(), true);
  REQUIRE(eventually([&] { return boot_clock::now() > h.held->facts().in_process + 50ms; }));
  call next(h.here);
  expect_a_round_trip(h, next);
  CHECK(h.give_back(h.held) == release_result::released);
}

LEASE_CASE("hand-on: not with less than two thirds of the ttl left") {
  hot h(f, each({.ttl = 100ms}));
  REQUIRE(eventually([&] { return h.held->trusted_until() - boot_clock::now() < 66ms || !h.held->valid(); }));
  call next(h.here);
  REQUIRE(next.pauses());
  (void)h.give_back(h.held);
  auto const won = next.won();
  REQUIRE(won);
  CHECK(won->facts().term != h.held->facts().term);
  (void)h.give_back(won);
}

LEASE_CASE("hand-on: who gives up just then gives it back, or on to the next") {
  stranger other(f);
  hot h(f);
  auto leaves = std::make_unique<call>(h.here);
  call last(h.here);
  REQUIRE(leaves->pauses());
  REQUIRE(last.pauses());
  REQUIRE(h.give_back(h.held) == release_result::released);
  CHECK(leaves->bell.rung == 1);
  leaves->stop.request_stop();
  leaves.reset();
  CHECK(last.bell.rung == 1);
  auto const won = last.won();
  REQUIRE(won);
  CHECK(h.asked() == 0);
  auto alone = std::make_unique<call>(h.here);
  REQUIRE(alone->pauses());
  REQUIRE(h.give_back(won) == release_result::released);
  CHECK_FALSE(other.take("x"));
  alone.reset();
  CHECK(eventually([&] { return other.take("x"); }));
}

LEASE_CASE("hand-on: who wakes up too late asks the database") {
  hot h(f, each({.ttl = 6s}));
  call next(h.here);
  REQUIRE(next.pauses());
  REQUIRE(h.give_back(h.held) == release_result::released);
  CHECK(h.asked() == 0);
  REQUIRE(eventually([&] { return boot_clock::now() >= h.held->offered_until(); }));
  std::shared_ptr<holding::hold> won;
  REQUIRE(eventually([&] {
    auto what = next.go();
    if (auto* const done = std::get_if<managing::taken>(&what)) won = only(*done);
    return won != nullptr;
  }));
  CHECK(won->facts().term != h.held->facts().term);
  CHECK(won->facts().token > h.held->facts().token);
  (void)h.give_back(won);
}

// C62: what a process still trusts, and is not in the row any more. Where no clock may decide what comes
// first, a term that was confirmed counts as that for an hour.
CONTRACT_CASE("C62: what was taken away by force is not handed on after another owner's grant") {
  stranger other(f);
  hot h(f, of_pair(pair));
  auto const m = f.manager();
  h.here.m->parts().confirmed_for = base::confirmed_for;
  call next(h.here);
  REQUIRE(next.pauses());
  SUBCASE("while it is taken away the name is nobody's to take, and what is handed on comes before") {
    h.here.m->parts().confirmed_for = 1h;
    auto closed_at = boot_time_point::max();
    bool handed_on = false;
    f.probe->after = [&](std::string const& s) {
      if (s == "lock_revoke_now") closed_at = boot_clock::now();
    };
    f.probe->before = [&](std::string const& s) {
      if (s != "lock_release" || std::exchange(handed_on, true)) return;
      CHECK(boot_clock::now() - closed_at >= base::closed_for);
      CHECK_FALSE(other.take("x"));
      h.pass_to(next);
    };
    REQUIRE(m->revoke("x", revoke_mode::now));
    f.probe->before = nullptr;
    REQUIRE(handed_on);
    REQUIRE(other.take("x"));
    if (pair.strategy == strategy::lease) CHECK(other.token("x") > h.held->facts().token.value);
    CHECK(h.give_back(h.held) == release_result::already_lost);
    return;
  }
  SUBCASE("its owner does not offer it") {
    REQUIRE(m->revoke("x", revoke_mode::now));
    REQUIRE(other.take("x"));
    CHECK(h.give_back(h.held) == release_result::already_lost);
  }
  SUBCASE("a waiter that wakes late does not accept it") {
    h.here.m->parts().confirmed_for = 1h;
    REQUIRE(h.give_back(h.held) == release_result::released);
    REQUIRE(next.bell.rung == 1);
    REQUIRE(h.asked() == 0);
    h.here.m->parts().confirmed_for = base::confirmed_for;
    REQUIRE(m->revoke("x", revoke_mode::now));
    REQUIRE(other.take("x"));
  }
  // Who has it now keeps it; and the next one gets it after that.
  CHECK(next.pauses());
  CHECK(other.has_still("x"));
  auto const token = other.token("x");
  REQUIRE(other.release("x"));
  auto const won = next.wins_in_the_end();
  CHECK(won->facts().term != h.held->facts().term);
  if (pair.strategy == strategy::lease) CHECK(won->facts().token.value > token);
  CHECK(h.give_back(won) == release_result::released);
}

LEASE_CASE("C62: a successor inherits the moment of the confirmation, and a renewal brings a new one") {
  hot h(f, each({.ttl = 6s}));
  auto const taken_at = h.held->facts().sent_at;
  for (int i = 0; i < 3; ++i) {
    call next(h.here);
    REQUIRE(next.pauses());
    auto const trust = h.held->trusted_until();
    h.pass_to(next);
    CHECK(h.held->facts().sent_at == holding::confirmed_at(h.held->facts(), trust));
  }
  CHECK(h.asked() == 0);
  CHECK(
      eventually([&] { return holding::confirmed_at(h.held->facts(), h.held->trusted_until()) > taken_at; }));
  CHECK(h.give_back(h.held) == release_result::released);
}

CONTRACT_CASE("C62: who waits for what is taken away has it when the moment is over") {
  stranger other(f);
  REQUIRE(other.take("x", 5min));
  auto const m = f.manager();
  std::atomic<bool> won = false;
  std::jthread const waits([&] { won = bool(m->make_mutex("x", each()).try_acquire_for(60s)); });
  REQUIRE(eventually([&] { return f.waited(2); }));
  REQUIRE(f.manager()->revoke("x", revoke_mode::now));
  CHECK(eventually([&] { return won.load(); }));
}

// What was read is what is taken away: in between another owner gets the name, or a record comes.
CONTRACT_CASE(
    "C62: a term that comes between the look and the revocation is not taken for the one that was seen") {
  stranger one(f, "one");
  stranger next(f, "next");
  REQUIRE(one.take("x", 5min));
  auto const m = f.manager();
  term_id only;
  SUBCASE("of one term: another one stays") { only = one.read("x")->term; }
  SUBCASE("of whoever holds it: the next look finds who does") {}
  bool stepped = false;
  for (auto const mode : {revoke_mode::at_renewal, revoke_mode::now}) {
    stepped = false;
    f.probe->before = [&](std::string const& s) {
      if (!s.starts_with("lock_revoke") || std::exchange(stepped, true)) return;
      REQUIRE(one.release("x"));
      REQUIRE(next.take("x", 5min));
    };
    CHECK(m->revoke("x", mode, only) == only.empty());
    CHECK(stepped);
    f.probe->before = nullptr;
    CHECK(next.has_still("x") == (!only.empty() || mode == revoke_mode::at_renewal));
    if (auto const row = next.read("x"); row && !row->term.empty()) {
      CHECK(row->holder.revoked == only.empty());
      REQUIRE(next.release("x"));
    }
    REQUIRE(one.take("x", 5min));
    if (!only.empty()) only = one.read("x")->term;
  }
}

ONCE_CASE("C62: a record that comes between the look and the revocation stays") {
  auto const m = f.manager();
  auto work = m->make_mutex("x", {.strategy = strategy::once}).acquire();
  bool stepped = false;
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_revoke_now" && !std::exchange(stepped, true)) CHECK(work->done(1h));
  };
  CHECK_FALSE(f.manager()->revoke("x", revoke_mode::now));
  CHECK(stepped);
  f.probe->before = nullptr;
  auto const row = m->find("x");
  CHECK((row && row->holder.done));
}

CONTRACT_CASE("C62: a session that takes a lock away and dies leaves nothing behind for long") {
  stranger other(f);
  auto const m = f.manager();
  held_lock const holder = *m->make_mutex("x").acquire();
  f.probe->before = [](std::string const& s) {
    if (s == "lock_release") throw error(errc::unreachable, "cut off by the test");
  };
  CHECK(m->revoke("x", revoke_mode::now));
  CHECK(eventually([&] { return other.take("x"); }));
}

// Of other owners that take over before a term's time is over there is only the same explicit one.
LEASE_CASE("C62: neither an explicit owner's term is handed on, nor another's to it") {
  mutex_options const job{.fencing = false, .owner = takes_over{"job"}};
  for (bool const held_by_it : {true, false}) {
    inside here(f, held_by_it ? job : each({.fencing = false}));
    here.m->parts().hand_on_for = 1h;
    here.m->parts().confirmed_for = 1h;
    call first(here);
    auto const held = first.won();
    REQUIRE(held);
    here.spec = here.m->spec("x", held_by_it ? each({.fencing = false}) : job, false);
    call next(here);
    REQUIRE(next.pauses());
    CHECK(here.m->release(held) == release_result::released);
    auto const won = next.won();
    REQUIRE(won);
    CHECK(won->facts().term != held->facts().term);
    CHECK(here.m->release(won) == release_result::released);
  }
}

LEASE_CASE("hand-on: the end of a manager gives back what was handed on") {
  stranger other(f);
  hot h(f);
  auto next = std::make_unique<call>(h.here);
  REQUIRE(next->pauses());
  REQUIRE(h.give_back(h.held) == release_result::released);
  std::optional<base::calls::scope> under_way(std::in_place, h.here.m->parts().under_way);
  std::jthread const closing([&] { h.here.m->close(); });
  REQUIRE(eventually([&] { return next->bell.rung == 2; }));
  auto const what = next->go();
  REQUIRE(std::holds_alternative<managing::taken>(what));
  next.reset();
  under_way.reset();
  CHECK(eventually([&] { return other.take("x"); }));
}

LEASE_CASE("hand-on: what is renewed is the term, by its last owner; who lost it hears of it") {
  stranger other(f);
  hot h(f, each({.ttl = 9s}));
  call next(h.here);
  REQUIRE(next.pauses());
  h.pass_to(next);
  auto const trust = h.held->trusted_until();
  CHECK(eventually([&] { return h.held->trusted_until() > trust; }));
  REQUIRE(other.take_over("x"));
  CHECK(eventually([&] { return h.held->loss().has_value(); }));
  CHECK(h.held->loss() == loss_reason::taken_over);
}

LEASE_CASE("hand-on: a take whose reply was lost has the lowest token of its block") {
  stranger other(f);
  inside here(f, each());
  call first(here);
  auto const before = first.won();
  REQUIRE(before);
  call second(here);
  REQUIRE(second.pauses());
  std::atomic<int> lost{1};
  f.probe->after = [&](std::string const& s) {
    if (s == "lock_take" && lost-- > 0) lose_reply();
  };
  REQUIRE(here.m->release(before) == release_result::released);
  std::shared_ptr<holding::hold> won;
  REQUIRE(eventually([&] {
    auto what = second.go();
    if (auto* const done = std::get_if<managing::taken>(&what)) won = only(*done);
    return won != nullptr;
  }));
  CHECK(won->facts().term == other.read("x")->term);
  CHECK(won->facts().token.value == other.token("x") - 63);
  CHECK(won->facts().token > before->facts().token);
  CHECK(won->facts().tokens_left == 63);
  CHECK(here.m->release(won) == release_result::released);
}

LEASE_CASE("hand-on: a fair lock goes to other processes that are known to wait") {
  hot h(f, each({.fair = true}));
  h.here.m->parts().wait_queues.others_wait("x", true);
  call next(h.here);
  expect_a_round_trip(h, next);
  CHECK(h.give_back(h.held) == release_result::released);
}
