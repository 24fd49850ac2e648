#pragma once
// Jobs of several threads that one thread does together: one round trip, one flush, many answers.
// (D. Hendler, I. Incze, N. Shavit, M. Tzafrir, "Flat combining and the synchronization-parallelism
// tradeoff", SPAA 2010; databases call it group commit. There one of the callers does it. Here a thread of
// its own does: the next leader would first have to be woken, and each change of threads costs as much as the
// job itself.)

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <rowlock/types.hpp>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/calls.hpp"
#include "base/thread_name.hpp"
#include "base/wake_up.hpp"

namespace rowlock::base {

/// Has the jobs of several threads done together, in the order in which they came, by a thread that starts
/// when it is first needed. With few callers each goes alone, and no thread is changed. Thread-safe.
template <class Job, class Session>
class combining {
 public:
  struct limits {
    std::size_t most = 64;  ///< jobs that are done together
    /// So many callers go alone at a time. More are left to the thread, and while its runs have more jobs
    /// than half of this, all are.
    std::size_t alone = 4;
    /// After a run the thread waits so long for three of four of those that it has served: they come back
    /// nearly together. Otherwise it would go with the first of them, and the others would have to wait.
    std::chrono::nanoseconds linger = std::chrono::milliseconds(1);
    /// A job that has waited so long for the end of a run goes alone: a connection can hang.
    std::chrono::milliseconds patience = std::chrono::milliseconds(100);
  };
  /// Whether two jobs can be done together.
  using likeness = bool (*)(Job const&, Job const&) noexcept;
  /// Gets a session for the next run. If it throws, those who wait go alone.
  using preparation = std::function<Session()>;
  /// Does jobs that are alike. Must not throw.
  using work = std::function<void(Session&, std::span<Job* const>)>;

  /// `thread_name` is static.
  combining(limits const& l, char const* thread_name, likeness alike, preparation prepare, work run)
      : limits_(l), name_(thread_name), alike_(alike), prepare_(std::move(prepare)), run_(std::move(run)) {}
  combining(combining const&) = delete;
  combining& operator=(combining const&) = delete;
  ~combining() { stop({}); }

  /// The way of one job.
  class [[nodiscard]] turn {
   public:
    turn(turn&& other) noexcept : alone_(std::exchange(other.alone_, nullptr)), served_(other.served_) {}
    turn& operator=(turn&&) = delete;
    ~turn() {
      if (alone_ != nullptr) alone_->one_less();
    }
    /// The job was done. If not, the caller does it, while this lives.
    bool served() const noexcept { return served_; }

   private:
    friend combining;
    explicit turn(combining* alone) noexcept : alone_(alone), served_(alone == nullptr) {}
    combining* alone_;
    bool served_;
  };

  /// Waits until `mine` is done, or the caller has to do it: it may go alone, the thread could not do it, or
  /// had not begun with it before `until` or `stop`.
  turn join(Job& mine, boot_time_point until, std::stop_token const& stop) {
    entry me(mine);
    std::unique_lock lock(mutex_);
    bool const may_go = !busy_ && line_.empty() && alone_ < limits_.alone;
    if (may_go || !start()) {
      ++alone_;
      return turn(this);
    }
    line_.push_back(&me);
    bool const call = sleeps_ && line_.size() >= wanted_;
    if (call) sleeps_ = false;
    lock.unlock();
    if (call) come_.notify_one();
    if (wait_in_line(me, until, stop)) return turn(nullptr);
    lock.lock();
    ++alone_;
    return turn(this);
  }

  /// Jobs that the thread has not begun with.
  std::size_t waiting() const {
    std::lock_guard const guard(mutex_);
    return line_.size();
  }

  /// From now on each goes alone. Waits for the end of the thread, unless that is `spare`.
  void stop(std::thread::id spare) noexcept {
    std::unique_lock lock(mutex_);
    stopped_ = true;
    if (!thread_.joinable() || thread_.get_id() == spare) return;
    auto ending = std::move(thread_);
    lock.unlock();
    come_.notify_one();
    ending.join();
  }

 private:
  enum class state { waits, taken, done, refused };

  /// A thread in the line.
  struct entry {
    explicit entry(Job& j) : job(&j) {}
    void ring(state now) noexcept {
      is.store(now, std::memory_order_release);
      wake.set();
    }
    state seen() const noexcept { return is.load(std::memory_order_acquire); }

    Job* const job;
    std::atomic<state> is = state::waits;
    wake_up wake;
  };

  struct team {
    std::vector<entry*> entries{};
    std::vector<Job*> jobs{};
  };

  /// With the mutex. @return false if there is no thread
  bool start() noexcept {
    if (stopped_ || thread_.joinable()) return !stopped_;
    try {
      team_.entries.reserve(limits_.most);
      team_.jobs.reserve(limits_.most);
      thread_ = std::jthread([this] { serve(); });
      return true;
    } catch (std::exception const&) {  // no thread, or no memory
      return false;
    }
  }

  void one_less() noexcept {
    std::lock_guard const guard(mutex_);
    --alone_;
  }

  /// @return whether its job was done
  bool wait_in_line(entry& me, boot_time_point until, std::stop_token const& stop) {
    int rung = 0;
    std::atomic<int> rings{1};
    {
      std::stop_callback const on_stop(stop, [&] {
        ++rings;
        me.wake.set();
      });
      while (me.seen() == state::waits) {
        auto const left = std::max<std::chrono::nanoseconds>(until - boot_clock::now(), {});
        if (me.wake.wait_for(std::min<std::chrono::nanoseconds>(left, limits_.patience))) ++rung;
        std::lock_guard const guard(mutex_);
        bool const over = stop.stop_requested() || boot_clock::now() >= until;
        if (me.seen() != state::waits || (prepares_ && !over)) continue;
        std::erase(line_, &me);
        return false;
      }
    }
    for (; rung < rings; ++rung) me.wake.wait();  // the last ring is the thread's, which then lets go of `me`
    return me.seen() == state::done;
  }

  void serve() noexcept {
    name_thread(name_);
    serving const here;
    auto& t = team_;
    std::unique_lock lock(mutex_);
    while (wait_for_some(lock)) {
      prepares_ = true;
      lock.unlock();
      auto session = prepared();
      lock.lock();
      prepares_ = false;
      if (session)
        pick(t);
      else
        refuse_all();
      if (t.jobs.empty()) continue;
      lock.unlock();
      run_(*session, std::span<Job* const>(t.jobs));
      session.reset();
      for (auto* one : t.entries) one->ring(state::done);
      last_ = t.jobs.size();
      t.entries.clear();
      t.jobs.clear();
      lock.lock();
    }
    refuse_all();
  }

  std::optional<Session> prepared() noexcept try { return prepare_(); } catch (std::exception const&) {
    return std::nullopt;
  }

  /// @return false if it was stopped
  bool wait_for_some(std::unique_lock<std::mutex>& lock) {
    busy_ = last_ > limits_.alone / 2 || !line_.empty();
    wanted_ = last_ > limits_.alone / 2 ? last_ - last_ / 4 : 1;
    auto const enough = [this] { return stopped_ || line_.size() >= wanted_; };
    if (wanted_ > 1 && !enough()) {
      sleeps_ = true;
      come_.wait_for(lock, limits_.linger, enough);
    }
    last_ = 0;
    wanted_ = 1;
    busy_ = !line_.empty();
    if (!enough()) {
      sleeps_ = true;
      come_.wait(lock, enough);
    }
    sleeps_ = false;
    busy_ = true;
    return !stopped_;
  }

  void pick(team& t) {
    for (auto* one : line_)
      if (t.jobs.size() < limits_.most && (t.jobs.empty() || alike_(*t.jobs.front(), *one->job))) {
        one->is.store(state::taken, std::memory_order_relaxed);
        t.entries.push_back(one);
        t.jobs.push_back(one->job);
      }
    std::erase_if(line_, [](entry* e) { return e->seen() == state::taken; });
  }

  void refuse_all() noexcept {
    for (auto* one : line_) one->ring(state::refused);
    line_.clear();
  }

  limits const limits_;
  char const* const name_;
  likeness const alike_;
  preparation const prepare_;
  work const run_;
  mutable std::mutex mutex_;
  std::condition_variable come_;
  std::vector<entry*> line_;
  team team_;  ///< those that the thread does. Its alone, but for the memory, which is there before it
  std::size_t alone_ = 0;   ///< callers that do their jobs themselves
  std::size_t last_ = 0;    ///< jobs of the last run
  std::size_t wanted_ = 1;  ///< how many are to wake the thread
  bool busy_ = false;       ///< the thread has jobs, or expects some
  bool sleeps_ = false;     ///< it has to be woken
  bool prepares_ = false;
  bool stopped_ = false;
  std::jthread thread_;
};

}  // namespace rowlock::base
