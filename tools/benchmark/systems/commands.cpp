// Programs that take a lock around a command: what it costs to start them.
#include "systems/databases.hpp"
#include "systems/system.hpp"

namespace rowlock::bench {

void add_commands(std::vector<system_entry>& all) {
  for (auto const& each : databases()) {
    auto const run = [&each](places const& where) {
      // Not by --db: the addresses have passwords.
      auto const url = (each.id == "sqlite" ? "sqlite:" : "") + where.at(each.id);
      return std::vector{
          command_line{{where.at("rowlock"), "run", "start-up", "--", "true"}, {"ROWLOCK_DB=" + url}}};
    };
    auto const prepare = [&each](std::string const& address) { migrate(each, address); };
    all.push_back({"run-" + each.id, "rowlock run, " + each.title, each.id, {}, prepare, run});
  }
  auto const flock = [](places const& where) {
    return std::vector{command_line{{"flock", where.at("folder") + "/flock", "true"}}};
  };
  all.push_back({"flock", "flock(1)", "folder", {}, {}, flock});
  // The version needs all libraries of the program, and nothing else.
  auto const libraries = [](places const& where) {
    return std::vector{command_line{{where.at("rowlock"), "--version"}}, command_line{{"true"}}};
  };
  all.push_back({"libraries", "its libraries: rowlock --version, true", "rowlock", {}, {}, libraries});
}

}  // namespace rowlock::bench
