#pragma once

#include <atomic>
#include <rowlock/export.hpp>
#include <rowlock/types.hpp>

namespace rowlock::base {

/// An eventfd(2): any thread may set it, and poll(2) waits for it. After wait_for() has returned true, the
/// caller sees all writes before set().
class ROWLOCK_EXPORT event {
 public:
  event();
  ~event();
  event(event const&) = delete;
  event& operator=(event const&) = delete;

  int fd() const noexcept { return fd_; }
  void set() const noexcept;
  void clear() const noexcept;

 private:
  friend bool wait_for(event const&, boot_time_point deadline) noexcept;
  int fd_;
  // C++ knows no order between a write(2) and a poll(2).
  mutable std::atomic<bool> was_set_{false};
};

/// Waits until the event is set. It stays set. @return false at `deadline`
ROWLOCK_EXPORT bool wait_for(event const&, boot_time_point deadline) noexcept;

}  // namespace rowlock::base
