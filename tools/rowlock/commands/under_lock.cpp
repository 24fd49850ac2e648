#include "commands/under_lock.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>

#include "commands/session.hpp"
#include "exit_status.hpp"
#include "process/limits.hpp"

namespace rowlock::tool {
namespace {

end_of_program not_run(report const& r, std::string const& command) {
  if (auto const limit = limit_behind(r.exec_error)) {
    say(fmt::format("cannot run '{}': {}", command, *limit));
    return {exit_system, {}};
  }
  say(fmt::format("cannot run '{}': {}", command, std::strerror(r.exec_error)));
  return {r.exec_error == ENOENT ? exit_not_found : exit_not_executable, {}};
}

end_of_program command_ended(report const& r, std::string const& name) {
  if (r.ended > 0)
    say(fmt::format(
        "the command for '{}' left {} running, which rowlock has ended: the lock covers all that it starts",
        name, r.ended == 1 ? "a process" : fmt::format("{} processes", r.ended)));
  if (WIFEXITED(r.wait_status)) return {WEXITSTATUS(r.wait_status), {}};
  int const signal = WTERMSIG(r.wait_status);
  // So that Ctrl-C ends a shell's loop around us: it looks at what we died of.
  if (signal == SIGINT) return {128 + signal, signal};
  return {128 + signal, {}};
}

/// As `once` ends when its command has ended by itself. @param status of the command
end_of_program once_ended(outcome const& o, run_options const& options, end_of_program const& status) {
  if (options.is_done(o)) return {exit_ok, {}};
  if (status.status != exit_ok) return status;
  say(fmt::format(
      "the command for '{}' was told to stop (signal {}) and ended with 0, which may mean that it "
      "stopped halfway. It is not recorded as done. A command that can tell: --done-status",
      options.name, o.asked_to_end));
  return {128 + o.asked_to_end, o.asked_to_end};
}

}  // namespace

ran_under_lock run_under_lock(invocation& call, run_options const& options, signal_setup const& signals) {
  auto const mutex_how = options.for_mutex();
  for (auto const& name : options.names()) refuse_reserved(name);
  // First of all: it has to be forked before there are threads and connections.
  auto plan = options.for_guard(call.command);
  plan.command_line = call.command_line;
  guard g(std::move(plan), signals);
  std::signal(SIGPIPE, SIG_IGN);
  if (int const why = g.why_no_orphans(); why != 0 && !options.waiting.patient)
    say(fmt::format(
        "this system has no child subreapers (prctl: {}): a process that the command leaves behind "
        "without its parent is neither waited for nor ended, and may go on without the lock",
        std::strerror(why)));
  std::optional<session> chosen;
  if (options.of_majority) {
    chosen.emplace(call.use_members(), options, mutex_how, signals, g);
  } else {
    auto const& db = call.use_database(invocation::unnamed::silent);
    if (auto const where = where_it_holds(db, options.name); !where.empty()) say(where);
    chosen.emplace(db, options, mutex_how, signals, g);
  }
  auto& s = *chosen;
  using how = ran_under_lock::how;
  if (auto const ended = s.take(call)) return {how::not_taken, *ended};
  auto const began = boot_clock::now();
  auto const o = s.guard_command();
  ran_under_lock ran{how::ended, {}, o.asked_to_end != 0, boot_clock::now() - began};
  if (auto const lost = s.give_back(o)) {
    ran.status = *lost;
    if (lost->status == exit_lost) ran.ended = how::lost;
  } else if (o.what.exec_error != 0) {
    ran.status = not_run(o.what, call.command.front());
    ran.ended = how::not_run;
  } else {
    ran.status = command_ended(o.what, options.name);
    if (options.record_for) ran.status = once_ended(o, options, ran.status);
  }
  return ran;
}

}  // namespace rowlock::tool
