// The manual pages, which tools/man-pages makes from --help.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "cli/help.hpp"

using namespace rowlock::test;

namespace {

/// As a reader sees it; long lines, so that nothing is hyphenated.
std::string shown(std::string const& page) {
  auto const o =
      run({"man", "--warnings", "--local-file", page},
          {{"MANWIDTH", "1000"}, {"MANPAGER", "cat"}, {"MAN_KEEP_FORMATTING", ""}, {"LC_ALL", "C.UTF-8"}});
  CHECK(o.status == 0);
  CHECK(o.err.empty());
  return o.out;
}

}  // namespace

TEST_CASE(
    "manual: a page for the program and each command, without warnings, with every command and option") {
  int pages = 0;
  for (auto const& command : all_commands()) {
    // Commands of a command are on its page.
    std::string const name = command.empty() ? "rowlock" : "rowlock-" + command.front();
    auto const path = fmt::format(ROWLOCK_MAN_PAGES "/{}.1.gz", name);
    REQUIRE_MESSAGE(std::filesystem::exists(path), path);
    auto const text = shown(path);
    auto const help = help_of(command);
    if (command.size() < 2) {
      ++pages;
      CHECK(text.find("\n       " + name + " - ") != text.npos);
      CHECK(text.find("SEE ALSO") != text.npos);
    }
    for (auto const* heading : {"Subcommands", "Options"})
      for (auto const& one : listed(help, heading))
        CHECK_MESSAGE(std::regex_search(text, std::regex("(^|\n) +(-[a-zA-Z], )?" + one + "\\b")),
                      fmt::format("{}: {}", fmt::join(command, " "), one));
    CHECK((help.find("Example") == help.npos) == (text.find("EXAMPLES") == text.npos));
  }
  // None of a command that is no more.
  for (auto const& entry : std::filesystem::directory_iterator(ROWLOCK_MAN_PAGES)) {
    CHECK(entry.path().extension() == ".gz");
    --pages;
  }
  CHECK(pages == 0);
}
