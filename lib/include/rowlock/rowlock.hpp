#pragma once
// Everything that was built, with the constructor from a URL. Target rowlock::rowlock.

#include <rowlock/doctor.hpp>
#include <rowlock/election.hpp>
#include <rowlock/error.hpp>
#include <rowlock/export.hpp>
#include <rowlock/lock_manager.hpp>
#include <rowlock/metrics.hpp>
#include <rowlock/migrator.hpp>
#include <rowlock/once.hpp>
#include <rowlock/quorum.hpp>
#include <rowlock/reaper.hpp>
#include <rowlock/repair.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// The back end's source for a URL: "sqlite:PATH", "postgresql://..." or "postgres://...", "mysql://..." or
/// "mariadb://...", or a libpq keyword string (contains '='). @throws error(errc::invalid_argument) naming
/// what is understood, or errc::unsupported if the back end was not built in.
ROWLOCK_EXPORT connection_source source_from_url(std::string_view url);

/// What a database URL says without anybody connecting; for programs that take one from their user.
struct url_info {
  std::string back_end;  ///< "sqlite", "postgresql", "mysql"
  bool is_file = false;  ///< what follows the scheme is a path of this machine's
  bool has_password =
      false;  ///< whoever reads the URL learns a password: not for a command line, which all can read (ps)
  bool takes_password_file = false;  ///< "password-file=PATH" may be added to its query
  std::string passwords{};           ///< where a password may be instead, for people; empty if there are none
};

/// @throws error(errc::invalid_argument) as source_from_url(); a back end that was not built in is no error
/// here
ROWLOCK_EXPORT url_info describe_url(std::string_view url);

struct back_end {
  std::string name;     ///< as url_info::back_end
  std::string example;  ///< a URL that source_from_url() understands
};
/// Those that were built in.
ROWLOCK_EXPORT std::vector<back_end> back_ends();

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
