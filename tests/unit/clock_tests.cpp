#include <doctest/doctest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <rowlock/types.hpp>

namespace rowlock {
namespace {

using namespace std::chrono_literals;

constexpr int could_not_look = 2;

/// 0 if boot_clock is about a day ahead of the steady clock, which stands still while the machine sleeps.
int look_after_a_night() {
  auto const ahead =
      boot_clock::now().time_since_epoch() - std::chrono::steady_clock::now().time_since_epoch();
  return ahead >= 23h ? 0 : 1;
}

// In a time namespace the machine has slept for a day.
int after_a_night() {
  if (::unshare(::geteuid() == 0 ? CLONE_NEWTIME : CLONE_NEWTIME | CLONE_NEWUSER) != 0) return could_not_look;
  if (!(std::ofstream("/proc/self/timens_offsets") << "monotonic 0 0\nboottime 86400 0\n").flush())
    return could_not_look;
  pid_t const child = ::fork();
  if (child == 0) ::_exit(look_after_a_night());
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : could_not_look;
}

TEST_CASE("K8: the clock that trust is measured by goes on while the machine sleeps") {
  pid_t const child = ::fork();
  if (child == 0) ::_exit(after_a_night());
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace rowlock
