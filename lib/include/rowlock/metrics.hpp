#pragma once

#include <rowlock/export.hpp>
#include <rowlock/options.hpp>

#include <functional>
#include <memory>
#include <string>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// Counts the events of the event hook, for Prometheus:
///
///     rowlock::metrics metrics;
///     options.on_event = metrics.observer();
///     ... on GET /metrics: metrics.prometheus() as "text/plain; version=0.0.4"
///
/// Counters:
/// - rowlock_acquisitions_total: locks taken; a recursive mutex counts once until it is given back.
/// - rowlock_waits_total{outcome}: calls that tried more than once, and took the lock in the end ("taken") or
///   did not ("given up"). Calls that only waited in line in this process, or in the server for a row_lock,
///   do not count.
/// - rowlock_renewals_total: one for each lock. row_lock has none.
/// - rowlock_releases_total: terms given back. Some by the renewer, later: after a release that the database
///   did not answer, after a loss if the row was ours still, for an attempt whose reply was lost.
/// - rowlock_losses_total{reason}: locks lost, by loss_reason. A loss that only release() finds out is not
///   counted: it is the result of release().
/// - rowlock_refusals_total{label,outcome}: calls that ended without the lock: "busy", "contended", "timed
/// out"
///   or "done", but not those that were cancelled, or threw.
/// - rowlock_errors_total: error events, also of errors that were ridden out.
///
/// Gauge:
/// - rowlock_locks_held{label}: locks that this process holds, as events tell. A lock of a quorum is one.
///
/// Histograms, of what the first, third and fourth of these count:
/// - rowlock_acquire_duration_seconds: from the call until the lock was taken, waits included.
/// - rowlock_renewal_duration_seconds: the round trip, which all locks that it renews share.
/// - rowlock_release_duration_seconds: how long giving back took in the end, without what failed before.
///
/// Buckets end at 1, 2, 5, 10, 20, 50, 100, 200, 500 ms, 1, 2, 5, 10, 30 s, 1, 5, 30 min. Labels have few
/// values each; a lock's name is none of them. "label" is mutex_options::label: how many different ones there
/// are is the program's to bound, for each is a series of its own until this object ends.
///
/// How many locks all processes hold, `rowlock list --metrics` asks the database.
///
/// Exception safety: the observers throw nothing; the other members throw std::bad_alloc alone.
///
/// Thread safety: all members and the observers may be called from several threads at once. Counting
/// by label takes a mutex for a moment; all else is lock-free. Numbers never fall, and a histogram's count is
/// that of its +Inf bucket at any moment (its sum may be ahead by calls that are being counted).
class ROWLOCK_EXPORT metrics {
 public:
  metrics();
  ~metrics();
  metrics(metrics const&) = delete;
  metrics& operator=(metrics const&) = delete;

  /// For manager_options::on_event, of any number of managers, which are counted together. May outlive this
  /// object. If a hook of your own does more, call this one from it.
  std::function<void(event const&)> observer() const;

  /// All metrics in the text format, version 0.0.4. @throws std::bad_alloc alone
  std::string prometheus() const;

 private:
  class counts;
  std::shared_ptr<counts> counts_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
