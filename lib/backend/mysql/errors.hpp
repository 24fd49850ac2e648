#pragma once
// MySQL's error numbers as rowlock::error.

#include <rowlock/error.hpp>
#include <string>
#include <string_view>

#include "backend/mysql/channel.hpp"

namespace rowlock::backend::mysql {

/// The possible effect of a failed call.
enum class stake {
  nothing,    ///< connecting, preparing: without a reply nothing happened
  statement,  ///< without a reply the outcome is unknown
  commit,     ///< COMMIT: also unknown after any error that does not mean "rolled back"
};

/// `native`: the server's or the client library's number; 0: a misuse of the driver.
errc classify(int native, std::string_view message, stake) noexcept;

/// Whether the session is over, whatever the statement's outcome.
bool ends_session(int native) noexcept;

/// Whether the server has forgotten the statement, and done nothing.
bool is_forgotten(int native) noexcept;
bool is_unpreparable(int native) noexcept;

/// `where`: the database. `why_ended`: of a session that rowlock ended, for the end of the message.
error statement_error(refusal const&, stake, std::string const& statement, std::string const& where,
                      std::string const& why_ended = "");

error connect_error(refusal const&, std::string const& where, std::string const& why_ended = "");

}  // namespace rowlock::backend::mysql
