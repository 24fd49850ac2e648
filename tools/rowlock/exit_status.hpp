#pragma once

#include <rowlock/error.hpp>

#include <stdexcept>
#include <string>
#include <string_view>

namespace rowlock::tool {

/// What rowlock ends with, beside 0 and what `run`'s command ended with. After <sysexits.h> where it has a
/// name for it.
enum exit_status : int {
  exit_ok = 0,
  exit_none = 1,          ///< what was asked for is not there: leader
  exit_usage = 64,        ///< EX_USAGE
  exit_unreachable = 69,  ///< EX_UNAVAILABLE
  exit_bug = 70,          ///< EX_SOFTWARE
  exit_system = 71,       ///< EX_OSERR: no more files, processes or memory, or no /proc
  exit_output = 74,       ///< EX_IOERR: what was to be printed could not be written
  exit_busy = 75,         ///< EX_TEMPFAIL: held by somebody else, or timed out
  exit_lost = 76,         ///< the lock was lost while the command ran
  exit_refused = 77,      ///< EX_NOPERM
  exit_setup = 78,        ///< EX_CONFIG: tables or database file missing or wrong, another strategy
  exit_not_executable = 126,
  exit_not_found = 127,
};

/// An end with a message and a status that no errc stands for.
class failure : public std::runtime_error {
 public:
  failure(exit_status status, std::string const& message) : std::runtime_error(message), status_(status) {}
  exit_status status() const noexcept { return status_; }

 private:
  exit_status status_;
};

/// The one place where errors of the library become exit statuses.
exit_status status_of(errc) noexcept;
/// The same, by what the server said where it refused a statement for reasons of its own.
exit_status status_of(error const&) noexcept;

/// The message without what std::system_error adds to it, which only repeats it in general words; and with
/// `options` (see below) in each rowlock command that it names, as `rowlock migrate up`.
std::string message_of(error const&, std::string const& options);

/// What the user can do about it, as one sentence or more; or nothing, where the message says it, as that of
/// tables that are missing or old does. `options`: what has to be added to a rowlock command so that it means
/// the same database and tables (" --db sqlite:x"), or "".
std::string advice_for(error const&, std::string const& options);
/// The same of errc::failed, on any database.
std::string advice_for_refused(error const&);
/// The same for a database that is a file, with no server behind it and no login.
std::string advice_for_file(error const&, std::string const& options);

}  // namespace rowlock::tool
