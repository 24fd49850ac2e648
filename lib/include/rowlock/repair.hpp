#pragma once
// For a name that can't be taken any more because another program, or a person, has written to rowlock's
// tables.

#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// A higher fencing token leaves no room for the next ones. No take gets there: tokens begin with the
/// microseconds since 1970, and rise by one.
inline constexpr std::int64_t highest_usable_token = INT64_MAX - 64;

enum class repair_result {
  nothing,   ///< the name's tokens are usable, and nothing was changed
  repaired,  ///< the name can be taken, and its tokens begin anew
  held,      ///< the name may have a holder, and nothing was changed. Revoke it first (revoke_mode::now)
};

struct repair_options {
  std::string table_prefix = "rowlock_";
  std::string schema{};
  std::chrono::milliseconds reply_timeout{10'000};
};

/// Repairs a name without a holder whose fencing token is above highest_usable_token. Its tokens begin anew,
/// above the clock and above the reaper's floor for all names. Only here a name's token falls: a receiver
/// that has seen the high one must forget it. The name's tokens of transaction::admit() in this database are
/// forgotten. Needs the rights of the tables' owner.
///
/// Thread safety: may run beside anything. A name that is taken meanwhile is `held`.
/// @throws error errc::row_locked if a transaction has the name's row locked.
ROWLOCK_EXPORT repair_result repair(connection_source const&, std::string const& name,
                                    repair_options const& = {});

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
