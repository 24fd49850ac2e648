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

/// The options of run_once().
struct once_options {
  /// After a crash the key is free when this is over, and the work can be done again. Renewed during the
  /// work. From 100 ms to 366 days.
  std::chrono::milliseconds ttl{30'000};
  /// The longest wait for a run elsewhere. 0: none.
  std::chrono::milliseconds wait{0};
  /// Ends the waiting, and triggers once_run::stop_token().
  std::stop_token stop{};
  /// Shown by `rowlock list` during the work; at most 1024 bytes of UTF-8.
  std::string note{};
};

/// The run of run_once(), for its work.
///
/// Thread safety: const members may be called concurrently. set_result() must not overlap with result().
class ROWLOCK_EXPORT once_run {
 public:
  once_run(once_run const&) = delete;
  once_run& operator=(once_run const&) = delete;

  /// Triggered by once_options::stop, and when the lock is lost, if possible some time before trust ends.
  /// Work that stops early must throw: after a return it is recorded, unless the lock was lost.
  std::stop_token stop_token() const noexcept { return stop_.get_token(); }
  /// Rises with every run of the key: other systems can refuse late writes of a previous run.
  fencing_token token() const noexcept { return lock_.token(); }
  std::string const& key() const noexcept { return lock_.name(); }
  /// The lock of this run, for basic_transaction::require(). basic_transaction::done() takes the run.
  held_lock const& lock() const noexcept { return lock_; }
  std::chrono::milliseconds keep_for() const noexcept { return keep_for_; }

  /// For later callers: once_result::result.
  /// @throws error(errc::invalid_argument) unless at most 1024 bytes of UTF-8
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
  ran,             ///< in this call, and is recorded
  was_done,        ///< before, by `by`
  runs_elsewhere,  ///< by `by`, as last seen, or a transaction has the row locked
  cancelled,       ///< by once_options::stop during the wait, or the end of the lock_manager
};
ROWLOCK_EXPORT char const* to_string(once_status) noexcept;

/// The result of run_once().
struct once_result {
  once_status status = once_status::ran;
  std::optional<holder_info> by{};  ///< not of `ran`; may be empty
  std::string result{};  ///< of `ran` and `was_done`: the text of the work (basic_transaction::done())

  /// Whether the work is done, in whichever call.
  explicit operator bool() const noexcept {
    return status == once_status::ran || status == once_status::was_done;
  }
};

/// Does `work` unless it was done before, and records it for `keep_for`, for all processes on the same
/// database. Only one run of a key at a time.
///
/// Exactly once is only the part of the work that writes to the same database in a transaction with
/// basic_transaction::done(run): data and record are committed together. All other work is done at least
/// once: if the process dies before the record, again after the ttl.
///
/// If the work throws, nothing is recorded, the key is free at once, and the exception is passed on.
///
///     auto const came = rowlock::run_once(locks, "invoices/2026-11", 400 * 24h, [&](rowlock::once_run& run)
///     {
///       ...
///     });
///
/// @param manager of the database with the record
/// @param key of the work, as a lock's name. Use it for no other lock
/// @param keep_for from 1 ms to 100 years. After that the work can be done again.
/// @param work is called by the calling thread
/// @param options ttl, waiting, note.
/// @throws error as basic_mutex::try_acquire_for() (retryable errors only after once_options::wait), and
/// - errc::lock_lost: the lock was lost during the work, which is not recorded.
/// - errc::in_doubt: the work has run, and the record may exist.
/// - errc::transaction_ended: the work called basic_transaction::done() in a transaction that was not
///   committed. Nothing is recorded.
/// - errc::would_deadlock: this thread runs the same key.
ROWLOCK_EXPORT once_result run_once(lock_manager& manager, std::string key,
                                    std::chrono::milliseconds keep_for,
                                    std::function<void(once_run&)> const& work, once_options options = {});

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
