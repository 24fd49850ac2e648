#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <rowlock/rowlock.hpp>

#include "cli.hpp"
#include "duration.hpp"
#include "exit_status.hpp"
#include "process/interrupt_watch.hpp"
#include "process/signals.hpp"
#include "text.hpp"

namespace rowlock::tool {
namespace {

using namespace std::chrono_literals;

struct freeze_command_options {
  std::optional<std::chrono::milliseconds> duration;
  std::optional<std::chrono::milliseconds> timeout;
  bool restored = false;
};

constexpr char const* freeze_footer = R"(
While a database is frozen it grants nothing: no command and no program takes a lock, waiting callers wait, and the SQL functions
return no row. Holders renew and release as before. It ends after --for, or by `rowlock thaw`, after a year at the latest.

A take from before can still wait for its row, and be granted. So this command returns when no such statement or transaction
is left. It names the sessions that are in the way. After --timeout it ends with 75: the freeze stays, and is not yet in
force. Run it again, or end those sessions.

A planned switch-over, in which replication loses nothing, without a pause:
  rowlock freeze                  then wait until the replica has everything, switch over, and stop the old server
  rowlock quarantine off          and so on at the new server:
  rowlock thaw                    grants at once
  rowlock quarantine on           for the next, unplanned one

A disk's snapshot or a backup that you put back: start the server so that no program reaches it, then
  rowlock freeze --restored --for 5m     the longest ttl of all programs
and let them in. A lock from after the snapshot is unknown there: its holder has to be done before the next one begins.

It needs the rights of the tables' owner (on MySQL and MariaDB also PROCESS, to see the sessions). It sees the sessions of
its own server: in a cluster run it at each node. SQLite has no freeze.

Examples:
  rowlock freeze --for 10m
  rowlock freeze --timeout 5m && rsync ...; rowlock thaw

Exit status: 0 in force; 75 --timeout is over, and sessions are in the way; 64, 69, 70, 71, 74, 77, 78 as for all commands
(rowlock --help); 128+N ended by signal N. After 75 and signals the freeze stays.)";

constexpr char const* thaw_footer = R"(
Ends `rowlock freeze`. The database grants at once. After a crash or a failover during the freeze it grants nothing until
forgotten locks are over, as without a freeze. A freeze within five minutes after such an event can make that pause longer, five
minutes in all.

Example:
  rowlock thaw

Exit status: 0 done, also if nothing was frozen; 64, 69, 70, 71, 74, 75, 77, 78 as for all commands (rowlock --help).)";

constexpr char const* quarantine_footer = R"(
A failover to a replica that lagged, or a crash without a flush, makes a database forget locks that it granted. So after it nothing
is granted until the longest lock that can be forgotten is over: five minutes at most. `rowlock quarantine off` gives that up: the
database grants at once, and two processes can own one lock, each for up to its ttl. Tokens of the later one are higher.

  off      no pause after a failover or a crash; ends one that runs. Only where replication loses nothing
  on       as made by `rowlock migrate up`

`rowlock doctor` and `rowlock list` say when it is off. SQLite has no quarantine, and needs none.

Example:
  rowlock quarantine off

Exit status: 0 done; 64, 69, 70, 71, 74, 75, 77, 78 as for all commands (rowlock --help).)";

template <class Options = quarantine_options>
Options options_for(database const& db) {
  Options o;
  o.table_prefix = db.table_prefix;
  o.schema = db.schema;
  return o;
}

/// "pid 123 (app), for 3.2s; pid ...".
std::string in_words(std::vector<session_in_the_way> const& sessions) {
  constexpr std::size_t most_told = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(sessions.size(), most_told); ++i) {
    auto const& s = sessions[i];
    text += fmt::format("{}{}{}{}", i == 0 ? "" : "; ",
                        s.session == 0 ? s.application : fmt::format("session {}", s.session),
                        s.session == 0 || s.application.empty() ? "" : " (" + s.application + ")",
                        s.age > 0ms ? ", for " + format_duration(s.age) : "");
  }
  if (sessions.size() > most_told) text += fmt::format("; and {} more", sessions.size() - most_told);
  return text;
}

void print_as_json(nlohmann::ordered_json const& out) {
  fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

nlohmann::ordered_json in_json(freeze_result const& done, std::chrono::milliseconds duration) {
  auto sessions = nlohmann::ordered_json::array();
  for (auto const& s : done.in_the_way)
    sessions.push_back({{"session", s.session}, {"application", s.application}, {"age_ms", s.age.count()}});
  return {{"frozen_ms", duration.count()}, {"in_force", done.in_force}, {"in_the_way", sessions}};
}

end_of_program freeze(invocation& call, freeze_command_options const& options) {
  auto const& db = call.use_database(invocation::unnamed::refused);
  auto o = options_for<freeze_options>(db);
  o.duration = options.duration.value_or(o.duration);
  o.timeout = options.timeout.value_or(o.timeout);
  o.restored = options.restored;
  std::size_t told = 0;
  auto tell_at = std::chrono::steady_clock::now() + 500ms;  // most are gone by then
  o.on_wait = [&](std::vector<session_in_the_way> const& sessions) {
    auto const now = std::chrono::steady_clock::now();
    if (now < tell_at || (sessions.size() == told && now < tell_at + 5s)) return;
    told = sessions.size();
    tell_at = now;
    say("waiting for what began before: " + in_words(sessions));
  };
  signal_setup const signals;
  auto const signal_fd = signals.open();
  std::stop_source stop;
  std::atomic<int> interrupted = 0;
  freeze_result done;
  {
    interrupt_watch const watch(signal_fd.get(), [&](int signal) {
      interrupted = signal;
      stop.request_stop();
    });
    done = rowlock::freeze(source_from_url(db.url), o, stop.get_token());
  }
  if (call.json) print_as_json(in_json(done, o.duration));
  if (!done.in_force) {
    say(fmt::format(
        "frozen, but not in force yet: these can still be granted a lock: {}. Run it again, or end them",
        in_words(done.in_the_way)));
    if (interrupted != 0) return {128 + interrupted, interrupted};
    return {exit_busy, {}};
  }
  if (!call.json)
    fmt::print("Frozen: nothing is granted {}.\n",
               options.duration ? "for " + format_duration(o.duration) : "until `rowlock thaw`");
  return {};
}

nlohmann::ordered_json in_json(quarantine_state const& now) {
  return {{"enabled", now.enabled},
          {"frozen_ms", now.frozen.count()},
          {"grants_in_ms", now.left ? nlohmann::ordered_json(now.left->count()) : nlohmann::ordered_json()}};
}

/// When it grants, for people.
std::string grants_in_words(quarantine_state const& now) {
  auto const what = quarantine_in_words(now);
  return what.empty() || (what.starts_with("the quarantine is off") && now.left == 0ms)
             ? "The database grants locks."
             : fmt::format("Not yet: {}.", what);
}

end_of_program show(invocation const& call, quarantine_state const& now) {
  if (call.json)
    print_as_json(in_json(now));
  else
    fmt::print("{}\n", grants_in_words(now));
  return {};
}

}  // namespace

std::optional<quarantine_state> quarantine_of(database const& db) {
  return look_at_quarantine(source_from_url(db.url), options_for(db));
}

std::string quarantine_in_words(quarantine_state const& now) {
  if (now.frozen > 0ms)
    return fmt::format("an operator has frozen the database: it grants nothing {}until `rowlock thaw`",
                       now.frozen > 24h ? "" : "for " + format_duration(now.frozen) + ", or ");
  if (!now.left)
    return "the database may have forgotten locks, in a failover or a crash: it grants none for a time, "
           "which begins with the first process that asks for one";
  if (*now.left > 0ms)
    return fmt::format(
        "the database may have forgotten locks, in a failover or a crash: it grants none for {}",
        format_duration(*now.left));
  return now.enabled ? ""
                     : "the quarantine is off: after a failover or a crash two processes can own one lock "
                       "(`rowlock quarantine on`)";
}

void add_freeze(CLI::App& app, invocation& call) {
  auto const options = std::make_shared<freeze_command_options>();
  auto* command = app.add_subcommand("freeze", "For maintenance: has the database grant no lock for a time");
  command->fallthrough();
  add_duration(*command, "--for", options->duration, "How long, 365d at most; default: until `rowlock thaw`");
  add_duration(*command, "--timeout", options->timeout, "How long to wait until it is in force; default: 1m");
  command->add_flag("--restored", options->restored,
                    "A backup or a disk's snapshot was put back: tokens rise above all that are unknown now");
  command->footer(freeze_footer);
  command->callback([&call, options] { call.chosen = [&call, options] { return freeze(call, *options); }; });
}

void add_thaw(CLI::App& app, invocation& call) {
  auto* command = app.add_subcommand("thaw", "Ends `rowlock freeze`");
  command->fallthrough();
  command->footer(thaw_footer);
  command->callback([&call] {
    call.chosen = [&call] {
      auto const& db = call.use_database(invocation::unnamed::refused);
      return show(call, thaw(source_from_url(db.url), options_for(db)));
    };
  });
}

void add_quarantine(CLI::App& app, invocation& call) {
  auto* group =
      app.add_subcommand("quarantine", "The pause after a database may have forgotten locks: off, or on");
  group->fallthrough();
  group->require_subcommand(1, 1);
  group->footer(quarantine_footer);
  for (bool const on : {false, true}) {
    auto* command = group->add_subcommand(
        on ? "on" : "off", on ? "Pauses after a failover or a crash, as it should be"
                              : "Grants at once after a failover or a crash, also what others still own");
    command->fallthrough();
    command->footer(fmt::format("\nExample:\n  rowlock quarantine {}\n\nMore: rowlock quarantine --help",
                                on ? "on" : "off"));
    command->callback([&call, on] {
      call.chosen = [&call, on] {
        auto const& db = call.use_database(invocation::unnamed::refused);
        auto const now = enable_quarantine(source_from_url(db.url), on, options_for(db));
        if (!on)
          say("from here on, after a failover or a crash that forgets locks, two processes can own one lock, "
              "each for up to its ttl");
        return show(call, now);
      };
    });
  }
}

}  // namespace rowlock::tool
