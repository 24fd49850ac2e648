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

watchdog::~watchdog() {
  stop();
  if (thread_.joinable()) thread_.detach();  // this is the thread itself: it ends when this call returns
}

void watchdog::watch(std::shared_ptr<hold> const& h) {
  holds one{h};
  std::lock_guard const guard(mutex_);
  start();
  if (!h->held()) {  // superseded already: whoever did it did not find it here
    lost_.splice(lost_.end(), one);
    waiter_.wake();
    return;
  }
  where_.emplace(h.get(), one.begin());
  watched_.splice(watched_.end(), one);
  if (alarm_time(*h) < armed_for_) waiter_.wake();
}

void watchdog::forget(hold const& h) noexcept {
  holds forgotten;  // dropped after the mutex is free
  std::lock_guard const guard(mutex_);
  move_to(forgotten, h);
}

void watchdog::move_to(holds& other, hold const& h) noexcept {
  auto const found = where_.find(&h);
  if (found == where_.end()) return;
  other.splice(other.end(), watched_, found->second);
  where_.erase(found);
}

void watchdog::to_be_announced(hold const& h) noexcept {
  std::lock_guard const guard(mutex_);
  move_to(lost_, h);
  waiter_.wake();
}

bool watchdog::report_lost(std::shared_ptr<hold> const& h, loss_reason why) noexcept {
  if (!h->lose(why)) return false;
  to_be_announced(*h);
  return true;
}

std::optional<registry::turn> watchdog::report_superseded(std::shared_ptr<hold> const& h) noexcept {
  auto turn = h->lose_to_successor();
  if (turn) to_be_announced(*h);
  return turn;
}

boot_time_point watchdog::look() noexcept {
  holds lost;
  boot_time_point next = boot_time_point::max();
  {
    std::lock_guard const guard(mutex_);
    auto const now = boot_clock::now();
    for (auto it = watched_.begin(); it != watched_.end();) {
      hold& h = **it++;
      if (!h.held()) continue;  // whoever ended it is about to say so here
      auto const alarm = alarm_time(h);
      if (alarm > now)
        next = std::min(next, alarm);
      else if (h.lose(h.why_expired()))
        move_to(lost_, h);
    }
    armed_for_ = next;
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
  return next;
}

void watchdog::run(std::stop_token stop) {
  std::shared_ptr<void> alive;  // first, so that it is dropped last: *this may end with it
  std::stop_callback const on_stop(stop, [this] { waiter_.wake(); });
  for (;;) {
    bool const last_look = stop.stop_requested();
    alive = anchor_.lock();
    auto const next = look();
    // A callback dropped every other reference. From another thread that can't happen: it waits for this one.
    if (alive.use_count() == 1) return;
    alive.reset();
    if (last_look) return;
    waiter_.wait_until(next);
  }
}

std::vector<std::shared_ptr<hold>> watchdog::watched() {
  std::lock_guard const guard(mutex_);
  return {watched_.begin(), watched_.end()};
}

void watchdog::stop() noexcept {
  std::unique_lock lock(mutex_);
  if (!thread_.joinable() || thread_.get_id() == std::this_thread::get_id()) return;
  auto ending = std::move(thread_);
  stopping_ = true;
  lock.unlock();
  ending.request_stop();
  ending.join();
  lock.lock();
  stopping_ = false;
  if (watched_.empty() && lost_.empty()) return;
  try {  // somebody took a lock meanwhile, by a mutex that outlives the lock_manager
    start();
  } catch (std::exception const&) {  // no thread to be had: hold::loss() goes by the clock all the same
  }
}

void watchdog::start() {
  if (thread_.joinable() || stopping_) return;
  thread_ = std::jthread([this](std::stop_token stop) { run(std::move(stop)); });
}

}  // namespace rowlock::process
