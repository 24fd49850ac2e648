#pragma once
// A lock on which a transaction of the program's will depend.

#include <memory>
#include <optional>
#include <rowlock/types.hpp>
#include <string>

#include "manager/manager.hpp"

namespace rowlock::guard {

struct required_lock {
  std::shared_ptr<managing::manager> manager;
  std::shared_ptr<holding::hold> hold;
  bool live = false;  ///< not released by its handle
};

inline constexpr char const* was_recorded = "it was recorded as done";

/// Whether a transaction can depend on the lock, as far as this process knows. Marks it as guarded.
/// @throws error unsupported (the strategy), lock_lost
void expect_requirable(required_lock const&);

/// Reports the loss. @throws error lock_lost
[[noreturn]] void lost(required_lock const&, std::optional<loss_reason>);
/// @throws error lock_lost
[[noreturn]] void refuse(std::string const& name, char const* why);

}  // namespace rowlock::guard
