#include "holding/session_pinger.hpp"

#include <algorithm>
#include <atomic>
#include <rowlock/error.hpp>

#include "base/calls.hpp"
#include "base/thread_name.hpp"

namespace rowlock::holding {

using namespace std::chrono_literals;

namespace {

// The server ends sessions that are silent for longer.
std::chrono::nanoseconds ping_interval(hold const& h) {
  return std::min<std::chrono::nanoseconds>(h.facts().ttl, backend::longest_silence) / 3;
}

loss_reason loss_reason_of(std::exception const& ping_failed) {
  auto const* const e = dynamic_cast<error const*>(&ping_failed);
  return e != nullptr && e->reason() == errc::read_only ? loss_reason::read_only : loss_reason::session_ended;
}

constexpr std::size_t most_pings_at_once = 64;

void remember_problem(hold& h, loss_reason why, std::string& where, std::exception const& e) noexcept try {
  where = e.what();
  h.hindered_by(std::make_shared<trouble const>(trouble{why, e.what()}));
} catch (std::exception const&) {  // no memory
  return;
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
  auto one = std::make_shared<kept>(h, std::move(held), ping_interval(*h));
  auto const next = one->next_ping;
  std::lock_guard const guard(mutex_);
  if (!thread_.joinable() && !stopping_)
    thread_ = std::jthread([this](std::stop_token stop) { run(std::move(stop)); });
  kept_.emplace(h.get(), std::move(one));
  if (next >= armed_for_) return;
  armed_for_ = next;
  waiter_.wake();
}

void session_pinger::drop(hold const& h) noexcept {
  std::shared_ptr<kept> one;  // destroyed when the mutex is free, or with a ping that is under way
  std::lock_guard const guard(mutex_);
  if (auto const found = kept_.find(&h); found != kept_.end()) {
    one = std::move(found->second);
    kept_.erase(found);
  }
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
  // A ping that is not answered by then ends the session, as its last user.
  if (!one->in_use.enter(std::clamp<std::chrono::nanoseconds>(deadline - boot_clock::now(), 0ns, 24h)))
    return false;
  leaving const guard(one->in_use);
  auto& session = *one->lock.session;
  if (!session.usable()) return false;
  auto const& f = h.facts();
  auto const& strategy = strategies_.of(f.strategy);
  try {
    strategy.give_back(session, {f.name, f.term}, h.at_least(), deadline);
  } catch (std::exception const& e) {
    events_.report({.kind = event_kind::error, .name = h.facts().name, .message = e.what()});
    session.close();  // so the server ends the transaction
    return false;
  }
  one->lock.given_back = true;
  try {
    if (one->lock.long_unused) strategy.was_used(session, f.name, deadline);
  } catch (std::exception const& e) {  // if the reaper deletes the anchor, the next taker makes another
    events_.report({.kind = event_kind::error, .name = h.facts().name, .message = e.what()});
  }
  return true;
}

void session_pinger::run(std::stop_token stop) {
  base::name_thread("rowlock-ping");
  base::serving const here;
  std::stop_callback const on_stop(stop, [this] { waiter_.wake(); });
  while (!stop.stop_requested()) {
    auto next = boot_clock::now() + 100ms;
    try {
      next = std::min(ping_due(), close_unused_());
    } catch (std::exception const& e) {
      events_.report({.kind = event_kind::error, .message = e.what()});
    }
    waiter_.wait_until(next);
  }
}

boot_time_point session_pinger::ping_due() {
  ping_all(due());
  std::lock_guard const guard(mutex_);
  if (armed_for_ <= boot_clock::now()) armed_for_ = boot_time_point::max();
  for (auto const& [h, one] : kept_) armed_for_ = std::min(armed_for_, one->next_ping);
  return armed_for_;
}

// Also sessions due soon, so that no silent server delays another ping.
session_pinger::batch session_pinger::due() {
  std::lock_guard const guard(mutex_);
  batch all;
  auto const now = boot_clock::now();
  auto const due_within = [now](kept const& k, std::chrono::nanoseconds time) {
    return k.next_ping != boot_time_point::max() && k.next_ping - time <= now;
  };
  if (std::none_of(kept_.begin(), kept_.end(), [&](auto const& k) { return due_within(*k.second, 0ns); }))
    return all;
  for (auto const& [h, one] : kept_)
    if (due_within(*one, one->interval / 2)) all.push_back(one);
  return all;
}

void session_pinger::ping_all(batch const& all) {
  std::atomic<std::size_t> next{0};
  auto const ping_next = [&]() noexcept {
    for (auto i = next++; i < all.size(); i = next++) ping(*all[i]);
  };
  {
    std::vector<std::jthread> beside;
    try {
      while (beside.size() + 1 < std::min(all.size(), most_pings_at_once))
        beside.emplace_back([&ping_next] {
          base::name_thread("rowlock-ping");
          base::serving const here;
          ping_next();
        });
    } catch (std::exception const& e) {  // no thread: fewer ping
      events_.report({.kind = event_kind::error, .message = e.what()});
    }
    ping_next();
  }
  // On this thread: a hook may end the manager or the process.
  for (auto const& one : all) {
    if (one->problem.empty()) continue;
    auto const h = one->what.lock();
    events_.report({.kind = event_kind::error,
                    .name = h ? std::string_view(h->facts().name) : std::string_view(),
                    .message = one->problem});
    one->problem.clear();
  }
}

void session_pinger::ping(kept& one) noexcept {
  auto const h = one.what.lock();
  if (!h || !h->held()) {  // being released, or lost
    one.next_ping = boot_time_point::max();
    return;
  }
  auto const start = boot_clock::now();
  auto const deadline = start + std::min<std::chrono::nanoseconds>(
                                    reply_timeout_, std::max(one.interval, std::chrono::nanoseconds(1s)));
  std::optional<loss_reason> lost;
  // A release keeps the session until it is done.
  if (one.in_use.enter(deadline - start)) {
    leaving const guard(one.in_use);
    try {
      strategies_.of(h->facts().strategy).ping(*one.lock.session, deadline);
    } catch (std::exception const& e) {
      lost = loss_reason_of(e);
      one.lock.session->close();
      remember_problem(*h, *lost, one.problem, e);
    }
  }
  one.next_ping = lost ? boot_time_point::max() : start + one.interval;
  if (lost) watchdog_.report_lost(h, *lost);
}

void session_pinger::stop(std::thread::id spare) noexcept {
  decltype(kept_) lost;  // destroyed when the mutex is free
  std::unique_lock lock(mutex_);
  lost.swap(kept_);
  if (!thread_.joinable()) return;
  thread_.request_stop();
  if (thread_.get_id() == spare) return;
  auto ending = std::move(thread_);
  stopping_ = true;  // a session kept from now on is released at once, without pings
  lock.unlock();
  ending.join();
  lock.lock();
  stopping_ = false;
}

}  // namespace rowlock::holding
