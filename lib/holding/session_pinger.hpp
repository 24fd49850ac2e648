#pragma once
// The sessions that hold locks (strategy_traits::owns_session). Each is pinged now and then: so it is not
// idle for too long, and so we hear when the server has ended it and given the lock away. Nothing else tells
// that.

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

/// One thread, started when first needed, and others for as long as it pings several sessions at once: none
/// waits for the reply to another. Thread-safe.
class session_pinger {
 public:
  /// `close_unused`: as the renewer's.
  session_pinger(strategies::catalogue const&, watchdog&, sessions::events const&,
                 std::chrono::milliseconds reply_timeout, std::function<boot_time_point()> close_unused);
  ~session_pinger() { stop({}); }

  /// The session that holds the lock, and whether its name was not used for long. Whatever is thrown, a
  /// session that was not given back is closed: it never goes to its next borrower while it still holds the
  /// lock.
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

  /// Gives the lock back. Waits until `deadline` at most for a ping that is under way; if the server does not
  /// answer that, the session ends with it. @return false if the session had ended before, or ends so, and
  /// the lock with it
  bool give_back(hold const&, boot_time_point deadline) noexcept;

  /// Ends the session, and the lock with it, without asking the server.
  void drop(hold const&) noexcept;

  /// Ends the thread, but does not wait for `spare`, and the sessions of locks that were lost.
  void stop(std::thread::id spare) noexcept;

 private:
  /// A session is one thread's at a time. (ThreadSanitizer does not know std::timed_mutex.)
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
    std::string problem;  ///< of the last ping
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
