#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <string>

#include "cli.hpp"
#include "commands/restarts.hpp"
#include "commands/run_options.hpp"
#include "commands/under_lock.hpp"
#include "duration.hpp"
#include "exit_status.hpp"
#include "process/fresh_start.hpp"
#include "process/notify.hpp"
#include "text.hpp"

namespace rowlock::tool {
namespace {

constexpr char const* lead_footer = R"(
Of all hosts that run this with the same NAME and database, one leads: it runs COMMAND. The others wait, in the order in
which they came, and when the leader resigns or dies the next one leads: at once, or after the ttl at the latest.

The command never works while another host may lead. If leadership can't be kept (the database is away for too long,
rowlock was killed or stopped, an operator took it away), the command and all its descendants get SIGTERM, and after the
grace SIGKILL, before another host can lead. Then this host campaigns again.

If the command ends by itself, this host resigns, and rowlock exits with the command's status. With --restart it waits
instead, for 1s and then twice as long each time, 60s at most, and campaigns again; after a command that ran for a minute
it begins at 1s. SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to the command, and end rowlock with it.

--value is what `rowlock leader NAME` prints, such as an address; `rowlock list` shows it as the note. The command sees
ROWLOCK_NAME, ROWLOCK_TOKEN and ROWLOCK_TERM, and for all else what `rowlock run --help` says holds here, too.

Examples:
  rowlock lead scheduler --value "$HOSTNAME:8080" -- ./scheduler --port 8080
  rowlock lead --restart --ttl 10s scheduler ./scheduler
  curl "http://$(rowlock leader scheduler)/jobs"
  systemctl enable --now rowlock-lead@scheduler      as a service: see the comments in rowlock-lead@.service

Exit status: the command's own; 126 it can't be executed, 127 it was not found, 128+N it died of signal N, or rowlock did;
76 leadership was lost while the command was being ended by a signal; 64, 69, 70, 71, 74, 77, 78 as for all commands
(rowlock --help).)";

/// The seconds that this program, when it ran in this process before, has waited at the end.
constexpr char const* again_variable = "ROWLOCK_LEAD_AGAIN";

struct lead_options {
  run_options run;
  bool restart = false;
};

/// Taken out of the environment, so that the command does not see it.
std::optional<std::chrono::seconds> waited_before() {
  char const* const set = std::getenv(again_variable);
  if (set == nullptr) return std::nullopt;
  std::chrono::seconds const before{std::clamp(std::atoi(set), 0, 60)};
  ::unsetenv(again_variable);
  return before;
}

std::string this_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// @return the signal that came in meanwhile, or 0
int wait_for_signal(signal_setup const& signals, std::chrono::milliseconds time) {
  auto const fd = signals.open();
  pollfd ready{fd.get(), POLLIN, 0};
  if (::poll(&ready, 1, static_cast<int>(time.count())) != 1) return 0;
  signalfd_siginfo info{};
  return ::read(fd.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

end_of_program lead(invocation& call, lead_options const& options) {
  if (call.command.empty())
    throw failure(exit_usage, "the command is missing: rowlock lead [OPTIONS] NAME -- COMMAND [ARGUMENTS]");
  auto const waited = waited_before();
  auto how = options.run;
  how.waiting.fair = true;
  how.waiting.patient = waited.has_value();
  if (how.note.empty()) how.note = this_host();
  fresh_start const anew;
  signal_setup const signals;
  notify_service_manager(fmt::format("READY=1\nSTATUS=campaigns for '{}'", printable(how.name)));
  how.on_grant = [&](fencing_token token) {
    notify_service_manager(fmt::format("STATUS=leads '{}', token {}", printable(how.name), token.value));
  };
  auto const ran = run_under_lock(call, how, signals);
  auto const wait = before_next_campaign(ran, options.restart, waited.value_or(std::chrono::seconds{0}));
  if (!wait) return ran.status;
  notify_service_manager(
      fmt::format("STATUS=campaigns for '{}' again in {}", printable(how.name), format_duration(*wait)));
  say(fmt::format("campaigning for '{}' again in {}", how.name, format_duration(*wait)));
  if (int const signal = wait_for_signal(signals, *wait); signal != 0) return {128 + signal, signal};
  anew.now(call.words, signals, again_variable, std::to_string(wait->count()));
}

}  // namespace

std::optional<std::chrono::seconds> before_next_campaign(ran_under_lock const& ran, bool restart,
                                                         std::chrono::seconds waited) {
  using namespace std::chrono_literals;
  using how = ran_under_lock::how;
  if (ran.asked_to_end) return std::nullopt;
  if (ran.ended == how::lost) return 1s;
  if (!restart || ran.ended != how::ended) return std::nullopt;
  return ran.ran_for >= 60s ? 1s : std::clamp<std::chrono::seconds>(2 * waited, 1s, 60s);
}

void add_lead(CLI::App& app, invocation& call) {
  auto const options = std::make_shared<lead_options>();
  auto* command = app.add_subcommand("lead", "Runs a command on one host at a time: the leader");
  command->fallthrough();
  command->add_option("NAME", options->run.name, "The election: 1 to 255 bytes of UTF-8")->required();
  command
      ->add_option("--value", options->run.note,
                   "What `rowlock leader` prints while this host leads; default: the host's name")
      ->type_name("TEXT");
  add_duration(*command, "--ttl", options->run.ttl,
               "How long other candidates wait at most after the leader's host died; default: 30s");
  add_duration(*command, "--grace", options->run.grace,
               "Time between SIGTERM and SIGKILL when the command has to be ended; default: a sixth of the "
               "ttl, 5s at most");
  command->add_flag("--restart", options->restart, "Campaign again when the command has ended");
  command->footer(lead_footer);
  command->callback([&call, options] { call.chosen = [&call, options] { return lead(call, *options); }; });
}

}  // namespace rowlock::tool
