#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <rowlock/quarantine.hpp>
#include <span>
#include <string>
#include <vector>

#include "database.hpp"

namespace rowlock::tool {

/// How the program ends: with a status, or by the signal that its command died of.
struct end_of_program {
  int status = 0;
  std::optional<int> signal;
};

/// What is common to all commands, filled in while the command line is read.
struct invocation {
  std::vector<std::string> urls;  ///< one for each --db
  std::string password_file;
  std::string table_prefix = "rowlock_";
  std::string schema;
  bool json = false;
  std::vector<std::string> command;        ///< what came after the first "--"
  bool has_command = false;                ///< there was a "--"
  std::span<char> command_line;            ///< all of it, where it lies in memory
  std::vector<std::string> words;          ///< of it, the program's name first
  std::function<end_of_program()> chosen;  ///< what to do, set by the command that was named
  std::optional<database> db;              ///< once it was chosen

  /// What a command does if no database is named, by --db or ROWLOCK_DB: then it is a file of this host.
  enum class unnamed {
    told,     ///< says which file it is, and goes on
    refused,  ///< does nothing: whoever means another database must not believe that it was done there
    silent,   ///< goes on: the command has words of its own for it
  };
  /// For a command that works on one database. @throws failure(exit_usage) if several were given, or none and
  /// that is refused
  database const& use_database(unnamed = unnamed::told);
  /// Whether several were given: the members of a quorum.
  bool has_members() const noexcept { return urls.size() > 1; }
  /// The password file is for those that can have one. @throws failure(exit_usage) if none of them can
  std::vector<database> use_members() const;
};

/// Each adds one command, with its help, to the program. `invocation` must outlive the App.
void add_run(CLI::App&, invocation&);
void add_list(CLI::App&, invocation&);
void add_top(CLI::App&, invocation&);
void add_take(CLI::App&, invocation&);
void add_renew(CLI::App&, invocation&);
void add_release(CLI::App&, invocation&);
void add_once(CLI::App&, invocation&);
void add_lead(CLI::App&, invocation&);
void add_leader(CLI::App&, invocation&);
void add_quorum(CLI::App&, invocation&);
void add_reap(CLI::App&, invocation&);
void add_freeze(CLI::App&, invocation&);
void add_thaw(CLI::App&, invocation&);
void add_quarantine(CLI::App&, invocation&);
void add_doctor(CLI::App&, invocation&);
void add_repair(CLI::App&, invocation&);
void add_grants(CLI::App&, invocation&);
void add_migrate(CLI::App&, invocation&);
void add_version(CLI::App&, invocation&);

/// An option that takes a duration; errors name it and say what it understands.
CLI::Option* add_duration(CLI::App&, std::string const& names, std::optional<std::chrono::milliseconds>& to,
                          std::string const& help);

/// For commands that take a lock. @throws failure(exit_usage) for a name that rowlock keeps for itself
void refuse_reserved(std::string_view name);

/// As look_at_quarantine() has it.
std::optional<quarantine_state> quarantine_of(database const&);
/// Why the database grants nothing, or that the quarantine is off. Empty: neither.
std::string quarantine_in_words(quarantine_state const&);

/// A line of `rowlock: ...` on stderr, control characters made harmless.
void say(std::string_view message);

/// Calls the function. An exception becomes a message on stderr and the exit status for it.
end_of_program reported(invocation const&, std::function<end_of_program()> const& what);

/// Says that stdout could not be written, and `more`; drops what was still to be written. `error`: an errno,
/// or 0 if it is not known.
end_of_program output_failed(int error, std::string_view more = {});

/// To be called once, at the very end: flushes stdout, and if that fails or has failed before says so on
/// stderr. @return `end`, in that case with a status other than 0
end_of_program output_written(end_of_program end);

/// Runs the program. @return how it ends
end_of_program run_program(int argc, char** argv);

}  // namespace rowlock::tool
