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

namespace {

/// `rowlock once k` whose command ends with `status` when it is told to stop, as services do.
struct stoppable : program {
  stoppable(place const& p, std::string const& status, words options = {})
      : program(p.command(with(std::move(options), status)), p.variables()) {
    REQUIRE(prints("ready"));
  }
  static words with(words options, std::string const& status) {
    options.insert(options.begin(), {"once", "k", "--for", "30d"});
    options.insert(options.end(), {"--", "sh", "-c",
                                   "trap 'exit " + status +
                                       "' INT TERM HUP QUIT USR1; echo ready; "
                                       "while :; do sleep 0.05; done"});
    return options;
  }
};

}  // namespace

CLI_CASE("C71: once: told to stop, the command ends with 0: nothing is recorded") {
  Place const p;
  for (int const signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
    stoppable stops(p, "0");
    stops.signal(signal);
    CHECK(stops.wait() == 128 + signal);
    CHECK(stops.died_of() == signal);
    CHECK(stops.err().find("'k' was told to stop (signal ") != std::string::npos);
    CHECK(stops.err().find("It is not recorded as done") != std::string::npos);
    CHECK(listed(p, {"--done"}).empty());
  }
  stoppable group(p, "0");
  group.signal_group(SIGTERM);
  CHECK(group.wait() == 128 + SIGTERM);
  CHECK(listed(p, {"--done"}).empty());
  CHECK(once(p, "echo again").out == "again\n");
}

CLI_CASE("C71: once: a command that says its work is whole is recorded although it was told to stop") {
  Place const p;
  for (auto const* status : {"3", "0"}) {
    stoppable stops(p, status, {"--done-status", status});
    stops.signal(SIGTERM);
    CHECK(stops.wait() == 0);
    CHECK(listed(p, {"--done"}).size() == 1);
    CHECK(p.rowlock({"release", "--force", "k"}).status == 0);
  }
  CHECK(once(p, "exit 3", {"--done-status", "3"}).status == 0);  // also if nobody told it to stop
  CHECK(listed(p, {"--done"}).size() == 1);
}

TEST_CASE("C71: once: other statuses, signals that do not stop, and a loss, are as before") {
  on_sqlite const p;
  stoppable fails(p, "7", {"--done-status", "3"});
  fails.signal(SIGTERM);
  CHECK(fails.wait() == 7);
  CHECK(listed(p, {"--done"}).empty());
  stoppable loses(p, "0", {"--ttl", "9s", "--done-status", "0"});  // the guardian itself ends it
  CHECK(p.rowlock({"release", "--force", "k"}).status == 0);
  CHECK(loses.wait() == 76);
  CHECK(listed(p, {"--done"}).empty());
  stoppable told(p, "0");
  told.signal(SIGUSR1);
  CHECK(told.wait() == 0);
  CHECK(listed(p, {"--done"}).size() == 1);
}

TEST_CASE("C71: run: told to stop, it ends with the command's status") {
  on_sqlite const p;
  holder h(p, {"n"}, "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done");
  h.signal(SIGTERM);
  CHECK(h.wait() == 0);
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
  says({"once", "k", "--for", "30d", "--done-status", "126", "--", "true"}, "--done-status");
  says({"once", "--for", "30d", "--", "true"}, "KEY");
  says({"run", "--strategy", "once", "k", "--", "true"}, "rowlock once");
}
