#include <memory>

#include "cli.hpp"
#include "commands/run_options.hpp"
#include "commands/under_lock.hpp"
#include "exit_status.hpp"

namespace rowlock::tool {
namespace {

constexpr char const* once_footer = R"(
Runs COMMAND unless it was done before, by whatever host, and records that it is done if it succeeds (status 0). Until --for
is over, 36500d (100 years) at most, `rowlock once` with the same KEY and database does nothing: it says who did it and when, and exits with 0. KEY
names one piece of work, such as invoices-2026-11. `rowlock list --done` shows what is recorded, and
`rowlock release --force KEY` forgets it.

While COMMAND runs, KEY is locked as with `rowlock run`, whose help says what COMMAND sees, and how it is ended if the lock is
lost. If COMMAND fails nothing is recorded, and it may be run again at once; if rowlock or this host dies, when the ttl is
over.

If rowlock is told to stop (SIGINT, SIGTERM, SIGHUP or SIGQUIT), which it passes on, a status of 0 records nothing: many
programs end with 0 when they are told to stop halfway, and rowlock ends by that signal, too. A command that can tell says
with a status of its own that its work is whole: with --done-status N, status N is recorded, told to stop or not, and
rowlock exits with 0. --done-status 0 is for a command whose 0 always means that all is done. A stop that is sent to COMMAND
alone is not seen.

This is at least once, not exactly once: if this host dies, or the database can't be reached, after COMMAND has ended and
before that is recorded, it is run again. Exactly once is only what a program writes into the same database, in the
transaction that records it (tx.done, see the guide).

Examples:
  rowlock once invoices-2026-11 --for 400d -- ./send-invoices.sh 2026-11
  rowlock once import-42 --for 30d --done-status 3 -- ./import.sh 42      3: all is imported, although it was told to stop
  rowlock once report-$(date +%F) --for 30d --wait 10m -- ./report.sh     waits for a host that does it just now

Exit status: 0 done, now or before; the command's own if it fails: 126 it can't be executed, 127 it was not found, 128+N it
died of signal N, or was told to stop by it; 75 it runs elsewhere; 76 the lock was lost while the command ran: it is not recorded; 69 the database
can't be reached, or whether it is recorded could not be found out; 64, 70, 71, 74, 77, 78 as for all commands
(rowlock --help).)";

end_of_program once(invocation& call, run_options options) {
  if (call.command.empty())
    throw failure(exit_usage,
                  "the command is missing: rowlock once [OPTIONS] KEY --for DURATION -- COMMAND "
                  "[ARGUMENTS]");
  if (options.record_for->count() == 0) throw failure(exit_usage, "--for: 0 is too short; 1ms is the least");
  options.waiting.no_wait = !options.waiting.wait;
  signal_setup const signals;
  return run_under_lock(call, options, signals).status;
}

}  // namespace

void add_once(CLI::App& app, invocation& call) {
  auto const options = std::make_shared<run_options>();
  auto* command = app.add_subcommand("once", "Runs a command unless it was done before");
  command->fallthrough();
  command->add_option("KEY", options->name, "The work: 1 to 255 bytes of UTF-8")->required();
  add_duration(*command, "--for", options->record_for,
               "How long to keep that it was done: 36500d (100 years) at most")
      ->required();
  add_duration(*command, "--wait", options->waiting.wait,
               "Wait this long at most if it runs elsewhere; default: not at all");
  add_duration(*command, "--ttl", options->ttl,
               "How long it is not run again at most after this machine died; default: 30s");
  add_duration(*command, "--grace", options->grace,
               "Time between SIGTERM and SIGKILL when the command has to be ended; default: a sixth of the "
               "ttl, 5s at most");
  command
      ->add_option(
          "--done-status", options->done_status,
          "Exit status by which the command says that its work is whole, also if it was told to stop")
      ->type_name("N")
      ->check(CLI::Range(0, 125));
  command->add_option("--note", options->note, "For people who read `rowlock list`; kept as the result")
      ->type_name("TEXT");
  command->footer(once_footer);
  command->callback([&call, options] { call.chosen = [&call, options] { return once(call, *options); }; });
}

}  // namespace rowlock::tool
