#pragma once

#include <rowlock/error.hpp>
#include <rowlock/types.hpp>
#include <string_view>

#include "sessions/events.hpp"

namespace rowlock::sessions {

/// A deadlock's victim did nothing, so it is tried again at once. Some databases have deadlocks between any
/// INSERT and DELETE of one key, and two might meet again and again.
inline constexpr int most_deadlocks = 50;

/// Repeats `statement` while it loses deadlocks, until `deadline`. Reports each as an error event.
template <class Statement>
auto retry_deadlocks(events const& hook, std::string_view name, boot_time_point deadline,
                     Statement const& statement) {
  for (int tries = 1;; ++tries) {
    try {
      return statement();
    } catch (error const& e) {
      if (e.reason() != errc::conflict || tries == most_deadlocks || boot_clock::now() >= deadline) throw;
      hook.report({.kind = event_kind::error, .name = name, .message = e.what()});
    }
  }
}

}  // namespace rowlock::sessions
