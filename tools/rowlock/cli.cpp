#include "cli.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdio_ext.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <rowlock/error.hpp>
#include <rowlock/version.hpp>
#include <system_error>

#include "command_words.hpp"
#include "duration.hpp"
#include "exit_status.hpp"
#include "process/command_line.hpp"
#include "process/limits.hpp"
#include "text.hpp"

namespace rowlock::tool {
namespace {

constexpr char const* about = "Locks for programs on many hosts, from the SQL database they already have.";

constexpr char const* footer = R"(
Examples:
  rowlock --db local run nightly -- ./backup.sh      one at a time, on this machine
  rowlock --db postgresql://db.example.org/app run nightly -- ./backup.sh
                                                     one at a time, on all machines
  rowlock run --no-wait nightly -- ./backup.sh       or not at all, if it runs already
  rowlock lead scheduler -- ./scheduler              on one host, and if that dies on the next
  rowlock once report-2026-11 --for 30d -- ./report.sh
                                                     unless it was done before
  rowlock list                                       who holds what
  rowlock --db sqlite:/srv/locks.db migrate up       make the tables in a database
  rowlock doctor                                     will locks work on that database?
  rowlock reap                                       once a day: delete rows that are no longer needed
  rowlock quorum --help                              a lock that outlives the loss of any one database

Databases (--db URL, or the environment variable ROWLOCK_DB; --db may stand before or after the command):
  sqlite:PATH[?synchronous=full]      a file on this machine (full: each take survives a power cut, also of a lock whose
                                      holder ends with the machine; slower)
  postgresql://[USER@]HOST[:PORT]/DB  or any libpq keyword string: "host=... dbname=... user=..."
  mysql://[USER@]HOST[:PORT][,HOST...]/DB[?ssl-mode=verify&ssl-ca=PATH]     MySQL, or MariaDB
  local, or neither                   ~/.local/state/rowlock/locks.db (under $XDG_STATE_HOME), made when first used: for
                                      this host and user only. Unless you name local, rowlock says so; reap, doctor and
                                      release --force do nothing then
  Passwords: PGPASSWORD, ~/.pgpass, a service file; --password-file, MYSQL_PWD, ~/.my.cnf; or in ROWLOCK_DB; never on the
  command line.

Exit status:
  0    done (run, lead: the command's own status; once: done now, or before)
  1    leader: nobody leads; doctor: there is an error; quorum status: too few vote
  64   the command line is wrong; run: it was started under the very lock that it asks for
  69   the database can't be reached, cancelled a statement, or has run out of something
  70   a bug of rowlock's; run: its guardian was killed
  71   this machine gives no more files, processes or memory; run: /proc is missing
  74   the output could not be written (a full disk)
  75   held by somebody else, or timed out
  76   the lock was lost while the command ran, or its --hard-limit was reached; renew, release --term: it was lost before
  77   the database refused the login
  78   tables or database file missing or wrong, a trigger not of rowlock's in the way, or the name has another strategy
  126  run: the command can't be executed; 127: it was not found; 128+N: it died of signal N

More about one command: rowlock COMMAND --help)";

void add_common(CLI::App& app, invocation& call) {
  app.add_option("--db", call.urls,
                 "Database to use, or local; default: $ROWLOCK_DB, then local. Three or more: a quorum")
      ->type_name("URL")
      ->allow_extra_args(false);
  app.add_option("--password-file", call.password_file,
                 "File whose first line is the password (MySQL, MariaDB), or a pipe, where it must come "
                 "within 10 s")
      ->type_name("PATH");
  app.add_option("--table-prefix", call.table_prefix, "Beginning of the tables' names; default: rowlock_")
      ->type_name("PREFIX");
  app.add_option("--schema", call.schema, "Schema of the tables; default: by the search path")
      ->type_name("SCHEMA");
  app.add_flag("--json", call.json, "Print data as JSON");
}

/// The arguments without the program's name, as CLI11 wants them: last one first. What is behind the first
/// "--" (the second, where the first is before NAME), and the command of `run`, `lead` or `once` without one,
/// is not for CLI11, which would take [x,y] apart and drop [].
std::vector<std::string> split(int argc, char** argv, CLI::App const& app, invocation& call) {
  std::vector<std::string> const all(argv + std::min(argc, 1), argv + argc);
  auto const bare = bare_command(app, all);
  auto begin = all.begin();
  if (auto const name = name_behind_dashes(app, all))  // CLI11 sees the first "--" as well, and what it means
    begin += static_cast<std::ptrdiff_t>(*name);
  auto const dashes = std::find(begin, all.end(), "--");
  auto const end = bare ? all.begin() + static_cast<std::ptrdiff_t>(*bare) : dashes;
  call.has_command = end != all.end();
  if (call.has_command) call.command.assign(bare ? end : end + 1, all.end());
  return {std::make_reverse_iterator(end), all.rend()};
}

/// The command whose subcommand is missing or unknown, if that is what is wrong: CLI11 only says that one is
/// required.
CLI::App const* lacks_command(CLI::App const& app) {
  auto const* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return at->get_require_subcommand_min() > 0 ? at : nullptr;
}

std::string wrong_command(CLI::App const& app, CLI::App const& at) {
  std::vector<std::string> names;
  for (auto const* one : at.get_subcommands([](CLI::App const*) { return true; }))
    names.push_back(one->get_name());
  auto const given = app.remaining(true);
  if (given.empty()) return fmt::format("the command is missing: {}", fmt::join(names, ", "));
  return fmt::format("there is no command '{}'; did you mean {}? There are: {}", given.front(),
                     nearest(given.front(), names), fmt::join(names, ", "));
}

end_of_program usage_error(CLI::App const& app, std::string const& message) {
  std::string command = "rowlock";
  for (auto const* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    command += ' ' + at->get_name();
  }
  say(message);
  say(fmt::format("see: {} --help", command));
  return {exit_usage, {}};
}

end_of_program report_error(error const& e, invocation const& call) {
  auto options = call.db ? call.db->options() : std::string();
  if (call.has_members())
    for (auto const& url : call.urls) options += " --db " + shell_word(url);
  bool const is_file = call.db && call.db->is_file();
  auto const advice = e.reason() == errc::failed ? advice_for_refused(e)
                      : is_file                  ? advice_for_file(e, options)
                                                 : advice_for(e, options);
  auto const message = message_of(e, options);
  say(advice.empty() ? message : fmt::format("{}. {}", message, advice));
  return {status_of(e), {}};
}

/// For exceptions of the standard library that mean that no file, thread or memory is left.
std::optional<std::string> limit_reached(std::exception const& e) {
  if (dynamic_cast<std::bad_alloc const*>(&e) != nullptr) return limit_behind(ENOMEM);
  auto const* refused = dynamic_cast<std::system_error const*>(&e);
  bool const by_system = refused != nullptr && (refused->code().category() == std::generic_category() ||
                                                refused->code().category() == std::system_category());
  return by_system ? limit_behind(refused->code().value()) : std::nullopt;
}

/// For a call of the operating system that is forbidden here. The standard library does not name its own,
/// which start threads.
std::optional<std::string> forbidden(std::exception const& e) {
  auto const* refused = dynamic_cast<std::system_error const*>(&e);
  if (refused == nullptr) return std::nullopt;
  auto const code = refused->code().value();
  if (code != EPERM && code != EACCES && code != ENOSYS) return std::nullopt;
  std::string const what = e.what();
  bool const named = what.find(": ") != what.npos;
  return fmt::format(
      "{}{}. The system forbids this program a call that it needs: see the seccomp profile of the "
      "container or unit (SystemCallFilter=)",
      named ? "" : "a thread could not be started: ", what);
}

end_of_program not_written(int error, end_of_program end, std::string_view more = {}) {
  say(fmt::format("the output could not be written{}{}",
                  error == 0 ? std::string() : fmt::format(": {}", std::strerror(error)), more));
  if (end.status == exit_ok) end.status = exit_output;
  return end;
}

/// CLI11's own, and what it can't say: that the command that is run comes after "--".
class formatter : public CLI::Formatter {
 public:
  std::string make_usage(CLI::App const* app, std::string name) const override {
    auto text = CLI::Formatter::make_usage(app, std::move(name));
    if (runs_a_command(app->get_name()))
      text.insert(text.find_last_not_of('\n') + 1, " -- COMMAND [ARGUMENTS]");
    return text;
  }
  std::string make_footer(CLI::App const* app) const override {
    auto text = CLI::Formatter::make_footer(app);
    if (app->get_parent() != nullptr)
      text += "\nAlso: --db URL, --password-file, --table-prefix, --schema, --json; see rowlock --help\n";
    return text;
  }
};

}  // namespace

database const& invocation::use_database(unnamed if_unnamed) {
  if (has_members())
    throw failure(
        exit_usage,
        "several --db are the members of a quorum, which only run, list, release --force, doctor and "
        "quorum can use: give one");
  std::optional<std::string> url;
  if (!urls.empty()) url = urls.front();
  if (db) return *db;
  auto one = choose_database(url, password_file, table_prefix, schema);
  if (auto const file = unnamed_file(one); !file.empty() && if_unnamed != unnamed::silent) {
    constexpr char const* others = "--db URL, or ROWLOCK_DB";
    if (if_unnamed == unnamed::refused)
      throw failure(exit_usage,
                    fmt::format("no database is named, and nothing was done. Name one: {}; for this "
                                "host's own file, {}: --db local",
                                others, file));
    say(fmt::format(
        "no database is named, so this is about this host's own file, {}. To name one: {}; if you "
        "mean this file: --db local",
        file, others));
  }
  db = std::move(one);
  return *db;
}

std::vector<database> invocation::use_members() const {
  std::vector<database> all;
  bool const for_some = std::any_of(urls.begin(), urls.end(), takes_password_file);
  for (auto const& url : urls) {
    bool const not_for_it = for_some && !takes_password_file(url);
    all.push_back(choose_database(url, not_for_it ? std::string() : password_file, table_prefix, schema));
  }
  return all;
}

CLI::Option* add_duration(CLI::App& app, std::string const& names,
                          std::optional<std::chrono::milliseconds>& to, std::string const& help) {
  auto const read = [&to, names](std::string const& text) {
    to = parse_duration(text);
    if (!to)
      throw CLI::ValidationError(names,
                                 fmt::format("'{}' is not a duration; write {}", text, duration_forms));
  };
  return app.add_option_function<std::string>(names, read, help)->type_name("DURATION");
}

void refuse_reserved(std::string_view name) {
  if (name.starts_with("rowlock."))
    throw failure(
        exit_usage,
        fmt::format("'{}' is a name of rowlock's own: names that begin with rowlock. keep the runs of "
                    "`rowlock reap` apart, and can't be taken. Choose another one",
                    name));
}

void say(std::string_view message) {
  std::string line(message.substr(0, message.find_last_not_of(" \n") + 1));
  std::replace(line.begin(), line.end(), '\n', ' ');  // libpq's messages have several lines
  // Not fmt::print(), which throws if nobody can be told.
  std::fputs(fmt::format("rowlock: {}\n", printable(line)).c_str(), stderr);
}

end_of_program reported(invocation const& call, std::function<end_of_program()> const& what) try {
  return what();
} catch (failure const& e) {
  say(e.what());
  return {e.status(), {}};
} catch (error const& e) {
  return report_error(e, call);
} catch (system_refusal const& e) {
  say(e.what());
  return {exit_system, {}};
} catch (std::exception const& e) {
  if (std::ferror(stdout) != 0) {  // {fmt} throws this
    auto const* why = dynamic_cast<std::system_error const*>(&e);
    return output_failed(why == nullptr ? 0 : why->code().value());
  }
  if (auto const limit = limit_reached(e)) {
    say(*limit);
    return {exit_system, {}};
  }
  if (auto const why = forbidden(e)) {
    say(*why);
    return {exit_system, {}};
  }
  say(fmt::format("{}. This may be a bug of rowlock's: please report it with this message.", e.what()));
  return {exit_bug, {}};
}

end_of_program output_failed(int error, std::string_view more) {
  ::__fpurge(stdout);  // else output_written() would say it again
  std::clearerr(stdout);
  return not_written(error, {}, more);
}

end_of_program output_written(end_of_program end) {
  bool const failed_before = std::ferror(stdout) != 0;
  errno = 0;
  return std::fflush(stdout) == 0 && !failed_before ? end : not_written(errno, end);
}

end_of_program run_program(int argc, char** argv) {
  invocation call;
  call.command_line = memory_of(argc, argv);
  call.words.assign(argv, argv + argc);
  CLI::App app{about, "rowlock"};
  app.formatter(std::make_shared<formatter>());
  app.footer(footer);
  app.require_subcommand(1, 1);
  add_common(app, call);
  // As of any program; the command `version` tells more.
  app.set_version_flag("--version", "rowlock " ROWLOCK_VERSION, "Print this program's version");
  add_run(app, call);
  add_list(app, call);
  add_top(app, call);
  add_take(app, call);
  add_renew(app, call);
  add_release(app, call);
  add_once(app, call);
  add_lead(app, call);
  add_leader(app, call);
  add_quorum(app, call);
  add_reap(app, call);
  add_repair(app, call);
  add_migrate(app, call);
  add_doctor(app, call);
  add_freeze(app, call);
  add_thaw(app, call);
  add_quarantine(app, call);
  add_grants(app, call);
  add_version(app, call);
  return reported(call, [&]() -> end_of_program {
    try {
      app.parse(split(argc, argv, app, call));
    } catch (CLI::Success const& help) {
      app.exit(help);
      return {exit_ok, {}};
    } catch (CLI::ParseError const& e) {
      auto const* const lacking =
          dynamic_cast<CLI::RequiredError const*>(&e) == nullptr ? nullptr : lacks_command(app);
      return usage_error(app, lacking == nullptr ? e.what() : wrong_command(app, *lacking));
    }
    auto const chosen = app.get_subcommands();
    if (call.has_command && !chosen.empty() && !runs_a_command(chosen.front()->get_name()))
      return usage_error(app,
                         "only `rowlock run`, `rowlock lead` and `rowlock once` take a command after --");
    require_room_on_stack();
    require_room_for_files();
    return call.chosen();
  });
}

}  // namespace rowlock::tool
