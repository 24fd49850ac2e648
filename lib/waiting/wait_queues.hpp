#pragma once
// Wait queues: the order in which waiters of several processes try (lib/doc/waiting.md).
//
// A wait queue is a lock in the server. One session has it, and the other sessions wait for it in order. It
// decides nothing: that session is only the next to try. A call without a queue place polls.
//
// The life of a queue place:
//
//   step          by                          its session
//   enter()       a call that waits           waits in the server, `longest_wait` at most.
//   keep()        the call that got the lock  stays, so that the release wakes the next waiter.
//   leave()       a release, or a call that   returns to the pool, after a round trip
//                 gave up.
//   leave_with()  a release                   the same, by the statement that releases the lock.
//   destructor    a loss, or an error         is closed, which ends the queue place.
//
// - A session has one queue place at most.
// - There are `queue_connections` sessions. If another name needs one, the oldest kept place gives up its
//   session. The next waiter there then polls until it notices the release.
// - A hung process at the head delays the other waiters by `longest_wait`.
// - Nobody starves for want of a place: a call whose name has gone from hand to hand meanwhile says
//   want_place(). A name that one holder keeps needs no place: an attempt, or a look, finds it free.
// - waited_for_ is a hint: a call for such a name begins in the queue. So a busy holder can't overtake for
//   ever.
// - If a server refuses wait queues for good, there() is false from then on.
//
// A `queue_place` of lib/manager has the ticket of a call, and then the hold that of a lock.

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <rowlock/types.hpp>
#include <stop_token>
#include <string>
#include <unordered_set>

#include "base/fork_epoch.hpp"
#include "sessions/connection_pool.hpp"
#include "sessions/events.hpp"

namespace rowlock::waiting {

/// Of one manager. Thread-safe.
class wait_queues {
  struct place {
    std::string name;
    std::optional<sessions::connection_pool::loan> session;
    std::list<std::shared_ptr<place>>::iterator kept{};
    bool is_kept = false;
  };

 public:
  static constexpr std::chrono::milliseconds longest_wait{900};

  wait_queues(sessions::database&, sessions::events const&, manager_options const&);

  /// A queue place. Move-only; used by one thread at a time.
  class ticket {
   public:
    ticket(ticket&&) noexcept = default;
    ticket& operator=(ticket&&) = delete;
    /// In a forked child it does nothing: the session is the parent's.
    ~ticket();
    void keep() noexcept;
    /// Its session, for statements of the call that has it, until keep(). Null if another name has got it.
    backend::connection* session() const noexcept;
    /// Waits until `deadline`, and a second at most. If it fails, the session is closed.
    void leave(boot_time_point deadline) noexcept;
    /// Leaves the queue by `give_back`, which also releases the lock. If it throws, the session is closed.
    /// @return false if nothing was done: then the lock must be released elsewhere
    /// @throws error of `give_back`
    bool leave_with(std::function<void(backend::connection&)> const& give_back);

   private:
    friend class wait_queues;
    ticket(wait_queues& g, std::shared_ptr<place> p) noexcept : wait_queues_(&g), place_(std::move(p)) {}
    wait_queues* wait_queues_;
    std::shared_ptr<place> place_;
    unsigned epoch_ = base::fork_epoch();
  };

  struct result {
    std::optional<ticket> mine{};
    bool stood = false;  ///< whether there was a session and a queue to wait in
  };
  /// `who`: see connection::enter_queue().
  result enter(std::string const& name, std::string const& who, boot_time_point until,
               std::stop_token const&) noexcept;

  /// Closes idle sessions. @return when the next one can be due
  boot_time_point close_unused() noexcept { return sessions_.close_unused(); }

  bool there() const noexcept { return there_.load(); }

  /// Whether a call begins in the queue, because processes waited there a moment ago.
  bool begins_at(std::string const& name) const;
  void others_wait(std::string const& name, bool) noexcept;

  /// A call without room wants a place: one of the calls that have had theirs for `longest_wait` gives it up.
  void want_place() noexcept { place_is_wanted_ = true; }
  /// Whether the caller is to give up its place. Once for each want_place().
  bool takes_place_back() noexcept { return place_is_wanted_.exchange(false); }

  void close() noexcept { sessions_.close(); }

 private:
  using loan = sessions::connection_pool::loan;
  std::optional<loan> free_session(std::stop_token const&);
  std::optional<loan> taken_from(place&) noexcept;
  std::optional<loan> taken_from_one_that_is_kept();
  void leave(loan&, std::string const& name, boot_time_point deadline);

  sessions::database& database_;
  sessions::events const& events_;
  sessions::connection_pool sessions_;
  std::chrono::nanoseconds const reply_timeout_;
  std::atomic<bool> there_;
  std::atomic<bool> place_is_wanted_ = false;
  mutable std::mutex mutex_;
  std::list<std::shared_ptr<place>> kept_;  ///< oldest first
  std::unordered_set<std::string> waited_for_;
};

}  // namespace rowlock::waiting
