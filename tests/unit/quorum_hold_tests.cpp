// The rules by which answers of several databases are one lock: each is left out by somebody's Redlock.
// lib/doc/quorum.md

#include "quorum/quorum_hold.hpp"

#include <doctest/doctest.h>

#include <array>

#include "holding/hold.hpp"
#include "support/eventually.hpp"

using namespace rowlock;
using namespace rowlock::voting;
using namespace std::chrono_literals;

namespace {

constexpr auto usual_ttl = 60s;

/// What a member grants: asked at `sent_at`, with that token.
std::shared_ptr<holding::hold> granted(boot_time_point sent_at, std::int64_t token) {
  holding::grant_facts f;
  f.name = "x";
  f.strategy = strategy::quorum;
  f.term = {"term"};
  f.token = {token};
  f.owner = {"host", 1, "process", 1};
  f.ttl = usual_ttl;
  f.sent_at = sent_at;
  return holding::hold::make(std::move(f), {});
}

/// A lock that three members may grant.
struct three {
  explicit three(mutex_options o = {.ttl = usual_ttl}) : lock("x", std::move(o), 3, 2) {}

  bool grants(std::size_t member, std::int64_t token, boot_time_point sent_at = boot_clock::now()) {
    REQUIRE(lock.begin_to_ask(member));
    terms.at(member) = granted(sent_at, token);
    return lock.answered(member, {.granted = managing::granted_vote(terms.at(member))});
  }
  void confirms(std::size_t member, std::int64_t token) {
    REQUIRE(lock.begin_to_ask(member));
    lock.confirmed(member, true, {token}, std::nullopt);
  }
  /// Held by all of them with the token 5.
  void is_held() {
    for (std::size_t m = 0; m < 3; ++m) REQUIRE(grants(m, 5));
    REQUIRE(lock.begin({5}));
  }

  quorum_hold lock;
  std::array<std::shared_ptr<holding::hold>, 3> terms;  ///< by member, the last
};

/// So long ago that what was asked for then is trusted no more.
boot_time_point long_ago() { return boot_clock::now() - usual_ttl; }

}  // namespace

TEST_CASE("quorum: a majority that grants is not enough: it must know the token that is used") {
  three q;
  CHECK(q.grants(0, 5));
  CHECK_FALSE(q.lock.begin({5}));  // one of three
  CHECK(q.grants(1, 9));
  CHECK(q.lock.highest() == fencing_token{9});
  CHECK_FALSE(q.lock.begin({9}));  // a later majority may be the two that do not know it
  CHECK(q.lock.behind({9}) == std::vector<std::size_t>{0});
  q.confirms(0, 9);
  CHECK(q.lock.begin({9}));
  CHECK(q.lock.valid());
  CHECK(q.lock.token() == fencing_token{9});
}

TEST_CASE("quorum: trust is that of a majority: the second longest of three, each from its own request") {
  auto const now = boot_clock::now();
  three q;
  CHECK(q.grants(0, 5, now - 3s));
  CHECK(q.grants(1, 5, now - 2s));
  CHECK(q.grants(2, 5, now - 1s));
  CHECK(q.lock.begin({5}));
  CHECK(q.lock.trusted_until() == holding::trust_after(now - 2s, usual_ttl));
  CHECK(q.lock.votes() == 3);
}

TEST_CASE("quorum: what a majority has granted too long ago is no lock") {
  three q;
  CHECK(q.grants(0, 5, long_ago()));
  CHECK(q.grants(1, 5));
  CHECK_FALSE(q.lock.begin({5}));
  CHECK(q.grants(2, 5));
  CHECK(q.lock.begin({5}));
}

TEST_CASE("quorum: a token that was the highest before the last member granted a higher one is not had") {
  three q;
  CHECK(q.grants(0, 5));
  auto const top = q.lock.highest();
  CHECK(q.grants(1, 9));  // the only one of the two that knows the last owner's, which was 8
  CHECK_FALSE(q.lock.begin(top));
  CHECK_FALSE(q.lock.begin(q.lock.highest()));
  q.confirms(0, 9);
  CHECK(q.lock.begin(q.lock.highest()));
  CHECK(q.lock.token().value == 9);
}

TEST_CASE(
    "quorum: what a member has granted is not given back while it is trusted, though it can't be renewed") {
  three q;
  q.is_held();
  CHECK_FALSE(q.lock.may_ask_again(0));  // it has it
  SUBCASE("the database can't be reached") {
    q.terms[0]->lose(loss_reason::database_unreachable);
    CHECK_FALSE(q.lock.may_ask_again(0));
  }
  SUBCASE("a renewal came too late") {
    q.terms[0]->lose(loss_reason::expired);
    CHECK_FALSE(q.lock.may_ask_again(0));
  }
  CHECK(q.lock.votes() == 3);
  CHECK_FALSE(q.lock.look());
  CHECK(q.lock.valid());
}

TEST_CASE("quorum: a member without it is asked again, and counts by a new term alone that knows the token") {
  three q;
  q.is_held();
  auto const first = q.terms[0]->facts().term;
  q.terms[0]->lose(loss_reason::row_gone);
  CHECK(q.lock.votes() == 2);
  auto const former = q.lock.may_ask_again(0);
  REQUIRE(former);
  REQUIRE(former->to_be_given_back);
  CHECK(former->to_be_given_back.term() == first);
  CHECK(former->term == first);
  // It is given back once; its term stays known.
  auto const later = q.lock.may_ask_again(0);
  REQUIRE(later);
  CHECK_FALSE(later->to_be_given_back);
  CHECK(later->term == first);
  CHECK_FALSE(q.lock.of(0));
  CHECK(q.grants(0, 4));  // below: a member that was wiped
  CHECK(q.lock.votes() == 2);
  q.confirms(0, 5);
  CHECK(q.lock.votes() == 3);
  CHECK(q.lock.valid());
}

TEST_CASE("quorum: a member is asked once at a time, and one that grants late counts then") {
  three q;
  CHECK(q.grants(0, 5));
  CHECK(q.grants(1, 5));
  CHECK(q.lock.begin_to_ask(2));
  CHECK_FALSE(q.lock.begin_to_ask(2));
  CHECK(q.lock.begin({5}));
  CHECK_FALSE(q.lock.may_ask_again(2));
  CHECK(q.lock.answered(2, {.granted = managing::granted_vote(granted(boot_clock::now(), 5))}));
  CHECK(q.lock.votes() == 3);
}

TEST_CASE("quorum: what an operator has taken from it is not asked for again") {
  three q;
  q.is_held();
  SUBCASE("which a renewal met") { q.terms[0]->lose(loss_reason::revoked); }
  SUBCASE("which was found when it was given back") {
    q.terms[0]->lose(loss_reason::row_gone);
    REQUIRE(q.lock.may_ask_again(0));
    REQUIRE(q.lock.begin_to_ask(0));
    CHECK_FALSE(q.lock.answered(0, {.revoked = true}));
  }
  CHECK_FALSE(q.lock.may_ask_again(0));
  CHECK(q.lock.valid());
  q.terms[1]->lose(loss_reason::revoked);
  CHECK(q.lock.look());
  CHECK(q.lock.loss() == loss_reason::revoked);
}

TEST_CASE("quorum: a loss is for good, whatever is granted or renewed after it") {
  three q;
  SUBCASE("two members have lost it") {
    q.is_held();
    q.terms[0]->lose(loss_reason::row_gone);
    q.terms[1]->lose(loss_reason::taken_over);
    q.confirms(2, 5);
    CHECK_FALSE(q.lock.valid());
    CHECK(q.lock.loss() == loss_reason::taken_over);
    CHECK_FALSE(q.lock.begin_to_ask(0));  // nothing is asked for any more
  }
  SUBCASE("trust ended unseen, and then came the renewals that were under way") {
    // Nine tenths of the ttl are trusted: 2 s of it are left.
    auto const sent = boot_clock::now() - usual_ttl * 9 / 10 + 2s;
    for (std::size_t m = 0; m < 3; ++m) REQUIRE(q.grants(m, 5, sent));
    REQUIRE(q.lock.begin({5}));
    auto const end = q.lock.trusted_until();
    for (std::size_t m = 0; m < 3; ++m) REQUIRE(q.lock.begin_to_ask(m));
    std::array<managing::granted_vote, 3> const fresh{managing::granted_vote(granted(boot_clock::now(), 5)),
                                                      managing::granted_vote(granted(boot_clock::now(), 5)),
                                                      managing::granted_vote(granted(boot_clock::now(), 5))};
    REQUIRE(test::eventually([&] { return boot_clock::now() >= end; }));
    for (std::size_t m = 0; m < 3; ++m) CHECK_FALSE(q.lock.answered(m, {.granted = fresh.at(m)}));
    CHECK_FALSE(q.lock.valid());
    CHECK(q.lock.loss() == loss_reason::suspended);
    CHECK(q.lock.look());
    CHECK(q.lock.look_what_is_due() == quorum_hold::due::announcement);
    CHECK(q.lock.look_what_is_due() == quorum_hold::due::nothing);  // once
  }
}

TEST_CASE(
    "quorum: a renewal in time whose reply is dealt with after trust has ended does not bring it back") {
  three q;
  auto const sent = boot_clock::now() - usual_ttl * 9 / 10 + 2s;
  REQUIRE(q.grants(0, 5, sent));
  REQUIRE(q.grants(1, 5));
  REQUIRE(q.lock.begin({5}));
  auto const end = q.lock.trusted_until();
  REQUIRE(q.lock.begin_to_ask(0));
  // The member's own trust goes on; that of the quorum is what somebody may have read already.
  REQUIRE(q.terms[0]->prolong(boot_clock::now(), usual_ttl));
  REQUIRE(test::eventually([&] { return boot_clock::now() >= end; }));
  SUBCASE("somebody has seen that it ended") { CHECK_FALSE(q.lock.valid()); }
  SUBCASE("nobody has") {}
  q.lock.confirmed(0, true, {5}, std::nullopt);
  CHECK_FALSE(q.lock.valid());
  CHECK(q.lock.loss());
}

TEST_CASE("quorum: the loss is reported before trust ends") {
  three q;
  q.is_held();
  CHECK(q.lock.alarm() < q.lock.trusted_until());
  CHECK(q.lock.alarm() >= q.lock.trusted_until() - 1s);
}

TEST_CASE("quorum: the hard limit bounds it, whatever the members say") {
  auto const began = boot_clock::now();
  three q({.ttl = usual_ttl, .hard_limit = 61s});
  q.is_held();
  CHECK(q.lock.trusted_until() <= began + 61s + 1s);
  three brief({.ttl = usual_ttl, .hard_limit = 10s});
  for (std::size_t m = 0; m < 3; ++m) REQUIRE(brief.grants(m, 5));
  REQUIRE(brief.lock.begin({5}));
  CHECK(brief.lock.trusted_until() <= boot_clock::now() + 10s);
  CHECK(brief.lock.left_of_hard_limit() <= 10s);
  three const shortest({.ttl = usual_ttl, .hard_limit = 100ms});
  CHECK(shortest.lock.left_of_hard_limit() == 100ms);  // as there is no shorter one
}

TEST_CASE("quorum: a member that does not belong to it any more does not count") {
  three q;
  q.is_held();
  q.lock.leave_out(0);
  CHECK(q.lock.votes() == 2);
  CHECK(q.lock.valid());
  CHECK_FALSE(q.lock.begin_to_ask(0));
  q.lock.leave_out(1);
  CHECK_FALSE(q.lock.valid());
  CHECK(q.lock.loss());
}

TEST_CASE(
    "quorum: a loss that a reply brings, after it was looked what is due, is announced by the next look") {
  three q;
  q.is_held();
  CHECK(q.lock.look_what_is_due() == quorum_hold::due::renewal);
  q.terms[0]->lose(loss_reason::revoked);
  q.terms[1]->lose(loss_reason::revoked);
  q.confirms(2, 5);
  CHECK_FALSE(q.lock.held());
  CHECK(q.lock.look_what_is_due() == quorum_hold::due::announcement);
  CHECK(q.lock.look_what_is_due() == quorum_hold::due::nothing);
}

TEST_CASE("quorum: the end gives all of it back, once; what is granted after it is not kept") {
  three q;
  CHECK(q.grants(0, 5));
  CHECK(q.grants(1, 5));
  REQUIRE(q.lock.begin({5}));
  REQUIRE(q.lock.begin_to_ask(2));
  bool was_held = false;
  auto const all = q.lock.end(was_held);
  CHECK(was_held);
  REQUIRE(all.size() == 3);
  CHECK(all[0]);
  CHECK(all[1]);
  CHECK_FALSE(all[2]);
  CHECK_FALSE(q.lock.answered(2, {.granted = managing::granted_vote(granted(boot_clock::now(), 5))}));
  CHECK(q.lock.end(was_held).empty());
  CHECK_FALSE(was_held);
  CHECK_FALSE(q.lock.valid());
}

TEST_CASE("quorum: a hard limit that is shorter than the ttl is told shortly before its end, not at once") {
  three q({.ttl = usual_ttl, .hard_limit = 10s});
  for (std::size_t m = 0; m < 3; ++m) REQUIRE(q.grants(m, 5));
  REQUIRE(q.lock.begin({5}));
  CHECK(q.lock.trusted_until() - q.lock.alarm() == 500ms);
}

TEST_CASE(
    "quorum: a lock that is given back when its trust has ended unseen was lost, which is to be told once") {
  three q;
  auto const sent = boot_clock::now() - usual_ttl * 9 / 10 + 2s;
  for (std::size_t m = 0; m < 3; ++m) REQUIRE(q.grants(m, 5, sent));
  REQUIRE(q.lock.begin({5}));
  REQUIRE(test::eventually([&] { return boot_clock::now() >= sent + usual_ttl * 9 / 10; }));
  bool was_held = true;
  CHECK(q.lock.end(was_held).size() == 3);
  CHECK_FALSE(was_held);
  CHECK(q.lock.loss() == loss_reason::suspended);
  CHECK(q.lock.announcement_is_due());
  CHECK_FALSE(q.lock.announcement_is_due());
}

TEST_CASE("quorum: a lock that is given back in time was not lost") {
  three q;
  q.is_held();
  bool was_held = false;
  CHECK(q.lock.end(was_held).size() == 3);
  CHECK(was_held);
  CHECK_FALSE(q.lock.loss());
  CHECK_FALSE(q.lock.announcement_is_due());
}
