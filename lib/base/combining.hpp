#pragma once
// One thread asks for several threads that want the same kind of thing: one round trip, one flush, many
// answers. (D. Hendler, I. Incze, N. Shavit, M. Tzafrir, "Flat combining and the synchronization-parallelism
// tradeoff", SPAA 2010; databases call it group commit.)

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <rowlock/types.hpp>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

namespace rowlock::base {

/// Combines the jobs of several threads. The first thread leads, and runs once it is prepared (has a
/// connection). Jobs that arrive meanwhile run with it, in order. Then the next thread leads. Thread-safe.
template <class Job>
class combining {
 public:
  struct limits {
    std::size_t most = 1;  ///< jobs in one run
    /// While so many are under way the next ones wait, to go together: the fewer runs, the more jobs in each.
    /// (A run has begun with at least one.)
    std::size_t enough = 1;
    /// After a run of more than half of `enough` the next leader waits so long for most of them, who come
    /// back soon: or it would go alone, and they behind it.
    std::chrono::nanoseconds linger = std::chrono::microseconds(200);
    /// A job that has waited so long does not wait for a run to end: a connection can hang.
    std::chrono::milliseconds patience = std::chrono::milliseconds(100);
  };
  explicit combining(limits const& l) : limits_(l) {}

  /// Returns after `mine` was run, by this thread or another. The leader calls `prepare()`, then
  /// `run(prepared, jobs)` with its own job and the waiting jobs that are alike(mine, another). `run` must
  /// not throw. If `prepare` throws, the other threads go on without this job.
  /// @return false if no thread has begun with `mine` before `until` or `stop`
  template <class Alike, class Prepare, class Run>
  bool run(Job& mine, boot_time_point until, std::stop_token const& stop, Alike alike, Prepare prepare,
           Run run) {
    entry me(mine);
    std::unique_lock lock(mutex_);
    if (led_ || under_way_ >= limits_.enough) {
      line_.push_back(&me);
      if (gathers_ != nullptr && most_are_back()) std::exchange(gathers_, nullptr)->ring(state::leads);
      lock.unlock();
      if (!wait_in_line(me, until, stop)) return false;
      if (me.is == state::done) return true;
    } else {
      led_ = true;
      lock.unlock();
    }
    gather(me);
    team t;
    try {
      auto prepared = prepare();
      t = pick(me, alike);
      run(prepared, std::span<Job* const>(t.jobs));
    } catch (...) {
      if (t.jobs.empty()) give_up_lead();
      throw;
    }
    ended(t.jobs.size());
    for (auto* one : t.entries)
      if (one != &me) one->ring(state::done);
    return true;
  }

  std::size_t waiting() const {
    std::lock_guard const guard(mutex_);
    return line_.size();
  }

 private:
  enum class state { waits, taken, leads, done };

  /// A thread in the line. It sleeps at a mutex of its own: those that are woken do not meet at that of all.
  class entry {
   public:
    explicit entry(Job& j) : job(&j) {}

    /// @return false if it was not rung before `until` or `stop`
    bool sleep(boot_time_point until, std::stop_token const& stop) {
      auto const last = std::chrono::steady_clock::now() + (until - boot_clock::now());
      std::stop_callback const on_stop(stop, [this] {
        std::lock_guard const guard(mutex_);
        stopped_ = true;
        wake_.notify_one();
      });
      std::unique_lock lock(mutex_);
      wake_.wait_until(lock, last, [this] { return rung_ || stopped_; });
      return rung_;
    }
    void sleep() {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return rung_; });
    }
    void unring() noexcept {
      std::lock_guard const guard(mutex_);
      rung_ = false;
    }
    void ring(state now) noexcept {
      std::lock_guard const guard(mutex_);
      is = now;
      rung_ = true;
      wake_.notify_one();  // with the mutex: the entry is on that thread's stack
    }

    Job* const job;
    std::atomic<state> is = state::waits;

   private:
    std::mutex mutex_;
    std::condition_variable wake_;
    bool rung_ = false;
    bool stopped_ = false;
  };

  struct team {
    std::vector<entry*> entries{};
    std::vector<Job*> jobs{};
  };

  /// @return false if it was not rung, and left the line
  bool wait_in_line(entry& me, boot_time_point until, std::stop_token const& stop) {
    while (!me.sleep(std::min<boot_time_point>(until, boot_clock::now() + limits_.patience), stop)) {
      std::unique_lock lock(mutex_);
      if (me.is != state::waits) {
        lock.unlock();
        me.sleep();
        break;
      }
      bool const over = stop.stop_requested() || boot_clock::now() >= until;
      if (led_ && !over) continue;
      std::erase(line_, &me);
      if (over) return false;
      led_ = true;
      me.is = state::leads;
      break;
    }
    return true;
  }

  bool most_are_back() const noexcept { return line_.size() + 1 >= last_ - last_ / 4; }

  void gather(entry& leader) {
    std::unique_lock lock(mutex_);
    if (last_ <= limits_.enough / 2 || most_are_back()) return;
    gathers_ = &leader;
    leader.unring();
    lock.unlock();
    leader.sleep(boot_clock::now() + limits_.linger, {});
    lock.lock();
    gathers_ = nullptr;
  }

  template <class Alike>
  team pick(entry& me, Alike alike) {
    std::unique_lock lock(mutex_);
    team t;
    auto const room = std::min(limits_.most, line_.size() + 1);
    t.entries.reserve(room);  // no allocation from here on. A taken job must run
    t.jobs.reserve(room);
    t.entries.push_back(&me);
    t.jobs.push_back(me.job);
    for (auto* one : line_)
      if (t.jobs.size() < limits_.most && alike(*me.job, *one->job)) {
        one->is = state::taken;
        t.entries.push_back(one);
        t.jobs.push_back(one->job);
      }
    std::erase_if(line_, [](entry* e) { return e->is == state::taken; });
    led_ = false;
    last_ = t.jobs.size();
    under_way_ += last_;
    appoint(std::move(lock));
    return t;
  }

  void give_up_lead() {
    std::unique_lock lock(mutex_);
    led_ = false;
    appoint(std::move(lock));
  }

  void ended(std::size_t jobs) {
    std::unique_lock lock(mutex_);
    under_way_ -= jobs;
    appoint(std::move(lock));
  }

  /// The first in the line leads, if there is room. It stays until it is rung.
  void appoint(std::unique_lock<std::mutex> lock) noexcept {
    if (led_ || line_.empty() || under_way_ >= limits_.enough) return;
    led_ = true;
    auto* const next = line_.front();
    line_.pop_front();
    next->is = state::leads;
    lock.unlock();
    next->ring(state::leads);
  }

  limits const limits_;
  mutable std::mutex mutex_;
  std::deque<entry*> line_;
  bool led_ = false;          ///< a leader prepares
  entry* gathers_ = nullptr;  ///< the leader, while it waits for company
  std::size_t last_ = 0;      ///< jobs in the last run
  std::size_t under_way_ = 0;
};

}  // namespace rowlock::base
