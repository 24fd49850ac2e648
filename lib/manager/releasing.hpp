#pragma once
// The release of a lock that this manager holds or has lost. It is a hand-off to a successor
// (lib/doc/hand_on.md), joins other threads' releases (lib/doc/together.md), or stands alone.

#include <memory>
#include <optional>
#include <rowlock/types.hpp>
#include <vector>

#include "manager/engine.hpp"

namespace rowlock::managing::releasing {

/// A release that has failed by `deadline` goes to the renewer.
release_result give_back(engine&, std::shared_ptr<holding::hold> const&, boot_time_point deadline) noexcept;
/// Several locks, by one statement if possible. @return the result of the first lock that was not released
release_result give_back_all(engine&, std::vector<std::shared_ptr<holding::hold>>,
                             boot_time_point deadline) noexcept;
/// Without the database: leaves a row to the renewer, and ends a session.
void leave_behind(engine&, std::shared_ptr<holding::hold> const&) noexcept;
/// Leaves a lost term that might still be in its row to the renewer, so that the next owner need not wait for
/// its expiry. Precondition: the work under the lock has stopped.
void give_back_lost(engine&, holding::hold const&) noexcept;
/// The same, but tries at once.
void give_back_lost(engine&, holding::hold const&, boot_time_point deadline) noexcept;

}  // namespace rowlock::managing::releasing
