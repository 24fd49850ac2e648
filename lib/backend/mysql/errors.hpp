#pragma once
// From MySQL's numbers to rowlock::error.

#include <rowlock/error.hpp>
#include <string>
#include <string_view>

#include "backend/mysql/channel.hpp"

namespace rowlock::backend::mysql {

/// What was at stake when something failed.
enum class stake {
  nothing,    ///< connecting, preparing: a lost reply means that nothing happened
  statement,  ///< a lost reply leaves it unknown whether it was applied
  commit,     ///< COMMIT: also unknown after any error that is not known to mean "rolled back"
};

/// `native`: the server's or the client library's number, 0 for a misuse of the driver.
errc classify(int native, std::string_view message, stake) noexcept;

/// True if the session is over, whatever the statement's own outcome was.
bool ends_session(int native) noexcept;

/// True if the server no longer knows the prepared statement, and has done nothing.
bool is_forgotten(int native) noexcept;
/// True if the statement is of a kind that can't be prepared.
bool is_unpreparable(int native) noexcept;

/// A refused statement; `where` says which database. `why_ended`: of a session that we ended, for
/// the end of the message.
error statement_error(refusal const&, stake, std::string const& statement, std::string const& where,
                      std::string const& why_ended = "");

/// A connection that could not be made.
error connect_error(refusal const&, std::string const& where, std::string const& why_ended = "");

}  // namespace rowlock::backend::mysql
