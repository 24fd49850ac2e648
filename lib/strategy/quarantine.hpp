#pragma once
// The quarantine: after a database may have forgotten grants (a failover to a standby that lagged, a crash
// without a flush) it grants nothing until the longest of them is over. lib/doc/quarantine.md
//
// The condition is part of each statement that grants. So a take costs no round trip more. What is here comes
// when a statement was refused although no process holds the lock.

#include <chrono>
#include <optional>
#include <rowlock/error.hpp>
#include <string>

#include "strategy/term_rows.hpp"

namespace rowlock::strategies {

/// A longer lease does not make it longer.
inline constexpr std::chrono::milliseconds longest_quarantine = std::chrono::minutes(5);

struct quarantine {
  /// Until the database grants leases of the ttl that was asked for. 0: it grants them now.
  std::chrono::milliseconds left{0};
  /// A pulse was written: a take that was refused can be repeated.
  bool changed = false;
  /// An operator has frozen the database.
  bool frozen = false;
};

/// "the database is frozen by an operator, and grants nothing for 5 s", without a full stop.
std::string reason_of(quarantine const&);

/// Lets this incarnation of the database grant leases of `ttl`, as far as that is allowed.
quarantine settle_quarantine(backend::connection&, backend::statement_book const&,
                             std::chrono::milliseconds ttl, boot_time_point deadline);

/// For calls that have no status to say it.
error refused_in_quarantine(std::string const& name, quarantine const&);

/// Of a row that a waiter watches: a watch counts within one incarnation of the database.
/// @return empty if the row has changed since, or no incarnation has begun
std::optional<std::int64_t> incarnation_of(backend::connection&, backend::statement_book const&,
                                           name_and_term const&, std::int64_t renewals,
                                           boot_time_point deadline);

/// Before a lease is prolonged by more than it was taken for.
void raise_reach(backend::connection&, backend::statement_book const&, std::chrono::milliseconds ttl,
                 boot_time_point deadline);

}  // namespace rowlock::strategies
