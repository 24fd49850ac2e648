#include "holding/watchdog.hpp"

#include <algorithm>

#include "base/calls.hpp"
#include "base/per_process.hpp"
#include "base/thread_name.hpp"

namespace rowlock::holding {

using namespace std::chrono_literals;

namespace {

std::string details_of(hold const& h) noexcept try {
  return h.loss_details();
} catch (std::exception const&) {
  return {};  // no memory: the loss is reported without them
}

/// Of this process: the same owner can take a lock again with another manager.
struct all_watchdogs {
  std::mutex mutex;
  std::vector<watchdog*> all;
};

}  // namespace

watchdog::watchdog(sessions::events const& e) : events_(e) {
  auto& known = base::per_process<all_watchdogs>();
  std::lock_guard const guard(known.mutex);
  known.all.push_back(this);
}

watchdog::~watchdog() {
  auto& known = base::per_process<all_watchdogs>();
  {
    std::lock_guard const guard(known.mutex);
    std::erase(known.all, this);
  }
  stop({});
}

bool watchdog::watch(std::shared_ptr<hold> const& h) {
  holds one{h};
  std::lock_guard const guard(mutex_);
  if (closed_) return false;
  make_room();
  start();
  if (!h->held()) {  // lost by a takeover before it was watched
    lost_.splice(lost_.end(), one);
    waiter_.wake();
    return true;
  }
  where_.emplace(h.get(), one.begin());
  watched_.splice(watched_.end(), one);
  if (auto const alarm = h->told_at(); alarm < armed_for_) {
    armed_for_ = alarm;
    waiter_.wake();
  }
  return true;
}

void watchdog::forget(hold const& h) noexcept {
  holds forgotten;  // destroyed when the mutex is free
  {
    std::lock_guard const guard(mutex_);
    move_to(forgotten, h);
    told_.erase(&h);
  }
  if (!forgotten.empty()) tell_ended(h);
}

void watchdog::tell_ended(hold const& h) const noexcept {
  events_.report({.kind = event_kind::ended,
                  .name = h.facts().name,
                  .term = h.facts().term.value,
                  .token = h.facts().token,
                  .label = h.facts().label()});
}

bool watchdog::move_to(holds& other, hold const& h) noexcept {
  auto const found = where_.find(&h);
  if (found == where_.end()) return false;
  other.splice(other.end(), watched_, found->second);
  where_.erase(found);
  return true;
}

bool watchdog::to_be_announced(hold const& h) noexcept {
  std::lock_guard const guard(mutex_);
  bool const mine = move_to(lost_, h);
  if (mine) waiter_.wake();
  return mine;
}

void watchdog::make_room() {
  auto const all = watched_.size() + lost_.size() + told_.size() + 1;
  if (left_.capacity() < all) left_.reserve(all + all / 4 + 8);  // not doubled: there can be many locks
}

bool watchdog::report_lost(std::shared_ptr<hold> const& h, loss_reason why) noexcept {
  if (!h->lose(why)) return false;
  to_be_announced(*h);
  return true;
}

std::optional<waiting::local_queue::turn> watchdog::report_superseded(
    std::shared_ptr<hold> const& h) noexcept {
  auto turn = h->lose_to_successor();
  if (!turn || to_be_announced(*h)) return turn;
  // If no watchdog has it yet, watch() reports the loss.
  auto& known = base::per_process<all_watchdogs>();
  std::lock_guard const guard(known.mutex);
  (void)std::any_of(known.all.begin(), known.all.end(), [&](watchdog* w) { return w->to_be_announced(*h); });
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
      if (!h.held()) continue;  // its thread is about to report that here
      auto const alarm = h.told_at();
      if (alarm > now)
        next = std::min(next, alarm);
      else if (h.lose(h.why_expired()))
        move_to(lost_, h);
    }
    // The hold that it was armed for might be released. A useless look costs less than a wake-up by each new
    // lock.
    if (armed_for_ > now) next = std::min(next, armed_for_);
    armed_for_ = next;
    lost.swap(lost_);
    for (auto const& h : lost) remember_told(h);
  }
  for (auto const& h : lost) {
    event e{.kind = event_kind::lost,
            .name = h->facts().name,
            .term = h->facts().term.value,
            .token = h->facts().token,
            .loss = h->loss(),
            .label = h->facts().label()};
    auto const details = details_of(*h);
    e.message = !details.empty() ? std::string_view(details) : e.loss ? to_string(*e.loss) : "";
    events_.report(e);
    tell_ended(*h);
    h->announce_loss();
  }
  return next;
}

void watchdog::remember_told(std::shared_ptr<hold> const& h) noexcept {
  try {
    told_.insert_or_assign(h.get(), h);
  } catch (std::exception const&) {  // no memory: the row expires
  }
}

void watchdog::run(std::stop_token stop) {
  base::name_thread("rowlock-trust");
  base::serving const here;
  std::stop_callback const on_stop(stop, [this] { waiter_.wake(); });
  for (;;) {
    bool const last_look = stop.stop_requested();
    auto const next = look();
    if (last_look) return;
    waiter_.wait_until(next);
  }
}

std::vector<std::shared_ptr<hold>> watchdog::close() noexcept {
  std::lock_guard const guard(mutex_);
  closed_ = true;
  auto all = std::move(left_);  // has room: nothing may throw here
  all.insert(all.end(), watched_.begin(), watched_.end());
  all.insert(all.end(), lost_.begin(), lost_.end());
  for (auto const& [key, one] : told_)
    if (auto h = one.lock()) all.push_back(std::move(h));
  return all;
}

void watchdog::stop(std::thread::id spare) noexcept {
  std::unique_lock lock(mutex_);
  while (thread_.joinable()) {
    thread_.request_stop();
    if (thread_.get_id() == spare) return;
    auto ending = std::move(thread_);
    stopping_ = true;
    lock.unlock();
    ending.join();
    lock.lock();
    stopping_ = false;
    try {  // a loss reported after the last look
      if (!lost_.empty()) start();
    } catch (std::exception const&) {  // no thread: hold::loss() reads the clock anyway
    }
  }
}

void watchdog::start() {
  if (thread_.joinable() || stopping_) return;
  thread_ = std::jthread([this](std::stop_token stop) { run(std::move(stop)); });
}

}  // namespace rowlock::holding
