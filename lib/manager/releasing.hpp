#pragma once
// How a lock that this manager holds, or has lost, is given back.

#include <memory>
#include <optional>
#include <rowlock/types.hpp>
#include <vector>

#include "manager/engine.hpp"

namespace rowlock::managing::releasing {

/// What can't be given back by `deadline` is given back later.
release_result give_back(engine&, std::shared_ptr<holding::hold> const&, boot_time_point deadline) noexcept;
/// The same for several, in one statement where that can be done. @return what became of the first that was
/// not released
release_result give_back_all(engine&, std::vector<std::shared_ptr<holding::hold>>,
                             boot_time_point deadline) noexcept;
/// To the next in line, or by the manager's threads, later; a session ends, and its lock with it. Nothing
/// is asked here.
void leave_behind(engine&, std::shared_ptr<holding::hold> const&) noexcept;
/// A lost term may still be in its row (revoked, or out of time by this process's clock). The next owner
/// need not wait until it expires, because the work here has stopped.
void give_back_lost(engine&, holding::hold const&) noexcept;
/// The same, but at once: no thread will come back to it.
void give_back_lost(engine&, holding::hold const&, boot_time_point deadline) noexcept;

}  // namespace rowlock::managing::releasing
