#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <rowlock/rowlock.hpp>

#include "cli.hpp"
#include "exit_status.hpp"
#include "text.hpp"

namespace rowlock::tool {
namespace {

struct migrate_options {
  std::optional<int> from, to;
  bool force = false;
  bool forget_tokens = false;
  std::optional<std::chrono::milliseconds> timeout;
};

migrator make_migrator(invocation& call, migrate_options const& options) {
  auto const& db = call.use_database();
  migrator_options o;
  o.table_prefix = db.table_prefix;
  o.schema = db.schema;
  if (options.timeout) o.timeout = *options.timeout;
  if (!call.json) o.progress = [](std::string_view step) { say(step); };
  return migrator(source_from_url(db.url), o);
}

void print_json(nlohmann::ordered_json const& out) {
  fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_versions(invocation const& call, char const* what, std::vector<int> const& versions) {
  if (call.json) {
    print_json({{what, versions}});
  } else if (versions.empty()) {
    fmt::print("Nothing to do.\n");
  } else {
    fmt::print("{}: {}\n", what, fmt::join(versions, ", "));
  }
}

end_of_program up(invocation& call, migrate_options const& options) {
  make_folder(call.use_database());
  private_if_standard const mode(call.use_database());
  print_versions(call, "applied", make_migrator(call, options).up(options.to));
  return {};
}

end_of_program down(invocation& call, migrate_options const& options) try {
  print_versions(call, "undone",
                 make_migrator(call, options).down(*options.to, options.force, options.forget_tokens));
  return {};
} catch (error const& e) {
  if (e.reason() != errc::row_locked) throw;
  throw failure(exit_busy, message_of(e, call.use_database().options()));
}

nlohmann::ordered_json status_json(migration_status const& m) {
  nlohmann::ordered_json out{{"version", m.version},  {"name", m.name},
                             {"applied", m.applied},  {"adopted", m.adopted},
                             {"applied_at", nullptr}, {"checksum_differs", m.checksum_differs}};
  if (m.applied_at) out["applied_at"] = *m.applied_at;
  return out;
}

std::string state_of(migration_status const& m) {
  if (!m.applied) return "missing";
  if (m.checksum_differs) return "applied, from another text";
  return m.adopted ? "applied, not recorded" : "applied";
}

end_of_program status(invocation& call, migrate_options const& options) {
  auto const all = make_migrator(call, options).status();
  if (call.json) {
    auto out = nlohmann::ordered_json::array();
    for (auto const& m : all) out.push_back(status_json(m));
    print_json(out);
    return {};
  }
  std::vector<std::vector<std::string>> rows{{"VERSION", "NAME", "STATE", "APPLIED-AT"}};
  for (auto const& m : all)
    rows.push_back(
        {std::to_string(m.version), printable(m.name), state_of(m), printable(m.applied_at.value_or(""))});
  fmt::print("{}", table(rows, may_colour(STDOUT_FILENO)));
  return {};
}

/// Lines, or JSON with the lines under `key`.
void print_lines(invocation const& call, char const* key, std::vector<std::string> const& lines,
                 char const* none) {
  if (call.json) return print_json({{key, lines}});
  for (auto const& line : lines) fmt::print("{}\n", printable(line));
  if (lines.empty()) fmt::print("{}\n", none);
}

/// What helps against these, which name the command where one does. Neither has anything to do as long as
/// tables are not as they should be.
std::string way_out(std::vector<std::string> const& problems, std::string const& options) {
  auto const any = [&](auto const& matches) {
    return std::any_of(problems.begin(), problems.end(), matches);
  };
  auto const mention = [&](std::string_view words) {
    return any([&](std::string const& p) { return p.find(words) != p.npos; });
  };
  auto const by_hand = [](std::string const& p) {
    return p.find("`rowlock") == p.npos && p.find("newer rowlock") == p.npos;
  };
  if (any(by_hand))
    return fmt::format("Correct it by hand: rowlock migrate sql{} prints what should be there", options);
  std::vector<std::string> commands;
  for (auto const* what : {"migrate up", "migrate repair"})
    if (mention(fmt::format("`rowlock {}`", what)))
      commands.push_back(fmt::format("rowlock {}{}", what, options));
  return commands.empty() ? "Use a newer rowlock"
                          : fmt::format("To correct it: {}", fmt::join(commands, "; "));
}

end_of_program validate(invocation& call, migrate_options const& options) {
  auto const problems = make_migrator(call, options).validate();
  print_lines(call, "problems", problems, "All is well.");
  if (problems.empty()) return {};
  say(way_out(problems, call.use_database().options()));
  return {exit_setup, {}};
}

end_of_program repair(invocation& call, migrate_options const& options) {
  print_lines(call, "repaired", make_migrator(call, options).repair(), "Nothing to do.");
  return {};
}

end_of_program sql(invocation& call, migrate_options const& options) {
  auto const m = make_migrator(call, options);
  fmt::print("{}", m.sql(options.from.value_or(0), options.to.value_or(m.latest())));
  return {};
}

using action = end_of_program (*)(invocation&, migrate_options const&);

CLI::App* add_action(CLI::App& migrate, invocation& call, std::shared_ptr<migrate_options> const& options,
                     char const* name, char const* help, action what) {
  auto* command = migrate.add_subcommand(name, help);
  command->fallthrough();
  command->callback(
      [&call, options, what] { call.chosen = [&call, options, what] { return what(call, *options); }; });
  return command;
}

CLI::Option* add_number(CLI::App* command, char const* name, std::optional<int>& to, char const* help) {
  return command->add_option(name, to, help)->type_name("VERSION")->check(CLI::Range(0, 999));
}

}  // namespace

void add_migrate(CLI::App& app, invocation& call) {
  auto const options = std::make_shared<migrate_options>();
  auto* migrate = app.add_subcommand("migrate", "Makes and changes rowlock's tables in a database");
  migrate->fallthrough();
  migrate->require_subcommand(1, 1);
  add_duration(*migrate, "--timeout", options->timeout,
               "How long to go on trying while other transactions are in the way; default: 60s");
  migrate->footer(R"(
Locks can be taken meanwhile; on the way down who takes or renews one waits. (On Galera stop the programs before you go down.)
Any number of processes may do this at once. The SQL can also be applied by another tool (rowlock migrate sql | psql ...), which
is recognized.

Examples:
  rowlock migrate up --db sqlite:/srv/locks.db       makes the file, too
  rowlock migrate status --db postgresql://db.example.org/app --schema locks
  rowlock migrate sql --from 1 >upgrade.sql

Exit status: 0 done, or there was nothing to do; 75 others were in the way until --timeout, or `down` while locks are held;
78 the tables are not what they should be, also where `validate` finds something; 64, 69, 70, 71, 74, 77 as for all commands
(rowlock --help).)");

  auto* up_command = add_action(*migrate, call, options, "up", "Applies what is missing", &up);
  add_number(up_command, "--to", options->to, "Only up to this version");
  auto* down_command =
      add_action(*migrate, call, options, "down", "Goes back to a version; 0 removes everything", &down);
  add_number(down_command, "--to", options->to, "The version to go back to")->required();
  down_command->add_flag("--force", options->force, "Go down although locks are held");
  down_command->add_flag(
      "--forget-tokens", options->forget_tokens,
      "Allow --to 0 although fencing tokens were drawn: later tokens may be lower; and less than 8 "
      "although some were admitted: holders that lost a quorum's lock may be let in again");
  add_action(*migrate, call, options, "status", "Shows which versions are applied", &status);
  add_action(*migrate, call, options, "validate",
             "Says what is wrong with the tables, if anything (then ends with 78)", &validate);
  add_action(*migrate, call, options, "repair", "Makes rowlock's records of the tables agree with the tables",
             &repair);
  auto* sql_command =
      add_action(*migrate, call, options, "sql", "Prints the SQL from one version to another", &sql);
  add_number(sql_command, "--from", options->from, "default: 0, nothing");
  add_number(sql_command, "--to", options->to, "default: the newest; lower than --from prints the way down");
}

}  // namespace rowlock::tool
