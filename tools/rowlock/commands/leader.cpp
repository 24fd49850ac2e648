#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <rowlock/rowlock.hpp>

#include "cli.hpp"
#include "exit_status.hpp"
#include "text.hpp"

namespace rowlock::tool {
namespace {

nlohmann::ordered_json leader_to_json(std::optional<leader_info> const& leader) {
  if (!leader) return nullptr;
  return {{"value", leader->value},
          {"host", leader->host},
          {"pid", leader->pid},
          {"since", iso_utc(leader->since)},
          {"token", leader->token.value}};
}

end_of_program leader(invocation& call, std::string const& name) {
  auto const& db = call.use_database();
  std::optional<leader_info> now;
  with_standard_file(db, [&] {
    manager_options o;
    o.table_prefix = db.table_prefix;
    o.schema = db.schema;
    o.connections = 1;
    lock_manager manager(db.url, o);
    manager.connect();
    now = find_leader(manager, name);
  });
  if (call.json)
    fmt::print("{}\n", leader_to_json(now).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  else if (now)
    fmt::print("{}\n", printable(now->value));
  return {now ? exit_ok : exit_none, {}};
}

}  // namespace

void add_leader(CLI::App& app, invocation& call) {
  auto const name = std::make_shared<std::string>();
  auto* command = app.add_subcommand("leader", "Says who leads: what `rowlock lead --value` was told");
  command->fallthrough();
  command->add_option("NAME", *name, "The election")->required();
  command->footer(R"(
Prints the value of the host that leads, on one line. With --json also host, pid, since when, and the fencing token; null if
nobody leads. It asks the database once, and waits for nobody.

Example:
  curl "http://$(rowlock leader scheduler)/jobs"

Exit status: 0 there is a leader; 1 there is none; 64, 69, 70, 71, 74, 77, 78 as for all commands (rowlock --help).)");
  command->callback([&call, name] { call.chosen = [&call, name] { return leader(call, *name); }; });
}

}  // namespace rowlock::tool
