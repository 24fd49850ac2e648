#pragma once

#include <rowlock/export.hpp>
#include <rowlock/types.hpp>

namespace rowlock::base {

/// An eventfd(2): something to poll(2) for that any thread may set.
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
  int fd_;
};

/// Waits until it is set, which it stays. @return false if it was not at `deadline`
bool wait_for(event const&, boot_time_point deadline) noexcept;

}  // namespace rowlock::base
