#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <rowlock/rowlock.hpp>
#include <stop_token>
#include <utility>

#include "cli.hpp"
#include "duration.hpp"
#include "exit_status.hpp"
#include "members.hpp"
#include "process/interrupt_watch.hpp"
#include "process/signals.hpp"
#include "text.hpp"

namespace rowlock::tool {
namespace {

using namespace std::chrono_literals;

struct quorum_command_options {
  std::optional<std::chrono::milliseconds> max_ttl{};
  std::string joins{};
  std::string replaces{};
  bool force = false;
};

nlohmann::ordered_json member_to_json(quorum_member_info const& m) {
  if (!m.trouble.empty()) return {{"database", m.database}, {"trouble", m.trouble}};
  return {{"database", m.database},
          {"trouble", nullptr},
          {"database_id", m.database_id},
          {"quorum", m.quorum_id},
          {"epoch", m.epoch},
          {"votes", m.votes},
          {"members", m.members},
          {"max_ttl_ms", m.max_ttl.count()},
          {"clock_ahead_ms", m.clock_ahead.count()},
          {"highest_token", m.highest.value}};
}

/// "postgresql host=db1 dbname=app": where it is, without the user.
std::string place(quorum_member_info const& m) {
  return printable(std::string_view(m.database).substr(0, m.database.find(" user=")));
}

end_of_program show(invocation& call, std::vector<quorum_member_info> const& all) {
  auto const wrong = quorum_findings(all);
  auto const voting = quorum_votes(all);
  bool const enough = voting >= all.size() / 2 + 1;
  if (call.json) {
    auto members = nlohmann::ordered_json::array();
    for (auto const& m : all) members.push_back(member_to_json(m));
    nlohmann::ordered_json const out{{"voting", voting}, {"members", members}, {"findings", wrong}};
    fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return {enough ? exit_ok : exit_none, {}};
  }
  std::vector<std::vector<std::string>> rows{{"#", "VOTES", "EPOCH", "CLOCK", "ID", "DATABASE"}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto const& m = all[i];
    auto const number = std::to_string(i + 1);
    if (!m.trouble.empty())
      rows.push_back({number, "?", "", "", "", place(m)});
    else
      rows.push_back({number, m.votes ? "yes" : "no", m.quorum_id.empty() ? "" : std::to_string(m.epoch),
                      fmt::format("{:+} ms", m.clock_ahead.count()), printable(m.database_id.substr(0, 12)),
                      place(m)});
  }
  fmt::print("{}", table(rows, false));
  for (auto const& one : wrong) fmt::print("- {}\n", printable(one));
  auto const known = std::find_if(all.begin(), all.end(), [](auto const& m) { return !m.quorum_id.empty(); });
  if (known != all.end())
    fmt::print("{} of {} vote, {} are needed; the longest ttl is {}.\n", voting, all.size(),
               all.size() / 2 + 1, format_duration(known->max_ttl));
  return {enough ? exit_ok : exit_none, {}};
}

/// `change` may wait for the longest ttl. @return how the program ends if a signal has ended that
std::optional<end_of_program> until_interrupted(std::function<void(std::stop_token)> const& change) {
  signal_setup const signals;
  auto const fd = signals.open();
  std::stop_source stop;
  std::atomic<int> interrupted{0};
  interrupt_watch const watch(fd.get(), [&](int signal) {
    interrupted = signal;
    stop.request_stop();
  });
  try {
    change(stop.get_token());
  } catch (error const& e) {
    if (e.reason() != errc::closed || interrupted == 0) throw;
    say(e.what());
  }
  // Also where it was done before it heard of that.
  if (int const signal = interrupted; signal != 0) return end_of_program{128 + signal, signal};
  return std::nullopt;
}

end_of_program init(invocation& call, quorum_command_options const& options) {
  members m(call.use_members());
  auto const ended = until_interrupted([&](std::stop_token stop) {
    auto const all = m.all().status();
    bool const some_wait = std::any_of(all.begin(), all.end(), [](quorum_member_info const& one) {
      return !one.quorum_id.empty() && !one.votes;
    });
    if (some_wait && quorum_votes(all) > 0)
      say("this takes as long as the longest ttl: some vote already, and grants that the "
          "other databases have forgotten must not be trusted any more");
    m.all().init(options.max_ttl.value_or(1min), std::move(stop));
  });
  return ended ? *ended : show(call, m.all().status());
}

end_of_program join(invocation& call, quorum_command_options const& options) {
  call.urls.push_back(options.joins);
  auto const each = call.use_members();
  members m(each);
  auto const ended = until_interrupted([&](std::stop_token stop) {
    say("joining takes as long as the longest ttl: what was granted before must not be trusted any more");
    m.all().join(each.size() - 1, options.replaces, std::move(stop));
  });
  return ended ? *ended : show(call, m.all().status());
}

end_of_program drop(invocation& call, quorum_command_options const& options) {
  if (!options.force)
    throw failure(
        exit_usage,
        "no lock of this quorum could be had or kept any more; if you mean that: rowlock quorum drop "
        "--force");
  members m(call.use_members());
  auto const gone = m.all().drop();
  fmt::print("{} of {} databases belong to no quorum any more.\n", gone.done, m.size());
  for (auto const& one : gone.troubles) say("could not be asked: " + printable(one));
  return {};
}

constexpr char const* quorum_footer = R"(
A lock that a majority of three or more independent databases grants: any single one of them may fail. Use it rarely: when
no one database may be trusted to stay, and what the lock protects is elsewhere. Where the data is in a database, a lock in
that database is safer, and costs half or less.

  init     once: makes these databases the members of a quorum
  status   which of them vote, in which epoch, and what is wrong
  join     a member that was wiped, restored from a backup, or is new: has it vote again
  drop     ends the quorum

A member that has forgotten what it granted must not vote before it has joined: `restore` a backup, then join, then start
programs. join waits for the longest ttl (--max-ttl), and costs no lock that a majority of the others has. So does an init that
goes on where a former one was cut off, if a member votes by then.

Examples:
  rowlock --db postgresql://a/app migrate up                     and the same for each of the others
  rowlock quorum init --db postgresql://a/app --db mysql://b/app --db sqlite:/srv/c.db --max-ttl 1m
  rowlock run nightly --db postgresql://a/app --db mysql://b/app --db sqlite:/srv/c.db -- ./backup.sh
  rowlock quorum status --db postgresql://a/app --db mysql://b/app --db sqlite:/srv/c.db
  rowlock quorum join sqlite:/srv/c.db --db postgresql://a/app --db mysql://b/app

Exit status: 0 done (status: a majority votes); 1 status: too few vote; 64, 69, 70, 71, 74, 77, 78 as for all commands
(rowlock --help).)";

}  // namespace

void add_quorum(CLI::App& app, invocation& call) {
  auto const options = std::make_shared<quorum_command_options>();
  auto* group = app.add_subcommand("quorum", "Locks that a majority of several databases grants");
  group->fallthrough();
  group->require_subcommand(1, 1);
  group->footer(quorum_footer);
  auto const add = [&](char const* name, char const* help, auto what) {
    auto* command = group->add_subcommand(name, help);
    command->fallthrough();
    command->footer(
        fmt::format("\nExample:\n  rowlock quorum {}{} --db postgresql://a/app --db mysql://b/app{}\n\nMore: "
                    "rowlock quorum "
                    "--help",
                    name, std::string_view(name) == "join" ? " sqlite:/srv/c.db" : "",
                    std::string_view(name) == "join" ? "" : " --db sqlite:/srv/c.db"));
    command->callback(
        [&call, options, what] { call.chosen = [&call, options, what] { return what(call, *options); }; });
    return command;
  };
  auto* first = add("init", "Makes the databases of all --db the members of a quorum", init);
  add_duration(*first, "--max-ttl", options->max_ttl,
               "The longest ttl of all its locks, 1s to 1h; join waits for so long; default: 1m");
  add("status", "Says which members vote, and what is wrong",
      [](invocation& c, quorum_command_options const&) {
        members m(c.use_members());
        return show(c, m.all().status());
      });
  auto* last = add("join", "Has the database URL vote again, or instead of one that is gone", join);
  last->add_option("URL", options->joins, "The member that joins; --db: all others")->required();
  last->add_option(
          "--replaces", options->replaces,
          "ID of the member whose place it takes, where that can't be told: see quorum status --json")
      ->type_name("ID");
  add("drop", "Ends the quorum: its members vote no more", drop)
      ->add_flag("--force", options->force, "You mean it");
}

}  // namespace rowlock::tool
