#pragma once

#include <atomic>
#include <functional>
#include <rowlock/options.hpp>

#include "base/calls.hpp"

namespace rowlock::sessions {

/// Calls the program's hook, and drops its exceptions.
class events {
 public:
  explicit events(std::function<void(event const&)> hook) : hook_(std::move(hook)) {}

  void report(event const& e) const noexcept {
    if (hook_) call([&] { hook_(e); });
  }

  /// Calls another function of the program with the same care.
  template <class F>
  void call(F const& f) const noexcept {
    if (muted_) return;
    try {
      base::outside const there;
      f();
    } catch (...) {  // a failing hook must not touch a lock
    }
  }

  /// After a manager's end the program may destroy objects that the hook uses.
  void mute() noexcept { muted_ = true; }

 private:
  std::atomic<bool> muted_{false};
  std::function<void(event const&)> hook_;
};

}  // namespace rowlock::sessions
