// How the command line is read; the database is the one of the user's own, if any is needed.

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/place.hpp"

using namespace rowlock::test;
using nlohmann::json;

namespace {

finished call(words args, environment env = {}) {
  args.insert(args.begin(), rowlock_program);
  return run(std::move(args), std::move(env));
}

/// A home, and so a database, for several runs.
struct home : scratch_folder {
  environment variables() const { return {{"HOME", path().string()}}; }
};

int mode_of(std::string const& path) {
  struct stat s {};
  return ::stat(path.c_str(), &s) == 0 ? static_cast<int>(s.st_mode & 07777) : -1;
}

}  // namespace

TEST_CASE("help teaches: examples, exit statuses, durations; for every command; status 0") {
  auto const all = call({"--help"});
  CHECK(all.status == 0);
  for (auto const* part :
       {"Examples:", "run nightly -- ./backup.sh", "Exit status:", "ROWLOCK_DB", "sqlite:PATH", " 75 "})
    CHECK(all.out.find(part) != std::string::npos);
  auto const one = call({"run", "--help"});
  CHECK(one.status == 0);
  for (auto const* part : {"NAME -- COMMAND", "250ms, 30s, 10m, 2h", "Examples:", "Exit status:", "--no-wait",
                           "Ctrl-Z", "--db URL"})
    CHECK(one.out.find(part) != std::string::npos);
  for (words const& command : {words{"list"},
                               {"take"},
                               {"once"},
                               {"renew"},
                               {"release"},
                               {"lead"},
                               {"leader"},
                               {"quorum"},
                               {"quorum", "init"},
                               {"quorum", "status"},
                               {"quorum", "join"},
                               {"quorum", "drop"},
                               {"reap"},
                               {"repair"},
                               {"freeze"},
                               {"thaw"},
                               {"quarantine"},
                               {"quarantine", "off"},
                               {"quarantine", "on"},
                               {"migrate"},
                               {"migrate", "up"},
                               {"migrate", "down"},
                               {"migrate", "status"},
                               {"migrate", "validate"},
                               {"migrate", "repair"},
                               {"migrate", "sql"},
                               {"version"}}) {
    auto args = command;
    args.emplace_back("--help");
    auto const r = call(args);
    CHECK(r.status == 0);
    CHECK(r.out.find("Usage: rowlock " + command.front()) != std::string::npos);
    CHECK(r.err.empty());
  }
}

TEST_CASE("64: every mistake on the command line, with the option's name and what would be right") {
  struct mistake {
    words args;
    char const* said;
  };
  for (auto const& m : std::vector<mistake>{
           {{}, "the command is missing: run, list"},
           {{"lst"}, "no command 'lst'; did you mean list?"},
           {{"run"}, "NAME"},
           {{"run", "a"}, "rowlock run [OPTIONS] NAME -- COMMAND"},
           {{"run", "a", "--"}, "rowlock run [OPTIONS] NAME -- COMMAND"},
           {{"run", "--", "true"}, "NAME"},
           {{"run", "--bogus", "a", "--", "true"}, "--bogus"},
           {{"run", "a", "-n", "true"}, "true"},
           {{"run", "--wait", "5", "a", "--", "true"},
            "--wait: '5' is not a duration; write a whole number and a unit: 250ms, 30s, 10m, 2h"},
           {{"run", "--ttl", "1.5s", "a", "--", "true"}, "--ttl: '1.5s'"},
           {{"run", "--wait", "5s", "--no-wait", "a", "--", "true"}, "--no-wait"},
           {{"run", "--ttl", "1s", "--grace", "2s", "a", "--", "true"},
            "--grace 2s does not fit into --ttl 1s"},
           {{"run", "--ttl", "1ms", "a", "--", "true"}, "ttl"},
           {{"run", "--strategy", "magic", "a", "--", "true"}, "magic"},
           {{"run", "", "--", "true"}, "name"},
           {{"run", std::string(256, 'x'), "--", "true"}, "255"},
           {{"run", "\xff", "--", "true"}, "UTF-8"},
           {{"list", "x", "--", "true"}, "only `rowlock run`"},
           {{"lead", "a"}, "rowlock lead [OPTIONS] NAME -- COMMAND"},
           {{"lead", "--ttl", "1s", "--grace", "2s", "a", "--", "true"},
            "--grace 2s does not fit into --ttl 1s"},
           {{"leader"}, "NAME"},
           {{"leader", "a", "--", "true"}, "only `rowlock run`"},
           {{"release"}, "NAME"},
           {{"release", "a"}, "rowlock release --force a"},
           {{"migrate"}, "the command is missing: up, down"},
           {{"migrate", "down"}, "--to"},
           {{"migrate", "up", "--to", "x"}, "--to"},
           {{"list", "--db", "mysterious"}, "sqlite:PATH"},
           {{"list", "--table-prefix", "a b"}, "a b"},
           {{"list", "--db", "sqlite::memory:"}, "sqlite:PATH"},
           {{"list", "--db", "sqlite:x", "--schema", "s"}, "schema"}}) {
    std::string const said = m.said;
    CAPTURE(said);
    auto const r = call(m.args);
    CHECK(r.status == 64);
    CHECK(r.err.rfind("rowlock: ", 0) == 0);
    CAPTURE(r.err);
    CHECK(r.says(m.said));
    CHECK(r.out.empty());
  }
}

TEST_CASE("64: a password on the command line is refused, not printed, and the ways out are named") {
  for (auto const* url : {"postgresql://u:hush@127.0.0.1:1/d", "host=127.0.0.1 port=1 password=hush"}) {
    auto const r = call({"list", "--db", url});
    CHECK(r.status == 64);
    CHECK_FALSE(r.says("hush"));
    for (auto const* way : {"PGPASSWORD", ".pgpass", "service file", "ROWLOCK_DB"}) CHECK(r.says(way));
    auto const from_environment = call({"list"}, {{"ROWLOCK_DB", url}});
    CHECK(from_environment.status == 69);
    CHECK_FALSE(from_environment.says("hush"));
  }
}

TEST_CASE("64: a MySQL password on the command line is refused, and the ways out are named; a file will do") {
  for (auto const* url : {"mysql://u:hush@127.0.0.1:1/d", "mariadb://u:hush@127.0.0.1:1/d"}) {
    auto const r = call({"list", "--db", url});
    CHECK(r.status == 64);
    CHECK_FALSE(r.says("hush"));
    for (auto const* way : {"--password-file", "MYSQL_PWD", ".my.cnf", "ROWLOCK_DB"}) CHECK(r.says(way));
    auto const from_environment = call({"list"}, {{"ROWLOCK_DB", url}});
    CHECK(from_environment.status == 69);
    CHECK_FALSE(from_environment.says("hush"));
  }
  CHECK(call({"list", "--db", "mysql://u@127.0.0.1:1/d", "--password-file", "/nonexistent"}).status == 64);
  CHECK(call({"list", "--db", "sqlite:x", "--password-file", "y"}).says("~/.pgpass"));
}

// The shell's <(command) is one: it can be read once, and each connection needs the password.
TEST_CASE_TEMPLATE("password file: a pipe is read once for all connections, and waited for for a while",
                   Place, on_mariadb, on_mysql) {
  Place const p;
  auto url = p.url();
  auto const user = url.find("://") + 3;
  auto const colon = url.find(':', user);
  auto const at = url.find('@');
  auto const password = colon < at ? url.substr(colon + 1, at - colon - 1) : "";
  if (colon < at) url.erase(colon, at - colon);
  scratch_folder const folder;
  auto const pipe = folder.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  auto const sh = [&](std::string const& script) {
    return run({"sh", "-c", script, "sh", rowlock_program, url, pipe, password});
  };
  auto const piped =
      sh(R"((echo "$4"; echo more) >"$3" & exec "$1" --db "$2" --password-file "$3" run n -- true)");
  CHECK(piped.status == 0);
  // What the command sees: no copy of it.
  auto const seen =
      sh(R"(echo "$4" >"$3" & exec "$1" --db "$2" --password-file "$3" run n -- ls -l /proc/self/fd)");
  CHECK(seen.status == 0);
  CHECK(seen.out.find("memfd") == std::string::npos);
  auto const nobody = sh(R"(exec "$1" --db "$2" --password-file "$3" list)");
  CHECK(nobody.status == 64);
  CHECK(nobody.says("no password can be read from the first line of " + pipe +
                    ": no process wrote it within 10 s"));
  auto const empty = sh(R"(: >"$3" & exec "$1" --db "$2" --password-file "$3" list)");
  CHECK(empty.status == 64);
  CHECK(empty.says("it is empty"));
  auto const endless = sh(R"(cat /dev/zero >"$3" & exec "$1" --db "$2" --password-file "$3" list)");
  CHECK(endless.status == 64);
  CHECK(endless.says("longer than 64 KiB"));
}

TEST_CASE("common options stand before or after the command's name") {
  on_sqlite p;
  for (words const& args : {words{"--db", p.url(), "--json", "list"},
                            {"list", "--db", p.url(), "--json"},
                            {"--json", "list", "--db=" + p.url()},
                            {"migrate", "--db", p.url(), "status", "--json"},
                            {"migrate", "status", "--json", "--db", p.url()},
                            {"--json", "--db", p.url(), "migrate", "status"}}) {
    auto const r = call(args);
    CHECK(r.status == 0);
    CHECK(json::parse(r.out).is_array());
  }
  CHECK(call({"run", "a", "--db", p.url(), "--", "true"}).status == 0);
  CHECK(call({"run", "--db", p.url(), "a", "--", "true"}).status == 0);
  CHECK(call({"--db", p.url(), "run", "a", "--", "true"}).status == 0);
  // --db goes before ROWLOCK_DB.
  CHECK(call({"--db", p.url(), "list"}, {{"ROWLOCK_DB", "sqlite:/nowhere/x"}}).status == 0);
}

TEST_CASE("the command's words reach it as they are") {
  home h;
  auto const r =
      call({"run", "n", "--", "printf", "<%s>", "[x,y]", "", "[]", "--db", "--", "--help", "-x", "a b", "\n"},
           h.variables());
  CHECK(r.status == 0);
  CHECK(r.out == "<[x,y]><><[]><--db><--><--help><-x><a b><\n>");
}

TEST_CASE("names that look like something else are names") {
  home h;
  for (auto const* name :
       {"list", "run", "[a,b]", "[]", "a b", "a=b", "x.y", "%s", "'", "\xf0\x9f\x94\x92"}) {
    auto const r = call({"run", name, "--", "sh", "-c", "printf %s \"$ROWLOCK_NAME\""}, h.variables());
    CHECK(r.status == 0);
    CHECK(r.out == name);
  }
}

TEST_CASE("the standard database is made when it is first used, for its owner only") {
  home h;
  auto const file = h.file(".local/state/rowlock/locks.db");
  CHECK(call({"migrate", "status"}, h.variables()).status != 70);
  CHECK(mode_of(file) == -1);
  auto const r = call({"run", "n", "--", "sh", "-c", "exit 3"}, h.variables());
  CHECK(r.status == 3);
  CHECK(mode_of(file) == 0600);
  CHECK(mode_of(h.file(".local/state/rowlock")) == 0700);
  CHECK(call({"list", "--all"}, h.variables()).out.find("n  ") != std::string::npos);
}

TEST_CASE("C27: a file that the user names has the mode that the umask leaves; the standard one is private") {
  home h;
  auto const former = ::umask(002);  // of what it starts, too
  auto const named = h.file("named.db");
  CHECK(call({"--db", "sqlite:" + named, "migrate", "up"}, h.variables()).status == 0);
  CHECK(mode_of(named) == 0664);
  auto const file = h.file(".local/state/rowlock/locks.db");
  CHECK(call({"migrate", "up"}, h.variables()).status == 0);
  ::umask(former);
  CHECK(mode_of(file) == 0600);
}

TEST_CASE(
    "C17: run says that a lock in the standard database holds on this host only, unless that was meant") {
  home h;
  auto const r = call({"run", "n", "--", "sh", "-c", "exit 3"}, h.variables());
  CHECK(r.status == 3);
  for (auto const& part :
       {std::string("rowlock: no database is named"), std::string("'n' is locked on this host only"),
        h.file(".local/state/rowlock/locks.db"), std::string("ROWLOCK_DB"), std::string("--db postgresql://"),
        std::string("--db local")})
    CHECK(r.says(part));
  CHECK(std::count(r.err.begin(), r.err.end(), '\n') == 1);
  for (auto const& quiet :
       {call({"run", "--db", "local", "n", "--", "true"}, h.variables()),
        call({"run", "n", "--", "true"}, {{"HOME", h.path().string()}, {"ROWLOCK_DB", "local"}}),
        call({"list", "--db", "local"}, h.variables()), call({"reap", "--db", "local"}, h.variables())}) {
    CHECK(quiet.status == 0);
    CHECK(quiet.err.empty());
  }
  // local is that very file.
  program const holds({rowlock_program, "run", "m", "--", "sleep", "100"}, h.variables());
  CHECK(within(60s, [&] {
    return call({"list", "--db", "local"}, h.variables()).out.find("m  ") != std::string::npos;
  }));
}

TEST_CASE("C17: 64 for a database that is named by nothing, as by a variable that was not set") {
  home h;
  for (words const& args : {words{"run", "n", "--", "true"},
                            {"list"},
                            {"release", "--force", "n"},
                            {"reap"},
                            {"doctor"},
                            {"migrate", "up"}}) {
    words command{"env", "ROWLOCK_DB=", rowlock_program};
    command.insert(command.end(), args.begin(), args.end());
    auto const empty = run(command, h.variables());
    CHECK(empty.status == 64);
    CHECK(empty.says("ROWLOCK_DB is empty"));
    CHECK(empty.says("local"));
    command.insert(command.begin() + 3, {"--db", ""});
    auto const option = run(command, h.variables());
    CHECK(option.status == 64);
    CHECK(option.says("--db is empty"));
    command[4] = "local";
    CHECK_FALSE(run(command, h.variables()).says("empty"));
  }
  CHECK(run({"env", "ROWLOCK_DB=", rowlock_program, "version"}).status == 0);
}

CLI_CASE("C15: the command inherits the environment, and rowlock adds no password to it") {
  Place const p;
  scratch_folder const folder;
  std::ofstream(folder.file("password")) << "hush\n";
  auto const lines = [](std::string const& text) {
    std::multiset<std::string> all;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
      if (!line.starts_with("ROWLOCK_NAME=") && !line.starts_with("ROWLOCK_TOKEN=") &&
          !line.starts_with("ROWLOCK_TERM=") && !line.starts_with("HOME="))
        all.insert(line);
    return all;
  };
  auto const env = p.variables({{"PGPASSFILE", folder.file("password")}, {"A", "b"}});
  auto const r = run(p.command({"run", "n", "--", "env"}), env);
  CHECK(r.status == 0);
  CHECK(lines(r.out) == lines(run({"env"}, env).out));
  auto const help = call({"run", "--help"}).out;
  for (auto const* part :
       {"inherits the environment", "~/.pgpass", "--password-file", "~/.my.cnf", "service file"})
    CHECK(help.find(part) != std::string::npos);
}

TEST_CASE("the standard database is under XDG_STATE_HOME if that is absolute") {
  home h;
  environment const env{{"HOME", h.path().string()}, {"XDG_STATE_HOME", h.file("state")}};
  CHECK(call({"list"}, env).status == 0);
  CHECK(mode_of(h.file("state/rowlock/locks.db")) == 0600);
}

// Two commands in two folders would lock in two files.
TEST_CASE("64: a HOME that is no absolute path leads to no standard database") {
  home h;
  auto const r = run({"sh", "-c", "cd \"$1\" && exec \"$2\" run --db local n -- true", "sh",
                      h.path().string(), rowlock_program},
                     {{"HOME", "here"}});
  CHECK(r.status == 64);
  CHECK(r.says("HOME is 'here'"));
  CHECK_FALSE(std::filesystem::exists(h.file("here")));
}

TEST_CASE("ten first uses at once make one standard database") {
  home h;
  std::vector<std::unique_ptr<program>> all;
  for (int i = 0; i < 10; ++i)
    all.push_back(std::make_unique<program>(
        words{rowlock_program, "run", "--db", "local", "n" + std::to_string(i), "--", "true"},
        h.variables()));
  for (auto& p : all) {
    CHECK(p->wait() == 0);
    CHECK(p->err().empty());
  }
  CHECK(json::parse(call({"list", "--all", "--json"}, h.variables()).out).size() == 10);
}

TEST_CASE("78: no such SQLite file; only migrate up makes one") {
  on_sqlite const p(false);
  for (words const& args : {words{"list"},
                            {"run", "n", "--", "true"},
                            {"release", "--force", "n"},
                            {"migrate", "status"},
                            {"migrate", "validate"}}) {
    auto a = args;
    a.insert(a.begin(), {"--db", p.url()});
    auto const r = call(a);
    CHECK(r.status == 78);
    CHECK(r.says("rowlock migrate up --db " + p.url()));
    CHECK(mode_of(p.file()) == -1);
  }
  CHECK(call({"migrate", "up", "--db", p.url()}).status == 0);
  CHECK(call({"list", "--db", p.url()}).status == 0);
}

TEST_CASE("version: for people and for programs") {
  auto const r = call({"version"});
  auto const option = call({"--version"});
  CHECK(option.status == 0);
  CHECK(r.out.starts_with(option.out));
  CHECK(option.out.starts_with("rowlock "));
  CHECK(r.status == 0);
  CHECK(r.out.rfind("rowlock ", 0) == 0);
  auto const j = json::parse(call({"version", "--json"}).out);
  CHECK(j["back_ends"] == json({"sqlite", "postgresql", "mysql"}));
  CHECK(j["schema_version"].get<int>() >= 1);
  CHECK(r.out.find(j["version"].get<std::string>()) != std::string::npos);
}
