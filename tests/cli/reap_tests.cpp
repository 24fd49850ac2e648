// rowlock reap and rowlock list --reaper on real databases; and the files that have cron or systemd run it.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <libpq-fe.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "cli/place.hpp"

using namespace rowlock::test;
using nlohmann::json;

namespace {

bool is_sqlite(place const& p) { return p.dialect() == "sqlite"; }
bool is_mysql(place const& p) { return p.dialect() == "mysql"; }

/// SQL for so many hours ago.
std::string hours_ago(place const& p, int hours) {
  if (is_mysql(p)) return fmt::format("utc_timestamp(6) - INTERVAL {} HOUR", hours);
  return is_sqlite(p) ? fmt::format("cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - {}",
                                    hours * 3'600'000LL)
                      : fmt::format("clock_timestamp() - {} * interval '1 hour'", hours);
}

/// Names n1 to nCOUNT that nobody has used for two days.
void leave_idle(place const& p, int count) {
  if (is_mysql(p)) {
    std::string rows;
    for (int i = 1; i <= count; ++i)
      rows += fmt::format("{}('n{}', 'lease', {}, {})", i == 1 ? "" : ",", i, i, hours_ago(p, 48));
    return p.sql("INSERT INTO rowlock_locks (name, strategy, token, expires_at) VALUES " + rows);
  }
  auto const numbers =
      is_sqlite(p)
          ? fmt::format("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})", count)
          : fmt::format("WITH n AS (SELECT generate_series(1, {}) AS i)", count);
  p.sql(
      fmt::format("INSERT INTO rowlock_locks (name, strategy, token, expires_at) {} SELECT 'n' || i, "
                  "'lease', i, {} FROM n",
                  numbers, hours_ago(p, 48)));
}

json reap_json(place const& p, words args) {
  args.insert(args.begin(), {"reap", "--json"});
  return json::parse(p.rowlock(args).out);
}

std::string read_source(std::string const& path) {
  auto const text = read_file(ROWLOCK_SOURCE_DIR "/" + path);
  REQUIRE_FALSE(text.empty());
  return text;
}

/// A login with the documented rights, whose search path finds the tables.
class reaping_role {
 public:
  explicit reaping_role(on_postgresql const& p) : place_(p), schema_(p.options().at(1)) {
    auto grants = std::regex_replace(read_source("schema/postgresql-grants.sql"), std::regex("--[^\n]*"), "");
    grants = std::regex_replace(grants, std::regex("rowlock_(locking|reaping)"), "$1_" + schema_);
    p.sql(fmt::format(
        "{0} CREATE ROLE {1} LOGIN PASSWORD 'secret'; GRANT reaping_{2} TO {1}; GRANT USAGE ON SCHEMA {2} TO "
        "{1}; ALTER ROLE {1} SET search_path = {2}",
        grants, name(), schema_));
  }
  ~reaping_role() {
    place_.sql(fmt::format(
        "DROP OWNED BY locking_{0}, reaping_{0}, reaper_{0}; DROP ROLE locking_{0}, reaping_{0}, reaper_{0}",
        schema_));
  }
  std::string name() const { return "reaper_" + schema_; }
  /// As in the documentation: no password in it.
  std::string url() const {
    auto const part = [&](char const* keyword) {
      std::smatch found;
      auto const all = place_.url();
      REQUIRE(std::regex_search(all, found, std::regex(std::string(keyword) + "=(\\S+)")));
      return found.str(1);
    };
    return fmt::format("postgresql://{}@{}:{}/{}", name(), part("host"), part("port"), part("dbname"));
  }

 private:
  on_postgresql const& place_;
  std::string schema_;
};

/// A folder with the program in it, by its usual name.
class installed {
 public:
  installed() { std::filesystem::create_symlink(rowlock_program, folder_.file("rowlock")); }
  std::string folder() const { return folder_.path().string(); }
  std::string file(char const* name) const { return folder_.file(name); }

 private:
  scratch_folder folder_;
};

std::string replaced(std::string text, std::string const& from, std::string const& to) {
  auto const at = text.find(from);
  REQUIRE_MESSAGE(at != text.npos, from);
  return text.replace(at, from.size(), to);
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
  program other(
      p.command({"run", "rowlock.reaper", "--note", "another", "--", "sh", "-c", "echo ready; sleep 100"}),
      p.variables());
  REQUIRE(other.prints("ready"));
  for (words const& args : {words{"reap", "--timeout", "0"}, {"reap", "--quiet", "--timeout", "100ms"}}) {
    auto const r = p.rowlock(args);
    CHECK(r.status == 75);
    CHECK(r.says("another run is under way"));
    CHECK(r.says(fmt::format("pid {}", other.pid())));
    CHECK(r.out.empty());
  }
}

CLI_CASE("reap: SIGTERM and SIGINT end it after the batch at hand, and it says what it did") {
  Place const p;
  leave_idle(p, 50'000);
  for (int const signal : {SIGTERM, SIGINT}) {
    program running(p.command({"reap", "--batch", "1", "--json"}), p.variables());
    auto const before = reap_json(p, {"--dry-run"})["examined"].template get<int>();
    REQUIRE(within(20s, [&] { return reap_json(p, {"--dry-run"})["examined"] < before - 5; }));
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

TEST_CASE("reap: the line in tools/cron, run as cron does, under the documented role: on postgresql") {
  on_postgresql const p;
  reaping_role const role(p);
  installed const program_there;
  leave_idle(p, 3);
  std::ofstream(program_there.file("pgpass")) << "*:*:*:" << role.name() << ":secret\n";
  ::chmod(program_there.file("pgpass").c_str(), 0600);
  // The file as it is, but for where the database, the password and the program are.
  auto text = read_source("tools/cron/rowlock-reap");
  text = replaced(text, "postgresql://reaper@db.example.org/app", role.url());
  text = replaced(text, "/etc/rowlock/pgpass", program_there.file("pgpass"));
  text = replaced(text, "PATH=/usr/local/bin:", "PATH=" + program_there.folder() + ":");
  words command{"env", "-i"};
  std::string line;
  std::istringstream lines(text);
  while (std::getline(lines, line)) {
    std::smatch found;
    if (std::regex_match(line, found, std::regex("([A-Z_]+)=(.*)")))
      command.push_back(line);
    else if (std::regex_match(line, found, std::regex("[0-9]+ [0-9]+ \\* \\* \\*\\s+rowlock\\s+(.*)")))
      command.insert(command.end(), {"/bin/sh", "-c", found.str(1)});
    else
      CHECK(line.rfind('#', 0) == 0);
  }
  REQUIRE(command.size() == 8);
  auto const r = run(command);
  CHECK(r.status == 0);
  CHECK(r.out.empty());
  CHECK(r.err.empty());
  CHECK(json::parse(p.rowlock({"list", "--reaper", "--json"}).out)["report"]["deleted"]["lease"] == 3);
  p.sql(fmt::format("REVOKE SELECT ON rowlock_meta FROM reaping_{}", p.options().at(1)));
  auto const refused = run(command);
  CHECK(refused.status == 77);  // and cron has something to send
  CHECK_FALSE(refused.err.empty());
}

TEST_CASE(
    "reap: ExecStart of tools/systemd, in the environment of its file, under the documented role: on "
    "postgresql") {
  on_postgresql const p;
  reaping_role const role(p);
  installed const program_there;
  leave_idle(p, 3);
  auto const unit = read_source("tools/systemd/rowlock-reap.service");
  std::smatch exec, variable;
  REQUIRE(std::regex_search(unit, exec, std::regex("\nExecStart=/usr/local/bin/(rowlock [^\n]*)\n")));
  REQUIRE(std::regex_search(unit, variable, std::regex("\n#   ROWLOCK_DB=(\\S+)\n#   PGPASSWORD=")));
  CHECK(variable.str(1) == "postgresql://reaper@db.example.org/app");
  CHECK(unit.find("\nEnvironmentFile=/etc/rowlock/reap.env\n") != std::string::npos);
  words command{"env", "-i", "ROWLOCK_DB=" + role.url(), "PGPASSWORD=secret"};
  std::istringstream rest(program_there.folder() + "/" + exec.str(1));
  for (std::string word; rest >> word;) command.push_back(word);
  auto const r = run(command);
  CHECK(r.status == 0);
  CHECK(r.out.empty());
  CHECK(r.err.empty());
  CHECK(json::parse(p.rowlock({"list", "--reaper", "--json"}).out)["report"]["deleted"]["lease"] == 3);
}
