#pragma once
// Where threads of several processes line up for a name: at a wait queue, which the server keeps for a
// session and hands on in order. A wait queue decides nothing: who has one is merely the next to try. Whoever
// can't have one tries again and again.

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

/// A manager's. Thread-safe.
class wait_queues {
  /// What a ticket is for. The session is taken from it if it is needed elsewhere.
  struct place {
    std::string name;
    std::optional<sessions::connection_pool::loan> session;
    std::list<std::shared_ptr<place>>::iterator kept{};
    bool is_kept = false;
  };

 public:
  /// No wait is longer: a wait queue whose holder is stuck costs the others no more than that.
  static constexpr std::chrono::milliseconds longest_wait{900};

  wait_queues(sessions::database&, sessions::events const&, manager_options const&);

  /// The wait queue of a name, on a session of its own. Move-only; used by one thread at a time.
  class ticket {
   public:
    ticket(ticket&&) noexcept = default;
    ticket& operator=(ticket&&) = delete;
    /// Ends the session, and so leaves the wait queue, without waiting for the server. In a forked child
    /// nothing: it is the parent's, and what guards it may stand locked for ever.
    ~ticket();
    /// The lock was got. The wait queue is kept for it, so that the server wakes the next one when it is
    /// given back; but another name that is waited for may need the session.
    void keep() noexcept;
    /// Leaves the wait queue, and keeps the session for the next one: one round trip, for which there is time
    /// until `deadline`, and a second at most. Without that, as the destructor.
    void leave(boot_time_point deadline) noexcept;
    /// The same by what `give_back` asks of the wait queue's session: it gives the lock back, too. If it
    /// throws, the wait queue ends with its session.
    /// @return false if there was no such session, or nothing was done there: then the lock is to be given
    /// back elsewhere
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
    bool stood = false;  ///< in line; if not, there is no session for it, or no wait queue at all
  };
  /// Stands in line at the wait queue of `name`, until `until` at most. `who`: as connection::enter_queue()
  /// has it.
  result enter(std::string const& name, std::string const& who, boot_time_point until,
               std::stop_token const&) noexcept;

  /// Ends sessions that nobody has used for long. @return when there may be the next one
  boot_time_point close_unused() noexcept { return sessions_.close_unused(); }

  /// Whether wait queues can be had, as far as is known.
  bool there() const noexcept { return there_.load(); }

  /// Whether an acquire of the name should begin at its wait queue: others waited there a moment ago, and
  /// would be overtaken for ever.
  bool begins_at(std::string const& name) const;
  void others_wait(std::string const& name, bool) noexcept;

  void close() noexcept { sessions_.close(); }

 private:
  using loan = sessions::connection_pool::loan;
  std::optional<loan> free_session(std::stop_token const&);
  std::optional<loan> taken_from(place&) noexcept;
  std::optional<loan> taken_from_one_that_is_kept();
  /// @throws error
  void leave(loan&, std::string const& name, boot_time_point deadline);

  sessions::database& database_;
  sessions::events const& events_;
  sessions::connection_pool sessions_;
  std::chrono::nanoseconds const reply_timeout_;
  std::atomic<bool> there_;
  mutable std::mutex mutex_;
  std::list<std::shared_ptr<place>> kept_;  ///< the oldest first
  std::unordered_set<std::string> waited_for_;
};

}  // namespace rowlock::waiting
