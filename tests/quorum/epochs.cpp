// What programs that hold or take locks make of an epoch that begins, or does not.

#include <future>
#include <rowlock/error.hpp>

#include "base/event.hpp"
#include "quorum/members.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

void refuse(three_members& members, std::size_t i, std::string const& statement) {
  members.at(i).probe->before = [statement](std::string const& s) {
    if (s == statement) throw error(errc::unreachable, "by the test", s, "", 0);
  };
}

}  // namespace

// The new member and the one that did not grant are a majority for somebody else, as soon as the new one
// votes.
TEST_CASE(
    "quorum: a member that is replaced while it grants does not count for the lock that is taken just then") {
  three_members members;
  base::event asked, replaced;
  auto p = members.program({}, 60s);
  auto known = p->make_mutex("known", short_term()).acquire();
  REQUIRE(known);
  REQUIRE(eventually([&] { return known->votes() == 3; }));
  refuse(members, 1, "lock_take");
  members.at(2).probe->before = [&](std::string const& s) {
    if (s != "lock_take") return;
    asked.set();
    CHECK(base::wait_for(replaced, boot_clock::now() + 60s));
  };
  auto takes = std::async(std::launch::async, [&] {
    auto x = p->make_mutex("x", short_term());
    return x.try_acquire();
  });
  REQUIRE(base::wait_for(asked, boot_clock::now() + 60s));
  sqlite_fixture fresh;
  auto const m = fresh.manager();
  auto other = members.program();
  quorum q({other.managers[0].get(), other.managers[1].get(), m.get()});
  std::jthread joining([&] { q.join(2); });
  CHECK(eventually([&] { return known->votes() == 2; }));  // the program knows the new epoch
  replaced.set();
  try {
    auto const got = takes.get();
    CHECK_FALSE((got && got->valid()));
  } catch (error const& e) {  // one member of two is no majority
    CHECK(e.retryable());
  }
  joining.join();
  for (std::size_t i = 0; i < members.size; ++i) members.mend(i);
}

TEST_CASE("quorum: a join that nobody else has heard of costs no lock, nor the next one") {
  three_members members;
  auto p = members.program();
  auto got = p->make_mutex("x", short_term()).acquire();
  REQUIRE(got);
  REQUIRE(eventually([&] { return got->votes() == 3; }));
  members.wipe(2);
  REQUIRE(eventually([&] { return got->votes() == 2; }));
  for (std::size_t i = 0; i < 2; ++i) refuse(members, i, "quorum_write");
  auto other = members.program();
  CHECK(reason_of([&] { other->join(2); }) == errc::unreachable);
  CHECK(members.number(2, "SELECT epoch FROM rowlock_quorum") == 2);
  // Renewed twice, and asked by the holder, which the third refuses in the former epoch.
  auto const renewed = members.at(0).probe->executed("quorum_confirm");
  CHECK(eventually([&] { return members.at(0).probe->executed("quorum_confirm") >= renewed + 3; }));
  CHECK(got->valid());
  auto fresh = members.program();
  CHECK(fresh->make_mutex("y", short_term()).acquire());
  CHECK(quorum_votes(fresh->status()) == 2);
  for (std::size_t i = 0; i < 2; ++i) members.mend(i);
  // It needs the third's answer, and so looks at its epoch, which it must not take for the quorum's.
  refuse(members, 1, "lock_take");
  CHECK(reason_of([&] { (void)fresh->make_mutex("z", short_term()).try_acquire(); }) != errc{});
  members.mend(1);
  // Whichever of the two is late in a busy moment: with the third's refusal there is no majority then.
  CHECK(eventually([&] {
    try {
      return bool(fresh->make_mutex("z", short_term()).try_acquire_for(60s));
    } catch (error const&) {
      return false;
    }
  }));
  fresh->join(2);
  CHECK(got->valid());
  CHECK(quorum_findings(fresh->status()).empty());
  CHECK(eventually([&] { return got->votes() == 3; }));
}

TEST_CASE("quorum: a join is made by a majority of the others, also if one of them can't be told") {
  three_members members;
  sqlite_fixture fourth, fifth;
  auto five = [&] {
    auto p = members.program();
    p.managers.push_back(fourth.manager());
    p.managers.push_back(fifth.manager());
    std::vector<lock_manager*> each;
    for (auto const& m : p.managers) each.push_back(m.get());
    p.quorum = std::make_unique<quorum>(each);
    return p;
  };
  CHECK(members.program()->drop().done == 3);
  auto a = five();
  a->init(1s);
  members.wipe(2);
  refuse(members, 1, "quorum_write");
  a->join(2);
  members.mend(1);
  auto const now = a->status();
  CHECK(now[2].votes);
  CHECK(quorum_votes(now) == 4);
  CHECK(five()->make_mutex("x", {.ttl = 1s}).acquire());
}

TEST_CASE("quorum: a join for which one database is named twice changes nothing") {
  three_members members;
  members.wipe(2);
  auto a = members.program();
  auto const twin = members.at(0).manager();
  quorum twins({a.managers[0].get(), twin.get(), a.managers[2].get()});
  CHECK(reason_of([&] { twins.join(2); }) == errc::invalid_argument);
  auto const now = a->status();
  CHECK(now[0].epoch == 1);
  CHECK(now[2].quorum_id.empty());
  CHECK(a->make_mutex("x", short_term()).acquire());
}

TEST_CASE("quorum: a program goes on in a quorum that was made anew, without being started again") {
  three_members members;
  auto a = members.program();
  CHECK(a->make_mutex("x", short_term()).acquire());
  auto b = members.program();
  CHECK(b->drop().done == 3);
  CHECK(reason_of([&] { (void)a->make_mutex("x", short_term()).try_acquire(); }) == errc::not_voting);
  b->init(short_ttl);
  CHECK(a->make_mutex("x", short_term()).acquire());
  CHECK(a->make_mutex("x", short_term()).acquire());
}

TEST_CASE("quorum: one member that was taken into another quorum keeps a program from no lock") {
  three_members members;
  auto a = members.program();
  CHECK(a->make_mutex("x", short_term()).acquire());
  members.at(2).sql("UPDATE rowlock_quorum SET quorum_id = 'another', epoch_id = 'another', epoch = 7");
  for (int i = 0; i < 3; ++i) {
    auto const got = a->make_mutex("x", short_term()).acquire();
    REQUIRE(got);
    CHECK(got->votes() == 2);
  }
}
