// rowlock once on real databases.

#include <fmt/format.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "cli/place.hpp"

using namespace rowlock::test;
using nlohmann::json;

namespace {

finished once(place const& p, std::string const& script, words options = {}) {
  words all{"once", "k", "--for", "30d"};
  all.insert(all.end(), options.begin(), options.end());
  all.insert(all.end(), {"--", "sh", "-c", script});
  return p.rowlock(std::move(all));
}

json listed(place const& p, words options) {
  options.insert(options.begin(), {"list", "--json"});
  return json::parse(p.rowlock(std::move(options)).out);
}

}  // namespace

CLI_CASE("once: runs, and the next time says by whom it was done, and when; 0 both times") {
  Place const p;
  auto const first = once(p, "echo working; echo $ROWLOCK_NAME", {"--note", "the result"});
  CHECK(first.status == 0);
  CHECK(first.out == "working\nk\n");
  CHECK(first.err.empty());
  auto const second = once(p, "echo working");
  CHECK(second.status == 0);
  CHECK(second.out.empty());
  CHECK(second.says("'k' was done by "));
  CHECK(second.says(" pid "));
  CHECK(second.says(" at 20"));
  CHECK(second.says("(the result)"));
  CHECK(listed(p, {}).empty());
  CHECK(listed(p, {"--all"}).empty());
  auto const done = listed(p, {"--done"});
  REQUIRE(done.size() == 1);
  CHECK(done[0]["state"] == "done");
  CHECK(done[0]["strategy"] == "once");
  CHECK(done[0]["note"] == "the result");
  CHECK(done[0]["expires_in_ms"] > 29LL * 24 * 3'600'000);
  auto const table = p.rowlock({"list", "--done"}).out;
  CHECK(table.find("done") != std::string::npos);
  CHECK(table.find("the result") != std::string::npos);
  auto const forgotten = p.rowlock({"release", "--force", "k"});
  CHECK(forgotten.status == 0);
  CHECK(forgotten.out.find("'k' was done by ") == 0);
  CHECK(once(p, "echo again").out == "again\n");
}

CLI_CASE("once: a command that fails: its status, and nothing is recorded") {
  Place const p;
  CHECK(once(p, "exit 7").status == 7);
  CHECK(once(p, "kill -TERM $$").status == 128 + SIGTERM);
  CHECK(p.rowlock({"once", "k", "--for", "30d", "--", "./there-is-none"}).status == 127);
  CHECK(listed(p, {"--done"}).empty());
  CHECK(once(p, "true").status == 0);
  CHECK(listed(p, {"--done"}).size() == 1);
}

CLI_CASE("once: while it runs elsewhere: 75, or what it waits for") {
  Place const p;
  program elsewhere(p.command({"once", "k", "--for", "30d", "--", "sh", "-c", "echo ready; read line"}),
                    p.variables(), "go\n");
  scratch_folder const folder;
  auto const end = folder.file("end");
  program running(p.command({"once", "k2", "--for", "30d", "--", "sh", "-c",
                             "echo ready; until [ -e " + end + " ]; do sleep 0.05; done"}),
                  p.variables());
  REQUIRE(running.prints("ready"));
  auto const busy = p.rowlock({"once", "k2", "--for", "30d", "--", "true"});
  CHECK(busy.status == 75);
  CHECK(busy.says("'k2' is held by "));
  program waiting(p.command({"once", "k2", "--for", "30d", "--wait", "1m", "--", "echo", "twice"}),
                  p.variables());
  CHECK(p.rowlock({"once", "k2", "--for", "30d", "--wait", "100ms", "--", "true"}).status == 75);
  CHECK(run({"touch", end}).status == 0);
  CHECK(running.wait() == 0);
  CHECK(waiting.wait() == 0);
  CHECK(waiting.out().empty());
  CHECK(waiting.err().find("was done by") != std::string::npos);
  CHECK(elsewhere.wait() == 0);
}

CLI_CASE("once: killed before the end: it is not recorded, and runs again") {
  Place const p;
  program dies(
      p.command({"once", "k", "--for", "30d", "--ttl", "4s", "--", "sh", "-c", "echo ready; sleep 100"}),
      p.variables());
  REQUIRE(dies.prints("ready"));
  dies.signal(SIGKILL);
  (void)dies.wait();
  auto const again = once(p, "echo again", {"--wait", "30s"});
  CHECK(again.status == 0);
  CHECK(again.out == "again\n");
}

CLI_CASE("once: taken away while it runs: 76, and nothing is recorded") {
  Place const p;
  program loses(p.command({"once", "k", "--for", "30d", "--ttl", "9s", "--grace", "100ms", "--", "sh", "-c",
                           "echo ready; sleep 100"}),
                p.variables());
  REQUIRE(loses.prints("ready"));
  CHECK(p.rowlock({"release", "--force", "k"}).status == 0);
  CHECK(loses.wait() == 76);
  CHECK(listed(p, {"--done"}).empty());
}

TEST_CASE("once: --for of more than 100 years is refused before anything runs, and 100 years are kept") {
  on_sqlite const p;
  for (auto const* longer : {"36501d", "36599d", "999999d"}) {
    auto const r = p.rowlock({"once", "k", "--for", longer, "--", "echo", "ran"});
    CHECK(r.status == 64);
    CHECK(r.out.empty());
    CHECK(r.says("36500d at most"));
  }
  words const longest{"once", "k", "--for", "36500d", "--", "echo", "ran"};
  CHECK(p.rowlock(longest).out == "ran\n");
  auto const again = p.rowlock(longest);
  CHECK(again.status == 0);
  CHECK(again.out.empty());
}

TEST_CASE("once: what is wrong on its command line: 64") {
  on_sqlite const p;
  auto const says = [&](words args, std::string const& what) {
    auto const r = p.rowlock(std::move(args));
    CHECK(r.status == 64);
    CHECK_MESSAGE(r.says(what), r.err);
  };
  says({"once", "k", "--", "true"}, "--for");
  says({"once", "k", "--for", "0", "--", "true"}, "--for");
  says({"once", "k", "--for", "30 days", "--", "true"}, "--for");
  says({"once", "k", "--for", "30d"}, "rowlock once [OPTIONS] KEY");
  says({"once", "--for", "30d", "--", "true"}, "KEY");
  says({"run", "--strategy", "once", "k", "--", "true"}, "rowlock once");
}
