#include "backend/mysql/reply_deadlines.hpp"

namespace rowlock::backend::mysql {

reply_deadlines::~reply_deadlines() {
  thread_.request_stop();
  waiter_.wake();
}

reply_deadlines::entry reply_deadlines::add(std::shared_ptr<own_socket const> socket,
                                            boot_time_point deadline) {
  std::lock_guard const guard(mutex_);
  auto const added = waiting_.emplace(deadline, std::move(socket));
  try {
    if (!thread_.joinable()) thread_ = std::jthread([this](std::stop_token const& stop) { run(stop); });
  } catch (...) {
    waiting_.erase(added);
    throw;
  }
  // Mostly it sleeps until an earlier one, whose reply has come long since: no need to wake it each time.
  if (deadline < asleep_until_) waiter_.wake();
  return added;
}

void reply_deadlines::remove(entry e) noexcept {
  std::lock_guard const guard(mutex_);
  waiting_.erase(e);
}

boot_time_point reply_deadlines::shut_down_late() {
  std::lock_guard const guard(mutex_);
  auto const now = boot_clock::now();
  auto it = waiting_.begin();
  // Under the mutex, so that whoever got an answer in time is not cut off afterwards.
  for (; it != waiting_.end() && it->first <= now; ++it) it->second->shut_down();
  asleep_until_ = it == waiting_.end() ? boot_time_point::max() : it->first;
  return asleep_until_;
}

void reply_deadlines::run(std::stop_token const& stop) {
  while (!stop.stop_requested()) waiter_.wait_until(shut_down_late());
}

}  // namespace rowlock::backend::mysql
