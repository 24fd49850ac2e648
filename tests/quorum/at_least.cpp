// A lock that is given back before mutex_options::at_least is over.

#include "base/event.hpp"
#include "quorum/members.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

mutex_options kept_for(std::chrono::milliseconds at_least) {
  auto o = short_term();
  o.at_least = at_least;
  return o;
}

bool is_free(three_members& members, std::size_t i) {
  return members.number(i, "SELECT count(*) FROM rowlock_locks WHERE term IS NULL") == 1;
}

bool is_over(three_members& members, std::size_t i) {
  return members.number(
             i, "SELECT count(*) FROM rowlock_locks WHERE expires_at <= " + in_ms(members.at(i), 0)) == 1;
}

/// The first two members; by somebody whose row must be watched for a minute.
void taken_by_another(three_members& members) {
  for (std::size_t i = 0; i < 2; ++i)
    members.at(i).sql("UPDATE rowlock_locks SET term = 'of another', ttl = 60000");
}

}  // namespace

TEST_CASE("quorum: at_least keeps the name, and when it is over who tries once has it") {
  three_members members(false);
  auto a = members.program();
  a->init(12s);
  fencing_token token;
  {
    auto const got = a->make_mutex("x", kept_for(12s)).acquire();
    REQUIRE(got);
    REQUIRE(eventually([&] { return got->votes() == 3; }));
    token = got->token();
  }
  for (std::size_t i = 0; i < members.size; ++i) {
    CAPTURE(i);
    CHECK_FALSE(is_free(members, i));
    CHECK(members.number(i, "SELECT count(*) FROM rowlock_locks WHERE takeover = 'clock'") == 1);
  }
  CHECK_FALSE(members.program()->make_mutex("x", short_term()).try_acquire());
  for (std::size_t i = 0; i < members.size; ++i) CHECK(eventually([&] { return is_over(members, i); }));
  // Nobody has seen the rows before: whoever has to watch them is busy.
  auto const b = members.program();
  auto const next = b->make_mutex("x", short_term()).try_acquire();
  REQUIRE(next);
  CHECK(next->token() > token);
  CHECK(eventually([&] { return next->votes() == 3; }));
  for (std::size_t i = 0; i < members.size; ++i)
    CHECK(members.number(i, "SELECT count(*) FROM rowlock_locks WHERE takeover = 'observed'") == 1);
}

// Each member has such a row: it must not hide from who takes that his epoch has ended.
TEST_CASE("quorum: at_least: whose row is over tells a program of a former epoch that there is another one") {
  three_members members;
  auto a = members.program();
  auto b = members.program();
  CHECK(b->make_mutex("x", short_term()).acquire());  // it knows the first epoch
  {
    auto const got = a->make_mutex("x", kept_for(short_ttl)).acquire();
    REQUIRE(got);
    REQUIRE(eventually([&] { return got->votes() == 3; }));
  }
  a->join(2);
  for (std::size_t i = 0; i < members.size; ++i) CHECK(eventually([&] { return is_over(members, i); }));
  CHECK(b->make_mutex("x", short_term()).try_acquire());
}

TEST_CASE("quorum: at_least keeps nothing of what a minority has granted") {
  three_members members;
  auto a = members.program();
  REQUIRE(members.have_rows(*a));
  taken_by_another(members);
  auto mine = a->make_mutex("x", kept_for(short_ttl));
  SUBCASE("once") { CHECK_FALSE(mine.try_acquire()); }
  SUBCASE("for a while") { CHECK_FALSE(mine.try_acquire_for(300ms)); }
  CHECK(eventually([&] { return is_free(members, 2); }));
  CHECK(members.at(2).probe->executed("lock_release_at_least") == 0);
}

TEST_CASE("quorum: at_least keeps nothing that comes too late") {
  three_members members;
  base::event late, over;
  auto a = members.program({}, 2s);
  REQUIRE(members.have_rows(*a));
  taken_by_another(members);
  // Two refuse once the third has granted, and does not tell it in time.
  for (std::size_t i = 0; i < 2; ++i)
    members.at(i).probe->before = [&](std::string const& statement) {
      if (statement == "lock_take") CHECK(base::wait_for(late, boot_clock::now() + 60s));
    };
  members.at(2).probe->after = [&](std::string const& statement) {
    if (statement != "lock_take") return;
    late.set();
    CHECK(base::wait_for(over, boot_clock::now() + 60s));
  };
  try {
    CHECK_FALSE(a->make_mutex("x", kept_for(short_ttl)).try_acquire());
  } catch (error const& e) {
    CHECK(e.code() == errc::unreachable);  // on a machine so slow that the two came too late as well
  }
  over.set();
  CHECK(eventually([&] { return is_free(members, 2); }));
  CHECK(members.at(2).probe->executed("lock_release_at_least") == 0);
  members.at(2).probe->after = nullptr;
}

// It would keep the holder itself from the member for so long.
TEST_CASE("quorum: at_least keeps no member that is taken again") {
  three_members members(false);
  auto a = members.program();
  a->init(60s);
  auto got = a->make_mutex("x", kept_for(60s)).acquire();
  REQUIRE(got);
  REQUIRE(eventually([&] { return got->votes() == 3; }));
  members.at(1).probe->before = [&](std::string const& statement) {
    if (statement == "quorum_confirm") throw error(errc::unreachable, "by the test", statement, "", 0);
  };
  CHECK(eventually([&] { return got->votes() == 2; }));
  members.mend(1);
  CHECK(eventually([&] { return got->votes() == 3; }));
  CHECK(members.at(1).probe->executed("lock_release_at_least") == 0);
  CHECK(got->valid());
  CHECK(got->release() == release_result::released);
  CHECK(members.at(1).probe->executed("lock_release_at_least") == 1);
}
