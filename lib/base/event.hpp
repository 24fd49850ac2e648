#pragma once

#include <atomic>
#include <rowlock/export.hpp>
#include <rowlock/types.hpp>

namespace rowlock::base {

/// An eventfd(2): something to poll(2) for that any thread may set. Whoever has come back from wait_for()
/// with true sees what was written before set().
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

/// Waits until it is set, which it stays. @return false if it was not at `deadline`
bool wait_for(event const&, boot_time_point deadline) noexcept;

}  // namespace rowlock::base
