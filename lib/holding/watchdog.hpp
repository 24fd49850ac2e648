#pragma once
// Reports each loss of a lock, also if the database or the renewer hangs.
//
// One thread per manager, started with the first lock, does no I/O. It sleeps until the first
// hold::told_at(), and makes that hold lost. Other threads report the losses that they find by report_lost().
//
// In both cases the watchdog's thread tells the program:
//
// 1. event `lost`
// 2. event `ended`
// 3. the callbacks of loss_token().
//
//   list      its holds are                 a hold leaves it by
//   watched_  held, or just being released  forget(), or a loss.
//   lost_     lost, not reported yet        the report.
//   told_     reported                      forget(), when the handle is released.
//
// - Each watched hold has one event `ended`: from forget(), or after its loss. forget() stops no report.
// - A loss needs no memory. Holds move between lists by splice(), and make_room() reserves the result of
//   close().
// - Hooks and callbacks run without mutex_. They may end the manager or the process, so stop() does not wait
//   for a given thread.
// - The same owner can take over a lock of another manager. The other watchdog reports that loss.
//
// Renewer, session_pinger and the calls of lib/manager report losses.

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

/// Thread-safe.
class watchdog {
 public:
  explicit watchdog(sessions::events const&);
  ~watchdog();
  watchdog(watchdog const&) = delete;
  watchdog& operator=(watchdog const&) = delete;

  /// @return false after close(): no thread would release the lock
  bool watch(std::shared_ptr<hold> const&);
  void forget(hold const&) noexcept;

  /// hold::lose(), and its report by the watchdog's thread. @return false if the hold was not held
  bool report_lost(std::shared_ptr<hold> const&, loss_reason) noexcept;

  /// As report_lost(taken_over), after a takeover by the same owner. @return the turn, for the new term;
  /// empty if the hold was not held
  std::optional<waiting::local_queue::turn> report_superseded(std::shared_ptr<hold> const&) noexcept;

  /// Watches nothing more. @return all holds that are held, or were lost and not released
  std::vector<std::shared_ptr<hold>> close() noexcept;

  /// Ends the thread after the callbacks. Does not wait for the thread `spare`.
  void stop(std::thread::id spare) noexcept;

 private:
  using holds = std::list<std::shared_ptr<hold>>;

  void start();  ///< needs mutex_; not while `stopping_`
  void run(std::stop_token);
  boot_time_point look() noexcept;
  void tell_ended(hold const&) const noexcept;
  /// @return whether this watchdog watched it
  bool to_be_announced(hold const&) noexcept;
  bool move_to(holds& other, hold const&) noexcept;
  void make_room();                                           ///< needs mutex_
  void remember_told(std::shared_ptr<hold> const&) noexcept;  ///< needs mutex_

  sessions::events const& events_;
  base::boot_waiter waiter_;
  std::mutex mutex_;
  holds watched_;
  holds lost_;
  std::unordered_map<hold const*, holds::iterator> where_;  ///< in watched_
  boot_time_point armed_for_ = boot_time_point::max();
  std::unordered_map<hold const*, std::weak_ptr<hold>> told_;
  std::vector<std::shared_ptr<hold>> left_;  ///< always empty; reserved for close()
  bool stopping_ = false;                    ///< stop() joins the former thread
  bool closed_ = false;
  std::jthread thread_;
};

}  // namespace rowlock::holding
