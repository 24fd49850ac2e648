#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <rowlock/rowlock.hpp>

#include "cli.hpp"
#include "duration.hpp"
#include "exit_status.hpp"
#include "holder.hpp"
#include "text.hpp"

namespace rowlock::tool {
namespace {

struct release_options {
  std::string name;
  bool force = false;
  bool now = false;
};

struct revoked {
  std::optional<holder_info> holder;  ///< as seen just before
  bool was_held = false;
};

revoked revoke(invocation& call, release_options const& options) {
  auto const& db = call.use_database();
  revoked done;
  with_standard_file(db, [&] {
    manager_options o;
    o.table_prefix = db.table_prefix;
    o.schema = db.schema;
    lock_manager manager(db.url, o);
    manager.connect();
    for (auto& lock : manager.list())
      if (lock.name == options.name && lock.unknown.empty()) done.holder = std::move(lock.holder);
    done.was_held = manager.revoke(options.name, options.now ? revoke_mode::now : revoke_mode::at_renewal);
  });
  return done;
}

std::string what_happens(release_options const& options, revoked const& done) {
  if (options.now) return "it is free now, and its former holder may still work until its next renewal";
  if (!done.holder) return "its holder gives it back at its next renewal";
  return fmt::format("its holder gives it back at its next renewal, at the latest it is free in {}",
                     format_duration(std::max(done.holder->expires_in, std::chrono::milliseconds{0})));
}

end_of_program release(invocation& call, release_options const& options) {
  if (!options.force)
    throw failure(
        exit_usage,
        fmt::format(
            "this takes '{0}' away from whoever holds it; if that is meant: rowlock release --force {1}. "
            "The holder then gives it back at its next renewal, so that there are never two of them. "
            "With --now it is free at once, and its former holder may work on for a while.",
            options.name, shell_word(options.name)));
  auto const done = revoke(call, options);
  if (call.json) {
    nlohmann::ordered_json out{{"name", options.name}, {"was_held", done.was_held}, {"now", options.now}};
    if (done.was_held && done.holder) out["holder"] = to_json({options.name, true, *done.holder, {}});
    fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (done.was_held) {
    fmt::print("'{}' was held{}: {}.\n", printable(options.name),
               done.holder ? " by " + printable(describe(*done.holder)) : "", what_happens(options, done));
  } else {
    fmt::print("Nobody holds '{}'.\n", printable(options.name));
  }
  return {};
}

}  // namespace

void add_release(CLI::App& app, invocation& call) {
  auto const options = std::make_shared<release_options>();
  auto* command = app.add_subcommand("release", "Takes a lock away from its holder, for operators");
  command->fallthrough();
  command->add_option("NAME", options->name, "The lock")->required();
  command->add_flag("--force", options->force, "Yes, take it away");
  command->add_flag("--now", options->now, "Free it at once, although its former holder may still work");
  command->footer(R"(
Without --now the holder learns of it when it renews (every third of its ttl), ends its command and gives the lock
back; it is free at its expiry at the latest, and at no moment do two hold it.

Example:
  rowlock release --force nightly)");
  command->callback([&call, options] { call.chosen = [&call, options] { return release(call, *options); }; });
}

}  // namespace rowlock::tool
