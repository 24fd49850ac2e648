#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <rowlock/rowlock.hpp>

#include "cli.hpp"
#include "commands/taking.hpp"
#include "commands/term.hpp"
#include "duration.hpp"
#include "exit_status.hpp"
#include "text.hpp"

namespace rowlock::tool {
namespace {

constexpr char const* take_footer = R"help(
Takes the lock NAME, prints its token and term, and ends. The lock stays taken until `rowlock release NAME --term TERM`, or
until the ttl is over. Nothing renews it by itself, and nothing ends the script when its time is over, as `rowlock run`
would. So give a ttl that is longer than the work, renew the lock (`rowlock renew`) and stop if that fails, or pass on
ROWLOCK_TOKEN to what the script writes to. If the work can run under `rowlock run`, use that.

The output is shell assignments: ROWLOCK_NAME, ROWLOCK_TOKEN (a number that rises with each holder) and ROWLOCK_TERM (which
tells this lock from every other); with --json the same as JSON. If it can't be written the lock is given back.

In a script don't write eval "$(rowlock take ...)": the shell would go on if the lock was not taken.

Example:
  lock=$(rowlock take nightly --ttl 10m --wait 1m) || exit
  eval "$lock"
  trap 'rowlock release nightly --term "$ROWLOCK_TERM"' EXIT
  ./first-part
  rowlock renew nightly --term "$ROWLOCK_TERM" || exit
  ./second-part

A NAME that begins with - needs -- before it: rowlock take --ttl 10m -- -name

Exit status: 0 taken; 75 held by somebody else or timed out (or what -E says), 69 database unreachable, 64 wrong command
line, 77 login refused, 78 tables or database file missing or wrong, or another strategy, 71 this machine gives no more
files, processes or memory, 74 the output could not be written, 70 a bug of rowlock's.)help";

struct take_options {
  std::string name;
  waiting_options waiting;
  share_options share;
  std::optional<std::chrono::milliseconds> ttl;
  std::string note;
};

std::string as_text(invocation const& call, take_options const& options, detached_lock const& lock) {
  if (!call.json)
    return fmt::format("ROWLOCK_NAME={}\nROWLOCK_TOKEN={}\nROWLOCK_TERM={}\n", shell_word(lock.name),
                       lock.token.value, shell_word(lock.term.value));
  nlohmann::ordered_json const out{{"name", lock.name},
                                   {"token", lock.token.value},
                                   {"term", lock.term.value},
                                   {"ttl_ms", options.ttl->count()}};
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

/// A lock that was taken, and until when it is trusted.
struct taken {
  detached_lock lock;
  boot_time_point trusted_until;
};

/// What became of a lock that nobody was told of, as the end of a message.
std::string given_back(lock_manager& manager, taken const& mine, take_options const& options,
                       signal_setup const& signals) {
  auto const fd = signals.open();
  auto const why = give_back_late(manager, mine.lock, mine.trusted_until, fd.get());
  if (!why) return fmt::format("; '{}' was given back", mine.lock.name);
  return fmt::format("; '{}' could not be given back, and is free in {} at the latest: {}", mine.lock.name,
                     format_duration(*options.ttl), *why);
}

/// Whoever can't be told of it can't give it back.
end_of_program hand_over(lock_manager& manager, taken const& mine, take_options const& options,
                         signal_setup const& signals, std::string const& text) {
  errno = 0;
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return {};
  int const why = errno;
  return output_failed(why, given_back(manager, mine, options, signals));
}

end_of_program take(invocation& call, take_options const& options) {
  refuse_reserved(options.name);
  std::signal(SIGPIPE, SIG_IGN);
  signal_setup const signals;  // while it waits; after that it is done in a moment
  auto const& db = call.use_database(invocation::unnamed::silent);
  if (auto const where = where_it_holds(db, options.name); !where.empty()) say(where);
  manager_options o;
  o.table_prefix = db.table_prefix;
  o.schema = db.schema;
  o.connections = 1;
  lock_manager manager(db.url, o);
  mutex_options how;
  how.ttl = *options.ttl;
  how.renew = false;
  how.note = options.note;
  taking asked(db, manager, {options.name}, how, options.waiting, options.share, signals);
  auto locks = asked.take(call);
  if (locks.empty()) return asked.ended();
  auto const trusted = locks.front().trusted_until();
  auto const left = locks.front().single().detach();
  if (!left)
    throw failure(exit_lost, fmt::format("'{}' was lost at once: its ttl is too short", options.name));
  return hand_over(manager, {*left, trusted.value_or(boot_clock::now())}, options, signals,
                   as_text(call, options, *left));
}

}  // namespace

void add_take(CLI::App& app, invocation& call) {
  auto const options = std::make_shared<take_options>();
  auto* command = app.add_subcommand("take", "Takes a lock and leaves it taken, for the middle of a script");
  command->fallthrough();
  command->add_option("NAME", options->name, "The lock: 1 to 255 bytes of UTF-8")->required();
  add_duration(*command, "--ttl", options->ttl, "How long it stays taken unless it is renewed or released")
      ->required();
  options->waiting.add_to(*command);
  options->share.add_to(*command);
  command->add_option("--note", options->note, "For people who read `rowlock list`")->type_name("TEXT");
  command->footer(take_footer);
  command->callback([&call, options] { call.chosen = [&call, options] { return take(call, *options); }; });
}

}  // namespace rowlock::tool
