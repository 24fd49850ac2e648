#pragma once

#include <rowlock/export.hpp>
#include <rowlock/options.hpp>

#include <functional>
#include <memory>
#include <string>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// Counts events of locks, for Prometheus:
///
///     rowlock::metrics metrics;
///     options.on_event = metrics.observer();
///     ... on GET /metrics: metrics.prometheus() as "text/plain; version=0.0.4"
///
/// Counters:
/// - rowlock_acquisitions_total: locks taken. A recursive mutex counts once until its release.
/// - rowlock_waits_total{outcome}: calls that tried more than once, and took the lock in the end ("taken") or
///   not ("given up"). Calls that only queued in this process, or in the server for a row_lock, do not count.
/// - rowlock_renewals_total: one for each lock, none for row_lock.
/// - rowlock_releases_total: terms released. The renewer releases some later: after a release without an
///   answer, after a loss of a row that was still ours, and for an attempt without a reply.
/// - rowlock_losses_total{reason}: locks lost, by loss_reason, except losses that only release() finds and
///   returns.
/// - rowlock_refusals_total{label,outcome}: calls that ended without the lock: "busy", "contended",
///   "quarantined", "timed out" or "done", but not cancelled calls and exceptions.
/// - rowlock_errors_total: error events, also of errors that were ridden out.
/// - rowlock_quarantines_total: how often the database may have forgotten locks, and granted none for a time.
///
/// Gauge:
/// - rowlock_locks_held{label}: locks that this process holds. A quorum's lock is one.
///
/// Histograms of acquisitions, renewals and releases:
/// - rowlock_acquire_duration_seconds: from the call until the lock was taken, waits included.
/// - rowlock_renewal_duration_seconds: the round trip, which all its locks share.
/// - rowlock_release_duration_seconds: the last, successful attempt.
///
/// Buckets end at 1, 2, 5, 10, 20, 50, 100, 200, 500 ms, 1, 2, 5, 10, 30 s, 1, 5, 30 min. No label has a
/// lock's name. "label" is mutex_options::label: keep the values few, because each is a series until this
/// object ends. `rowlock list --metrics` counts the locks of all processes.
///
/// Exception safety: the observers throw nothing, other members only std::bad_alloc.
///
/// Thread safety: all members and the observers may be called concurrently. Counting by label takes a mutex
/// for a moment. All else is lock-free. Numbers never fall, and a histogram's count always equals its +Inf
/// bucket (its sum can be ahead by calls being counted).
class ROWLOCK_EXPORT metrics {
 public:
  metrics();
  ~metrics();
  metrics(metrics const&) = delete;
  metrics& operator=(metrics const&) = delete;

  /// For manager_options::on_event of any number of managers, which are counted together. May outlive this
  /// object. A hook of your own may call it.
  std::function<void(event const&)> observer() const;

  /// All metrics in the text format, version 0.0.4.
  std::string prometheus() const;

 private:
  class counts;
  std::shared_ptr<counts> counts_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
