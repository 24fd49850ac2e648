#include "waiting/local_queue.hpp"

#include <algorithm>
#include <utility>

#include "base/per_process.hpp"
#include "base/process_end.hpp"

namespace rowlock::waiting {

local_queue& local_queue::of_this_process() { return base::per_process<local_queue>(); }

std::size_t local_queue::number_of(std::string const& database_identity) {
  std::lock_guard const guard(mutex_);
  return databases_.try_emplace(database_identity, databases_.size()).first->second;
}

local_queue::turn::turn(turn&& other) noexcept
    : queue_(std::exchange(other.queue_, nullptr)), key_(std::move(other.key_)) {}

void local_queue::turn::leave() noexcept {
  auto* r = std::exchange(queue_, nullptr);
  // In a forked child the queue that gave this turn is the parent's, perhaps locked for ever.
  if (r != nullptr && r == &of_this_process()) r->leave(key_);
}

void local_queue::turn::took(std::shared_ptr<occupant> const& h) noexcept {
  if (queue_ != nullptr) queue_->took(key_, h);
}

void local_queue::took(key const& k, std::shared_ptr<occupant> const& h) noexcept {
  std::lock_guard const guard(mutex_);
  if (auto found = places_.find(k); found != places_.end()) found->second.held = h;
}

void local_queue::leave(key const& k) noexcept {
  std::lock_guard const guard(mutex_);
  auto const found = places_.find(k);
  if (found == places_.end()) return;
  auto& here = found->second;
  here.held.reset();
  if (here.line.empty()) {
    places_.erase(found);
    return;
  }
  auto* next = here.line.front();
  here.line.pop_front();
  here.owner = std::move(next->owner);
  next->has_turn = true;
  next->wake.notify_one();
}

std::optional<local_queue::entrance> local_queue::enter_at_once(std::unique_lock<std::mutex>&, key const& k,
                                                                owner_id const& owner) {
  auto mine = k;  // copied beforehand: once there is a place nothing may fail, for nobody would leave it
  auto const [found, fresh] = places_.try_emplace(k, owner);
  if (fresh) return turn(*this, std::move(mine));
  auto& here = found->second;
  auto held = here.held.lock();
  if (held && here.owner.same(owner) && held->has_handles()) return already_held{std::move(held)};
  return std::nullopt;
}

bool local_queue::wait_in_line(std::unique_lock<std::mutex>& lock, key const& k, waiter& me,
                               std::optional<std::chrono::steady_clock::time_point> deadline,
                               std::stop_token const& stop, stay_until const& how_long) {
  auto const has_turn = [&me] { return me.has_turn; };
  if (!how_long) {
    if (deadline) return me.wake.wait_until(lock, stop, *deadline, has_turn);
    return me.wake.wait(lock, stop, has_turn);
  }
  for (;;) {
    auto holder = places_.at(k).held.lock();
    lock.unlock();
    auto next = how_long(holder.get());
    holder.reset();  // before the mutex: whoever drops the last of it leaves the place
    lock.lock();
    if (me.has_turn || !next) return me.has_turn;
    if (deadline) next = std::min(*next, *deadline);
    if (me.wake.wait_until(lock, stop, *next, has_turn)) return true;
    bool const over = deadline && std::chrono::steady_clock::now() >= *deadline;
    if (over || stop.stop_requested()) return false;
  }
}

local_queue::entrance local_queue::enter(key k, owner_id const& owner,
                                         std::optional<std::chrono::steady_clock::time_point> deadline,
                                         std::stop_token stop, stay_until const& how_long) {
  std::unique_lock lock(mutex_);
  if (auto done = enter_at_once(lock, k, owner)) return std::move(*done);
  auto const holder = [&] {
    auto const found = places_.find(k);
    return found == places_.end() ? nullptr : found->second.held.lock();
  };
  if (deadline && *deadline <= std::chrono::steady_clock::now())
    return not_now{acquire_status::busy, holder()};

  base::watch_for_process_end_of_others();
  waiter me{owner, false, {}};
  places_.at(k).line.push_back(&me);
  auto const leave_line = [&] {
    auto& line = places_.at(k).line;
    line.erase(std::find(line.begin(), line.end(), &me));
  };
  bool came = false;
  try {
    came = wait_in_line(lock, k, me, deadline, stop, how_long);
  } catch (...) {  // a policy of the program's, without the mutex
    if (!lock.owns_lock()) lock.lock();
    if (!me.has_turn) {
      leave_line();
      throw;
    }
    lock.unlock();
    turn(*this, std::move(k)).leave();
    throw;
  }
  if (came) return turn(*this, std::move(k));
  leave_line();
  return not_now{stop.stop_requested() ? acquire_status::cancelled : acquire_status::timed_out, holder()};
}

}  // namespace rowlock::waiting
