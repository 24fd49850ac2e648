#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <rowlock/repair.hpp>
#include <rowlock/rowlock.hpp>

#include "cli.hpp"
#include "commands/term.hpp"
#include "duration.hpp"
#include "exit_status.hpp"
#include "holder.hpp"
#include "members.hpp"
#include "text.hpp"

namespace rowlock::tool {
namespace {

struct release_options {
  named_term which;
  bool force = false;
  bool now = false;
};

struct revoked {
  std::optional<holder_info> holder;  ///< as seen just before
  bool was_held = false;
  bool unusable = false;  ///< its token leaves no room for the next taker's
};

revoked revoke(invocation& call, release_options const& options) {
  auto const& db = call.use_database(invocation::unnamed::refused);
  revoked done;
  with_standard_file(db, [&] {
    manager_options o;
    o.table_prefix = db.table_prefix;
    o.schema = db.schema;
    lock_manager manager(db.url, o);
    manager.connect();
    auto seen = manager.find(options.which.name);
    done.unusable = seen && seen->holder.token.value > highest_usable_token;
    if (seen && (seen->held || seen->holder.done) && seen->unknown.empty())
      done.holder = std::move(seen->holder);
    done.was_held =
        manager.revoke(options.which.name, options.now ? revoke_mode::now : revoke_mode::at_renewal);
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
  if (!options.which.term.empty())
    return by_term(call, options.which, "released",
                   [](lock_manager& m, detached_lock const& lock) { return m.release(lock); });
  if (!options.force)
    throw failure(
        exit_usage,
        fmt::format(
            "this would take '{0}' away from its holder; if you mean that: rowlock release --force {1}. "
            "The holder then gives it back at its next renewal, so that there are never two holders. "
            "With --now it is free when this returns, and its former holder may work on for a while. A lock "
            "of "
            "`rowlock take` is given back with --term.",
            options.which.name, shell_word(options.which.name)));
  if (call.has_members()) {
    members m(call.use_members());
    auto const had =
        m.all().revoke(options.which.name, options.now ? revoke_mode::now : revoke_mode::at_renewal);
    if (call.json)
      fmt::print(
          "{}\n",
          nlohmann::ordered_json{{"name", options.which.name}, {"members", had.done}, {"now", options.now}}
              .dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    else
      fmt::print("'{}' was held at {} of {} members.\n", printable(options.which.name), had.done, m.size());
    for (auto const& one : had.troubles) say("could not be asked: " + printable(one));
    return {};
  }
  auto const done = revoke(call, options);
  if (call.json) {
    nlohmann::ordered_json out{
        {"name", options.which.name}, {"was_held", done.was_held}, {"now", options.now}};
    if (done.was_held && done.holder) out["holder"] = to_json({options.which.name, true, *done.holder, {}});
    fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (done.was_held && done.holder && done.holder->done) {
    fmt::print("'{}' was done by {} at {}: that is forgotten now.\n", printable(options.which.name),
               printable(owner_of(*done.holder)), since(*done.holder));
  } else if (done.was_held) {
    fmt::print("'{}' was held{}: {}.\n", printable(options.which.name),
               done.holder ? " by " + printable(describe(*done.holder)) : "", what_happens(options, done));
  } else {
    fmt::print("'{}' has no holder.\n", printable(options.which.name));
  }
  if (done.unusable)
    say(
        fmt::format("'{}' can't be taken again, because no fencing token is left above its own. Run `rowlock "
                    "repair {}{}`",
                    options.which.name, shell_word(options.which.name), call.use_database().options()));
  return {};
}

}  // namespace

void add_release(CLI::App& app, invocation& call) {
  auto const options = std::make_shared<release_options>();
  auto* command = app.add_subcommand(
      "release", "Gives back a lock of `rowlock take`; or takes a lock away from its holder");
  command->fallthrough();
  command->add_option("NAME", options->which.name, "The lock")->required();
  auto* term = command->add_option("--term", options->which.term,
                                   "Give this lock back: ROWLOCK_TERM, as `rowlock take` printed it");
  command->add_flag("--force", options->force, "For operators: take the lock away from its holder")
      ->excludes(term);
  command
      ->add_flag("--now", options->now,
                 "With --force: free the lock now, although its former holder may still work")
      ->excludes(term);
  command->footer(R"(
With --term you give back a lock of your own. If its time was over and somebody else has it, nothing is changed, and the
exit status is 76.

With --force the lock is taken away from its holder. Without --now the holder learns of it when it renews (every third of
its ttl), ends its command and gives the lock back. The lock is free at its expiry at the latest, and at no moment do two
hold it. With --now the lock is free when this command returns, after half a second in which nobody is granted it.

Examples:
  rowlock release nightly --term "$ROWLOCK_TERM"
  rowlock release --force nightly

Exit status: 0 done, or with --force nobody held it; 76 with --term it was lost before; 64, 69, 70, 71, 74, 75, 77, 78 as for
all commands (rowlock --help).)");
  command->callback([&call, options] { call.chosen = [&call, options] { return release(call, *options); }; });
}

}  // namespace rowlock::tool
