#pragma once
// What the program says of itself, so that nothing that is told elsewhere can drift from it.

#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cli/program.hpp"

namespace rowlock::test {

inline std::string help_of(words command = {}) {
  command.insert(command.begin(), rowlock_program);
  command.emplace_back("--help");
  return run(std::move(command)).out;
}

/// The first words of the lines under a heading of a help text.
inline std::vector<std::string> listed(std::string const& help, std::string const& heading) {
  std::vector<std::string> names;
  std::istringstream lines(help);
  bool on = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) on = false;
    std::smatch found;
    if (on && std::regex_search(line, found, std::regex("^  (?:-[a-zA-Z],)?([a-z-][^ ]*)")))
      names.push_back(found.str(1));
    if (line == heading + ":") on = true;
  }
  return names;
}

/// Every command and command of a command, as words; the program itself is the first, without any.
inline std::vector<words> all_commands(words const& above = {}) {
  std::vector<words> all{above};
  for (auto const& name : listed(help_of(above), "Subcommands")) {
    auto below = above;
    below.push_back(name);
    for (auto const& each : all_commands(below)) all.push_back(each);
  }
  return all;
}

}  // namespace rowlock::test
