#include "base/fork_epoch.hpp"

#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

namespace rowlock::base {
namespace {

/// What the child returns, which is made with or without handlers of pthread_atfork.
int in_child(bool handlers, std::function<int()> const& what) {
  auto const child = handlers ? ::fork() : static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) ::_exit(what());
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_CASE("fork_epoch: each child has another one than all its parents, also of a fork without handlers") {
  auto const mine = fork_epoch();
  CHECK(fork_epoch() == mine);
  for (bool const first : {true, false})
    for (bool const second : {true, false}) {
      CAPTURE(first);
      CAPTURE(second);
      CHECK(in_child(first, [&] {
              auto const child = fork_epoch();
              if (child == mine || child != fork_epoch()) return 1;
              return in_child(second, [&] {
                auto const grandchild = fork_epoch();
                return grandchild == child || grandchild == mine ? 2 : 0;
              });
            }) == 0);
    }
  CHECK(fork_epoch() == mine);
}

}  // namespace
}  // namespace rowlock::base
