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

namespace rowlock::recipes {
class quorum_hold;
class quorum_crew;
struct quorum_wait_policy;
}  // namespace rowlock::recipes
namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

class quorum_mutex;

/// A lock that a majority of the members has granted. Move-only. Gives the lock back when it is destroyed.
///
/// basic_transaction::require() refuses it: one member's transaction would pass while somebody else owns the
/// lock by the other members. Use basic_transaction::admit(name, token), or send token() along.
///
/// Exception safety: only extend() throws; the lock is then as it was.
///
/// Thread safety: as held_lock: distinct handles are independent; const members, extend() and release() may
/// be called from several threads at once.
class ROWLOCK_EXPORT quorum_lock {
 public:
  quorum_lock(quorum_lock&&) noexcept;
  quorum_lock& operator=(quorum_lock&&) noexcept;
  ~quorum_lock();

  std::string const& name() const noexcept;
  /// Higher than that of every lock of this name that was granted before, by whatever majority.
  fencing_token token() const noexcept;
  /// The latest time at which this process may act as the holder: as long as a majority of the members has
  /// the lock, by what each of them has promised. Stands still once the lock is lost.
  [[nodiscard]] boot_time_point trusted_until() const noexcept;
  /// False once the lock was lost, for ever: as soon as less than a majority can be trusted.
  [[nodiscard]] bool valid() const noexcept;
  /// Triggered when the lock is lost, a twentieth of the ttl (1 s at most) before trust ends where that can
  /// be known. Its callbacks run on a thread of the quorum's, or of who gives the lock back before that one
  /// has come to it: keep them short. They may release locks; they must not wait for another one, nor destroy
  /// the quorum.
  [[nodiscard]] std::stop_token loss_token() const noexcept;
  /// Why it was lost; empty while it is held, and after it was given back in time. Where members differ, what
  /// most of those that were lost say.
  [[nodiscard]] std::optional<loss_reason> loss() const noexcept;
  /// How many members have it just now, as far as this process knows.
  [[nodiscard]] int votes() const noexcept;

  /// Makes the term last at least `duration` from now on a majority; one round trip to all members at once.
  /// @return false if the lock is lost, or was given back, or no majority has confirmed in time: it is then
  /// as it was
  /// @throws error(errc::invalid_argument) if `duration` is not between 1 ms and the quorum's longest ttl
  [[nodiscard]] bool extend(std::chrono::milliseconds duration);

  /// Gives it back at all members at once. Blocks for manager_options::release_timeout of the members at
  /// most.
  /// @return released if a majority of the members has given it back; a member that did not answer gives it
  /// back later, or it expires there. already_lost if it was lost, which the hook and loss_token() have told
  [[nodiscard]] release_result release() noexcept;

 private:
  friend class quorum_mutex;
  quorum_lock(std::shared_ptr<recipes::quorum_crew>, std::shared_ptr<recipes::quorum_hold>) noexcept;
  std::shared_ptr<recipes::quorum_crew> crew_;
  std::shared_ptr<recipes::quorum_hold> hold_;
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
  /// Who was in the way at one of the members, as last seen.
  std::optional<holder_info> const& holder() const noexcept { return holder_; }

 private:
  std::optional<quorum_lock> lock_;
  acquire_status status_ = acquire_status::acquired;
  std::optional<holder_info> holder_;
};

/// A lock over all members of a quorum. Meets TimedLockable.
///
/// Errors of the members that take a lock: errc::not_voting if too few of the databases are members that
/// vote; errc::strategy_mismatch if the name is used with another strategy at one of them;
/// errc::would_deadlock if the calling thread holds the name by this quorum. What a single member has to say
/// (unreachable, a lost reply) is an error only if less than a majority is left: then it is ridden out until
/// the deadline, or thrown at once by a try_ member without a duration.
///
/// Thread safety: all members may be called from several threads at once, but not while it is moved.
class ROWLOCK_EXPORT quorum_mutex {
 public:
  quorum_mutex(quorum_mutex&&) noexcept;
  quorum_mutex& operator=(quorum_mutex&&) noexcept;
  /// Gives back what lock() took.
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
    return try_lock_in(saturated_nanoseconds(deadline - Clock::now()));
  }
  /// Gives back what the calling thread's last lock() or try_lock...() took.
  void unlock() noexcept;

  /// Waits until the lock is taken or `stop` is triggered.
  [[nodiscard]] quorum_acquisition acquire(std::stop_token stop = {});
  /// One attempt.
  [[nodiscard]] quorum_acquisition try_acquire();
  /// Waits at most `timeout`, plus manager_options::reply_timeout if members do not answer.
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
  quorum_acquisition take(recipes::quorum_wait_policy const&, std::stop_token) const;
  bool keep(quorum_acquisition);
  bool try_lock_in(std::chrono::nanoseconds timeout);
  std::shared_ptr<state> state_;
};

/// What is known of one member.
struct quorum_member_info {
  std::string database;   ///< where it is, without any password
  std::string trouble{};  ///< why it could not be asked; then nothing below is known
  std::string database_id{};
  std::string quorum_id{};  ///< empty: it belongs to none
  std::int64_t epoch = 0;
  std::string epoch_id{};              ///< two joins at once may have made two epochs of one number
  std::vector<std::string> members{};  ///< ids of the databases that it takes for members
  std::chrono::milliseconds max_ttl{0};
  bool votes = false;
  std::chrono::milliseconds clock_ahead{0};  ///< of this machine's; by half a round trip unsure
  fencing_token highest{};                   ///< of all its tokens
  std::string server{};                      ///< the same for two databases of one server
};

/// How many of them vote together: different databases, in one epoch of one quorum; the most that there are.
ROWLOCK_EXPORT std::size_t quorum_votes(std::vector<quorum_member_info> const&);

/// What the members say together: one sentence for each thing that is wrong; empty if all is well.
ROWLOCK_EXPORT std::vector<std::string> quorum_findings(std::vector<quorum_member_info> const&);

/// What became of something that was asked of each member.
struct quorum_outcome {
  int done = 0;                         ///< members that have done it
  std::vector<std::string> troubles{};  ///< of those that could not be asked: which, and why
};

struct quorum_options {
  /// As manager_options::on_event, for the locks of the quorum: taken, lost, released. (What the members do
  /// one by one is told by their managers.)
  std::function<void(event const&)> on_event{};
};

/// A lock over three or more independent databases, of any kinds mixed, that a majority grants: Redlock (S.
/// Sanfilippo, "Distributed locks with Redis"), with fencing tokens, and an answer to members that forget
/// (M. Kleppmann, "How to do distributed locking", 2016). lib/doc/quorum.md has the protocol, what it
/// promises under which assumptions, and its model.
///
/// Use it rarely: when no single database may be trusted to stay, and what the lock protects is elsewhere.
/// Where the data is in a database, a lease beside it with require() is safer, and costs half or
/// less.
///
/// Members are made by init(), once. Options of a lock: ttl and at_least are at most the quorum's longest
/// ttl, and at_least ends by the members' clocks; takeover and fencing are always `observed` and true;
/// strategy, owner takes_over, recursion, a bound of attempts and a retry policy are not for it.
///
/// A member that was wiped, restored from a backup or replaced has to be joined before it votes again:
/// join(). A program whose lock_manager was made for the former database goes on without that member until it
/// is started again.
///
/// Preconditions: the managers exist as long as the quorum, its mutexes and its locks.
///
/// A forked child owns nothing of its parent's: its locks are lost there (loss_reason::forked), and whatever
/// asks the members throws error(errc::forked).
///
/// Thread safety: all members may be called from several threads at once.
class ROWLOCK_EXPORT quorum {
 public:
  /// Asks nobody yet. @throws error(errc::invalid_argument) if there are fewer than three, or one is there
  /// twice
  explicit quorum(std::vector<lock_manager*> members, quorum_options options = {});
  ~quorum();
  quorum(quorum const&) = delete;
  quorum& operator=(quorum const&) = delete;

  /// @throws error(errc::invalid_argument, errc::unsupported) as lock_manager::make_mutex()
  [[nodiscard]] quorum_mutex make_mutex(std::string name, mutex_options options = {});

  /// Asks each member; in the order of the managers. Throws nothing for a member that does not answer.
  [[nodiscard]] std::vector<quorum_member_info> status();

  /// What each member's rows say of the locks that are held by majority; a text where it could not be asked.
  [[nodiscard]] std::vector<std::variant<std::vector<lock_info>, std::string>> list(
      list_options const& options = {});

  /// Takes a lock away from its holder, at each member that can be reached. @return how many had it
  /// @throws error a member's, if less than a majority could be asked: the holder may go on
  quorum_outcome revoke(std::string const& name, revoke_mode);

  /// Makes these databases a quorum. All of them must answer, and belong to none. First all of them are
  /// given the list, then they are allowed to vote. May be repeated after it was interrupted. Where one of
  /// them votes by then, one that only has the list may have voted, and have forgotten it: it votes after
  /// `max_ttl`, as one that joins, and this call blocks for that long. One without the list must join().
  /// @param max_ttl of all locks, from 1 s to 1 h: a member that joins is kept waiting for that long
  /// @param stop ends the waiting
  /// @throws error(errc::invalid_argument) naming the member that is in the way; errc::conflict if somebody
  /// else makes one of them a member at the same time; errc::closed if `stop` was triggered: those that did
  /// not vote before don't yet, and init() is to be called again
  void init(std::chrono::milliseconds max_ttl, std::stop_token stop = {});

  /// The member at `place` (from 0) was wiped, restored or replaced: has it vote again. A new epoch goes to a
  /// majority of the others; when the longest ttl has passed, it learns the highest token of these others,
  /// and votes. Locks that are held by a majority of the others stay held. Blocks for that long.
  /// @param place of the manager whose database joins, from 0
  /// @param replaces the database_id of the member whose place it takes; empty if that can be told: it is
  /// the one of the list that none of the others is
  /// @param stop ends the waiting
  /// @throws error(errc::not_voting) if too few of the others vote and can be asked; errc::invalid_argument;
  /// errc::conflict if somebody else changes the members at the same time; errc::closed if `stop` was
  /// triggered: it does not vote, and join() is to be called again
  void join(std::size_t place, std::string const& replaces = {}, std::stop_token stop = {});

  /// They belong to no quorum any more, whatever they say: each member that can be reached votes no more.
  /// @return how many there were
  /// @throws error a member's, if none could be asked
  quorum_outcome drop();

 private:
  std::shared_ptr<recipes::quorum_crew> crew_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
