#pragma once
// How a held lock ends by the record that its work is done: lib/doc/once.md.

#include <chrono>
#include <memory>
#include <string>

#include "manager/engine.hpp"

namespace rowlock::managing::recording {

/// @throws error(errc::unsupported) if locks of the strategy can't end so; invalid_argument if the time or
/// the text can't be kept
void require_recordable(holding::grant_facts const&, std::chrono::milliseconds keep_for,
                        std::string const& result);
/// The same for what is known before there is a lock.
void require_keepable(std::string const& name, std::chrono::milliseconds keep_for, std::string const& result);

/// Tries again, by the record's own term, as long as trust lasts, and for reply_timeout at least.
/// @return false if it was lost before
/// @throws error; the lock is held as before, unless it is errc::in_doubt
bool record(engine&, std::shared_ptr<holding::hold> const&, std::chrono::milliseconds keep_for,
            std::string const& result);
/// Whether a transaction of the program's has recorded it. Rides out what record() does.
bool was_recorded(engine&, std::shared_ptr<holding::hold> const&);

}  // namespace rowlock::managing::recording
