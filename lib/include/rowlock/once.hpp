#pragma once

#include <rowlock/export.hpp>
#include <rowlock/held_lock.hpp>
#include <rowlock/lock_manager.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// Each member has an initializer, so that {.wait = 10s} causes no warning.
struct once_options {
  /// After a crash the key is free when this is over, and the work may be done again. It is renewed while the
  /// work runs. From 100 ms to 366 days.
  std::chrono::milliseconds ttl{30'000};
  /// How long to wait for one that runs elsewhere. 0: not at all.
  std::chrono::milliseconds wait{0};
  /// Ends the waiting, and is passed on to the work: once_run::stop_token().
  std::stop_token stop{};
  /// For people who read `rowlock list` while the work runs; at most 1024 bytes of UTF-8.
  std::string note{};
};

/// What the work of run_once() knows about itself.
///
/// Thread safety: const members may be called from several threads at once; set_result() by one thread, while
/// no other reads result().
class ROWLOCK_EXPORT once_run {
 public:
  once_run(once_run const&) = delete;
  once_run& operator=(once_run const&) = delete;

  /// Triggered when the lock is lost, with some time left before trust ends where that can be known, or by
  /// once_options::stop. Work that stops early has to throw: what returns is recorded, unless the lock was
  /// lost.
  std::stop_token stop_token() const noexcept { return stop_.get_token(); }
  /// Rises with every run of the key: for other systems, to refuse what a former run writes late.
  fencing_token token() const noexcept { return lock_.token(); }
  std::string const& key() const noexcept { return lock_.name(); }
  /// The lock under which this runs: for basic_transaction::require(). basic_transaction::done() takes the
  /// run.
  held_lock const& lock() const noexcept { return lock_; }
  std::chrono::milliseconds keep_for() const noexcept { return keep_for_; }

  /// For those who ask later: once_result::result. At most 1024 bytes of UTF-8.
  /// @throws error(errc::invalid_argument) if it is not
  void set_result(std::string text);
  std::string const& result() const noexcept { return result_; }

 private:
  friend class once_call;
  once_run(held_lock lock, std::chrono::milliseconds keep_for, std::stop_token stop);
  void record();

  struct stop_it {
    std::stop_source* what;
    void operator()() const noexcept { what->request_stop(); }
  };
  held_lock lock_;
  std::chrono::milliseconds keep_for_;
  std::string result_;
  std::stop_source stop_;
  std::stop_callback<stop_it> on_loss_;
  std::stop_callback<stop_it> on_stop_;
};

enum class once_status {
  ran,             ///< just now, by this call, and it is recorded
  was_done,        ///< before: `by` says who and when
  runs_elsewhere,  ///< `by` says who, as last seen; also if it is only a transaction that has the row locked
  cancelled,       ///< by once_options::stop while it waited, or the lock_manager was destroyed
};
ROWLOCK_EXPORT char const* to_string(once_status) noexcept;

/// The result of run_once().
struct once_result {
  once_status status = once_status::ran;
  std::optional<holder_info> by{};  ///< not of `ran`; may be empty
  std::string result{};  ///< of `ran` and `was_done`: what the work had to say (basic_transaction::done())

  /// The work is done, by whomever.
  explicit operator bool() const noexcept {
    return status == once_status::ran || status == once_status::was_done;
  }
};

/// Does `work` unless it was done before, and keeps for `keep_for` that it was, for all processes that use
/// the same database. Only one at a time runs.
///
/// Exactly once is only what the work writes to the same database in a transaction of its own that ends with
/// basic_transaction::done(run): data and record are committed together. Everything else is at least once: a
/// process that dies after the work and before the record leaves no trace, and the work is done again when
/// the ttl is over.
///
/// If the work throws, nothing is recorded, the key is free at once, and the exception is passed on. If the
/// process dies, the key is free when once_options::ttl is over.
///
///     auto const came = rowlock::run_once(locks, "invoices/2026-11", 400 * 24h, [&](rowlock::once_run& run)
///     {
///       ...
///     });
///
/// @param manager of the database in which it is recorded
/// @param key of the work, as a lock's name; it must not be used as a lock's name besides
/// @param keep_for from 1 ms to 100 years. After that the work may be done again
/// @param work is called by the calling thread
/// @param options ttl, waiting, and what others are told
/// @throws error as basic_mutex::try_acquire_for() (retryable errors only when once_options::wait is over);
/// errc::lock_lost if the lock was lost while the work ran: it is not recorded; errc::in_doubt if it ran and
/// it can't be found out whether that is recorded; errc::transaction_ended if it called
/// basic_transaction::done() in a transaction that was not committed: nothing is recorded;
/// errc::would_deadlock if this thread runs the same key
ROWLOCK_EXPORT once_result run_once(lock_manager& manager, std::string key,
                                    std::chrono::milliseconds keep_for,
                                    std::function<void(once_run&)> const& work, once_options options = {});

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
