#pragma once
// Ends a held lock by the record that its work is done: lib/doc/once.md.

#include <chrono>
#include <memory>
#include <string>

#include "manager/engine.hpp"

namespace rowlock::managing::recording {

/// @throws error(errc::unsupported) if the strategy keeps no records. Else as require_keepable()
void require_recordable(holding::grant_facts const&, std::chrono::milliseconds keep_for,
                        std::string const& result);
/// @throws error(errc::invalid_argument) if the time or the text can't be kept
void require_keepable(std::string const& name, std::chrono::milliseconds keep_for, std::string const& result);

/// Repeats a failed statement until trust ends, and for reply_timeout at least.
/// @return false if the lock was lost before
/// @throws error. Except for errc::in_doubt, the lock is held as before
bool record(engine&, std::shared_ptr<holding::hold> const&, std::chrono::milliseconds keep_for,
            std::string const& result);
/// Whether a transaction of the program has recorded it. Rides out errors as record() does.
bool was_recorded(engine&, std::shared_ptr<holding::hold> const&);

}  // namespace rowlock::managing::recording
