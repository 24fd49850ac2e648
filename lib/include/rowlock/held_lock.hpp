#pragma once

#include <rowlock/export.hpp>
#include <rowlock/types.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

namespace rowlock::holding {
class hold;
}
namespace rowlock::managing {
class manager;
}
namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

class basic_mutex;
class basic_transaction;
class held_locks;
class lock_manager;
class once_run;
class semaphore;

/// A lock that was taken. Move-only. Gives the lock back when it is destroyed, which any thread may do.
///
/// May outlive its lock_manager: the lock has been given back by then. A handle that was moved from is like
/// one that was released: valid() is false, release() does nothing, and the other members say what the lock
/// was.
///
/// Exception safety: only extend(), set_note(), detach(), done(), try_upgrade(), downgrade() and
/// loss_details() throw. The handle is then as it was, unless it is said there that the lock is lost.
///
/// Thread safety: distinct handles are independent, also those of one recursive lock. The const members,
/// extend(), set_note() and release() of one handle may be called from several threads at once: a callback of
/// its loss_token() may release a handle that other threads look at. Nothing else may be called while another
/// thread moves, assigns, detaches, upgrades, downgrades or destroys the handle.
class ROWLOCK_EXPORT held_lock {
 public:
  held_lock(held_lock&&) noexcept;
  held_lock& operator=(held_lock&&) noexcept;
  ~held_lock();  ///< calls release() and ignores its result

  std::string const& name() const noexcept;
  /// The random id of this grant. Statements of the program's own may ask by it, so a lock whose term was
  /// read while it was held is never handed on to another thread without a round trip; who wants to tell
  /// grants apart may use token(). Empty if the lock was given back, and another thread of this process has
  /// gone on with its term.
  term_id const& term() const noexcept;
  fencing_token token() const noexcept;
  owner_id const& owner() const noexcept;

  /// The latest time at which this process may act as the holder. It is never later than the moment at which
  /// the database may give the lock away, as long as clocks run at the same rate to within 1 % and the
  /// database's clock does not step forward by more than half the margin (a tenth of the ttl). It moves
  /// forward with each renewal and stands still once the lock is lost. It is in the past once somebody else
  /// may have the lock or the lock was given back. Empty for row_lock, which has no trust in the future.
  [[nodiscard]] std::optional<boot_time_point> trusted_until() const noexcept;

  /// True while the lock is held: not lost, not given back, and trust has not ended.
  [[nodiscard]] bool valid() const noexcept;

  /// Triggered when the lock is lost, with some time left before trust ends where that can be known. Its
  /// callbacks run on a thread of the library that serves all locks of the manager: keep them short. They may
  /// release locks, and destroy handles, mutexes and the lock_manager itself (see "Thread safety" above).
  /// They must not wait for another lock.
  [[nodiscard]] std::stop_token loss_token() const noexcept;

  /// Why the lock was lost; empty while it is held and after it was given back in time.
  [[nodiscard]] std::optional<loss_reason> loss() const noexcept;

  /// For messages and logs: what is known about the loss (which session has the row locked, for how long the
  /// database has not confirmed a renewal, and what it said last). While the lock is held: what keeps it from
  /// being renewed. Empty if there is nothing to say.
  /// @throws std::bad_alloc alone
  [[nodiscard]] std::string loss_details() const;

  /// Makes the term last at least `duration` from now; one round trip. Never shortens the term; the hard
  /// limit stays. @return false if the lock is lost or was given back
  /// @throws error if the database can't be asked; errc::row_locked or errc::conflict if the term could not
  /// be extended just now; errc::invalid_argument if `duration` is not between 1 ms and 366 days;
  /// errc::unsupported for row_lock. Trust is then as it was. (After errc::in_doubt the term may last longer
  /// than trust says.)
  [[nodiscard]] bool extend(std::chrono::milliseconds duration);

  /// Changes the note in the lock's row, which `rowlock list` shows; one round trip. Everything else stays as
  /// it is, and other threads of this process that wait for the lock may still be told the former note. Not
  /// amid a transaction of the program's own that requires this lock: that has the row locked.
  /// @return false if the lock is lost or was given back
  /// @throws error if the database can't be asked; errc::row_locked if a transaction had the row locked for
  /// too long; errc::invalid_argument if the note is longer than 1024 bytes or not UTF-8; errc::unsupported
  /// for row_lock. The note is then as it was. (After errc::in_doubt it may have been changed.)
  [[nodiscard]] bool set_note(std::string const& note);

  /// Lets go of the lock without giving it back, for work that goes on elsewhere. The lock stays taken until
  /// its term is over, whatever happens to this process. Nothing prolongs the term from now on, and nobody
  /// tells that work that its time is over: let it end well before, or pass on the token. Sends nothing.
  /// mutex_options::at_least is forgotten.
  /// @return what to renew or release the lock by; empty if the lock was lost or given back
  /// @throws error(errc::unsupported) for row_lock, which ends with its session; errc::invalid_argument if
  /// other handles of a recursive lock share it; errc::closed if the lock_manager was destroyed. The handle
  /// is then as it was.
  [[nodiscard]] std::optional<detached_lock> detach();

  /// For strategy once: gives the lock back by recording that its work is done. Until `keep_for` from now is
  /// over nobody can take the name: acquire_status::done, with this owner, the time, and `result` as the
  /// note. After true the handle is as one that was released. Blocks while the database does not answer: as
  /// long as trust lasts, and for manager_options::reply_timeout at least. If the process dies before, or the
  /// answer is errc::in_doubt, the work may be done again; basic_transaction::done() is the form of which
  /// this is not true.
  /// @return false if the lock was lost before, or given back: nothing was recorded
  /// @throws error errc::in_doubt if it can't be found out whether it was recorded: the lock is held as
  /// before; errc::unsupported for another strategy; errc::invalid_argument if `keep_for` is not between 1 ms
  /// and 100 years, or `result` is not UTF-8 of at most 1024 bytes
  [[nodiscard]] bool done(std::chrono::milliseconds keep_for, std::string const& result = {});

  /// Of a shared_mutex: makes a lock that reads one that writes, if nobody else reads; one attempt, a few
  /// round trips. What is held then is a new term, with a token above all that were drawn before, and a
  /// loss_token() of its own: ask for it again. Two that try at once are both refused.
  /// @return false if others read, wait in this process, or it is lost: then nothing was done
  /// @throws error(errc::unsupported) for other locks; errc::invalid_argument if this thread has taken it
  /// more than once; errc::row_locked if a transaction has its row locked, or the name's; what try_acquire()
  /// throws. After errc::in_doubt the lock is lost, and also where the reply, or this thread, came too late
  /// to have the new one (errc::unreachable): loss() tells.
  [[nodiscard]] bool try_upgrade();
  /// Of a shared_mutex: makes a lock that writes one that reads, without anybody writing in between; as
  /// try_upgrade() otherwise. @return false if it is lost
  [[nodiscard]] bool downgrade();

  /// Gives the lock back; one round trip. Blocks for manager_options::release_timeout at most. A second call
  /// does nothing and returns released. So does a call on a handle of a recursive lock that is not the last.
  [[nodiscard]] release_result release() noexcept;

 private:
  bool exchange(std::int64_t units);
  friend class basic_mutex;
  friend class basic_transaction;
  friend class held_locks;
  friend class lock_manager;
  friend class once_run;
  friend class semaphore;
  held_lock(std::shared_ptr<managing::manager>, std::shared_ptr<holding::hold>) noexcept;

  std::shared_ptr<managing::manager> manager_;
  std::shared_ptr<holding::hold> hold_;
  std::atomic<bool> live_;  ///< has not been released by this handle
};

/// The result of an attempt to take a lock: like std::optional<held_lock>, and says why it is empty.
///
/// Move-only. An object that was moved from is empty, and its status() is cancelled.
///
/// Preconditions: operator* and operator-> need a lock, as those of std::optional need a value. value()
/// checks.
///
/// Thread safety: distinct objects are independent; const members of one may be called from several threads.
class acquisition {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): as std::optional's
  acquisition(held_lock lock) noexcept : lock_(std::move(lock)) {}
  /// @throws error(errc::invalid_argument) if why_not is acquire_status::acquired: there would be no lock
  ROWLOCK_EXPORT acquisition(acquire_status why_not, std::optional<holder_info> holder);
  acquisition(acquisition&& other) noexcept
      : lock_(std::move(other.lock_)), status_(other.status_), holder_(std::move(other.holder_)) {
    other.say_empty();
  }
  /// First gives back the lock that this object has.
  acquisition& operator=(acquisition&& other) noexcept {
    if (this == &other) return *this;
    lock_ = std::move(other.lock_);
    status_ = other.status_;
    holder_ = std::move(other.holder_);
    other.say_empty();
    return *this;
  }
  ~acquisition() = default;

  explicit operator bool() const noexcept { return lock_.has_value(); }
  held_lock& operator*() & noexcept { return *lock_; }
  /// Moves the lock out: the acquisition is empty then, as one that was moved from.
  held_lock operator*() && noexcept { return take_out(); }
  held_lock const& operator*() const& noexcept { return *lock_; }
  held_lock* operator->() noexcept { return &*lock_; }
  held_lock const* operator->() const noexcept { return &*lock_; }
  /// The lock. @throws error(errc::not_acquired) if there is none; its message has status() and holder()
  ROWLOCK_EXPORT held_lock& value() &;
  ROWLOCK_EXPORT held_lock const& value() const&;
  ROWLOCK_EXPORT held_lock value() &&;  ///< moves it out

  acquire_status status() const noexcept { return status_; }
  /// Who held the lock, as last seen. Empty if the row was locked by a transaction whose owner can't be seen.
  std::optional<holder_info> const& holder() const noexcept { return holder_; }

 private:
  void say_empty() noexcept {
    lock_.reset();
    status_ = acquire_status::cancelled;
    holder_.reset();
  }
  held_lock take_out() noexcept {
    held_lock out(*std::move(lock_));
    say_empty();
    return out;
  }
  void require_lock() const;

  std::optional<held_lock> lock_;
  acquire_status status_ = acquire_status::acquired;
  std::optional<holder_info> holder_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
