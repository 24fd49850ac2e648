#pragma once
// Pings the sessions that hold locks (strategy_traits::owns_session). Only a ping shows that the server has
// ended a session and granted its lock again. Pings also keep a session from being idle for too long.

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/boot_waiter.hpp"
#include "holding/watchdog.hpp"
#include "sessions/connection_pool.hpp"
#include "sessions/events.hpp"
#include "strategy/catalogue.hpp"

namespace rowlock::holding {

/// One thread, started when first needed, and more threads while several sessions are pinged: no ping waits
/// for another. Thread-safe.
class session_pinger {
 public:
  /// `close_unused`: as in renewer.
  session_pinger(strategies::catalogue const&, watchdog&, sessions::events const&,
                 std::chrono::milliseconds reply_timeout, std::function<boot_time_point()> close_unused);
  ~session_pinger() { stop({}); }

  /// The session that holds the lock. If the lock was not released, the session is closed, so that its next
  /// borrower does not hold the lock.
  struct anchor {
    anchor(sessions::connection_pool::loan s, bool unused) noexcept
        : session(std::move(s)), long_unused(unused) {}
    anchor(anchor&&) noexcept = default;
    anchor& operator=(anchor&&) = delete;
    ~anchor() {
      if (session && !given_back) session->close();
    }
    sessions::connection_pool::loan session;
    bool long_unused;
    bool given_back = false;
  };
  void keep(std::shared_ptr<hold> const&, anchor);

  /// Releases the lock. Waits until `deadline` for a ping that is under way. If the server does not answer
  /// it, the session ends. @return false if the session has ended, and so the lock
  bool give_back(hold const&, boot_time_point deadline) noexcept;

  /// Ends the session, and so the lock, without a round trip.
  void drop(hold const&) noexcept;

  /// Ends the thread, and the sessions of lost locks. Does not wait for `spare`.
  void stop(std::thread::id spare) noexcept;

 private:
  /// Gives a session to one thread at a time. (ThreadSanitizer does not know std::timed_mutex.)
  class one_user {
   public:
    bool enter(std::chrono::nanoseconds wait_policy) noexcept {
      std::unique_lock lock(mutex_);
      if (!free_.wait_for(lock, wait_policy, [this] { return !used_; })) return false;
      used_ = true;
      return true;
    }
    void leave() noexcept {
      std::lock_guard const guard(mutex_);
      used_ = false;
      free_.notify_one();
    }

   private:
    std::mutex mutex_;
    std::condition_variable free_;
    bool used_ = false;
  };
  struct leaving {
    one_user& seat;
    explicit leaving(one_user& s) noexcept : seat(s) {}
    leaving(leaving const&) = delete;
    leaving& operator=(leaving const&) = delete;
    ~leaving() { seat.leave(); }
  };
  struct kept {
    kept(std::shared_ptr<hold> const& h, anchor held, std::chrono::nanoseconds i)
        : what(h), lock(std::move(held)), interval(i), next_ping(boot_clock::now() + i) {}
    one_user in_use;
    std::weak_ptr<hold> what;
    anchor lock;
    std::chrono::nanoseconds const interval;
    boot_time_point next_ping;
    std::string problem;  ///< the error of the last ping
  };
  using batch = std::vector<std::shared_ptr<kept>>;

  void run(std::stop_token);
  boot_time_point ping_due();
  batch due();
  void ping_all(batch const&);
  void ping(kept&) noexcept;

  watchdog& watchdog_;
  sessions::events const& events_;
  std::chrono::milliseconds const reply_timeout_;
  std::function<boot_time_point()> const close_unused_;
  strategies::catalogue const& strategies_;
  base::boot_waiter waiter_;
  std::mutex mutex_;
  std::unordered_map<hold const*, std::shared_ptr<kept>> kept_;
  boot_time_point armed_for_ = boot_time_point::max();
  bool stopping_ = false;
  std::jthread thread_;
};

}  // namespace rowlock::holding
