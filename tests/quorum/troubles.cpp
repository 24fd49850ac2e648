// Processes that are copied, members that do not answer or whose rows are locked, and what can't be had.

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <rowlock/error.hpp>
#include <rowlock/transaction.hpp>
#include <system_error>
#include <thread>
#include <vector>

#include "base/event.hpp"
#include "contract/open_transaction.hpp"
#include "quorum/members.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

template <class Lock>
concept can_be_required = requires(basic_transaction& tx, Lock const& lock) {
  tx.require(lock);
};
static_assert(can_be_required<held_lock> && !can_be_required<quorum_lock>);

/// Which of these is not as it has to be in a child: a bit each. Destroys what it was given.
int wrong_in_child(program_of_members p, quorum_lock lock) {
  auto mutex = p->make_mutex("x", short_term());
  int wrong = 0;
  if (lock.valid()) wrong |= 1;
  if (lock.loss() != loss_reason::forked) wrong |= 2;
  if (reason_of([&] { (void)mutex.acquire(); }) != errc::forked) wrong |= 4;
  if (reason_of([&] { (void)p->status(); }) != errc::forked) wrong |= 8;
  if (lock.extend(short_ttl)) wrong |= 16;
  if (lock.release() != release_result::already_lost) wrong |= 32;
  return wrong;
}

/// While it lives, this process gets no thread: each would have a stack that there is no room for.
class no_more_threads {
 public:
  no_more_threads() {
    REQUIRE(::pthread_getattr_default_np(&before_) == 0);
    pthread_attr_t huge;
    REQUIRE(::pthread_attr_init(&huge) == 0);
    REQUIRE(::pthread_attr_setstacksize(&huge, std::size_t{1} << 47) == 0);
    REQUIRE(::pthread_setattr_default_np(&huge) == 0);
    ::pthread_attr_destroy(&huge);
  }
  ~no_more_threads() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }
  no_more_threads(no_more_threads const&) = delete;
  no_more_threads& operator=(no_more_threads const&) = delete;

 private:
  pthread_attr_t before_{};
};

}  // namespace

TEST_CASE("quorum: a forked child owns nothing, is told so by all calls, and does the parent no harm") {
  three_members members;
  auto a = members.program();
  auto got = a->make_mutex("x", short_term()).acquire();
  REQUIRE(got);
  REQUIRE(eventually([&] { return got->votes() == 3; }));
  auto const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(wrong_in_child(std::move(a), *std::move(got)));
  int status = -1;
  bool const ended = eventually([&] { return ::waitpid(child, &status, WNOHANG) == child; });
  CHECK(ended);
  if (!ended) ::kill(child, SIGKILL);
  CHECK(status == 0);
  auto const until = got->trusted_until();
  CHECK(eventually([&] { return got->trusted_until() > until; }));
  CHECK(got->votes() == 3);
  CHECK(got->release() == release_result::released);
}

TEST_CASE("quorum: a member whose row somebody has locked keeps nobody from the others") {
  three_members members;
  auto a = members.program();
  auto mine = members.met_others(*a);
  open_transaction t(members.at(0));
  t.run("UPDATE rowlock_locks SET note = 'somebody'");
  auto const got = mine.try_acquire_for(60s);
  REQUIRE(got);
  CHECK(got->votes() == 2);
  t.commit();
}

TEST_CASE("quorum: who tries once where a majority does not answer is told that, not that it is busy") {
  three_members members;
  base::event over;
  auto a = members.program({}, 2s);
  REQUIRE(members.have_rows(*a));
  for (std::size_t i = 1; i < 3; ++i)
    members.at(i).probe->before = [&](std::string const& s) {
      if (s == "lock_take") CHECK(base::wait_for(over, boot_clock::now() + 60s));
    };
  CHECK(reason_of([&] { (void)a->make_mutex("x", short_term()).try_acquire(); }) == errc::unreachable);
  over.set();
  for (std::size_t i = 0; i < members.size; ++i) members.mend(i);
}

TEST_CASE(
    "quorum: a lock that is to be taken away: told which members could not be asked, and if it was in vain") {
  three_members members;
  auto a = members.program();
  auto b = members.program();
  auto got = a->make_mutex("x", short_term()).acquire();
  REQUIRE(eventually([&] { return got->votes() == 3; }));
  members.cut_off(0);
  auto const some = b->revoke("x", revoke_mode::at_renewal);
  CHECK(some.done == 2);
  REQUIRE(some.troubles.size() == 1);
  CHECK(some.troubles[0].find("cut off by the test") != std::string::npos);
  members.cut_off(1);
  CHECK(reason_of([&] { b->revoke("x", revoke_mode::at_renewal); }) == errc::unreachable);
  CHECK(b->drop().done == 1);
  members.cut_off(2);
  CHECK(reason_of([&] { b->drop(); }) == errc::unreachable);
  for (std::size_t i = 0; i < members.size; ++i) members.mend(i);
}

TEST_CASE("quorum: a lock that nobody can renew, because there is no thread for that, is given back") {
  three_members members;
  auto a = members.program();
  // Each manager has its threads.
  std::vector<acquisition> own;
  for (auto const& m : a.managers) own.push_back(m->make_mutex("own").acquire());
  auto mine = a->make_mutex("x", short_term());
  std::optional<no_more_threads> limit;
  auto const here = std::this_thread::get_id();
  members.at(0).probe->after = [&](std::string const& statement) {
    if (statement == "lock_take" && std::this_thread::get_id() == here) limit.emplace();
  };
  CHECK_THROWS_AS((void)mine.try_acquire(), std::system_error);
  CHECK(limit);
  members.at(0).probe->after = nullptr;
  limit.reset();
  for (std::size_t i = 0; i < members.size; ++i)
    CHECK(eventually([&] {
      return members.number(i, "SELECT count(*) FROM rowlock_locks WHERE name = 'x' AND term IS NOT NULL") ==
             0;
    }));
  CHECK(mine.try_acquire_for(60s));
}

TEST_CASE("quorum: a bound of attempts and a policy are refused, not forgotten") {
  three_members members;
  auto a = members.program();
  mutex_options few = short_term();
  few.retry.attempts = 3;
  CHECK(reason_of([&] { (void)a->make_mutex("x", few); }) == errc::unsupported);
  mutex_options own = short_term();
  own.retry.policy = [](auto&&...) { return std::nullopt; };
  CHECK(reason_of([&] { (void)a->make_mutex("x", own); }) == errc::unsupported);
}

// Whoever was silent the last time is asked beside the others. The client may have been stopped while it
// waited for the answer.
TEST_CASE("quorum: a member whose grant came too late for the client is not taken for silent") {
  three_members members;
  std::atomic<bool> late{false};
  std::atomic<bool> asked{false};
  std::thread::id by;
  auto a = members.program();
  auto x = a->make_mutex("x", short_term());
  REQUIRE(members.have_rows(*a));
  members.at(0).probe->after = [&](std::string const& statement) {
    if (statement != "lock_take" || late.exchange(true)) return;
    auto const over = boot_clock::now() + short_ttl;
    CHECK(eventually([&] { return boot_clock::now() >= over; }));
  };
  (void)reason_of([&] { (void)x.try_acquire(); });
  CHECK(late);
  REQUIRE(members.are_free());
  members.at(0).probe->before = [&](std::string const& statement) {
    if (statement != "lock_take" || asked) return;
    by = std::this_thread::get_id();
    asked = true;
  };
  CHECK(x.try_acquire_for(60s));
  REQUIRE(eventually([&] { return asked.load(); }));
  CHECK(by == std::this_thread::get_id());
  members.at(0).probe->before = nullptr;
}
