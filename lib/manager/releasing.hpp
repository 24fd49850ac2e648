#pragma once
// The release of a lock that this manager holds or has lost. A hand-off to the next thread in line comes
// first. Otherwise the term is released in its row, together with other threads' releases
// (lib/doc/together.md) or alone. The renewer repeats a release that fails.

#include <memory>
#include <optional>
#include <rowlock/types.hpp>
#include <vector>

#include "manager/engine.hpp"

namespace rowlock::managing::releasing {

/// A release that does not succeed until `deadline` is left to the renewer.
release_result give_back(engine&, std::shared_ptr<holding::hold> const&, boot_time_point deadline) noexcept;
/// Several locks, by one statement if possible. @return the result of the first lock that was not released
release_result give_back_all(engine&, std::vector<std::shared_ptr<holding::hold>>,
                             boot_time_point deadline) noexcept;
/// As give_back(), but asks the database nothing: a row is left to the renewer, and a session is ended.
void leave_behind(engine&, std::shared_ptr<holding::hold> const&) noexcept;
/// Leaves a lost term that might still be in its row (revoked, or trust has ended) to the renewer, so that
/// the next owner need not wait for its expiry. Precondition: the work under the lock has stopped.
void give_back_lost(engine&, holding::hold const&) noexcept;
/// The same, but tries at once, for a manager that ends.
void give_back_lost(engine&, holding::hold const&, boot_time_point deadline) noexcept;

}  // namespace rowlock::managing::releasing
