#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <rowlock/rowlock.hpp>

#include "cli.hpp"
#include "commands/term.hpp"

namespace rowlock::tool {

void add_renew(CLI::App& app, invocation& call) {
  auto const which = std::make_shared<named_term>();
  auto* command =
      app.add_subcommand("renew", "Renews a lock of `rowlock take`: it lasts its ttl from now on");
  command->fallthrough();
  command->add_option("NAME", which->name, "The lock")->required();
  command->add_option("--term", which->term, "ROWLOCK_TERM, as `rowlock take` printed it")->required();
  command->footer(R"(
Only this very lock is renewed: if its time was over and somebody else has it, or an operator has asked for it back, nothing
is changed, and the exit status is 76. Then stop: what this lock protects is not yours any more.

Example:
  rowlock renew nightly --term "$ROWLOCK_TERM" || exit

Exit status: 0 renewed; 76 it was lost before; 64, 69, 70, 71, 74, 75, 77, 78 as for all commands (rowlock --help).)");
  command->callback([&call, which] {
    call.chosen = [&call, which] {
      return by_term(call, *which, "renewed",
                     [](lock_manager& m, detached_lock const& lock) { return m.renew(lock); });
    };
  });
}

}  // namespace rowlock::tool
