#pragma once
// One term as the leader: the lock, and a thread that tells the work to stop in time.

#include <atomic>
#include <functional>
#include <rowlock/election.hpp>
#include <rowlock/held_lock.hpp>
#include <stop_token>
#include <thread>

#include "base/boot_waiter.hpp"
#include "recipes/sleeper.hpp"

namespace rowlock::recipes {

/// The time from the report to the work until on_overrun, and from that report to the end of trust.
std::chrono::milliseconds time_to_stop(election_options const&) noexcept;

/// election_options::healthy(); true if there is none, false if it throws.
bool is_healthy(election_options const&) noexcept;

/// Begins with a granted lock, and releases it at its end: the work must have returned by then.
class leadership_term {
 public:
  /// `stop`: of the caller of run(). @throws std::system_error if no thread can be started
  leadership_term(held_lock, election_options const&, std::stop_token stop);
  /// Reports no overrun any more and releases the lock. Then waits for a health check that is under way.
  ~leadership_term();
  leadership_term(leadership_term const&) = delete;
  leadership_term& operator=(leadership_term const&) = delete;

  held_lock& lock() noexcept { return lock_; }
  std::stop_token token() const noexcept { return work_.get_token(); }
  void resign() noexcept;

 private:
  /// Wakes the watching thread, which tells the work: the work's callbacks must not run on foreign threads.
  struct end_soon {
    leadership_term& term;
    void operator()() const noexcept;
  };

  void tell_to_stop() noexcept;
  void watch(std::stop_token) noexcept;
  boot_time_point look() noexcept;
  void watch_health(std::stop_token) noexcept;

  election_options const& options_;
  held_lock lock_;
  std::stop_source work_;
  base::boot_waiter waiter_;
  sleeper between_checks_;
  std::atomic<bool> ends_{false};
  static constexpr boot_clock::rep not_told = -1;
  std::atomic<boot_clock::rep> told_at_{not_told};
  bool overrun_ = false;  ///< of watch() alone
  std::stop_callback<end_soon> on_stop_;
  std::stop_callback<end_soon> on_loss_;
  // Last, so that they end first. A health check can hang, so its thread ends after the watching one.
  std::jthread watching_health_;
  std::jthread watching_;
};

}  // namespace rowlock::recipes
