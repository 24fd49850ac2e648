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

/// How long to wait between two attempts to take a lock that somebody else holds: exponential back-off with
/// jitter, or a policy of the caller's own. A wait never goes on past the moment at which the holder's term
/// expires. Jitter after M. Brooker, "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015).
struct retry_options {
  std::chrono::milliseconds first{20};      ///< before the second attempt; doubled after each further one
  std::chrono::milliseconds longest{1000};  ///< the doubling stops here
  double jitter = 0.5;                      ///< from 0 to 1: the part of each wait that is random
  int attempts = 0;                         ///< give up (timed_out) after so many; 0: no bound
  /// If set, decides instead of the above: called with the number of attempts made so far (from 1) and the
  /// holder if known; returns the wait, or nothing to give up. Called by the waiting thread.
  std::function<std::optional<std::chrono::milliseconds>(int, holder_info const*)> policy{};
};

/// The owner of a lock is the thread that takes it. If the same thread asks again, it gets an error (mutex)
/// or another handle (recursive_mutex).
struct calling_thread {};
/// Each acquire has an owner of its own, and no two owners are ever the same. For coroutines, and for pools
/// that hand work from thread to thread, where neither a thread nor a text says whose the lock is. A holder
/// that asks again waits like anybody else. Such a lock is taken by acquire() and try_acquire...(): lock()
/// and try_lock...() throw error(errc::unsupported), because unlock() could not tell whose lock is meant. A
/// recursive_mutex can't have this owner (errc::invalid_argument).
struct each_acquire {};
/// The owner is a job that restarts. A call whose text equals that of the lock's present owner takes the lock
/// away from it at once: the former holder hears of it, as if it had died. So two jobs that work at the same
/// time must not have the same text. It is no label: see mutex_options::label for that.
struct takes_over {
  explicit takes_over(std::string what) : text(std::move(what)) {}
  std::string text;  ///< at most 255 bytes of UTF-8
};

/// The options of one lock. The defaults suit most programs: 30 s leases, renewed while held.
struct mutex_options {
  std::optional<rowlock::strategy> strategy{};  ///< empty: what manager_options::strategy says
  /// How long a term lasts without renewal; from 100 ms to 366 days. A dead holder's lock is free after it.
  /// The lock is renewed every third of it.
  std::chrono::milliseconds ttl{30'000};
  /// Whether the renewer renews the lock. If not, the term ends after ttl (a fixed lease) unless extend() is
  /// called. Not for row_lock, whose session is pinged every third of the ttl: `false` is refused there.
  bool renew = true;
  retry_options retry{};
  /// If the lock is given back earlier, the name stays taken until this long after it was taken: for jobs
  /// that must not run twice although clocks differ. 0: off.
  std::chrono::milliseconds at_least{0};
  /// The term can't be renewed or extended past this long after it was taken: for jobs that hang. 0: no
  /// limit.
  std::chrono::milliseconds hard_limit{0};
  /// Whether every call that may wait lines up first, behind those of all processes that wait for the name,
  /// so that they get it in the order in which they came. It costs two round trips more. Without it a call
  /// that finds the lock free may overtake others, but nobody is overtaken again and again. What it needs:
  /// manager_options::queue_connections. A try_lock() or try_acquire() without a time-out never lines up. It
  /// orders those who ask for it, and decides nothing about who may hold the lock.
  bool fair = false;
  rowlock::takeover takeover = takeover::clock;
  /// Whether to draw a fencing token. Empty: yes, but not for row_lock, where it costs a second connection
  /// and two more round trips.
  std::optional<bool> fencing{};
  /// Whose the lock is, and so who may have it a second time. row_lock and locks that several may hold can't
  /// have takes_over.
  std::variant<calling_thread, each_acquire, takes_over> owner{};
  /// A word of the program's own that its events carry, and by which class metrics counts refused calls and
  /// held locks ("billing"). At most 255 bytes of UTF-8. Each different one is a time series: there should be
  /// few, and the program sees to that. No part of it gets into the database.
  std::string label{};
  std::string note{};  ///< for people who read `rowlock list`; at most 1024 bytes of UTF-8
  /// Called with held_lock::trusted_until() whenever that has moved forward: after each renewal and each
  /// extend(), by the thread that made it. For programs that have to tell others in time, such as a process
  /// that watches over this one. Two calls may overlap: the latest time of all counts.
  /// held_lock::loss_token() tells that trust ends. Must be quick, must not take locks; what it throws is
  /// dropped. Not called any more once the manager's destructor has returned.
  std::function<void(boot_time_point)> on_trust{};
  /// Called by the waiting thread whenever it has found the name taken and is going to wait: with the holder,
  /// as last seen, or null if that is not known. For telling people whom they wait for: about once a second
  /// while the thread stands in the server's line, once when it lines up behind another thread of its
  /// process, and never while it waits for a row_lock in the server. Unlike retry_options::policy it changes
  /// nothing about how it is waited. Must be quick; what it throws is dropped.
  std::function<void(holder_info const*)> on_wait{};
};

enum class event_kind {
  taken,
  refused,  ///< a call has ended without the lock: busy, contended, timed out or done (not: cancelled)
  waited,
  renewed,
  lost,
  released,
  ended,  ///< this process holds the lock no more, for whatever reason: once for each that was taken
  error
};
ROWLOCK_EXPORT char const* to_string(event_kind) noexcept;

/// One thing that happened to a lock; views are valid during the call only.
struct event {
  event_kind kind{};
  std::string_view name{};  ///< the lock's; may be empty for errors that concern no single one
  std::string_view term{};  ///< empty if there is none
  fencing_token token{};
  std::chrono::nanoseconds duration{
      0};  ///< taken, refused, waited: since the call; renewed, released: of the round trip
  std::optional<boot_time_point> trusted_until{};  ///< taken, renewed
  std::optional<loss_reason> loss{};               ///< lost
  std::string_view message{};                      ///< error; refused: why; lost: held_lock::loss_details()
  std::string_view label{};  ///< taken, refused, lost, ended, error of unlock(): mutex_options::label
};

/// The options of a lock_manager.
struct manager_options {
  std::string table_prefix = "rowlock_";
  std::string schema{};  ///< of rowlock's tables; empty: what the search path says
  rowlock::strategy strategy = rowlock::strategy::lease;  ///< of mutexes whose options don't say
  /// Connections for taking and giving back, opened when first needed, at most 1,000. Threads that find none
  /// free share one statement where that can be done, so there need not be as many as there are threads. The
  /// renewer has one more of its own. 0: as many as were measured to be of use: 4 on a server, 1 for SQLite,
  /// which writes one transaction at a time, 2 over SOCI, whose pool is the program's.
  int connections = 0;
  /// Connections for row_lock: one for each name that is held or waited for (not for each waiting thread),
  /// and a further one while a token is drawn.
  int row_lock_connections = 10;
  /// How many connections may be used besides, so that who waits for a lease or unique_insert stands in a
  /// line and is woken: each name that is waited for, or that is held after it was waited for, uses one. For
  /// further names threads try again and again (retry_options), as they do for all of them if this is 0, with
  /// SOCI, behind a pooler, on Galera, in a MySQL group with several primaries, with a source made from a
  /// function. SQLite: the line is in a file beside the database, PATH-rowlock; in memory there is none.
  int queue_connections = 4;
  /// Connections that nobody has used for this long are closed, but one of `connections` stays.
  std::chrono::milliseconds idle_timeout{60'000};
  /// The longest wait for a reply of the database, or for a new connection. Calls with a deadline end at most
  /// this much after it.
  std::chrono::milliseconds reply_timeout{5'000};
  /// The longest time that unlock(), destructors and the end of the process may block. If the source uses a
  /// function or a pool of the program's, the manager's own destructor waits reply_timeout longer, if need
  /// be, until nobody uses them.
  std::chrono::milliseconds release_timeout{2'000};
  /// Called for logs and metrics, from any thread of the caller's or the library's, also two at once; must be
  /// quick, must not take locks, and what it throws is dropped. Not called any more once the manager's
  /// destructor has returned.
  std::function<void(event const&)> on_event{};
};

/// Which locks lock_manager::list() returns.
struct list_options {
  bool idle = false;  ///< also names that have a row although nobody holds the lock
  bool done = false;  ///< also names that are recorded as done (strategy once): holder_info::done
  /// Only names that match, as fnmatch(3) has it without flags, byte by byte: "job-*". Empty: all.
  std::string glob{};
  /// Only locks that were taken before that, by the database's clock. Left out is also whatever the database
  /// does not tell since when it is held: row_lock on MySQL and MariaDB.
  std::chrono::milliseconds held_longer_than{0};
  /// At most so many names, each with all its permits; 0: all. With `after`, page by page: the last name of a
  /// page is `after` of the next one. What changes meanwhile is seen or not.
  std::size_t limit = 0;
  std::string after{};  ///< only names behind this one
  bool waiters = true;  ///< also who waits, where the database tells
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
