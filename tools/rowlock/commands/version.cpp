#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <rowlock/rowlock.hpp>
#include <rowlock/version.hpp>
#include <string>
#include <vector>

#include "cli.hpp"

namespace rowlock::tool {
namespace {

end_of_program print_version(invocation const& call) {
  std::vector<std::string> built;
  int schema = 0;
  for (auto const& one : back_ends()) {
    built.push_back(one.name);
    schema = migrator(source_from_url(one.example)).latest();
  }
  if (call.json) {
    nlohmann::json const out{{"version", ROWLOCK_VERSION}, {"back_ends", built}, {"schema_version", schema}};
    fmt::print("{}\n", out.dump(2));
  } else {
    fmt::print("rowlock {}\nback ends: {}\nschema version: {}\n", ROWLOCK_VERSION, fmt::join(built, ", "),
               schema);
  }
  return {};
}

}  // namespace

void add_version(CLI::App& app, invocation& call) {
  auto* version = app.add_subcommand(
      "version", "Prints this program's version, its back ends, and the schema version that it makes");
  version->fallthrough();
  version->callback([&call] { call.chosen = [&call] { return print_version(call); }; });
}

}  // namespace rowlock::tool
