#include "waiting/wait_queues.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <rowlock/error.hpp>
#include <utility>

#include "base/never_destroyed.hpp"

namespace rowlock::waiting {

using namespace std::chrono_literals;

namespace {

// Remembered; then all are forgotten. More than the names for which one process with an event loop waits.
// Otherwise its calls would overtake, again and again, the waiters that they have just met.
constexpr std::size_t most_names = 16384;
// A release waits no longer for its queue to wake the next waiter.
constexpr std::chrono::nanoseconds longest_leave = 1s;

}  // namespace

wait_queues::wait_queues(sessions::database& d, sessions::events const& e, manager_options const& o)
    : database_(d),
      events_(e),
      sessions_(d, {o.queue_connections, "queue_connections", 0, o.idle_timeout}),
      reply_timeout_(o.reply_timeout),
      there_(o.queue_connections > 0 && d.sql().has_queues) {}

wait_queues::ticket::~ticket() {
  if (!place_) return;
  if (epoch_ != base::fork_epoch())
    (void)base::never_destroyed<std::shared_ptr<place>>(std::move(place_));
  else if (auto mine = wait_queues_->taken_from(*place_))
    (*mine)->close();
}

void wait_queues::ticket::keep() noexcept try {
  std::lock_guard const guard(wait_queues_->mutex_);
  if (!place_->session || place_->is_kept) return;
  place_->kept = wait_queues_->kept_.insert(wait_queues_->kept_.end(), place_);
  place_->is_kept = true;
} catch (std::bad_alloc const&) {  // then its session is not taken for another name
}

backend::connection* wait_queues::ticket::session() const noexcept {
  if (epoch_ != base::fork_epoch()) return nullptr;
  std::lock_guard const guard(wait_queues_->mutex_);
  if (std::exchange(place_->is_kept, false)) wait_queues_->kept_.erase(place_->kept);
  return place_->session ? &**place_->session : nullptr;
}

void wait_queues::ticket::leave(boot_time_point deadline) noexcept {
  if (!place_ || epoch_ != base::fork_epoch()) return;
  auto const mine = std::move(place_);
  auto session = wait_queues_->taken_from(*mine);
  if (!session) return;
  try {
    if (boot_clock::now() >= deadline) return (*session)->close();
    wait_queues_->leave(*session, mine->name, deadline);
  } catch (std::exception const&) {
    (*session)->close();
  }
}

bool wait_queues::ticket::leave_with(std::function<void(backend::connection&)> const& give_back) {
  if (!place_ || epoch_ != base::fork_epoch()) return false;
  auto session = wait_queues_->taken_from(*place_);  // leave() does nothing from here on
  if (!session) return false;
  try {
    give_back(**session);
    return true;
  } catch (error const& e) {
    (*session)->close();
    if (e.reason() != errc::unreachable && e.reason() != errc::conflict) throw;
    return false;
  } catch (...) {
    (*session)->close();
    throw;
  }
}

void wait_queues::leave(loan& s, std::string const& name, boot_time_point deadline) {
  others_wait(name, s->leave_queue(std::min<boot_time_point>(deadline, boot_clock::now() + longest_leave)));
}

std::optional<wait_queues::loan> wait_queues::taken_from(place& p) noexcept {
  std::lock_guard const guard(mutex_);
  if (std::exchange(p.is_kept, false)) kept_.erase(p.kept);
  auto taken = std::move(p.session);
  p.session.reset();
  return taken;
}

std::optional<wait_queues::loan> wait_queues::taken_from_one_that_is_kept() {
  std::shared_ptr<place> oldest;
  {
    std::lock_guard const guard(mutex_);
    if (kept_.empty()) return std::nullopt;
    oldest = kept_.front();
  }
  auto session = taken_from(*oldest);  // empty if its lock was just released
  if (session) leave(*session, oldest->name, boot_clock::now() + reply_timeout_);
  return session;
}

std::optional<wait_queues::loan> wait_queues::free_session(std::stop_token const& stop) {
  auto const now = boot_clock::now();
  try {
    return sessions_.borrow(now + reply_timeout_, stop, now);
  } catch (error const& e) {
    if (e.reason() != errc::too_many_connections) throw;
  }
  return taken_from_one_that_is_kept();
}

wait_queues::result wait_queues::enter(std::string const& name, std::string const& who, boot_time_point until,
                                       std::stop_token const& stop) noexcept {
  if (!there() || stop.stop_requested()) return {};
  try {
    auto session = free_session(stop);
    if (!session) return {};
    there_ = (*session)->has_queues();
    if (!there()) return {};
    until = std::min<boot_time_point>(until, boot_clock::now() + longest_wait);
    auto const how = (*session)->enter_queue(database_.tables(), name, who, until, reply_timeout_, stop);
    others_wait(name, how != backend::queue_entry::was_free);
    result done{.stood = true};
    if (how != backend::queue_entry::not_mine)
      done.mine.emplace(ticket(*this, std::make_shared<place>(place{name, std::move(session)})));
    return done;
  } catch (error const& e) {
    // It would refuse again, and a connection for each wait costs more than polling.
    if (!e.retryable() && there_.exchange(false))
      events_.report({.kind = event_kind::error,
                      .name = name,
                      .message = fmt::format("waiting goes on without the server's help: {}", e.what())});
  } catch (std::exception const&) {  // no memory: the caller polls
  }
  return {};
}

bool wait_queues::begins_at(std::string const& name) const {
  std::lock_guard const guard(mutex_);
  return waited_for_.contains(name);
}

void wait_queues::others_wait(std::string const& name, bool do_they) noexcept try {
  std::lock_guard const guard(mutex_);
  if (!do_they) {
    waited_for_.erase(name);
    return;
  }
  if (waited_for_.size() >= most_names) waited_for_.clear();
  waited_for_.insert(name);
} catch (std::exception const&) {  // no memory for a hint
  return;
}

}  // namespace rowlock::waiting
