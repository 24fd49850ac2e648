// rowlock lead and rowlock leader on real databases.

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/place.hpp"
#include "commands/restarts.hpp"

using namespace rowlock::test;
using nlohmann::json;

namespace {

/// `rowlock lead OPTIONS... x -- sh -c SCRIPT`.
struct candidate : program {
  candidate(place const& p, words options, std::string const& script = "echo ready; sleep 100")
      : program(p.command(with(std::move(options), script)), p.variables()) {}
  static words with(words options, std::string const& script) {
    options.insert(options.begin(), "lead");
    options.insert(options.end(), {"x", "--", "sh", "-c", script});
    return options;
  }
};

finished leader(place const& p) { return p.rowlock({"leader", "x"}); }

std::string name_of_process(pid_t pid) { return read_file(fmt::format("/proc/{}/comm", pid)); }

}  // namespace

CLI_CASE("lead: the command runs while this host leads; leader says who; its status is the command's") {
  Place const p;
  auto const nobody = leader(p);
  CHECK(nobody.status == 1);
  CHECK(nobody.out.empty());
  CHECK(nobody.err.empty());
  CHECK(p.rowlock({"leader", "x", "--json"}).out == "null\n");
  candidate c(p, {"--value", "10.0.0.7:8080"}, "echo ready; read line; exit 3");
  REQUIRE(c.prints("ready"));
  CHECK(c.wait() == 3);  // its stdin is empty
  CHECK(leader(p).status == 1);
  candidate d(p, {"--value", "10.0.0.7:8080"});
  REQUIRE(d.prints("ready"));
  CHECK(leader(p).status == 0);
  CHECK(leader(p).out == "10.0.0.7:8080\n");
  auto const known = json::parse(p.rowlock({"leader", "x", "--json"}).out);
  CHECK(known["value"] == "10.0.0.7:8080");
  CHECK(known["pid"] == d.pid());
  CHECK(known["token"].template get<std::int64_t>() > 0);
  d.signal(SIGTERM);
  CHECK(d.wait() == 128 + SIGTERM);
  CHECK(leader(p).status == 1);
}

CLI_CASE(
    "lead: without --value its host is told; the next one leads when it resigns, and when it is killed") {
  Place const p;
  candidate first(p, {"--ttl", "9s"}, "echo ready; sleep 100");
  REQUIRE(first.prints("ready"));
  CHECK(leader(p).out.size() > 1);
  candidate second(p, {"--ttl", "9s", "--value", "second"});
  candidate third(p, {"--ttl", "9s", "--value", "third"});
  CHECK_FALSE(within(300ms, [&] { return !second.out().empty() || !third.out().empty(); }));
  first.signal(SIGTERM);
  first.wait();
  REQUIRE(within(60s, [&] { return leader(p).out == "second\n" || leader(p).out == "third\n"; }));
  bool const second_leads = leader(p).out == "second\n";
  auto& leads = second_leads ? second : third;
  auto& waits = second_leads ? third : second;
  CHECK(leads.prints("ready"));
  CHECK(waits.out().empty());
  leads.signal(SIGKILL);
  CHECK(waits.prints("ready"));
  CHECK(leader(p).out == (second_leads ? "third\n" : "second\n"));
}

CLI_CASE("lead --restart: campaigns again in the same process, as it was started; a signal ends it") {
  Place const p;
  scratch_folder const here;
  auto const log = here.file("log");
  // ROWLOCK_LEAD_... is nothing for the command; descriptor 3 is.
  candidate c(
      p, {"--restart"},
      fmt::format("env | grep -c ROWLOCK_LEAD >>{0}; echo \"$ROWLOCK_NAME $ROWLOCK_TOKEN\" >>{0}; "
                  "ls /proc/self/fd | wc -l >>{0}; test $(wc -l <{0}) -lt 6 || exec sleep 100; exit 5",
                  log));
  REQUIRE(within(60s, [&] { return std::ranges::count(read_file(log), '\n') == 6; }));
  CHECK(name_of_process(c.pid()) == "rowlock\n");
  CHECK(c.err() == "rowlock: campaigning for 'x' again in 1s\n");
  CHECK(json::parse(p.rowlock({"leader", "x", "--json"}).out)["pid"] == c.pid());
  auto const lines = [&] {
    words all;
    std::istringstream text(read_file(log));
    for (std::string line; std::getline(text, line);) all.push_back(line);
    return all;
  }();
  CHECK(lines[0] == "0");
  CHECK(lines[3] == "0");
  CHECK(lines[1].starts_with("x "));
  CHECK(std::stoll(lines[4].substr(2)) > std::stoll(lines[1].substr(2)));
  CHECK(lines[2] == lines[5]);  // nothing that was opened is left
  c.signal(SIGTERM);
  CHECK(c.wait() == 128 + SIGTERM);
  CHECK(leader(p).status == 1);
}

CLI_CASE("lead --restart: a signal ends the wait; what can't be executed is not tried again") {
  Place const p;
  candidate c(p, {"--restart"}, "exit 5");
  REQUIRE(within(60s, [&] { return c.err().find("again in 2s") != std::string::npos; }));
  c.signal(SIGTERM);
  CHECK(c.wait() == 128 + SIGTERM);
  CHECK(c.died_of() == SIGTERM);
  auto const missing = p.rowlock({"lead", "--restart", "x", "--", "no-such-command"});
  CHECK(missing.status == 127);
  CHECK(missing.says("cannot run 'no-such-command'"));
  CHECK(leader(p).status == 1);
}

CLI_CASE("lead --restart: a command that is asked to end and ends well is not started again") {
  Place const p;
  candidate c(p, {"--restart"}, "trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done");
  REQUIRE(c.prints("ready"));
  c.signal(SIGTERM);
  CHECK(c.wait() == 0);
  CHECK(c.err().empty());
}

CLI_CASE("lead: leadership that an operator takes away ends the command, and this host campaigns again") {
  Place const p;
  candidate c(p, {"--ttl", "9s", "--grace", "100ms"}, "echo ready; sleep 100");
  REQUIRE(c.prints("ready"));
  REQUIRE(p.rowlock({"release", "--force", "x"}).status == 0);
  REQUIRE(c.prints("ready\nready"));
  CHECK(c.err().find("the lock 'x' was lost: an operator asked for it back") != std::string::npos);
  CHECK(c.err().find("campaigning for 'x' again in 1s") != std::string::npos);
  c.signal(SIGTERM);
  CHECK(c.wait() == 128 + SIGTERM);
}

TEST_CASE("lead: when it campaigns again, and after how long") {
  using namespace rowlock::tool;
  using how = ran_under_lock::how;
  auto const wait = [](how ended, bool restart, int waited, std::chrono::seconds ran_for = 1s,
                       bool asked = false) {
    return before_next_campaign({ended, {}, asked, ran_for}, restart, std::chrono::seconds(waited));
  };
  CHECK(wait(how::ended, true, 0) == 1s);
  CHECK(wait(how::ended, true, 1) == 2s);
  CHECK(wait(how::ended, true, 16) == 32s);
  CHECK(wait(how::ended, true, 32) == 60s);
  CHECK(wait(how::ended, true, 60) == 60s);
  CHECK(wait(how::ended, true, 60, 60s) == 1s);
  CHECK(wait(how::lost, false, 8) == 1s);
  CHECK(wait(how::lost, true, 8) == 1s);
  CHECK_FALSE(wait(how::ended, false, 0));
  for (auto const ended : {how::not_taken, how::not_run}) CHECK_FALSE(wait(ended, true, 0));
  for (auto const ended : {how::ended, how::lost}) CHECK_FALSE(wait(ended, true, 0, 1s, true));
}
