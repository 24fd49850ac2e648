#pragma once
// Sees to it that no lock is lost in silence: watches when trust ends, whatever the database or the keeper is
// doing, and runs the loss callbacks.

#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/boot_waiter.hpp"
#include "process/events.hpp"
#include "process/hold.hpp"

namespace rowlock::process {

/// One thread, started with the first lock. Thread-safe.
class watchdog {
 public:
  explicit watchdog(events const& e) : events_(e) {}
  ~watchdog() { stop(); }

  void watch(std::shared_ptr<hold> const&);
  void forget(hold const&) noexcept;

  /// hold::lose(), and if it was the first to say so: its callbacks are run on the watchdog's thread.
  /// @return false if the hold was lost or given back already
  bool report_lost(std::shared_ptr<hold> const&, loss_reason) noexcept;

  /// All that are held now.
  std::vector<std::shared_ptr<hold>> watched();

  void stop() noexcept;

 private:
  void run(std::stop_token);
  boot_time_point look() noexcept;

  events const& events_;
  base::boot_waiter waiter_;
  std::mutex mutex_;
  std::unordered_map<hold const*, std::shared_ptr<hold>> watched_;
  std::vector<std::shared_ptr<hold>> lost_;  ///< reported, callbacks not yet run
  boot_time_point armed_for_ = boot_time_point::max();
  std::jthread thread_;
};

}  // namespace rowlock::process
