// Runs a command under the guardian with a pretended lock, so that the guardian is tested apart from any
// database:
//
//     guarded TTL_MS GRACE_MS SLACK_MS [OPTION...] -- COMMAND...
//
// "Renews" every third of the ttl, or renew-each=MS, trusts for nine tenths of it. Exits with the command's
// status, or prints why not and exits with 76 (ended) or 70 (guardian gone).
//     lose-after=MS, lose-before-start   the lock is lost
//     stop-before-start, stop-after-start   it stops itself there (SIGSTOP)

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "process/command_line.hpp"
#include "process/guard.hpp"
#include "process/signals.hpp"

namespace {

using namespace rowlock;
using namespace rowlock::tool;
using std::chrono::milliseconds;

void renew(std::stop_token stop, guard& g, milliseconds ttl, milliseconds each, milliseconds lose_after) {
  std::mutex m;
  std::condition_variable_any never_told;
  auto const lost_at = boot_clock::now() + lose_after;
  std::unique_lock lock(m);
  auto trust_ends = boot_clock::now() + ttl * 9 / 10;
  for (;;) {
    auto const pause = lose_after.count() > 0 ? std::min(lose_after, each) : each;
    never_told.wait_for(lock, stop, pause, [] { return false; });
    if (stop.stop_requested()) return;
    if (lose_after.count() > 0 && boot_clock::now() >= lost_at) return g.end(boot_clock::now());
    // As with a real lock: trust that has ended (we were stopped) does not come back.
    if (boot_clock::now() >= trust_ends) return g.end(boot_clock::now());
    trust_ends = boot_clock::now() + ttl * 9 / 10;
    g.renewed(trust_ends);
  }
}

int conclude(outcome const& o) {
  if (o.from != outcome::source::guardian) {
    fmt::print(stderr, "guarded: guardian {}\n", o.from == outcome::source::guardian_gone ? "gone" : "late");
    return o.from == outcome::source::guardian_gone ? 70 : 76;
  }
  fmt::print(stderr, "guarded: why={} ended={} left={} exec_error={} not_begun={}\n",
             static_cast<int>(o.what.why), o.what.ended, o.what.left, o.what.exec_error, o.what.not_begun);
  if (o.what.exec_error != 0) return o.what.exec_error == ENOENT ? 127 : 126;
  if (o.what.why != ending::by_itself) return 76;
  int const status = o.what.wait_status;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int main(int argc, char** argv) {
  signal_setup const signals;
  guard_plan plan;
  plan.name = "a name";
  plan.command_line = memory_of(argc, argv);
  milliseconds const ttl{std::atoi(argv[1])};
  plan.grace = milliseconds{std::atoi(argv[2])};
  plan.slack = milliseconds{std::atoi(argv[3])};
  milliseconds lose_after{0};
  auto each = ttl / 3;
  std::set<std::string> steps;
  int i = 4;
  for (; i < argc && std::string(argv[i]) != "--"; ++i) {
    std::string const option = argv[i];
    auto const number = [&] { return milliseconds{std::atoi(std::strchr(argv[i], '=') + 1)}; };
    if (option.starts_with("lose-after="))
      lose_after = number();
    else if (option.starts_with("renew-each="))
      each = number();
    else
      steps.insert(option);
  }
  for (++i; i < argc; ++i) plan.command.emplace_back(argv[i]);

  guard g(std::move(plan), signals);
  auto const fd = signals.open();
  auto const trust_ends = boot_clock::now() + ttl * 9 / 10;
  if (steps.contains("lose-before-start")) g.end(boot_clock::now());
  if (steps.contains("stop-before-start")) ::kill(::getpid(), SIGSTOP);
  g.start("a name", fencing_token{7}, "0123456789abcdef0123456789abcdef", trust_ends);
  if (steps.contains("stop-after-start")) ::kill(::getpid(), SIGSTOP);
  std::jthread const renewals(
      [&](std::stop_token stop) { renew(std::move(stop), g, ttl, each, lose_after); });
  return conclude(g.wait(fd.get()));
}
