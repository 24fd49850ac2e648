#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <rowlock/metrics.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/prometheus_text.hpp"

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {
namespace {

using namespace std::chrono_literals;
using base::prometheus_text;

// From a local round trip to a wait for a long job.
constexpr std::array<std::chrono::milliseconds, 17> bounds{
    1ms, 2ms, 5ms, 10ms, 20ms, 50ms, 100ms, 200ms, 500ms, 1s, 2s, 5s, 10s, 30s, 1min, 5min, 30min};

constexpr std::array reasons{loss_reason::expired,
                             loss_reason::taken_over,
                             loss_reason::revoked,
                             loss_reason::row_gone,
                             loss_reason::database_unreachable,
                             loss_reason::forked,
                             loss_reason::session_ended,
                             loss_reason::read_only,
                             loss_reason::row_locked,
                             loss_reason::suspended};

}  // namespace

class metrics::counts {
  // Relaxed: no other data depends on a counter's value.
  class counter {
   public:
    void add(std::uint64_t n = 1) noexcept { n_.fetch_add(n, std::memory_order_relaxed); }
    std::uint64_t get() const noexcept { return n_.load(std::memory_order_relaxed); }

   private:
    static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
    std::atomic<std::uint64_t> n_{0};
  };

  class durations {
   public:
    void add(std::chrono::nanoseconds d) noexcept {
      d = std::max(d, 0ns);
      sum_ns_.add(static_cast<std::uint64_t>(d.count()));
      auto const bucket = std::lower_bound(bounds.begin(), bounds.end(), d) - bounds.begin();
      buckets_[static_cast<std::size_t>(bucket)].add();
    }

    /// `total` is the count and `histogram` the durations, of the same moment.
    void print(prometheus_text& out, char const* total, char const* total_help, char const* histogram,
               char const* histogram_help) const {
      std::array<std::uint64_t, bounds.size() + 1> up_to;  // NOLINT(*-member-init): filled just below
      std::uint64_t count = 0;
      for (std::size_t i = 0; i < buckets_.size(); ++i) up_to[i] = count += buckets_[i].get();
      out.metric(total, "counter", total_help);
      out.sample(count);
      out.metric(histogram, "histogram", histogram_help);
      for (std::size_t i = 0; i < bounds.size(); ++i)
        out.sample_of("_bucket",
                      {{"le", fmt::format("{}", std::chrono::duration<double>(bounds[i]).count())}},
                      up_to[i]);
      out.sample_of("_bucket", {{"le", "+Inf"}}, count);
      out.sample_of("_sum", {}, static_cast<double>(sum_ns_.get()) / 1e9);
      out.sample_of("_count", {}, count);
    }

   private:
    counter sum_ns_;
    std::array<counter, bounds.size() + 1> buckets_;  // the last: longer than all bounds
  };

  /// Counts by the program's own labels, of which there are few.
  class by_label {
   public:
    void taken(std::string_view label) noexcept { add_held(label, 1); }
    void ended(std::string_view label) noexcept { add_held(label, -1); }
    void refused(std::string_view label, std::string_view why) noexcept try {
      std::lock_guard const guard(mutex_);
      ++refused_[{std::string(label), std::string(why)}];
    } catch (std::exception const&) {  // no memory: not counted
    }

    void print(prometheus_text& out) const {
      std::lock_guard const guard(mutex_);
      out.metric("rowlock_refusals_total", "counter", "Calls that ended without the lock.");
      for (auto const& [of, n] : refused_) out.sample(n, {{"label", of.first}, {"outcome", of.second}});
      out.metric("rowlock_locks_held", "gauge", "Locks that this process holds.");
      for (auto const& [label, n] : held_) out.sample(n, {{"label", label}});
    }

   private:
    void add_held(std::string_view label, std::int64_t n) noexcept try {
      std::lock_guard const guard(mutex_);
      held_[std::string(label)] += n;
    } catch (std::exception const&) {  // no memory: not counted
    }

    mutable std::mutex mutex_;
    std::map<std::pair<std::string, std::string>, std::uint64_t> refused_;  ///< by label and outcome
    std::map<std::string, std::int64_t> held_{{"", 0}};
  };

 public:
  void add(event const& e) noexcept {
    switch (e.kind) {
      case event_kind::taken:
        labelled_.taken(e.label);
        return taken_.add(e.duration);
      case event_kind::refused:
        return labelled_.refused(e.label, e.message);
      case event_kind::ended:
        return labelled_.ended(e.label);
      case event_kind::waited:
        return (e.term.empty() ? gave_up_ : waited_).add();
      case event_kind::renewed:
        return renewed_.add(e.duration);
      case event_kind::released:
        return released_.add(e.duration);
      case event_kind::lost:
        for (std::size_t i = 0; i < reasons.size(); ++i)
          if (e.loss == reasons[i]) lost_[i].add();
        return;
      case event_kind::error:
        return errors_.add();
      case event_kind::quarantined:
        return quarantines_.add();
    }
  }

  std::string print() const {
    prometheus_text out;
    taken_.print(out, "rowlock_acquisitions_total", "Locks taken.", "rowlock_acquire_duration_seconds",
                 "From the call until the lock was taken, waits included.");
    out.metric("rowlock_waits_total", "counter", "Calls that found a lock held and tried again.");
    out.sample(waited_.get(), {{"outcome", "taken"}});
    out.sample(gave_up_.get(), {{"outcome", "given up"}});
    renewed_.print(out, "rowlock_renewals_total", "Renewals, one for each lock.",
                   "rowlock_renewal_duration_seconds", "Round trips of renewals, for each lock.");
    released_.print(out, "rowlock_releases_total", "Locks given back.", "rowlock_release_duration_seconds",
                    "How long giving back took.");
    out.metric("rowlock_losses_total", "counter", "Locks lost while they were held.");
    for (std::size_t i = 0; i < reasons.size(); ++i)
      out.sample(lost_[i].get(), {{"reason", to_string(reasons[i])}});
    labelled_.print(out);
    out.metric("rowlock_errors_total", "counter", "Errors, most of them ridden out.");
    out.sample(errors_.get());
    out.metric("rowlock_quarantines_total", "counter",
               "Times that the database may have forgotten locks, and granted none.");
    out.sample(quarantines_.get());
    return std::move(out).text();
  }

 private:
  durations taken_;
  by_label labelled_;
  durations renewed_;
  durations released_;
  counter waited_;
  counter gave_up_;
  std::array<counter, reasons.size()> lost_;
  counter errors_;
  counter quarantines_;
};

metrics::metrics() : counts_(std::make_shared<counts>()) {}
metrics::~metrics() = default;

std::function<void(event const&)> metrics::observer() const {
  return [counts = counts_](event const& e) { counts->add(e); };
}

std::string metrics::prometheus() const { return counts_->print(); }

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
