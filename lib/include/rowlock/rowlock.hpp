#pragma once
// All back ends that were built, with the constructor from a URL. Target rowlock::rowlock.

#include <rowlock/doctor.hpp>
#include <rowlock/election.hpp>
#include <rowlock/error.hpp>
#include <rowlock/export.hpp>
#include <rowlock/lock_manager.hpp>
#include <rowlock/metrics.hpp>
#include <rowlock/migrator.hpp>
#include <rowlock/once.hpp>
#include <rowlock/quarantine.hpp>
#include <rowlock/quorum.hpp>
#include <rowlock/reaper.hpp>
#include <rowlock/repair.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// The back end's source for a URL, as for the constructor of lock_manager. A text with '=' is a libpq
/// keyword string.
/// @throws error errc::invalid_argument with the supported URLs; errc::unsupported if the back end was not
/// built in
ROWLOCK_EXPORT connection_source source_from_url(std::string_view url);

/// The parts of a database URL, without a connection, for programs that take a URL from their user.
struct url_info {
  std::string back_end;       ///< "sqlite", "postgresql", "mysql"
  bool is_file = false;       ///< the part after the scheme is a path on this machine
  bool has_password = false;  ///< contains a password. Not for a command line, which all users can read (ps)
  bool takes_password_file = false;  ///< its query may have "password-file=PATH"
  std::string passwords{};           ///< the other places for a password, for people. Empty if there are none
};

/// @throws error(errc::invalid_argument) as source_from_url(), but accepts back ends that were not built in
ROWLOCK_EXPORT url_info describe_url(std::string_view url);

struct back_end {
  std::string name;     ///< as url_info::back_end
  std::string example;  ///< a URL that source_from_url() understands
};
/// The back ends that were built in.
ROWLOCK_EXPORT std::vector<back_end> back_ends();

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
