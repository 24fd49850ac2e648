#pragma once
// Threads that want the same kind of thing at the same time let one of them ask for all: one round trip, one
// flush, many answers. (D. Hendler, I. Incze, N. Shavit, M. Tzafrir, "Flat combining and the
// synchronization-parallelism tradeoff", SPAA 2010; databases call it group commit.)

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

/// Thread-safe. Nobody waits for company: the first one leads, and goes as soon as it has what it needs to
/// (a connection). What comes meanwhile goes with it, first come, first served; and the next one leads.
template <class Job>
class combining {
 public:
  /// `most`: how many jobs go together.
  explicit combining(std::size_t most) : most_(most) {}

  /// Returns when `mine` was run, by this thread or by another one. A thread that leads calls `prepare()`,
  /// and then `run(what it prepared, jobs)`, with its own job and those of others that wait and are
  /// alike(mine, another). `run` must not throw. If `prepare` throws, the others go on without this job.
  /// @return false if nobody has begun with it until `until`, or when `stop` was triggered
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
      one->wake.notify_one();  // with the mutex: it is on that thread's stack
    }
    return true;
  }

  /// How many wait, at this moment.
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
    t.entries.reserve(room);  // from here on nothing is allocated: whoever is taken must be run
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
  bool led_ = false;  ///< somebody prepares
};

}  // namespace rowlock::base
