#pragma once
// Wait queues: the order in which waiters of several processes try. A wait queue is a lock in the server: one
// session has it, and other sessions wait for it in order (lib/doc/waiting.md). It decides nothing. The
// session that has it is only the next to try, and the row says who holds the lock. A call without a queue
// place polls.
//
// The life of a queue place (`ticket`):
//
//   step          by                          its session
//   enter()       a call that was refused     waits in the server, `longest_wait` at most
//   keep()        the call that got the lock  stays in the queue, so that the release wakes the next waiter
//   leave()       a call that gave up         back to the pool, after a round trip
//   leave_with()  the release of the lock     the same; the statement that releases the lock runs on it
//   destructor    a loss, or an error         closed without a round trip; the server ends the queue place
//
// - A session has one queue place at most. There are `queue_connections` sessions.
// - If another name needs a session and all are in use, the oldest kept place loses its session. Then the
//   next waiter polls until it notices the release.
// - A hung process at the head delays the other waiters by `longest_wait`.
// - waited_for_ is a hint: a call for such a name begins in the queue, so a busy holder can't overtake for
// ever.
// - If a server refuses wait queues for good, there() is false from then on, and waiters poll.

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

/// The wait queues of a manager. Thread-safe.
class wait_queues {
  /// Of a ticket. Its session can be taken for another name.
  struct place {
    std::string name;
    std::optional<sessions::connection_pool::loan> session;
    std::list<std::shared_ptr<place>>::iterator kept{};
    bool is_kept = false;
  };

 public:
  /// The longest wait in the server.
  static constexpr std::chrono::milliseconds longest_wait{900};

  wait_queues(sessions::database&, sessions::events const&, manager_options const&);

  /// A queue place, on a session of its own. Move-only; used by one thread at a time.
  class ticket {
   public:
    ticket(ticket&&) noexcept = default;
    ticket& operator=(ticket&&) = delete;
    /// Closes the session. In a forked child it does nothing: the session is the parent's.
    ~ticket();
    /// Keeps the queue place for a lock that was taken.
    void keep() noexcept;
    /// Leaves the queue in one round trip, and keeps the session. Waits until `deadline`, and a second at
    /// most. If that fails, as the destructor.
    void leave(boot_time_point deadline) noexcept;
    /// Leaves the queue by `give_back`, which also releases the lock on this session. If it throws, the
    /// session is closed.
    /// @return false if there was no session, or nothing was done: then the lock must be released elsewhere
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
  /// Waits in the queue of `name` until `until` at most. `who`: see connection::enter_queue().
  result enter(std::string const& name, std::string const& who, boot_time_point until,
               std::stop_token const&) noexcept;

  /// Closes idle sessions. @return when the next one can be due
  boot_time_point close_unused() noexcept { return sessions_.close_unused(); }

  bool there() const noexcept { return there_.load(); }

  /// Whether a call for the name begins in its queue, because processes waited there a moment ago.
  bool begins_at(std::string const& name) const;
  void others_wait(std::string const& name, bool) noexcept;

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
  mutable std::mutex mutex_;
  std::list<std::shared_ptr<place>> kept_;  ///< oldest first
  std::unordered_set<std::string> waited_for_;
};

}  // namespace rowlock::waiting
