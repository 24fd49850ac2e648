#pragma once
// One term as the leader: the lock, and the thread that tells the work in time to stop.

#include <atomic>
#include <functional>
#include <rowlock/election.hpp>
#include <rowlock/held_lock.hpp>
#include <stop_token>
#include <thread>

#include "base/boot_waiter.hpp"
#include "recipes/sleeper.hpp"

namespace rowlock::recipes {

/// Between being told to stop and on_overrun, and as long before the end of trust.
std::chrono::milliseconds time_to_stop(election_options const&) noexcept;

/// election_options::healthy; true if there is none.
bool is_healthy(election_options const&) noexcept;

/// Begins with the lock, and gives it back at its end: the work must have returned by then.
class leadership_term {
 public:
  /// `stop`: of the caller of run(). @throws std::system_error if there is no thread to be had
  leadership_term(held_lock, election_options const&, std::stop_token stop);
  /// The work has returned: nobody is told of an overrun from now on, and others may lead, although a health
  /// check may still be under way, which is waited for.
  ~leadership_term();
  leadership_term(leadership_term const&) = delete;
  leadership_term& operator=(leadership_term const&) = delete;

  held_lock& lock() noexcept { return lock_; }
  std::stop_token token() const noexcept { return work_.get_token(); }
  void resign() noexcept;

 private:
  /// Has the work told to stop, by the thread that watches: callbacks of the work's must not run on those of
  /// others.
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
  base::boot_waiter waiter_;  ///< of watch()
  sleeper between_checks_;
  std::atomic<bool> ends_{false};
  static constexpr boot_clock::rep not_told = -1;
  std::atomic<boot_clock::rep> told_at_{not_told};
  bool overrun_ = false;  ///< of watch() alone
  std::stop_callback<end_soon> on_stop_;
  std::stop_callback<end_soon> on_loss_;
  // Last, so that they end first. The one that may hang in a health check ends after the one that watches.
  std::jthread watching_health_;
  std::jthread watching_;
};

}  // namespace rowlock::recipes
