#include "sessions/connection_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <rowlock/error.hpp>

#include "base/process_end.hpp"

namespace rowlock::sessions {

connection_pool::connection_pool(database& d, size const& s) : database_(d), size_(s) {
  idle_.reserve(static_cast<std::size_t>(s.limit));  // so that give_back() can't fail
}

// Asks the borrower that has waited longest with its session to give it back. @return the time to ask again
boot_time_point connection_pool::ask_for_one() {
  auto const now = boot_clock::now();
  for (auto& one : turns_) {
    if (one.give_way.stop_requested()) continue;
    if (one.began + longest_turn > now) return one.began + longest_turn;
    // The mutex is held, so callbacks must not need it. They only set an event that the borrower polls.
    one.give_way.request_stop();
    break;
  }
  return now + longest_turn;
}

void connection_pool::line_up(boot_time_point until, std::stop_token const& stop, use what) {
  std::unique_lock lock(mutex_);
  if (line_.empty() && lent_ < size_.limit) {
    ++lent_;
    return;
  }
  waiter me{what};
  line_.push_back(&me);
  auto const over = [&] { return me.has_place || (me.locked_out && database_.sql().writes_lock_database); };
  while (!over() && !stop.stop_requested() && boot_clock::now() < until) {
    auto const next = std::min(until, ask_for_one());
    me.wake.wait_until(lock, stop, std::chrono::steady_clock::now() + (next - boot_clock::now()), over);
  }
  if (me.has_place) return;
  line_.remove(&me);
  if (me.locked_out)
    throw error(
        errc::row_locked,
        fmt::format("all {} connections of this lock_manager waited for what another session has locked",
                    size_.limit));
  throw error(errc::too_many_connections,
              fmt::format("all {} connections of this lock_manager were in use for too long: raise "
                          "manager_options::{}",
                          size_.limit, size_.option));
}

void connection_pool::locked_out() noexcept {
  std::lock_guard const guard(mutex_);
  for (auto* one : line_) {
    one->locked_out = one->what == use::writing;
    one->wake.notify_one();
  }
}

// With the mutex. The place goes to the first waiter, so that no later caller overtakes it.
void connection_pool::next_in_line() noexcept {
  --lent_;
  if (line_.empty()) return;
  auto* next = line_.front();
  line_.pop_front();
  ++lent_;
  next->has_place = true;
  next->wake.notify_one();
}

connection_pool::waiting::waiting(connection_pool& p, std::stop_source give_way) : pool_(p) {
  std::lock_guard const guard(pool_.mutex_);
  place_ = pool_.turns_.insert(pool_.turns_.end(), {boot_clock::now(), std::move(give_way)});
}

connection_pool::waiting::~waiting() {
  std::lock_guard const guard(pool_.mutex_);
  pool_.turns_.erase(place_);
}

connection_pool::loan connection_pool::borrow(boot_time_point deadline, std::stop_token const& stop,
                                              boot_time_point place_by, use what) {
  line_up(std::min(deadline, place_by), stop, what);
  std::unique_ptr<backend::connection> idle;  // checked, and perhaps closed, without the mutex
  {
    std::lock_guard const guard(mutex_);
    if (!idle_.empty()) {
      idle = std::move(idle_.back().connection);
      idle_.pop_back();
    }
  }
  try {
    base::stay_out_of_ended_drivers();
    if (idle && idle->alive()) return {*this, std::move(idle)};
    idle.reset();
    return {*this, database_.open(deadline)};
  } catch (...) {
    give_back(nullptr);
    throw;
  }
}

void connection_pool::give_back(std::unique_ptr<backend::connection> connection) noexcept {
  bool const broke = connection && !connection->usable();
  {
    std::lock_guard const guard(mutex_);
    if (connection && !broke && !closed_) idle_.push_back({std::move(connection), boot_clock::now()});
    next_in_line();
  }
  if (broke) drop_idle();
}

boot_time_point connection_pool::close_unused() noexcept {
  for (;;) {
    std::unique_ptr<backend::connection> unused;  // closed after the mutex is free
    std::lock_guard const guard(mutex_);
    if (idle_.size() <= size_.spare) return boot_time_point::max();
    auto const due = idle_.front().since + size_.idle_timeout;
    if (due > boot_clock::now()) return due;
    unused = std::move(idle_.front().connection);
    idle_.erase(idle_.begin());
  }
}

void connection_pool::close() noexcept {
  {
    std::lock_guard const guard(mutex_);
    closed_ = true;
  }
  drop_idle();
}

// The cause that ended one session has probably cut the idle ones, too. They do not show it, and each would
// cost a call a lost reply.
void connection_pool::drop_idle() noexcept {
  for (;;) {
    std::unique_ptr<backend::connection> dropped;  // closed after the mutex is free
    std::lock_guard const guard(mutex_);
    if (idle_.empty()) return;
    dropped = std::move(idle_.back().connection);
    idle_.pop_back();
  }
}

}  // namespace rowlock::sessions
