// Which members are asked, in which order, and for which token.

#include <atomic>
#include <future>
#include <vector>

#include "quorum/members.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// Each member's next take waits until all of them are asked.
class asked_at_once {
 public:
  explicit asked_at_once(three_members& m) : members_(m) {
    for (std::size_t i = 0; i < three_members::size; ++i)
      members_.at(i).probe->before = [this](std::string const& statement) {
        if (statement != "lock_take") return;
        ++asked_;
        if (!eventually([this] { return asked_ >= 3; })) ++alone_;
      };
  }
  ~asked_at_once() {
    for (std::size_t i = 0; i < three_members::size; ++i) members_.mend(i);
  }
  asked_at_once(asked_at_once const&) = delete;
  asked_at_once& operator=(asked_at_once const&) = delete;
  void all_have(quorum_lock const& got) const {
    CHECK(alone_ == 0);
    CHECK(eventually([&] { return got.votes() == 3; }));
    for (std::size_t i = 0; i < three_members::size; ++i) {
      CAPTURE(i);
      CHECK(token_at(members_, i) == got.token().value);
    }
  }

 private:
  three_members& members_;
  std::atomic<int> asked_ = 0;
  std::atomic<int> alone_ = 0;
};

}  // namespace

TEST_CASE("quorum: where nobody else is met, all members are asked at once, and grant the same token") {
  three_members members;
  auto a = members.program();
  REQUIRE(members.have_rows(*a));
  asked_at_once const together(members);
  auto got = a->make_mutex("x", short_term()).try_acquire();
  REQUIRE(got);
  together.all_have(*got);
}

TEST_CASE("quorum: where others were met, one member is asked first") {
  three_members members;
  std::atomic<bool> first_has_answered = false;
  std::atomic<int> too_early = 0;
  auto a = members.program();
  auto mine = members.met_others(*a);
  members.at(0).probe->after = [&](std::string const& statement) {
    if (statement == "lock_take") first_has_answered = true;
  };
  for (std::size_t i = 1; i < three_members::size; ++i)
    members.at(i).probe->before = [&](std::string const& statement) {
      if (statement == "lock_take" && !first_has_answered) ++too_early;
    };
  auto const got = mine.try_acquire();
  REQUIRE(got);
  CHECK(eventually([&] { return got->votes() == 3; }));
  CHECK(too_early == 0);
  for (std::size_t i = 0; i < three_members::size; ++i) {
    members.at(i).probe->before = nullptr;
    members.at(i).probe->after = nullptr;
  }
}

// The last owner has given back the others before the first, which lets the next one to the front.
TEST_CASE("quorum: who comes to the front of the line asks all members at once, and is granted one token") {
  three_members members;
  std::vector<program_of_members> programs;
  for (int i = 0; i < 2; ++i) programs.push_back(members.program());
  auto held = programs[0]->make_mutex("x", short_term()).try_acquire();
  REQUIRE(held);
  REQUIRE(eventually([&] { return held->votes() == 3; }));
  std::atomic<int> in_line = 0;
  auto options = short_term();
  options.on_wait = [&](holder_info const*) { ++in_line; };
  auto next = std::async(std::launch::async, [&] { return programs[1]->make_mutex("x", options).acquire(); });
  REQUIRE(eventually([&] { return in_line > 0; }));
  asked_at_once const together(members);
  CHECK(held->release() == release_result::released);
  auto got = next.get();
  REQUIRE(got);
  CHECK(got->token() > held->token());
  together.all_have(*got);
}

TEST_CASE("quorum: who is refused at the front of the line keeps the other members from nobody") {
  three_members members;
  std::atomic<int> granted = 0;
  std::atomic<int> given_back = 0;
  auto a = members.program({}, 60s);
  auto mine = a->make_mutex("x", short_term());
  REQUIRE(members.have_rows(*a));
  // Of one that is gone: it must be watched for a minute.
  for (std::size_t i = 0; i < 2; ++i)
    members.at(i).sql("UPDATE rowlock_locks SET term = 'gone', ttl = 60000");
  CHECK_FALSE(mine.try_acquire());  // from now on one member is asked first
  members.at(1).sql("UPDATE rowlock_locks SET term = NULL");
  for (std::size_t i = 1; i < three_members::size; ++i)
    members.at(i).probe->after = [&](std::string const& statement) {
      if (statement == "lock_take") ++granted;
      if (statement == "lock_release") ++given_back;
    };
  // The first refuses when the others have granted, if they are asked beside.
  members.at(0).probe->before = [&](std::string const& statement) {
    if (statement == "lock_take") eventually([&] { return granted == 2; }, 2s);
  };
  auto waits = std::async(std::launch::async, [&] { return mine.acquire(); });
  CHECK(eventually([&] { return given_back == 2; }));
  for (std::size_t i = 1; i < three_members::size; ++i)
    CHECK(members.number(i, "SELECT count(*) FROM rowlock_locks WHERE term IS NOT NULL") == 0);
  members.at(0).probe->before = nullptr;
  members.at(0).sql("UPDATE rowlock_locks SET term = NULL");
  auto const got = waits.get();
  REQUIRE(got);
  CHECK(eventually([&] { return got->votes() == 3; }));
  for (std::size_t i = 1; i < three_members::size; ++i) members.at(i).probe->after = nullptr;
}

TEST_CASE("quorum: the time that is waited in line does not count for the hard limit") {
  three_members members;
  auto a = members.program();
  auto held = a->make_mutex("x", short_term()).acquire();
  REQUIRE(held);
  auto options = short_term();
  options.hard_limit = 4s;
  std::atomic<bool> in_line = false;
  options.on_wait = [&](holder_info const*) { in_line = true; };
  auto next =
      std::async(std::launch::async, [&] { return a->make_mutex("x", options).try_acquire_for(60s); });
  REQUIRE(eventually([&] { return in_line.load(); }));
  auto const until = boot_clock::now() + 5s;
  CHECK(eventually([&] { return boot_clock::now() > until; }));
  auto const takes = members.at(0).probe->executed("lock_take");
  CHECK(held->release() == release_result::released);
  auto const got = next.get();
  REQUIRE(got);
  CHECK(got->trusted_until() > boot_clock::now() + 500ms);
  CHECK(members.at(0).probe->executed("lock_take") == takes + 1);  // not in vain at first
}
