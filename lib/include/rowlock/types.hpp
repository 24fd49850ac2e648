#pragma once

#include <rowlock/export.hpp>

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// CLOCK_BOOTTIME, the clock of leases. Never jumps. Unlike std::chrono::steady_clock (CLOCK_MONOTONIC) it
/// also runs while the machine sleeps, so no lease looks fresh after a suspended laptop or a migrated virtual
/// machine wakes up.
struct ROWLOCK_EXPORT boot_clock {
  using rep = std::int64_t;
  using period = std::nano;
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<boot_clock>;
  static constexpr bool is_steady = true;

  static time_point now() noexcept;
};

using boot_time_point = boot_clock::time_point;

/// `d` in nanoseconds, or the nearest that fits: hours::max() must not wrap around to the past.
template <class Rep, class Period>
constexpr std::chrono::nanoseconds saturated_nanoseconds(std::chrono::duration<Rep, Period> const& d) {
  using wide = std::chrono::duration<long double, std::nano>;
  if (wide(d) >= wide(std::chrono::nanoseconds::max())) return std::chrono::nanoseconds::max();
  if (wide(d) <= wide(std::chrono::nanoseconds::min())) return std::chrono::nanoseconds::min();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(d);
}

/// The time until `deadline`, or the nearest that fits: time_point::min() must not wrap around to the future.
template <class Clock, class Duration>
std::chrono::nanoseconds saturated_time_until(std::chrono::time_point<Clock, Duration> const& deadline) {
  using wide = std::chrono::duration<long double, std::nano>;
  return saturated_nanoseconds(wide(deadline.time_since_epoch()) - wide(Clock::now().time_since_epoch()));
}

/// How mutual exclusion is implemented. A name keeps its first strategy until its row is reaped.
enum class strategy {
  lease,
  unique_insert,
  row_lock,
  once,       ///< a lease whose name can be recorded as done: <rowlock/once.hpp>
  shared,     ///< of shared_mutex: one writer, or many readers
  semaphore,  ///< of semaphore: as many units as the limit
  quorum,     ///< a vote: one of several databases grants it, and a majority of them the lock
};

/// The properties of all locks of a strategy.
struct strategy_traits {
  /// If true, a term ends when its ttl is over unless it is renewed, and may be extended, detached and
  /// required. Otherwise a term lasts as long as its database session.
  bool has_expiry = false;
  bool revocable = false;          ///< by lock_manager::revoke()
  bool owns_session = false;       ///< each lock that is held or waited for has a database session
  bool waits_in_server = false;    ///< a waiter asks once. The server queues it
  bool fenced_by_default = false;  ///< a fencing token costs nothing: mutex_options::fencing
  bool records_done = false;       ///< by held_lock::done()
  /// Several owners may hold the lock, each with a term: for shared_mutex and semaphore only.
  bool counted = false;
  /// One database alone does not grant the lock: for rowlock::quorum only.
  bool by_majority = false;
};
/// Preconditions: the strategy is an enumerator.
ROWLOCK_EXPORT strategy_traits const& traits(strategy) noexcept;

/// When an expired term may be taken over.
enum class takeover {
  /// After its expiry by the database's clock.
  clock,
  /// After the taker has seen term and renewal count unchanged for the row's ttl and 2 % by its own boot-time
  /// clock, whatever the database's clock says. Slower: a dead holder's lock is free after up to two ttl and
  /// 2 %, and only for a call that waits so long. Repeated try_acquire() never gets it.
  observed,
};

/// A number that rises with every granted term of a name. Send it along with writes to other systems, which
/// must refuse a lower number than they have seen. Zero, and false, without fencing.
struct fencing_token {
  std::int64_t value = 0;

  explicit operator bool() const noexcept { return value != 0; }
  auto operator<=>(fencing_token const&) const = default;
};

/// The id of one attempt to take a name: 128 random bits, never used again, not even for a retry. Renewal,
/// release and guards name their term, and so never touch another.
struct term_id {
  std::string value;  ///< 32 lower-case hexadecimal digits, or empty

  bool empty() const noexcept { return value.empty(); }
  auto operator<=>(term_id const&) const = default;
};

/// The owner of a lock. `process` and `thread` identify it. `host` and `pid` are for people.
struct owner_id {
  std::string host;
  std::int64_t pid = 0;
  std::string process;      ///< random id of the process, or the text of owner takes_over
  std::int64_t thread = 0;  ///< never reused within a process; 0 for owner takes_over
  bool is_explicit() const noexcept { return thread == 0; }
  /// Compares process and thread.
  bool same(owner_id const& other) const noexcept {
    return process == other.process && thread == other.thread;
  }
};

/// The present holder of a name, as the database says.
struct holder_info {
  rowlock::strategy strategy = rowlock::strategy::lease;
  owner_id owner;
  fencing_token token;
  std::chrono::system_clock::time_point acquired_at;  ///< by the database's clock
  /// The time until the term ends unless it is renewed. Negative after the expiry.
  std::chrono::milliseconds expires_in{0};
  bool revoked = false;
  std::string note;
  /// Of strategy once: the name has no holder. The work was recorded as done at `acquired_at`, by `owner`
  /// (host and pid only), with the result `note`, for `expires_in` from now.
  bool done = false;
  std::int64_t units = 0;  ///< units of a permit; 0 for other locks
  std::int64_t limit = 0;  ///< of a permit: the limit that its taker gave
};

/// A lock without a handle, from transaction::insert() or held_lock::detach(). Outlives the process. No
/// thread renews it or reports its loss. Any process may call lock_manager::renew() and release() by name and
/// term.
struct detached_lock {
  std::string name;
  term_id term;
  fencing_token token{};
  /// Empty: unknown. release() then looks it up by one more round trip.
  std::optional<rowlock::strategy> strategy{};
};

/// A waiter, or another session, as the server sees it. Facts that the server hides from this user are empty.
struct waiter_info {
  std::string host;          ///< the client's address
  std::int64_t session = 0;  ///< the server's number for it: PostgreSQL's process id, or the connection id
  std::string application;   ///< of PostgreSQL
  std::string user{};        ///< its login, in lock_info::row_locked_by
};

/// A row of rowlock_locks, or a permit, for people.
struct lock_info {
  std::string name;
  bool held = false;   ///< has a term, perhaps an expired one (holder.expires_in). False if done
  holder_info holder;  ///< of an idle row: the last one
  /// Empty if the whole row could be read. Otherwise the reason: a later version of rowlock, or a person, has
  /// written something unknown to this version. Then `holder` has only the readable parts, and its `strategy`
  /// can be wrong.
  std::string unknown{};
  /// Of a held lock: processes in the server's wait queue now. Polling waiters do not count. Empty if the
  /// database can't tell (SQLite, Galera and the like, a pooler, row_lock on MySQL and MariaDB), if the lock
  /// is idle, and from find().
  std::optional<int> waiting{};
  std::vector<waiter_info> waiters{};  ///< as many, in no order
  term_id term{};                      ///< of a permit, from list(): for lock_manager::revoke()
  /// Of a held lock, with list_options::row_locks: sessions whose open transaction has the name's row locked,
  /// which can keep its holder from renewing. A row_lock's holder is one of them. MariaDB tells only while a
  /// third session waits for the row, MySQL and MariaDB only with rights; SQLite never.
  std::vector<waiter_info> row_locked_by{};
};

enum class revoke_mode {
  /// Marks the row. The holder releases the lock at its next renewal, at the latest at the expiry. Exclusion
  /// stays. Owner takes_over does not get the lock before, either.
  at_renewal,
  /// Frees the row. The holder may work until its next renewal. Guards stay safe. Where a term can go from
  /// thread to thread (lease, once, unique_insert) revoke() takes half a second, during which no owner gets
  /// the lock.
  now,
};

/// The result of an attempt to take a lock.
enum class acquire_status {
  acquired,
  busy,       ///< another owner holds the lock. The call did not wait
  timed_out,  ///< another owner held the lock until the deadline, or the last of the allowed attempts
  cancelled,  ///< by the caller's std::stop_token, the end of the lock_manager or of the process
  /// No holder, but a transaction had the row, or the SQLite file, locked. It was locked for a second if the
  /// call did not wait, otherwise at the last attempt.
  contended,
  done,  ///< of strategy once: recorded as done, so the call did not wait
  /// No holder, but the database may have forgotten one, in a failover or a crash. It grants no lock until
  /// the longest of those would be over. Or an operator has frozen the database (rowlock::freeze()).
  quarantined,
};

/// Why a lock was lost.
enum class loss_reason {
  expired,               ///< the time was over: a fixed lease, or the hard limit
  taken_over,            ///< another term is in the row
  revoked,               ///< by an operator
  row_gone,              ///< the row was deleted, or the SQLite file was removed, replaced or linked
  database_unreachable,  ///< no renewal came in time
  forked,                ///< this is a forked child. The parent has the lock
  session_ended,         ///< of row_lock. The database ended its session, or can't be reached
  read_only,             ///< the server takes no writes, as after a switch-over
  row_locked,  ///< another transaction had the row, or SQLite's file, locked until the time was over
  suspended,   ///< the process or machine was stopped, suspended or starved until the time was over
};

enum class release_result {
  released,
  already_lost,
  handed_over,  ///< a transaction has the row locked. The renewer releases the lock as soon as it can
  in_doubt,     ///< the database did not answer. The renewer tries again, and the term ends by its expiry
};

ROWLOCK_EXPORT char const* to_string(strategy) noexcept;
ROWLOCK_EXPORT char const* to_string(takeover) noexcept;
ROWLOCK_EXPORT char const* to_string(acquire_status) noexcept;
ROWLOCK_EXPORT char const* to_string(loss_reason) noexcept;
ROWLOCK_EXPORT char const* to_string(release_result) noexcept;

/// Empty if there is no such strategy.
ROWLOCK_EXPORT std::optional<strategy> strategy_from_string(std::string_view) noexcept;

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
