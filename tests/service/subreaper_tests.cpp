// Where the system has no child subreapers.
#include <doctest/doctest.h>
#include <signal.h>

#include "cli/place.hpp"

namespace rowlock::test {
namespace {

words restricted(words command) {
  command.insert(command.begin(), ROWLOCK_WITHOUT_SUBREAPER);
  return command;
}

constexpr auto said = "this system has no child subreapers (prctl: Invalid argument)";

}  // namespace

TEST_CASE("C100: run <sqlite>: without a subreaper it goes on, and says what it can't promise then") {
  on_sqlite const p;
  auto const ran =
      run(restricted(p.command({"run", "n", "--", "sh", "-c", "echo $ROWLOCK_NAME; exit 3"})), p.variables());
  CHECK(ran.status == 3);
  CHECK(ran.out == "n\n");
  CHECK(ran.says(said));
  CHECK(ran.err.find(said) == ran.err.rfind(said));

  // What it still does: a child of the command's that has a parent is ended.
  program held(
      restricted(p.command({"run", "n", "--grace", "1s", "--", "sh", "-c", "echo ready; sleep 1000; true"})),
      p.variables());
  REQUIRE(held.prints("ready"));
  held.signal(SIGTERM);
  CHECK(held.wait() == 143);
  CHECK(p.rowlock({"run", "--no-wait", "n", "--", "true"}).status == 0);
}

TEST_CASE("C100: doctor <sqlite>: says that there is no subreaper, and nothing of it where there is one") {
  on_sqlite const p;
  auto const there = run(restricted(p.command({"doctor"})), p.variables());
  CHECK(there.status == 0);
  CHECK(there.out.find("subreaper") != there.out.npos);
  CHECK(there.out.find(said) != there.out.npos);
  CHECK(p.rowlock({"doctor"}).out.find("subreaper") == std::string::npos);
}

}  // namespace rowlock::test
