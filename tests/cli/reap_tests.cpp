// rowlock reap and rowlock list --reaper on real databases.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "cli/place.hpp"

using namespace rowlock::test;
using nlohmann::json;

namespace {

json reap_json(place const& p, words args) {
  args.insert(args.begin(), {"reap", "--json"});
  return json::parse(p.rowlock(args).out);
}

}  // namespace

CLI_CASE("reap: one line of what it did; list --reaper says it again, and when") {
  Place const p;
  CHECK(p.rowlock({"list", "--reaper"}).out == "The reaper has not run yet.\n");
  CHECK(p.rowlock({"list", "--reaper", "--json"}).out == "null\n");
  leave_idle(p, 3);
  REQUIRE(p.rowlock({"run", "young", "--", "true"}).status == 0);
  auto const r = p.rowlock({"reap"});
  CHECK(r.status == 0);
  CHECK(r.out.rfind("Deleted 3 lock rows (3 lease) and 0 tokens of 5 in ", 0) == 0);
  CHECK(std::count(r.out.begin(), r.out.end(), '\n') == 1);
  CHECK(r.err.empty());  // no terminal, no progress
  auto const said = p.rowlock({"list", "--reaper"}).out;
  CHECK(said.find("The reaper ran last from 20") == 0);
  CHECK(said.find("\n  deleted.lease: 3\n") != std::string::npos);
  auto const j = json::parse(p.rowlock({"list", "--reaper", "--json"}).out);
  CHECK(j["report"]["deleted"]["lease"] == 3);
  CHECK(j["report"]["end"] == "finished");
  CHECK(j["started_at"] <= j["finished_at"]);
  CHECK(j["pid"] > 0);
  CHECK(json::parse(p.rowlock({"list", "--all", "--json"}).out).size() == 2);  // young, rowlock.reaper
}

CLI_CASE("reap: permits that were over long ago, and then their name") {
  Place const p;
  auto const then = hours_ago(p, 48);
  p.sql("INSERT INTO rowlock_locks (name, strategy, token, expires_at) VALUES ('s', 'semaphore', 7, " + then +
        ")");
  p.sql(
      "INSERT INTO rowlock_permits (name, strategy, term, token, expires_at, units, told) VALUES ('s', "
      "'semaphore', 'a', 6, " +
      then + ", 1, 3), ('s', 'semaphore', 'b', 7, " + then + ", 1, 3)");
  auto const r = p.rowlock({"reap"});
  CAPTURE(r.out);
  CHECK(r.out.rfind("Deleted 1 lock row (1 shared or semaphore), 2 permits and 0 tokens of ", 0) == 0);
}

CLI_CASE("reap: a quorum's name that nobody has used for long, which is counted as one of a lease") {
  Place const p;
  p.sql("INSERT INTO rowlock_locks (name, strategy, token, expires_at) VALUES ('q', 'quorum', 7, " +
        hours_ago(p, 48) + ")");
  auto const r = p.rowlock({"reap"});
  CAPTURE(r.out);
  CHECK(r.out.rfind("Deleted 1 lock row (1 lease) and 0 tokens of ", 0) == 0);
  CHECK(p.rowlock({"list", "--all"}).out.find("quorum") == std::string::npos);
}

CLI_CASE("reap: --dry-run, --idle, --batch, --json, --quiet") {
  Place const p;
  leave_idle(p, 5);
  auto const would = reap_json(p, {"--dry-run"});
  CHECK(would["dry_run"] == true);
  CHECK(would["deleted"]["lease"] == 5);
  CHECK(p.rowlock({"reap", "--dry-run"})
            .out.rfind("Would delete 5 lock rows (5 lease) and 0 tokens of 5 in ", 0) == 0);
  CHECK(reap_json(p, {"--idle", "3d"})["deleted"]["lease"] == 0);
  auto const quiet = p.rowlock({"reap", "--quiet", "--batch", "2"});
  CHECK(quiet.status == 0);
  CHECK(quiet.out.empty());
  CHECK(quiet.err.empty());
  auto const last = json::parse(p.rowlock({"list", "--reaper", "--json"}).out);
  CHECK(last["report"]["batches"] == 3);
  CHECK(last["report"]["deleted"]["lease"] == 5);
}

CLI_CASE("reap: 75 when another run is under way, and who it is; also when quiet") {
  Place const p;
  other_reaper const other(p);
  for (words const& args : {words{"reap", "--timeout", "0"}, {"reap", "--quiet", "--timeout", "100ms"}}) {
    auto const r = p.rowlock(args);
    CHECK(r.status == 75);
    CHECK(r.says("another run is under way"));
    CHECK(r.says(fmt::format("pid {}", ::getpid())));
    CHECK(r.out.empty());
  }
}

CLI_CASE("reap: SIGTERM and SIGINT end it after the batch at hand, and it says what it did") {
  Place const p;
  leave_idle(p, 20'000);
  for (int const signal : {SIGTERM, SIGINT}) {
    program running(p.command({"reap", "--batch", "1", "--json"}), p.variables());
    auto const before = reap_json(p, {"--dry-run"})["examined"].template get<int>();
    REQUIRE(within(60s, [&] { return reap_json(p, {"--dry-run"})["examined"] < before - 5; }));
    running.signal(signal);
    CHECK(running.wait() == 128 + signal);
    auto const did = json::parse(running.out());
    CHECK(did["end"] == "stopped");
    CHECK(did["deleted"]["lease"] > 5);
    CHECK(json::parse(p.rowlock({"list", "--reaper", "--json"}).out)["report"] == did);
    CHECK(reap_json(p, {"--dry-run"})["deleted"]["lease"] > 100);
  }
  CHECK(reap_json(p, {"--timeout", "0"})["end"] == "finished");  // it gave back its lease
}

CLI_CASE("reap: its memory does not grow with the number of rows") {
  Place const p;
  auto const peak = [&] {
    program running(p.command({"reap", "--quiet"}), p.variables());
    CHECK(running.wait() == 0);
    return running.peak_kilobytes();
  };
  leave_idle(p, 1'000);
  auto const few = peak();
  leave_idle(p, 50'000);
  auto const many = peak();
  MESSAGE(few << " kB for 1,000 rows, " << many << " kB for 50,000");
  CHECK(many < 64 * 1024);
  CHECK(many < few + 4 * 1024);
  CHECK(reap_json(p, {"--dry-run"})["examined"] == 1);
}

TEST_CASE("reap: mistakes on the command line, missing tables, refused logins") {
  on_sqlite const p;
  for (words const& args : {words{"reap", "--batch", "0"},
                            {"reap", "--batch", "x"},
                            {"reap", "--idle", "5"},
                            {"reap", "--timeout", "1.5s"},
                            {"reap", "nonsense"},
                            {"list", "--reaper", "--all"}})
    CHECK(p.rowlock(args).status == 64);
  on_sqlite const empty(false);
  CHECK(empty.rowlock({"reap"}).status == 78);
  CHECK(empty.rowlock({"list", "--reaper"}).status == 78);
  on_postgresql const q;
  auto const role = unique_identifier();
  q.sql("CREATE ROLE " + role + " LOGIN");
  auto const refused = q.rowlock({"reap"}, {{"ROWLOCK_DB", q.url() + " user=" + role}});
  CHECK(refused.status == 77);
  q.sql("DROP ROLE " + role);
  auto const help = p.rowlock({"reap", "--help"});
  for (auto const* part : {"rowlock reap --quiet", "17 3 * * *", "Examples:", "Exit status:", "--dry-run"})
    CHECK(help.out.find(part) != std::string::npos);
}
