#include "holding/session_pinger.hpp"

#include <algorithm>
#include <rowlock/error.hpp>
#include <vector>

#include "base/calls.hpp"

namespace rowlock::holding {

using namespace std::chrono_literals;

namespace {

// The server ends sessions that are silent for longer.
std::chrono::nanoseconds ping_interval(hold const& h) {
  return std::min<std::chrono::nanoseconds>(h.facts().ttl, backend::longest_silence) / 3;
}

}  // namespace

session_pinger::session_pinger(strategies::catalogue const& all, watchdog& w, sessions::events const& e,
                               std::chrono::milliseconds reply_timeout,
                               std::function<boot_time_point()> close_unused)
    : watchdog_(w),
      events_(e),
      reply_timeout_(reply_timeout),
      close_unused_(std::move(close_unused)),
      strategies_(all) {}

void session_pinger::keep(std::shared_ptr<hold> const& h, anchor held) {
  auto one = std::make_shared<kept>(h, std::move(held));
  auto const next = boot_clock::now() + ping_interval(*h);
  one->next_ping = next;
  std::lock_guard const guard(mutex_);
  if (!thread_.joinable() && !stopping_)
    thread_ = std::jthread([this](std::stop_token stop) { run(std::move(stop)); });
  kept_.emplace(h.get(), std::move(one));
  if (next >= armed_for_) return;
  armed_for_ = next;
  waiter_.wake();
}

bool session_pinger::give_back(hold const& h, boot_time_point deadline) noexcept {
  std::shared_ptr<kept> one;
  {
    std::lock_guard const guard(mutex_);
    auto const found = kept_.find(&h);
    if (found == kept_.end()) return false;
    one = std::move(found->second);
    kept_.erase(found);
  }
  std::lock_guard const guard(one->in_use);
  auto& session = *one->lock.session;
  if (!session.usable()) return false;
  auto const& f = h.facts();
  auto const& strategy = strategies_.of(f.strategy);
  try {
    strategy.give_back(session, {f.name, f.term}, f.at_least, deadline);
  } catch (std::exception const& e) {
    events_.tell({.kind = event_kind::error, .name = h.facts().name, .message = e.what()});
    session.close();  // whatever became of it, the server ends the transaction with it
    return false;
  }
  one->lock.given_back = true;
  try {
    if (one->lock.long_unused) strategy.was_used(session, f.name, deadline);
  } catch (std::exception const& e) {  // the reaper may take it: then the next taker makes another
    events_.tell({.kind = event_kind::error, .name = h.facts().name, .message = e.what()});
  }
  return true;
}

void session_pinger::run(std::stop_token stop) {
  base::serving const here;
  std::stop_callback const on_stop(stop, [this] { waiter_.wake(); });
  while (!stop.stop_requested()) {
    auto next = boot_clock::now() + 100ms;
    try {
      next = std::min(ping_due(), close_unused_());
    } catch (std::exception const& e) {  // also std::bad_alloc
      events_.tell({.kind = event_kind::error, .message = e.what()});
    }
    waiter_.wait_until(next);
  }
}

boot_time_point session_pinger::ping_due() {
  std::vector<std::shared_ptr<kept>> due;
  {
    std::lock_guard const guard(mutex_);
    for (auto const& [h, one] : kept_)
      if (one->next_ping <= boot_clock::now()) due.push_back(one);
  }
  for (auto const& one : due) ping(*one);
  std::lock_guard const guard(mutex_);
  // As in the watchdog: what it was to wake for may have been given back.
  if (armed_for_ <= boot_clock::now()) armed_for_ = boot_time_point::max();
  for (auto const& [h, one] : kept_) armed_for_ = std::min(armed_for_, one->next_ping);
  return armed_for_;
}

void session_pinger::ping(kept& one) {
  auto const h = one.what.lock();
  if (!h || !h->held()) {  // being given back, or lost already
    one.next_ping = boot_time_point::max();
    return;
  }
  auto const start = boot_clock::now();
  auto const deadline =
      start + std::min<std::chrono::nanoseconds>(reply_timeout_,
                                                 std::max(ping_interval(*h), std::chrono::nanoseconds(1s)));
  bool lives = true;
  {
    std::lock_guard const guard(one.in_use);
    try {
      strategies_.of(h->facts().strategy).ping(*one.lock.session, deadline);
    } catch (std::exception const& e) {
      lives = false;
      one.lock.session->close();
      events_.tell({.kind = event_kind::error, .name = h->facts().name, .message = e.what()});
    }
  }
  one.next_ping = lives ? start + ping_interval(*h) : boot_time_point::max();
  if (!lives) watchdog_.report_lost(h, loss_reason::session_ended);
}

void session_pinger::stop(std::thread::id spare) noexcept {
  decltype(kept_) lost;  // after the mutex is free
  std::unique_lock lock(mutex_);
  lost.swap(kept_);
  if (!thread_.joinable()) return;
  thread_.request_stop();
  if (thread_.get_id() == spare) return;
  auto ending = std::move(thread_);
  stopping_ = true;  // one that is kept now needs no pings: it is given back at once
  lock.unlock();
  ending.join();
  lock.lock();
  stopping_ = false;
}

}  // namespace rowlock::holding
