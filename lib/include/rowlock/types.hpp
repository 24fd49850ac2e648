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

/// The clock that leases are measured by: CLOCK_BOOTTIME.
///
/// It never jumps. Unlike std::chrono::steady_clock (CLOCK_MONOTONIC) it goes on while the machine sleeps, so
/// that a lease does not look fresh after a suspended laptop or a migrated virtual machine wakes up.
struct ROWLOCK_EXPORT boot_clock {
  using rep = std::int64_t;
  using period = std::nano;
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<boot_clock>;
  static constexpr bool is_steady = true;

  static time_point now() noexcept;
};

using boot_time_point = boot_clock::time_point;

/// `d` in nanoseconds. What is longer than nanoseconds can say becomes the longest that they can say:
/// hours::max() must not wrap around to the past.
template <class Rep, class Period>
constexpr std::chrono::nanoseconds saturated_nanoseconds(std::chrono::duration<Rep, Period> const& d) {
  using wide = std::chrono::duration<long double, std::nano>;
  if (wide(d) >= wide(std::chrono::nanoseconds::max())) return std::chrono::nanoseconds::max();
  if (wide(d) <= wide(std::chrono::nanoseconds::min())) return std::chrono::nanoseconds::min();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(d);
}

/// How mutual exclusion is implemented. A name keeps the strategy that it was first taken with until its row
/// is reaped.
enum class strategy {
  lease,
  unique_insert,
  row_lock,
  once,       ///< a lease whose name can be recorded as done: see <rowlock/once.hpp>
  shared,     ///< of shared_mutex: one may write, or many may read
  semaphore,  ///< of semaphore: as many at a time as the limit says
  quorum,     ///< of quorum: what one of several databases grants, which decide by majority
};

/// The properties that all locks of a strategy have.
struct strategy_traits {
  /// If true, a term ends by itself when its ttl is over, unless it is renewed; it may be extended, detached
  /// and required. Otherwise a term lasts as long as the database session that holds it.
  bool has_expiry = false;
  bool revocable = false;          ///< lock_manager::revoke() can take it away from its holder
  bool owns_session = false;       ///< each lock that is held or waited for has a database session of its own
  bool waits_in_server = false;    ///< a waiter stands in the server's line, and asks once
  bool fenced_by_default = false;  ///< a fencing token costs nothing: mutex_options::fencing
  bool records_done = false;       ///< held_lock::done() can record that the work is done
  /// Several may hold it at a time, each with a term of its own: for shared_mutex and semaphore only.
  bool counted = false;
  /// One database alone does not grant it: for rowlock::quorum only.
  bool by_majority = false;
};
/// Preconditions: the strategy is one of the enumeration's.
ROWLOCK_EXPORT strategy_traits const& traits(strategy) noexcept;

/// When an expired term may be taken over.
enum class takeover {
  /// As soon as its expiry has passed by the database's clock.
  clock,
  /// After the taker has seen term and renewal count unchanged for the row's ttl and 2 % by its own boot-time
  /// clock, whatever the database's clock says. This is slower: a dead holder's lock is free after up to two
  /// ttl and 2 %, and only for a single call that waits for so long. try_acquire() alone, however often, does
  /// not see such a row long enough.
  observed,
};

/// A number that rises with every granted term of a name. Send it along with writes to other systems, and let
/// them refuse a number that is lower than one they have seen. Zero, and false, when fencing is switched off.
struct fencing_token {
  std::int64_t value = 0;

  explicit operator bool() const noexcept { return value != 0; }
  auto operator<=>(fencing_token const&) const = default;
};

/// One attempt to take a name: 128 random bits, never used again, not even for a retry of the same call.
/// Renewal, release and guards name their term and so can never touch another term.
struct term_id {
  std::string value;  ///< 32 lower-case hexadecimal digits; empty for "none"

  bool empty() const noexcept { return value.empty(); }
  auto operator<=>(term_id const&) const = default;
};

/// Who holds a lock. `process` and `thread` say whether two owners are the same; `host` and `pid` are for
/// people.
struct owner_id {
  std::string host;
  std::int64_t pid = 0;
  std::string process;      ///< random id made when the process started, or the text of owner takes_over
  std::int64_t thread = 0;  ///< never reused within a process; 0 for owner takes_over
  bool is_explicit() const noexcept { return thread == 0; }
  /// Compares process and thread.
  bool same(owner_id const& other) const noexcept {
    return process == other.process && thread == other.thread;
  }
};

/// What the database says about the present holder of a name.
struct holder_info {
  rowlock::strategy strategy = rowlock::strategy::lease;
  owner_id owner;
  fencing_token token;
  std::chrono::system_clock::time_point acquired_at;  ///< by the database's clock
  /// How long the term lasts at most unless it is renewed again. Negative if it has expired already.
  std::chrono::milliseconds expires_in{0};
  bool revoked = false;
  std::string note;
  /// Of strategy once: nobody holds the name. Its work was recorded as done at `acquired_at`, by `owner` (of
  /// whom host and pid are known), with the result `note`. `expires_in`: how long that is kept.
  bool done = false;
  std::int64_t units = 0;  ///< of a permit: how many it has taken; 0 for other locks
  std::int64_t limit = 0;  ///< of a permit: the limit that its taker was told
};

/// A lock that no handle keeps: transaction::insert() has put it into the program's transaction, or
/// held_lock::detach() has left it. Nothing renews it, nothing tells of its loss, and it outlives the
/// process. Any process that knows name and term may renew it or give it back, by lock_manager::renew() and
/// release().
struct detached_lock {
  std::string name;
  term_id term;
  fencing_token token{};
  /// Empty: not known. release() then looks it up first, which is one more round trip.
  std::optional<rowlock::strategy> strategy{};
};

/// Who waits for a lock, as the server tells it. What it doesn't tell this user is empty.
struct waiter_info {
  std::string host;          ///< the client's address, as the server sees it
  std::int64_t session = 0;  ///< the server's number for it: a process of PostgreSQL's, a connection's id
  std::string application;   ///< PostgreSQL: application_name
};

/// A row of rowlock_locks, or a permit, for people.
struct lock_info {
  std::string name;
  bool held = false;   ///< has a term; it may have expired: see holder.expires_in. Not if it is done
  holder_info holder;  ///< of an idle row: the last one
  /// Empty if the whole row could be read. Otherwise the reason: a later version of rowlock, or a person, has
  /// put something there that this version doesn't know. Then `holder` has no more than what could be read,
  /// and its `strategy` may be wrong.
  std::string unknown{};
  /// Of a held lock: how many wait for it in the server's line, at this moment. A process counts once,
  /// however many of its threads wait; who tries again and again, without a place in the line, does not
  /// count. Empty where the database does not tell (SQLite, Galera and the like, a pooler; row_lock on MySQL
  /// and MariaDB), if the lock is idle, and from find().
  std::optional<int> waiting{};
  std::vector<waiter_info> waiters{};  ///< as many, in no order
  term_id term{};                      ///< of a permit, from list(): by it one of several can be revoked
};

enum class revoke_mode {
  /// Marks the row: the holder learns of it at its next renewal and lets go, at the latest when the term
  /// expires. Exclusion stays. Owner takes_over does not get the lock before that either.
  at_renewal,
  /// Frees the row. Where a term may go from thread to thread (lease, once, unique_insert) revoke() takes
  /// half a second, in which nobody is granted it. Its holder may work until its next renewal. Guards stay
  /// safe.
  now,
};

/// The result of an attempt to take a lock.
enum class acquire_status {
  acquired,
  busy,       ///< somebody else holds it, and the call was not to wait
  timed_out,  ///< somebody else held it until the deadline, or the allowed number of attempts was used up
  cancelled,  ///< the caller's std::stop_token was triggered, the lock_manager destroyed, or the process ends
  /// Nobody holds it, but a transaction had its row, or the SQLite file, locked: for a second if the call was
  /// not to wait, else at the last attempt.
  contended,
  done,  ///< of strategy once: nobody holds it, and it was recorded as done. Not waited for
};

/// Why a lock that was held is not held any more.
enum class loss_reason {
  expired,     ///< its time was over: a fixed lease, or its hard limit
  taken_over,  ///< another term is in the row
  revoked,     ///< an operator asked for it back
  row_gone,    ///< its row was deleted; or the SQLite file that it was in was removed, replaced, or linked
  database_unreachable,  ///< it could not be renewed in time
  forked,                ///< this is a forked child; the parent has the lock
  session_ended,         ///< of row_lock: the database ended the session that held it, or it can't be reached
  read_only,             ///< the server takes no writes any more, as after a switch-over
  row_locked,  ///< another transaction had its row, or SQLite's file, locked until its time was over
  suspended,   ///< this process, or its machine, was stopped, suspended or starved until its time was over
};

enum class release_result {
  released,
  already_lost,
  handed_over,  ///< the row is locked by a transaction just now; the renewer gives it back as soon as it can
  in_doubt,     ///< the database did not answer; the renewer tries again, and the term ends by its own expiry
};

ROWLOCK_EXPORT char const* to_string(strategy) noexcept;
ROWLOCK_EXPORT char const* to_string(takeover) noexcept;
ROWLOCK_EXPORT char const* to_string(acquire_status) noexcept;
ROWLOCK_EXPORT char const* to_string(loss_reason) noexcept;
ROWLOCK_EXPORT char const* to_string(release_result) noexcept;

/// Inverse of to_string(strategy); empty if there is no such strategy.
ROWLOCK_EXPORT std::optional<strategy> strategy_from_string(std::string_view) noexcept;

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
