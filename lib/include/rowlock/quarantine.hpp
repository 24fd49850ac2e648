#pragma once
// For operators: a freeze, in which a database grants nothing, and the quarantine after it may have forgotten
// locks. lib/doc/quarantine.md

#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// No freeze is longer.
inline constexpr std::chrono::milliseconds longest_freeze = std::chrono::hours(24 * 365);

struct quarantine_options {
  std::string table_prefix = "rowlock_";
  std::string schema{};
  std::chrono::milliseconds reply_timeout{10'000};
};

struct quarantine_state {
  /// Whether the database grants nothing for a time after it may have forgotten locks.
  bool enabled = true;
  /// How much longer an operator has frozen the database. 0: not.
  std::chrono::milliseconds frozen{0};
  /// Until it grants locks. 0: now. Empty: a quarantine begins with the first process that asks for a lock.
  std::optional<std::chrono::milliseconds> left{0};
};

/// A session whose transaction or statement began before a freeze, and can still be granted a lock.
struct session_in_the_way {
  std::int64_t session = 0;  ///< its number in the server. 0: none any more (a prepared transaction)
  std::string application;   ///< or user and host, as far as the server tells
  std::chrono::milliseconds age{0};
};

struct freeze_options : quarantine_options {
  std::chrono::milliseconds duration = longest_freeze;
  /// The database is not what it was: a backup, or a disk's snapshot, was put back. Tokens rise by an hour,
  /// in microseconds, watched terms count anew, and a quarantine follows the freeze.
  bool restored = false;
  /// How long to wait until the freeze is in force.
  std::chrono::milliseconds timeout{60'000};
  /// Called while the freeze waits for these.
  std::function<void(std::vector<session_in_the_way> const&)> on_wait{};
};

struct freeze_result {
  /// Nothing is granted from here on. Else `in_the_way` can still be granted a lock; the freeze stays.
  bool in_force = false;
  std::vector<session_in_the_way> in_the_way{};
};

/// From here on the database grants nothing, until the freeze is over or thaw(). Holders renew and release.
/// A second freeze replaces the first. In a cluster it waits only for the sessions of its own server.
///
/// Needs the rights of the tables' owner, and to see the server's other sessions.
/// Exception safety: after an error the freeze can have been set, and is not known to be in force.
/// @throws error errc::unsupported if this database has no quarantine; errc::access_denied if this account
/// can't see the server's other sessions; errc::failed if the freeze ended before it was in force, or (MySQL,
/// MariaDB) if others asked information_schema.innodb_trx all the time, so that it told nothing new
ROWLOCK_EXPORT freeze_result freeze(connection_source const&, freeze_options const& = {},
                                    std::stop_token = {});

/// Ends a freeze. The database grants at once, unless it may have forgotten locks meanwhile. @throws error
ROWLOCK_EXPORT quarantine_state thaw(connection_source const&, quarantine_options const& = {});

/// Turns the quarantine off or on. Off: after a failover or a crash the database grants at once, and two
/// processes can own one lock for up to its ttl. This also ends a quarantine that runs. @throws error
ROWLOCK_EXPORT quarantine_state enable_quarantine(connection_source const&, bool enabled,
                                                  quarantine_options const& = {});

/// Changes nothing. @return empty if this database has no quarantine. @throws error
ROWLOCK_EXPORT std::optional<quarantine_state> look_at_quarantine(connection_source const&,
                                                                  quarantine_options const& = {});

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
