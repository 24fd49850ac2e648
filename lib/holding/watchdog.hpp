#pragma once
// Makes sure that no lock is lost in silence: watches when trust ends, whatever the database or the renewer
// is doing, and runs the loss callbacks.

#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/boot_waiter.hpp"
#include "holding/hold.hpp"
#include "sessions/events.hpp"

namespace rowlock::holding {

/// One thread, started with the first lock. Thread-safe.
class watchdog {
 public:
  explicit watchdog(sessions::events const&);
  ~watchdog();
  watchdog(watchdog const&) = delete;
  watchdog& operator=(watchdog const&) = delete;

  /// What is watched is held: its end is told as event_kind::ended, once. @return false after close(): nobody
  /// would give it back
  bool watch(std::shared_ptr<hold> const&);
  void forget(hold const&) noexcept;

  /// hold::lose(), and if it was the first to say so: its callbacks are run on the watchdog's thread.
  /// @return false if the hold was lost or given back already
  bool report_lost(std::shared_ptr<hold> const&, loss_reason) noexcept;

  /// As report_lost(taken_over), if the same owner took the lock once more. Of the two, the former may be
  /// another manager's, whose watchdog tells it. @return the turn, for the new term; empty if the hold was
  /// lost or given back already
  std::optional<waiting::local_queue::turn> report_superseded(std::shared_ptr<hold> const&) noexcept;

  /// Watches nothing more. @return all that are held now, and those that were lost and not given back
  std::vector<std::shared_ptr<hold>> close() noexcept;

  /// Ends the thread, once the callbacks are done. Does not wait for the thread `spare`, which is told to end
  /// all the same.
  void stop(std::thread::id spare) noexcept;

 private:
  using holds = std::list<std::shared_ptr<hold>>;

  void start();  ///< with the mutex; not while a former thread still ends
  void run(std::stop_token);
  boot_time_point look() noexcept;
  void tell_ended(hold const&) const noexcept;
  /// @return whether it was watched here
  bool to_be_announced(hold const&) noexcept;
  bool move_to(holds& other, hold const&) noexcept;
  void make_room();                                           ///< with the mutex: for close()
  void remember_told(std::shared_ptr<hold> const&) noexcept;  ///< with the mutex

  sessions::events const& events_;
  base::boot_waiter waiter_;
  std::mutex mutex_;
  // Lists, because a loss must be reported also when no memory is left.
  holds watched_;
  holds lost_;                                              ///< reported, callbacks not yet run
  std::unordered_map<hold const*, holds::iterator> where_;  ///< in watched_
  boot_time_point armed_for_ = boot_time_point::max();
  /// Their loss was reported, but their handles still exist.
  std::unordered_map<hold const*, std::weak_ptr<hold>> told_;
  std::vector<std::shared_ptr<hold>> left_;  ///< empty; what close() returns must have room without memory
  bool stopping_ = false;                    ///< a former thread still ends
  bool closed_ = false;
  std::jthread thread_;
};

}  // namespace rowlock::holding
