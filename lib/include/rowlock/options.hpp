#pragma once

#include <rowlock/export.hpp>
#include <rowlock/types.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// The wait between two attempts to take a busy lock: exponential back-off with jitter, or the caller's own
/// policy. No wait goes on past the expiry of the holder's term. Jitter after M. Brooker, "Exponential
/// Backoff And Jitter" (AWS Architecture Blog, 2015).
struct retry_options {
  std::chrono::milliseconds first{20};      ///< before the second attempt; doubled after each further one
  std::chrono::milliseconds longest{1000};  ///< the doubling stops here
  double jitter = 0.5;                      ///< from 0 to 1: the random part of each wait
  int attempts = 0;                         ///< give up (timed_out) after so many; 0: no bound
  /// If set, decides instead. Called by the waiting thread (for an asynchronous call by one of the library's,
  /// which steps all of them) with the number of attempts so far (from 1) and the holder if known. Returns
  /// the wait, or nothing to give up.
  std::function<std::optional<std::chrono::milliseconds>(int, holder_info const*)> policy{};
};

/// The owner is the thread that takes the lock. A second take is an error (mutex) or returns another handle
/// (recursive_mutex).
struct calling_thread {};
/// Each acquire has a new owner. For coroutines, and for pools that hand work from thread to thread. A holder
/// that asks again waits like any other caller. Use acquire() and try_acquire...(). lock() and try_lock...()
/// throw error(errc::unsupported), because unlock() could not tell which lock to release. A recursive_mutex
/// can't have this owner (errc::invalid_argument).
struct each_acquire {};
/// The owner is a job that restarts. A call with the text of the present owner takes the lock away from it at
/// once, and the previous holder gets a loss. So jobs that work at the same time must differ in this text.
/// For a mere label see mutex_options::label.
struct takes_over {
  explicit takes_over(std::string what) : text(std::move(what)) {}
  std::string text;  ///< at most 255 bytes of UTF-8
};

/// The options of one lock.
struct mutex_options {
  std::optional<rowlock::strategy> strategy{};  ///< empty: manager_options::strategy
  /// The duration of a term without renewal, from 100 ms to 366 days. A dead holder's lock is free after it.
  /// Renewals come every third of it.
  std::chrono::milliseconds ttl{30'000};
  /// If false, the term ends after ttl (a fixed lease) unless extend() is called. row_lock refuses `false`:
  /// its session is pinged every third of the ttl.
  bool renew = true;
  retry_options retry{};
  /// After an earlier release the name stays taken until this long after the take: for jobs that must not run
  /// twice although clocks differ. 0: off.
  std::chrono::milliseconds at_least{0};
  /// The longest time from the take to the end of the term, whatever renews or extends it: for jobs that
  /// hang. 0: no limit.
  std::chrono::milliseconds hard_limit{0};
  /// Whether every call that can wait first joins the wait queue, behind the waiters of all processes, so
  /// that they get the lock in order. Costs two more round trips. Otherwise a call that finds the lock free
  /// can overtake waiters, but no waiter is overtaken again and again. Needs
  /// manager_options::queue_connections. Orders only callers that use `fair`, and never decides who holds the
  /// lock.
  bool fair = false;
  rowlock::takeover takeover = takeover::clock;
  /// Whether to draw a fencing token. Empty: yes, but not for row_lock, where it costs a second connection
  /// and two more round trips.
  std::optional<bool> fencing{};
  /// The owner, who may take the lock a second time. takes_over is refused for row_lock, and for locks that
  /// several may hold.
  std::variant<calling_thread, each_acquire, takes_over> owner{};
  /// A word of the program's own in its events ("billing"), by which class metrics counts refused calls and
  /// held locks. At most 255 bytes of UTF-8. Each different label is a time series: keep them few. Not
  /// written to the database.
  std::string label{};
  std::string note{};  ///< shown by `rowlock list`; at most 1024 bytes of UTF-8
  /// Called with held_lock::trusted_until() after each renewal and each extend() that has moved it forward,
  /// by the thread that made it. For programs that pass the time on to another process. Two calls can
  /// overlap: the latest time counts. The rules of manager_options::on_event hold.
  std::function<void(boot_time_point)> on_trust{};
  /// Called by the waiting thread (or as retry_options::policy) when it has found the name taken and is going
  /// to wait, with the holder as last seen, or null if unknown. Called about once a second in the server's
  /// wait queue, once when the thread queues behind another of its process, and never during the server's
  /// wait for a row_lock. Unlike retry_options::policy, changes nothing. Must be quick. Exceptions are
  /// dropped.
  std::function<void(holder_info const*)> on_wait{};
};

enum class event_kind {
  taken,
  refused,  ///< a call has ended without the lock, with any other acquire_status than acquired and cancelled
  waited,
  renewed,
  lost,
  released,
  ended,  ///< this process no longer holds the lock, for any reason: once for each `taken`
  error,
  quarantined,  ///< the database may have forgotten locks, or is frozen, and grants none for `duration`. Once
                ///< for each time
};
ROWLOCK_EXPORT char const* to_string(event_kind) noexcept;

/// An event of a lock. Views are valid during the call only.
struct event {
  event_kind kind{};
  std::string_view name{};  ///< of the lock. May be empty for errors that concern no single lock
  std::string_view term{};  ///< empty if there is none
  fencing_token token{};
  std::chrono::nanoseconds duration{
      0};  ///< taken, refused, waited: since the call. Of renewed and released: the round trip
  std::optional<boot_time_point> trusted_until{};  ///< taken, renewed
  std::optional<loss_reason> loss{};               ///< lost
  std::string_view message{};                      ///< error; refused: why; lost: held_lock::loss_details()
  std::string_view label{};  ///< taken, refused, lost, ended, error of unlock(): mutex_options::label
};

/// The options of a lock_manager.
struct manager_options {
  std::string table_prefix = "rowlock_";
  std::string schema{};                                   ///< of rowlock's tables; empty: by the search path
  rowlock::strategy strategy = rowlock::strategy::lease;  ///< of mutexes without a strategy in their options
  /// Connections for takes and releases, opened when first needed, at most 1,000. Threads without a free one
  /// share a statement where possible, so there may be fewer than threads. The renewer has one more. 0: 4 on
  /// a server, 1 for SQLite (one writer at a time).
  int connections = 0;
  /// Connections for row_lock: one for each name that is held or waited for (not for each waiting thread),
  /// and one more while a token is drawn.
  int row_lock_connections = 10;
  /// More connections, for the wait queue, which wakes waiters of a lease or unique_insert: one for each name
  /// with waiters, or held after a wait. For further names threads poll (retry_options), and for all names if
  /// this is 0, behind a pooler, on Galera, in a MySQL group with several primaries, and with a
  /// source made from a function. SQLite's queue is in a file beside the database, PATH-rowlock. In memory
  /// there is none.
  int queue_connections = 4;
  /// Idle connections are closed after this time, except one of `connections`.
  std::chrono::milliseconds idle_timeout{60'000};
  /// The longest wait for a reply of the database, or for a new connection. A call with a deadline ends at
  /// most this long after it.
  std::chrono::milliseconds reply_timeout{5'000};
  /// The longest time that unlock(), destructors and the end of the process block. If the source uses a
  /// function or pool of the program, the manager's own destructor waits up to reply_timeout longer until
  /// their use ends.
  std::chrono::milliseconds release_timeout{2'000};
  /// For logs and metrics. Called from any thread of the caller or the library, also from two at once. Must
  /// be quick, and must not take locks. Exceptions are dropped. Not called after the manager's destructor has
  /// returned.
  std::function<void(event const&)> on_event{};
};

/// Which locks lock_manager::list() returns.
struct list_options {
  bool idle = false;  ///< also names with a row but without a holder
  bool done = false;  ///< also names that are recorded as done (strategy once): holder_info::done
  /// Only names that match, as fnmatch(3) without flags, byte by byte: "job-*". Empty: all.
  std::string glob{};
  /// Only locks taken at least so long ago, by the database's clock. Not row_lock on MySQL and MariaDB, where
  /// the start is unknown.
  std::chrono::milliseconds held_longer_than{0};
  /// At most so many names, each with all its permits; 0: all. For pages, set `after` to the last name of the
  /// page before. Changes in between can be missed.
  std::size_t limit = 0;
  std::string after{};     ///< only names behind this one
  bool waiters = true;     ///< also waiters, where the database knows them
  bool row_locks = false;  ///< also lock_info::row_locked_by
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
