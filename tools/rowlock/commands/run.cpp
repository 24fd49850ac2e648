#include <memory>

#include "cli.hpp"
#include "commands/run_options.hpp"
#include "commands/under_lock.hpp"
#include "exit_status.hpp"

namespace rowlock::tool {
namespace {

constexpr char const* run_footer = R"(
Takes the lock NAME, runs COMMAND, and gives the lock back when COMMAND and all processes that it started have ended.
Waits as long as it takes unless told otherwise.

The command sees ROWLOCK_NAME, ROWLOCK_TOKEN (a number that rises with each holder; pass it on to what the command
writes to, so that late writes can be refused) and ROWLOCK_TERM. Apart from these it inherits the environment as it is,
also a password in ROWLOCK_DB, PGPASSWORD or MYSQL_PWD. rowlock adds no password. If the command must not see a
password, put it into ~/.pgpass, a service file (~/.pg_service.conf), ~/.my.cnf or the file of --password-file.

The command never works without the lock. If the lock can't be renewed (the database is away for too long, rowlock was
killed or stopped), the command and all its descendants get SIGTERM, and after the grace SIGKILL, before the lock can be
given to somebody else. What the command leaves running when it ends is ended in the same way. (Processes that it has
others start are not its descendants: containers, systemd-run, at, cron.) A job suspended with Ctrl-Z renews nothing:
it is ended, and the lock lost, when the ttl is nearly over.

With --and NAME2 the command runs under both locks, or more. All are taken or none: while it waits for one it holds none
of the others, so that two such commands never wait for each other. If one of them is lost, the command is ended. For leases
only, 64 at most. ROWLOCK_NAME, ROWLOCK_TOKEN and ROWLOCK_TERM are those of NAME.

With --shared the command runs beside others that say --shared, but not while one runs that doesn't: many may read, or one may
write. (A writer of such a NAME says --strategy shared.) With --permits N it runs beside others that say so, but never more than
N at a time on all hosts; with --units K it counts for K of them. Each is renewed, lost and shown by itself. All who use
the name have to say the same N: while they don't, the largest counts.

With --strategy row_lock the lock is an open transaction of a database session. The next in line has the lock at once
when this holder ends or dies. But the database can end a session at any moment, and then gives the lock away before the
command can be ended: rowlock notices when it next asks the session, within ten seconds, and ends the command then (76).
Where that matters, use lease.

With --db three times or more the lock is a quorum's: a majority of these databases grants it, so any single one of them
may fail (rowlock quorum --help). Its ttl is at most the quorum's longest one.

Durations are a whole number and a unit: 250ms, 30s, 10m, 2h, 1d.

The -- may be left out if no option stands behind NAME: then what follows NAME is the command, with all its own options.
A NAME that begins with - needs a -- of its own before it: rowlock run -- -name -- ./backup.sh

Examples:
  rowlock run nightly -- ./backup.sh --full
  rowlock run nightly ./backup.sh --full                  the same
  rowlock run --no-wait nightly -- ./backup.sh            don't wait: 75 if somebody else holds it
  rowlock run --wait 10m --note "release 7" deploy -- make deploy
  rowlock run --ttl 2m --grace 30s nightly -- ./slow-to-stop.sh
  rowlock run --hard-limit 6h nightly -- ./backup.sh      a run that hangs is ended (76), so that the next night's is not missed
  rowlock run -n -E 0 minutely -- ./poll.sh               no failure (0 instead of 75) if another one runs
  rowlock run deploy --and backup -- make deploy          not while one of the two runs
  rowlock run --shared config -- ./report.sh              beside other readers, not beside a writer
  rowlock run --permits 3 crawl -- ./crawl.sh             at most three at a time on all hosts
  rowlock run --permits 10 --units 4 memory -- ./big.sh   needs four of the ten
  rowlock run --at-least 50s minutely -- ./report.sh      from cron on many hosts: once a minute, although clocks differ

Exit status: the command's own; 126 it can't be executed, 127 it was not found, 128+N it died of signal N; 75 held by
somebody else or timed out (or what -E says), 69 database unreachable when it starts, 76 lock lost while the command ran or
--hard-limit reached, 64 wrong command line, or NAME is the lock under which this runs (it would wait for itself),
77 login refused, 78 tables or database file missing or wrong, or another strategy, 71 this machine gives
no more files or processes or has no /proc, 74 the output could not be written, 70 the guardian was killed, or a bug of
rowlock's.)";

end_of_program run(invocation& call, run_options const& options) {
  if (call.command.empty())
    throw failure(exit_usage, "the command is missing: rowlock run [OPTIONS] NAME -- COMMAND [ARGUMENTS]");
  signal_setup const signals;
  return run_under_lock(call, options, signals).status;
}

}  // namespace

void add_run(CLI::App& app, invocation& call) {
  auto const options = std::make_shared<run_options>();
  auto* command = app.add_subcommand("run", "Runs a command while holding a lock");
  command->fallthrough();
  command->add_option("NAME", options->name, "The lock: 1 to 255 bytes of UTF-8")->required();
  command
      ->add_option("--and", options->others,
                   "Another lock that is taken together with NAME, all or none; may be given several times")
      ->type_name("NAME2")
      ->allow_extra_args(false);
  options->waiting.add_to(*command);
  options->share.add_to(*command);
  add_duration(*command, "--grace", options->grace,
               "Time between SIGTERM and SIGKILL when the command has to be ended; default: a sixth of the "
               "ttl, 5s at most");
  add_duration(*command, "--ttl", options->ttl,
               "How long the lock stays taken at most after this machine died; default: 30s");
  add_duration(*command, "--at-least", options->at_least,
               "Keep the lock taken until this long after it was taken, even if the command is done sooner");
  add_duration(*command, "--hard-limit", options->hard_limit,
               "End the command, and with it the lock, before it was held for this long: for jobs that hang");
  command
      ->add_option("--strategy", options->strategy_name,
                   "lease (default), unique_insert, row_lock or shared: see below")
      ->type_name("STRATEGY");
  command->add_option("--note", options->note, "For people who read `rowlock list`")->type_name("TEXT");
  command->footer(run_footer);
  command->callback([&call, options] {
    options->of_majority = call.has_members();
    call.chosen = [&call, options] { return run(call, *options); };
  });
}

}  // namespace rowlock::tool
