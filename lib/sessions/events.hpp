#pragma once

#include <atomic>
#include <functional>
#include <rowlock/options.hpp>

#include "base/calls.hpp"

namespace rowlock::sessions {

/// Hands events to the user's hooks; what they throw ends here.
class events {
 public:
  explicit events(std::function<void(event const&)> hook) : hook_(std::move(hook)) {}

  void tell(event const& e) const noexcept {
    if (hook_) call([&] { hook_(e); });
  }

  /// Another function of the program's, with the same care.
  template <class F>
  void call(F const& f) const noexcept {
    if (muted_) return;
    try {
      base::outside const there;
      f();
    } catch (...) {  // one that fails must not touch a lock
    }
  }

  /// Whoever destroyed the manager may next destroy what the hook uses.
  void mute() noexcept { muted_ = true; }

 private:
  std::atomic<bool> muted_{false};
  std::function<void(event const&)> hook_;
};

}  // namespace rowlock::sessions
