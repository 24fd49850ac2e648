// rowlock doctor, as a shell and a person see it. What it says of what is wrong: tests/doctor.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "cli/place.hpp"
#include "cli/terminal.hpp"

using namespace rowlock::test;
using nlohmann::json;

namespace {

std::vector<std::string> lines_of(std::string const& text) {
  std::vector<std::string> all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

}  // namespace

CLI_CASE(
    "doctor: a line for each check, what to do below it, a summary; the same in JSON; 1 if there is an "
    "error") {
  Place const p;
  p.sql("UPDATE rowlock_meta SET schema_version = 0");
  auto const r = p.rowlock({"doctor"});
  CHECK(r.status == 1);
  CHECK(r.err.empty());
  auto const j = json::parse(p.rowlock({"doctor", "--json"}).out);
  auto const lines = lines_of(r.out);
  std::size_t at = 0;
  for (auto const& one : j["checks"]) {
    auto const begin = fmt::format("{:<7}  {:<11}  ", one["verdict"].template get<std::string>(),
                                   one["check"].template get<std::string>());
    REQUIRE(at < lines.size());
    CHECK(lines[at].rfind(begin, 0) == 0);
    // Two runs: the clock moves on, and a worker of autovacuum has a snapshot for a moment.
    if (one["check"] != "clock" && one["check"] != "snapshots")
      CHECK(lines[at].substr(begin.size()) == one["why"].template get<std::string>());
    ++at;
    if (one["remedy"] == "") continue;
    REQUIRE(at < lines.size());
    CHECK(lines[at] == fmt::format("{:22}{}", "", one["remedy"].template get<std::string>()));
    ++at;
  }
  REQUIRE(lines.size() == at + 1);
  CHECK(std::regex_match(
      lines.back(),
      std::regex(
          "[0-9]+ checks: [0-9]+ ok(, 1 warning|, 2 warnings)?, (1 error|2 errors)(, [0-9]+ unknown)?")));
  CHECK(j["errors"] >= 1);
  CHECK(j["ok"].template get<int>() + j["warnings"].template get<int>() + j["errors"].template get<int>() +
            j["unknown"].template get<int>() ==
        j["checks"].size());
  auto const& schema = j["checks"][1];
  CHECK(schema["check"] == "schema");
  CHECK(schema["verdict"] == "error");
  CHECK(schema["remedy"] == "rowlock migrate up");
}

TEST_CASE("doctor: 0 if all is well, and if there is nothing worse than a warning; 1 without a database") {
  on_sqlite const p;
  auto const r = p.rowlock({"doctor"});
  CHECK(r.status == 0);
  CHECK(lines_of(r.out).back() == "11 checks: 11 ok");
  p.sql("PRAGMA journal_mode = DELETE");
  auto const warned = p.rowlock({"doctor"});
  CHECK(warned.status == 0);
  CHECK(lines_of(warned.out).back() == "11 checks: 10 ok, 1 warning");
  auto const nowhere = p.rowlock({"doctor"}, {{"ROWLOCK_DB", "host=127.0.0.1 port=1 user=x"}});
  CHECK(nowhere.status == 1);
  CHECK(lines_of(nowhere.out).size() == 3);
  CHECK(lines_of(nowhere.out).back() == "1 check: 1 error");
  // Nothing is made where nothing is, also not the file that others make when they first need it.
  CHECK(p.rowlock({"doctor"}, {{"ROWLOCK_DB", ""}}).status == 64);
  auto const home = p.rowlock({"doctor", "--db", "local"}, {{"ROWLOCK_DB", ""}});
  CHECK(home.status == 1);
  CHECK(home.out.find("no such SQLite file") != std::string::npos);
}

TEST_CASE("doctor: mistakes on the command line; --ttl and --timeout are heeded; help") {
  on_postgresql const p;
  for (words const& args : {words{"doctor", "--ttl", "5"},
                            {"doctor", "--ttl", "1ms"},
                            {"doctor", "--timeout", "0"},
                            {"doctor", "nonsense"},
                            {"doctor", "--table-prefix", "a-b"}})
    CHECK(p.rowlock(args).status == 64);
  CHECK(p.rowlock({"doctor", "--ttl", "5s"}).out.find("later than the ttl") != std::string::npos);
  CHECK(p.rowlock({"doctor", "--ttl", "20s"}).out.find("later than the ttl") == std::string::npos);
  auto const help = p.rowlock({"doctor", "--help"});
  CHECK(help.status == 0);
  auto const all = json::parse(p.rowlock({"doctor", "--json"}).out);
  for (auto const& one : all["checks"])
    CHECK(help.out.find("  " + one["check"].get<std::string>() + " ") != std::string::npos);
}

TEST_CASE("doctor: colours on a terminal, unless NO_COLOR is set") {
  on_sqlite const p;
  terminal shell;
  shell.type(fmt::format("TERM=xterm '{}' --db '{}' doctor; echo do''ne\n", rowlock_program, p.url()));
  shell.expect("\x1b[32mok");
  shell.expect("done");
  shell.type(
      fmt::format("NO_COLOR=1 TERM=xterm '{}' --db '{}' doctor; echo do''ne\n", rowlock_program, p.url()));
  shell.expect("\nok  ");
  shell.expect("done");
}
