#pragma once

#include <rowlock/export.hpp>
#include <rowlock/lock_manager.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

namespace rowlock::voting {
class quorum_hold;
class quorum_engine;
struct quorum_wait_policy;
}  // namespace rowlock::voting
namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

class quorum_mutex;

/// A lock granted by a majority of the quorum members. Move-only. The destructor releases it.
///
/// basic_transaction::require() is deleted for it: use basic_transaction::admit(name, token), or send token()
/// along with writes.
///
/// Exception safety: only extend() throws. The lock is then as it was.
///
/// Thread safety: as held_lock.
class ROWLOCK_EXPORT quorum_lock {
 public:
  quorum_lock(quorum_lock&&) noexcept;
  quorum_lock& operator=(quorum_lock&&) noexcept;
  ~quorum_lock();

  std::string const& name() const noexcept;
  /// Higher than the token of each earlier grant of this name, by any majority.
  fencing_token token() const noexcept;
  /// The latest time at which this process may act as the holder, by the trust in a majority. Does not move
  /// after a loss.
  [[nodiscard]] boot_time_point trusted_until() const noexcept;
  /// False for ever after a loss: as soon as fewer than a majority can be trusted.
  [[nodiscard]] bool valid() const noexcept;
  /// Triggered by a loss, if possible a twentieth of the ttl (1 s at most) before trust ends. Callbacks run
  /// on a thread of the quorum, or on one that releases the lock before that: keep them short. Callbacks may
  /// release locks, but must not wait for another lock, nor destroy the quorum.
  [[nodiscard]] std::stop_token loss_token() const noexcept;
  /// Empty while the lock is held, and after a release in time. If members differ, the reason of most lost
  /// members.
  [[nodiscard]] std::optional<loss_reason> loss() const noexcept;
  /// How many members grant the lock now, as far as this process knows.
  [[nodiscard]] int votes() const noexcept;

  /// Makes the term last at least `duration` from now on a majority: one round trip to all members at once.
  /// @return false if the lock is lost or released, or no majority has confirmed in time. The lock is as it
  /// was
  /// @throws error(errc::invalid_argument) if `duration` is not between 1 ms and the quorum's longest ttl
  [[nodiscard]] bool extend(std::chrono::milliseconds duration);

  /// One member's statements would pass while another owner has the lock by the other members: use
  /// basic_transaction::admit().
  void guard_statements() const = delete;

  /// Releases the lock at all members at once. Blocks for their manager_options::release_timeout at most.
  /// @return released if a majority has released it. A member that did not answer releases it later, or it
  /// expires there. already_lost if the loss was reported before, by the event hook and loss_token()
  [[nodiscard]] release_result release() noexcept;

 private:
  friend class quorum_mutex;
  quorum_lock(std::shared_ptr<voting::quorum_engine>, std::shared_ptr<voting::quorum_hold>) noexcept;
  std::shared_ptr<voting::quorum_engine> engine_;
  std::shared_ptr<voting::quorum_hold> hold_;
};

/// The result of an attempt, as acquisition.
class quorum_acquisition {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): as std::optional's
  quorum_acquisition(quorum_lock lock) noexcept : lock_(std::move(lock)) {}
  quorum_acquisition(acquire_status why_not, std::optional<holder_info> holder)
      : status_(why_not), holder_(std::move(holder)) {}

  explicit operator bool() const noexcept { return lock_.has_value(); }
  /// Precondition: there is a lock.
  quorum_lock& operator*() & noexcept { return *lock_; }
  quorum_lock operator*() && noexcept { return *std::move(lock_); }
  quorum_lock* operator->() noexcept { return &*lock_; }
  quorum_lock const* operator->() const noexcept { return &*lock_; }
  /// The lock. @throws error(errc::not_acquired) if there is none
  ROWLOCK_EXPORT quorum_lock& value() &;

  acquire_status status() const noexcept { return status_; }
  /// The owner that was in the way at one of the members, as last seen.
  std::optional<holder_info> const& holder() const noexcept { return holder_; }

 private:
  std::optional<quorum_lock> lock_;
  acquire_status status_ = acquire_status::acquired;
  std::optional<holder_info> holder_;
};

/// A lock over all members of a quorum. Meets TimedLockable.
///
/// Errors of the functions that take a lock:
/// - errc::not_voting: too few of the databases are voting members.
/// - errc::strategy_mismatch: the name has another strategy at one of them.
/// - errc::would_deadlock: the calling thread holds the name by this quorum.
/// - A single member's error (unreachable, a lost reply) counts only if less than a majority is left. A try_
///   function without a duration throws it at once, other calls at their deadline.
///
/// Thread safety: all members may be called concurrently, but not while the mutex is moved.
class ROWLOCK_EXPORT quorum_mutex {
 public:
  quorum_mutex(quorum_mutex&&) noexcept;
  quorum_mutex& operator=(quorum_mutex&&) noexcept;
  /// Releases what lock() took.
  ~quorum_mutex();

  std::string const& name() const noexcept;

  void lock();
  [[nodiscard]] bool try_lock();
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(std::chrono::duration<Rep, Period> const& timeout) {
    return try_lock_in(saturated_nanoseconds(timeout));
  }
  template <class Clock, class Duration>
  [[nodiscard]] bool try_lock_until(std::chrono::time_point<Clock, Duration> const& deadline) {
    return try_lock_in(saturated_time_until(deadline));
  }
  /// Releases what the calling thread's last lock() or try_lock...() took.
  void unlock() noexcept;

  /// Waits until the lock is taken or `stop` is triggered.
  [[nodiscard]] quorum_acquisition acquire(std::stop_token stop = {});
  /// One attempt.
  [[nodiscard]] quorum_acquisition try_acquire();
  /// As acquire(), but waits at most `timeout`, plus manager_options::reply_timeout if members do not answer.
  [[nodiscard]] quorum_acquisition try_acquire_for(std::chrono::nanoseconds timeout,
                                                   std::stop_token stop = {});
  template <class Rep, class Period>
  [[nodiscard]] quorum_acquisition try_acquire_for(std::chrono::duration<Rep, Period> const& timeout,
                                                   std::stop_token stop = {}) {
    return try_acquire_for(saturated_nanoseconds(timeout), std::move(stop));
  }

 private:
  friend class quorum;
  struct state;
  explicit quorum_mutex(std::shared_ptr<state>) noexcept;
  quorum_acquisition take(voting::quorum_wait_policy const&, std::stop_token) const;
  bool keep(quorum_acquisition);
  bool try_lock_in(std::chrono::nanoseconds timeout);
  std::shared_ptr<state> state_;
};

/// The state of one quorum member.
struct quorum_member_info {
  std::string database;   ///< without any password
  std::string trouble{};  ///< why the database could not be asked. Then nothing below is known
  std::string database_id{};
  std::string quorum_id{};  ///< empty: belongs to no quorum.
  std::int64_t epoch = 0;
  std::string epoch_id{};              ///< two simultaneous joins can make two epochs of one number
  std::vector<std::string> members{};  ///< database ids of the members in its list
  std::chrono::milliseconds max_ttl{0};
  bool votes = false;
  std::chrono::milliseconds clock_ahead{0};  ///< of this machine's, to within half a round trip
  fencing_token highest{};                   ///< the highest of all its tokens
  std::string server{};                      ///< the same for two databases of one server
};

/// The highest number of different databases that vote in one epoch of one quorum.
ROWLOCK_EXPORT std::size_t quorum_votes(std::vector<quorum_member_info> const&);

/// The problems of the quorum, one sentence for each. Empty if all is well.
ROWLOCK_EXPORT std::vector<std::string> quorum_findings(std::vector<quorum_member_info> const&);

/// The result of a request to each member.
struct quorum_outcome {
  int done = 0;                         ///< members that have carried it out
  std::vector<std::string> troubles{};  ///< the members that could not be asked, and why
};

struct quorum_options {
  /// As manager_options::on_event, for the quorum's locks: taken, lost, released and so on. The members'
  /// managers report for single members.
  std::function<void(event const&)> on_event{};
};

/// A lock over three or more independent databases, of any kinds mixed, that a majority grants: Redlock (S.
/// Sanfilippo, "Distributed locks with Redis"), with fencing tokens, and an answer to members that forget (M.
/// Kleppmann, "How to do distributed locking", 2016). lib/doc/quorum.md has the protocol, its promises and
/// assumptions, and the model.
///
/// Use it rarely: when no single database can be trusted to stay, and the protected data is elsewhere. For
/// data in a database, a lease beside the data with require() is safer, and costs half or less.
///
/// init() makes the members, once. Options of a lock:
/// - ttl and at_least are at most the quorum's longest ttl. at_least ends by the members' clocks.
/// - takeover is always `observed`, and fencing always on.
/// - strategy, owner takes_over, retry_options::attempts and policy are refused (errc::unsupported).
///
/// A member that was wiped, restored from a backup or replaced must join() before it votes again. A program
/// that has used the former database goes on without that member until it is started again.
///
/// Preconditions: the managers exist as long as the quorum, its mutexes and its locks.
///
/// In a forked child its locks are lost (loss_reason::forked), and calls that ask members throw
/// error(errc::forked).
///
/// Thread safety: all members may be called concurrently.
class ROWLOCK_EXPORT quorum {
 public:
  /// Asks no database yet. @throws error(errc::invalid_argument) for fewer than three managers, or one given
  /// twice
  explicit quorum(std::vector<lock_manager*> members, quorum_options options = {});
  ~quorum();
  quorum(quorum const&) = delete;
  quorum& operator=(quorum const&) = delete;

  /// @throws error(errc::invalid_argument, errc::unsupported) as lock_manager::make_mutex()
  [[nodiscard]] quorum_mutex make_mutex(std::string name, mutex_options options = {});

  /// Asks each member, in the order of the managers. Without an answer: quorum_member_info::trouble.
  [[nodiscard]] std::vector<quorum_member_info> status();

  /// The quorum's locks in each member's rows, in the order of the managers, or why the member could not be
  /// asked.
  [[nodiscard]] std::vector<std::variant<std::vector<lock_info>, std::string>> list(
      list_options const& options = {});

  /// Takes a lock away from its holder, at each reachable member. @return how many members had it
  /// @throws error a member's, if fewer than a majority could be asked: the holder may go on
  quorum_outcome revoke(std::string const& name, revoke_mode);

  /// Makes these databases a quorum. All of them must answer, and belong to none. All get the list of
  /// members, then all get the vote.
  ///
  /// May be repeated after an interruption. If some members vote by then, a member with only the list can
  /// have voted and forgotten it. Then this call blocks for `max_ttl` until such members vote. A member
  /// without the list must join().
  /// @param max_ttl the longest ttl of all locks, from 1 s to 1 h: a member that joins waits for that long
  /// @param stop ends the waiting
  /// @throws error
  /// - errc::invalid_argument: the message names the member in the way.
  /// - errc::conflict: another call makes one of them a member at the same time.
  /// - errc::closed: `stop` was triggered. Members that did not vote before do not vote yet. Call init()
  ///   again.
  void init(std::chrono::milliseconds max_ttl, std::stop_token stop = {});

  /// Lets a member that was wiped, restored or replaced vote again. First a majority of the other members
  /// gets a new epoch. After the longest ttl the member learns their highest token, and votes. Locks of a
  /// majority of the other members stay held. Blocks for that long.
  /// @param place of the manager whose database joins, from 0
  /// @param replaces the database_id of the member to replace. May be empty if all other members of the list
  /// answer
  /// @param stop ends the waiting
  /// @throws error
  /// - errc::not_voting: too few of the other members vote and can be asked.
  /// - errc::conflict: another call changes the members at the same time.
  /// - errc::closed: `stop` was triggered. The member does not vote yet. Call join() again.
  /// - errc::invalid_argument.
  void join(std::size_t place, std::string const& replaces = {}, std::stop_token stop = {});

  /// Ends the quorum, whatever its state: each reachable member votes no more.
  /// @return how many members there were
  /// @throws error a member's, if none could be asked
  quorum_outcome drop();

 private:
  std::shared_ptr<voting::quorum_engine> engine_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
