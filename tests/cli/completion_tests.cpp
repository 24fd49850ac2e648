// tools/completion, in the shell that it is for.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "cli/help.hpp"
#include "cli/terminal.hpp"
#include "support/source_path.hpp"

using namespace rowlock::test;

namespace {

std::string const completion = source_path("tools/completion/rowlock.bash");

/// What bash would offer for the last of these words, as it takes a line apart.
words offered(words const& line, std::string const& folder = "/") {
  std::string quoted;
  for (auto const& word : line) quoted += fmt::format(" '{}'", word);
  // compopt has nothing to do outside of a real completion.
  auto const o =
      run({"bash", "-c",
           fmt::format("cd '{}'; compopt() {{ :; }}; . '{}'; COMP_WORDS=('{}'{}); COMP_CWORD={}; _rowlock "
                       "'{}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
                       folder, completion, rowlock_program, quoted, line.size(), rowlock_program)});
  CHECK(o.status == 0);
  CHECK(o.err.empty());
  words all;
  std::istringstream lines(o.out);
  for (std::string one; std::getline(lines, one);)
    if (!one.empty()) all.push_back(one);
  return all;
}

bool contains(words const& all, std::string const& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

}  // namespace

TEST_CASE(
    "completion: `rowlock re<TAB>` in an interactive bash becomes renew, release or reap, `rowlock "
    "vers<TAB>` "
    "version") {
  terminal shell;
  shell.type("exec bash --norc --noprofile -i\n");
  shell.expect("prompt> ");
  auto const folder = std::filesystem::path(rowlock_program).parent_path().string();
  shell.type(fmt::format("PATH='{}':$PATH; . '{}'; echo rea''dy\n", folder, completion));
  shell.expect("ready");
  shell.expect("prompt> ");
  shell.type("rowlock re\t\t");
  shell.expect("reap");
  shell.expect("release");
  shell.type("\x15rowlock vers\t\n");
  shell.expect("back ends: ");
}

TEST_CASE("completion: every command and option of --help is offered where it may stand") {
  auto const commands = all_commands();
  REQUIRE(commands.size() > 10);
  for (auto const& command : commands) {
    auto line = command;
    line.emplace_back("");
    auto const help = help_of(command);
    CHECK(offered(line) == listed(help, "Subcommands"));
    line.back() = "--";
    auto const options = offered(line);
    for (auto const& option : listed(help, "Options"))
      CHECK_MESSAGE(contains(options, option), fmt::format("{}: {}", fmt::join(command, " "), option));
    CHECK(contains(options, "--db"));  // of the program, after every command
  }
  CHECK(offered({"re"}) == words{"renew", "release", "reap", "repair"});
  CHECK_FALSE(contains(offered({"list", "--"}), "--grace"));
}

TEST_CASE("completion: values of options: files, strategies, beginnings of URLs; none that can't be known") {
  scratch_folder const folder;
  run({"touch", folder.file("locks.db"), folder.file("password")});
  auto const here = folder.path().string();
  CHECK(offered({"run", "--strategy", "l"}) == words{"lease"});
  CHECK(offered({"run", "--strategy", "=", "u"}) == words{"unique_insert"});
  for (auto const& strategy : offered({"run", "--strategy", ""}))
    CHECK(help_of({"run"}).find(strategy) != std::string::npos);
  CHECK(offered({"--password-file", "pa"}, here) == words{"password"});
  CHECK(offered({"reap", "--metrics", "pa"}, here) == words{"password"});
  CHECK(offered({"list", "--metrics", "pa"}, here).empty());  // a flag
  CHECK(offered({"--db", "po"}) == words{"postgresql://"});
  CHECK(offered({"--db", "sqlite", ":"}, here).size() == 2);
  CHECK(offered({"--db", "sqlite", ":", "lo"}, here) == words{"locks.db"});
  CHECK(offered({"--db", "sqlite", ":", "locks.db", "rel"}, here) == words{"release"});
  CHECK(offered({"run", "--ttl", ""}).empty());
  CHECK(offered({"--table-prefix", "run", "li"}) == words{"list"});  // a value is no command
  CHECK(contains(offered({"run", "nightly", "--", "tru"}), "true"));
  CHECK(contains(offered({"run", "nightly", "tru"}), "true"));
  CHECK(contains(offered({"lead", "--restart", "nightly", "tru"}), "true"));
  CHECK(contains(offered({"once", "--for", "1d", "nightly", "tru"}), "true"));
  CHECK(contains(offered({"run", "-w", "5", "nightly", "tru"}), "true"));
  CHECK(contains(offered({"run", "nightly", "--no"}), "--note"));
  CHECK(offered({"run", "nightly", "--note", "x", "tru"}).empty());
}

TEST_CASE("completion: fish offers the same, with what each is for, and a command's own behind --") {
  auto const folder = std::filesystem::path(rowlock_program).parent_path().string();
  // One fish for some lines: to start it takes a second, and a program is waited for two minutes.
  auto const fish_each = [&](words const& lines) {
    words asked{
        "fish", "--no-config", "-c",
        fmt::format("set -gx PATH '{}' $PATH; source '{}/tools/completion/rowlock.fish'; for line in $argv; "
                    "complete -C $line; echo '@'; end",
                    folder, source_path())};
    asked.insert(asked.end(), lines.begin(), lines.end());
    auto const o = run(asked);
    CHECK(o.err.empty());
    words each;
    for (std::size_t at = 0, end; (end = o.out.find("@\n", at)) != o.out.npos; at = end + 2)
      each.push_back("\n" + o.out.substr(at, end - at));
    REQUIRE(each.size() == lines.size());
    return each;
  };
  auto const fish = [&](std::string const& line) { return fish_each({line}).front(); };
  words lines;
  for (auto const& command : all_commands())
    for (auto const* begin : {"", "--"})
      lines.push_back(fmt::format("rowlock {} {}", fmt::join(command, " "), begin));
  words offers;
  for (std::size_t from = 0; from < lines.size(); from += 8) {
    auto const to = std::min(from + 8, lines.size());
    for (auto& one : fish_each(words(lines.begin() + static_cast<std::ptrdiff_t>(from),
                                     lines.begin() + static_cast<std::ptrdiff_t>(to))))
      offers.push_back(std::move(one));
  }
  auto at = offers.begin();
  for (auto const& command : all_commands())
    for (auto const* heading : {"Subcommands", "Options"}) {
      for (auto const& one : listed(help_of(command), heading))
        CHECK_MESSAGE(at->find("\n" + one) != at->npos, fmt::format("{}: {}", fmt::join(command, " "), one));
      ++at;
    }
  auto const re = fish("rowlock re");
  CHECK(re.find("\nrelease\tGives back a lock") != re.npos);
  CHECK(re.find("run") == re.npos);
  CHECK(fish("rowlock run nightly -- unam").starts_with("\nuname"));
  CHECK(fish("rowlock run nightly unam").starts_with("\nuname"));
  CHECK(fish("rowlock lead nightly unam").starts_with("\nuname"));
  CHECK(fish("rowlock reap --metrics /etc/passw").starts_with("\n/etc/passwd"));
  CHECK(fish("rowlock list --metrics /etc/passw") == "\n");
}
