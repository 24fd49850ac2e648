#pragma once
// What threads of one process could reach if their takes went together: a thread with a connection sends the
// takes of all callers, another one their releases.

#include <semaphore.h>

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "systems/system.hpp"

namespace rowlock::bench {

/// Wakes a caller. std::binary_semaphore gives up the processor several times before it sleeps, which costs
/// the clients a quarter more.
class bell {
 public:
  bell() noexcept { ::sem_init(&rung_, 0, 0); }
  bell(bell const&) = delete;
  bell& operator=(bell const&) = delete;
  ~bell() { ::sem_destroy(&rung_); }
  void ring() noexcept { ::sem_post(&rung_); }
  void wait() noexcept {
    while (::sem_wait(&rung_) != 0) {  // a signal came
    }
  }

 private:
  sem_t rung_{};
};

/// A take or a release that a thread waits for.
struct batch_job {
  std::string name{};
  std::string term{};
  bool done = false;
  bell over{};
};
using batch_jobs = std::span<batch_job* const>;

/// JSON as rowlock's statements take it: [{"name":..., "term":..., "thread":...}, ...].
std::string as_json(batch_jobs);
/// Sets `done` of the job that has this name.
void set_done(batch_jobs, char const* name);

/// A connection that does up to `batch_size` jobs in one round trip.
class batch_line {
 public:
  batch_line() = default;
  batch_line(batch_line const&) = delete;
  batch_line& operator=(batch_line const&) = delete;
  virtual ~batch_line() = default;
  /// Sets `done` of the jobs that the server did.
  virtual void run(batch_jobs) = 0;
};

/// Does the jobs of many callers by a thread of its own, and wakes all callers of a batch at its end. To wake
/// them while the server works on the next batch is slower: they miss that batch, so all batches are smaller.
class batches {
 public:
  explicit batches(std::unique_ptr<batch_line>);
  batches(batches const&) = delete;
  batches& operator=(batches const&) = delete;
  ~batches();  ///< when no caller is in it

  /// Returns when the job is done. @throws std::exception if it was not
  void join(batch_job&);

 private:
  void serve() noexcept;
  bool pick();

  std::unique_ptr<batch_line> line_;
  std::mutex mutex_;
  std::condition_variable come_;
  std::vector<batch_job*> waiting_;
  bool ended_ = false;
  std::exception_ptr trouble_;
  std::vector<batch_job*> picked_;  ///< the thread's alone
  std::jthread thread_;
};

/// Threads whose takes go together, and so do their releases.
class batch_session : public session {
 public:
  /// `add_row` makes the row of a job's name, if it is not there. It is called by one thread at a time.
  batch_session(std::unique_ptr<batch_line> takes, std::unique_ptr<batch_line> releases,
                std::function<void(batch_job&)> add_row);
  std::unique_ptr<client> new_client() override;

 private:
  class one_client;
  std::mutex mutex_;
  std::function<void(batch_job&)> add_row_;
  batches takes_;
  batches releases_;
};

}  // namespace rowlock::bench
