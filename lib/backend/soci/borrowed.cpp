#include "backend/soci/borrowed.hpp"

#include <fmt/format.h>
#include <soci/connection-pool.h>
#include <soci/error.h>
#include <soci/session.h>

#include <algorithm>
#include <chrono>
#include <rowlock/error.hpp>

#include "base/fork_epoch.hpp"

namespace rowlock::backend::soci {
namespace {

using namespace std::chrono_literals;

// SOCI has no other way to tell. The number never changes: no lock is needed.
std::size_t size_of(::soci::connection_pool& pool) {
  for (std::size_t n = 0;; ++n) {
    try {
      (void)pool.at(n);
    } catch (::soci::soci_error const&) {
      return n;
    }
  }
}

}  // namespace

borrowed::borrowed(::soci::connection_pool& p) : pool_(p), size_(size_of(p)), epoch_(base::fork_epoch()) {
  idle_.reserve(size_);  // so that put_by() can't fail
}

bool borrowed::forked() const noexcept { return epoch_ != base::fork_epoch(); }

borrowed::~borrowed() {
  if (forked()) {
    for (auto& one : idle_) (void)one.place.release();
    return;
  }
  auto const deadline = boot_clock::now() + 2s;
  for (auto const& one : idle_) {
    one.place->restore(deadline);
    give_back(one.position);
  }
}

::soci::session& borrowed::session_of(taken const& t) { return pool_.at(t.position); }

bool borrowed::take_idle(taken& t) {
  std::lock_guard const guard(mutex_);
  if (idle_.empty()) return false;
  t = std::move(idle_.back());
  idle_.pop_back();
  return true;
}

bool borrowed::lease(std::size_t& position, std::chrono::nanoseconds wait_policy) {
  try {
    auto const ms = std::chrono::ceil<std::chrono::milliseconds>(wait_policy).count();
    if (!pool_.try_lease(position, static_cast<int>(ms))) return false;
  } catch (::soci::soci_error const& e) {
    throw error(errc::failed, fmt::format("the soci::connection_pool can't be used: {}", e.what()));
  }
  std::lock_guard const guard(mutex_);
  ++taken_;
  return true;
}

borrowed::taken borrowed::take(boot_time_point deadline) {
  for (taken t;;) {
    if (take_idle(t)) return t;
    // In slices: the pool waits by the wall clock, which can jump, and put_by() can free a session.
    auto const left = std::clamp<std::chrono::nanoseconds>(deadline - boot_clock::now(), 0ns, 50ms);
    if (lease(t.position, left)) return t;
    if (left == 0ns) refuse();
  }
}

void borrowed::refuse() {
  std::lock_guard const guard(mutex_);
  throw error(
      errc::too_many_connections,
      fmt::format(
          "no session of the soci::connection_pool became free in time: of its {}, rowlock has {} and "
          "the program {}. A lock_manager takes manager_options::connections (2, unless set) and one "
          "more for renewals, and for row_lock up to manager_options::row_lock_connections besides: "
          "make the pool larger, or give sessions back sooner",
          size_, taken_, size_ - std::min(size_, taken_)));
}

void borrowed::put_by(taken t) noexcept {
  if (forked()) {
    (void)t.place.release();
    return;
  }
  if (!t.place) return give_back(t.position);
  std::lock_guard const guard(mutex_);
  idle_.push_back(std::move(t));
}

void borrowed::give_back(std::size_t position) noexcept {
  try {
    pool_.give_back(position);
  } catch (::soci::soci_error const&) {
    // The program has given it back already.
  }
  std::lock_guard const guard(mutex_);
  --taken_;
}

}  // namespace rowlock::backend::soci
