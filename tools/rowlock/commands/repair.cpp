#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <rowlock/repair.hpp>
#include <rowlock/rowlock.hpp>

#include "cli.hpp"
#include "exit_status.hpp"
#include "text.hpp"

namespace rowlock::tool {
namespace {

constexpr char const* repair_footer = R"(
For a NAME that can't be taken because its fencing token is so high that no higher one is left. No take leaves it so: another
program, or a person, wrote it into the tables. Tokens of NAME begin anew, above the database's clock, and what
transaction::admit() has seen of NAME in this database is forgotten.

This is the one place where a name's token falls. A receiver of your own that compares tokens and has seen the high one must
forget it, too. A name that is held, or recorded as done, is left alone (75): first take it away from its holder, by
rowlock release --force --now NAME.

Run it as the tables' owner; a role that only locks may lack a right that it needs. Of a quorum's lock, run it on each
database.

Example:
  rowlock repair nightly

Exit status: 0 repaired, or there was nothing to repair; 75 held, or a transaction has the row locked; 64, 69, 70, 71, 74, 77,
78 as for all commands (rowlock --help).)";

end_of_program repair(invocation& call, std::string const& name) {
  auto const& db = call.use_database(invocation::unnamed::refused);
  repair_options o;
  o.table_prefix = db.table_prefix;
  o.schema = db.schema;
  auto const done = rowlock::repair(source_from_url(db.url), name, o);
  if (done == repair_result::held)
    throw failure(exit_busy,
                  fmt::format("'{}' is held, or recorded as done: nothing was changed. First: rowlock "
                              "release --force --now {}{}",
                              name, shell_word(name), db.options()));
  bool const repaired = done == repair_result::repaired;
  if (call.json)
    fmt::print("{}\n", nlohmann::ordered_json{{"name", name}, {"repaired", repaired}}.dump(
                           2, ' ', false, nlohmann::json::error_handler_t::replace));
  else if (repaired)
    fmt::print("'{}' can be taken again. Its tokens begin anew.\n", printable(name));
  else
    fmt::print("Nothing to repair: the token of '{}' leaves room.\n", printable(name));
  return {};
}

}  // namespace

void add_repair(CLI::App& app, invocation& call) {
  auto const name = std::make_shared<std::string>();
  auto* command =
      app.add_subcommand("repair", "Heals a name whose fencing token is so high that it can't be taken");
  command->fallthrough();
  command->add_option("NAME", *name, "The lock")->required();
  command->footer(repair_footer);
  command->callback([&call, name] { call.chosen = [&call, name] { return repair(call, *name); }; });
}

}  // namespace rowlock::tool
