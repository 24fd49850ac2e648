#include "process/watchdog.hpp"

#include <algorithm>

namespace rowlock::process {

using namespace std::chrono_literals;

namespace {

// Loss is reported a little before trust ends, so that whoever hears of it can still stop in time.
boot_time_point alarm_time(hold const& h) {
  return h.trusted_until() -
         std::min<std::chrono::nanoseconds>(std::chrono::nanoseconds(h.facts().ttl) / 20, 1s);
}

}  // namespace

void watchdog::watch(std::shared_ptr<hold> const& h) {
  std::lock_guard const guard(mutex_);
  watched_.emplace(h.get(), h);
  if (!thread_.joinable()) thread_ = std::jthread([this](std::stop_token stop) { run(std::move(stop)); });
  if (alarm_time(*h) < armed_for_) waiter_.wake();
}

void watchdog::forget(hold const& h) noexcept {
  std::lock_guard const guard(mutex_);
  watched_.erase(&h);
}

bool watchdog::report_lost(std::shared_ptr<hold> const& h, loss_reason why) noexcept {
  if (!h->lose(why)) return false;
  std::lock_guard const guard(mutex_);
  watched_.erase(h.get());
  lost_.push_back(h);
  waiter_.wake();
  return true;
}

boot_time_point watchdog::look() noexcept {
  std::vector<std::shared_ptr<hold>> lost;
  {
    std::lock_guard const guard(mutex_);
    auto const now = boot_clock::now();
    armed_for_ = boot_time_point::max();
    for (auto it = watched_.begin(); it != watched_.end();) {
      auto const alarm = alarm_time(*it->second);
      bool const over = alarm <= now;
      if (over && it->second->lose(it->second->why_expired())) lost_.push_back(it->second);
      if (!over) armed_for_ = std::min(armed_for_, alarm);
      it = over ? watched_.erase(it) : std::next(it);
    }
    lost.swap(lost_);
  }
  for (auto const& h : lost) {
    event e{.kind = event_kind::lost,
            .name = h->facts().name,
            .term = h->facts().term.value,
            .token = h->facts().token,
            .loss = h->loss()};
    e.message = e.loss ? to_string(*e.loss) : "";
    events_.tell(e);
    h->announce_loss();
  }
  return armed_for_;
}

void watchdog::run(std::stop_token stop) {
  std::stop_callback const on_stop(stop, [this] { waiter_.wake(); });
  while (!stop.stop_requested()) {
    look();
    boot_time_point next;
    {
      std::lock_guard const guard(mutex_);
      next = lost_.empty() ? armed_for_ : boot_time_point{};
    }
    waiter_.wait_until(next);
  }
  look();
}

std::vector<std::shared_ptr<hold>> watchdog::watched() {
  std::lock_guard const guard(mutex_);
  std::vector<std::shared_ptr<hold>> all;
  all.reserve(watched_.size());
  for (auto const& [key, h] : watched_) all.push_back(h);
  return all;
}

void watchdog::stop() noexcept {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

}  // namespace rowlock::process
