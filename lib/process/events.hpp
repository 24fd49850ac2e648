#pragma once

#include <functional>
#include <rowlock/options.hpp>

namespace rowlock::process {

/// Hands events to the user's hook; what it throws ends here.
class events {
 public:
  explicit events(std::function<void(event const&)> hook) : hook_(std::move(hook)) {}

  void tell(event const& e) const noexcept {
    if (!hook_) return;
    try {
      hook_(e);
    } catch (...) {  // the hook is for logs and metrics: a failing one must not touch a lock
    }
  }

 private:
  std::function<void(event const&)> hook_;
};

}  // namespace rowlock::process
