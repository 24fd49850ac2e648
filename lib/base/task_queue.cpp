#include "base/task_queue.hpp"

#include <algorithm>
#include <system_error>

#include "base/calls.hpp"
#include "base/thread_name.hpp"

namespace rowlock::base {

task_queue::~task_queue() { stop({}); }

void task_queue::stop(std::thread::id spare) noexcept {
  std::vector<std::jthread> ending;
  {
    std::lock_guard const guard(mutex_);
    stopped_ = true;
    std::erase_if(line_, [](auto const& e) { return e.how == kind::may_be_dropped; });
    ending.swap(threads_);
  }
  for (auto& t : ending) t.request_stop();
  for (auto& t : ending)
    if (t.get_id() == spare) t.detach();
}

bool task_queue::has(std::thread::id id) const noexcept {
  std::lock_guard const guard(mutex_);
  return std::any_of(threads_.begin(), threads_.end(), [id](auto const& t) { return t.get_id() == id; });
}

bool task_queue::run(task what, kind how, std::size_t most) {
  std::lock_guard const guard(mutex_);
  auto const room = idle_ + most_threads_ - threads_.size();
  if (stopped_ || (how == kind::may_be_dropped && line_.size() >= room + most)) return false;
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
