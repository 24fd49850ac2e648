#include "base/task_queue.hpp"

#include <system_error>

#include "base/calls.hpp"
#include "base/thread_name.hpp"

namespace rowlock::base {

task_queue::~task_queue() {
  {
    std::lock_guard const guard(mutex_);
    std::erase_if(line_, [](auto const& e) { return e.how == kind::may_be_dropped; });
  }
  for (auto& t : threads_) t.request_stop();
}

bool task_queue::run(task what, kind how, std::size_t most) {
  std::lock_guard const guard(mutex_);
  if (how == kind::may_be_dropped && line_.size() >= most) return false;
  if (line_.size() >= idle_ && threads_.size() < most_threads_) {
    try {
      threads_.emplace_back([this](std::stop_token stop) { serve(std::move(stop)); });
    } catch (std::system_error const&) {
      if (threads_.empty()) return false;
    }
  }
  line_.push_back({std::move(what), how});
  come_.notify_one();
  return true;
}

// At the end the remaining threads run the tasks that are still queued.
void task_queue::serve(std::stop_token stop) {
  name_thread(name_);
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    bool const more = come_.wait(lock, stop, [this] { return !line_.empty(); });
    --idle_;
    if (!more) return;
    auto next = std::move(line_.front());
    line_.pop_front();
    lock.unlock();
    next.what();
    next.what = nullptr;  // destroys its captures without the mutex
    lock.lock();
  }
}

}  // namespace rowlock::base
