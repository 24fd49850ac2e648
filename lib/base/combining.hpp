#pragma once
// One thread asks for several threads that want the same kind of thing: one round trip, one flush, many
// answers. (D. Hendler, I. Incze, N. Shavit, M. Tzafrir, "Flat combining and the synchronization-parallelism
// tradeoff", SPAA 2010; databases call it group commit.)

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <rowlock/types.hpp>
#include <span>
#include <stop_token>
#include <vector>

namespace rowlock::base {

/// Combines the jobs of several threads. The first thread leads, and runs once it is prepared (has a
/// connection). Jobs that arrive meanwhile run with it, in order. Then the next thread leads. Thread-safe.
template <class Job>
class combining {
 public:
  /// `most`: the most jobs in one run.
  explicit combining(std::size_t most) : most_(most) {}

  /// Returns after `mine` was run, by this thread or another. The leader calls `prepare()`, then
  /// `run(prepared, jobs)` with its own job and the waiting jobs that are alike(mine, another). `run` must
  /// not throw. If `prepare` throws, the other threads go on without this job.
  /// @return false if no thread has begun with `mine` before `until` or `stop`
  template <class Alike, class Prepare, class Run>
  bool run(Job& mine, boot_time_point until, std::stop_token const& stop, Alike alike, Prepare prepare,
           Run run) {
    entry me{.job = &mine};
    std::unique_lock lock(mutex_);
    if (led_) {
      line_.push_back(&me);
      auto const last = std::chrono::steady_clock::now() + (until - boot_clock::now());
      me.wake.wait_until(lock, stop, last, [&me] { return me.is != state::waits; });
      if (me.is == state::waits) {
        std::erase(line_, &me);
        return false;
      }
      me.wake.wait(lock, [&me] { return me.is == state::leads || me.is == state::done; });
      if (me.is == state::done) return true;
    }
    led_ = true;
    lock.unlock();
    team t;
    try {
      auto prepared = prepare();
      t = pick(me, alike);
      run(prepared, std::span<Job* const>(t.jobs));
    } catch (...) {
      if (t.jobs.empty()) let_another_lead();
      throw;
    }
    if (t.entries.size() == 1) return true;
    lock.lock();
    for (auto* one : t.entries) {
      if (one == &me) continue;
      one->is = state::done;
      one->wake.notify_one();  // with the mutex: the entry is on that thread's stack
    }
    return true;
  }

  std::size_t waiting() const {
    std::lock_guard const guard(mutex_);
    return line_.size();
  }

 private:
  enum class state { waits, taken, leads, done };
  struct entry {
    Job* job;
    state is = state::waits;
    std::condition_variable_any wake{};
  };
  struct team {
    std::vector<entry*> entries{};
    std::vector<Job*> jobs{};
  };

  template <class Alike>
  team pick(entry& me, Alike alike) {
    std::lock_guard const guard(mutex_);
    team t;
    auto const room = std::min(most_, line_.size() + 1);
    t.entries.reserve(room);  // no allocation from here on. A taken job must run
    t.jobs.reserve(room);
    t.entries.push_back(&me);
    t.jobs.push_back(me.job);
    for (auto* one : line_)
      if (t.jobs.size() < most_ && alike(*me.job, *one->job)) {
        one->is = state::taken;
        t.entries.push_back(one);
        t.jobs.push_back(one->job);
      }
    std::erase_if(line_, [](entry* e) { return e->is == state::taken; });
    appoint();
    return t;
  }

  void let_another_lead() {
    std::lock_guard const guard(mutex_);
    appoint();
  }

  void appoint() noexcept {
    led_ = !line_.empty();
    if (!led_) return;
    auto* next = line_.front();
    line_.pop_front();
    next->is = state::leads;
    next->wake.notify_one();
  }

  std::size_t const most_;
  mutable std::mutex mutex_;
  std::deque<entry*> line_;
  bool led_ = false;  ///< a leader prepares
};

}  // namespace rowlock::base
