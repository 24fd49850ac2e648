#include "backend/wire_watch.hpp"
#include "base/thread_name.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace rowlock::backend {
namespace {

using namespace std::chrono_literals;

// After a silence of the same length the thread polls for the next byte instead of looking regularly.
constexpr auto between_looks = 4ms;

}  // namespace

std::shared_ptr<wire> wire::of(int fd) {
  int const copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  return copy < 0 ? nullptr : std::shared_ptr<wire>(new wire(copy));
}

wire::~wire() { forget(); }

void wire::forget() noexcept {
  if (int const copy = std::exchange(copy_, -1); copy >= 0) ::close(copy);
}

void wire::shut_down() const noexcept { ::shutdown(copy_, SHUT_RDWR); }

wire_watch::~wire_watch() {
  thread_.request_stop();
  waiter_.wake();
}

wire_watch::scope::scope(wire_watch& all, std::shared_ptr<wire const> on, boot_time_point deadline,
                         std::uint64_t most_bytes)
    : all_(all), entry_{std::move(on), deadline, most_bytes} {
  all_.add(entry_);
}

wire_watch::scope::~scope() { all_.remove(entry_); }

void wire_watch::add(watched& one) {
  one.moved = boot_clock::now();
  std::lock_guard const guard(mutex_);
  if (!thread_.joinable()) thread_ = std::jthread([this](std::stop_token const& stop) { run(stop); });
  one.place = watched_.size();
  watched_.push_back(&one);
  stirs_ = true;
  // The thread mostly looks soon anyway: a busy session need not wake it each time.
  if (asleep_until_ > std::min<boot_time_point>(one.moved + between_looks, one.deadline)) waiter_.wake();
}

void wire_watch::remove(watched const& one) noexcept {
  std::lock_guard const guard(mutex_);
  watched_[one.place] = watched_.back();
  watched_[one.place]->place = one.place;
  watched_.pop_back();
}

/// @return the time of the next look
boot_time_point wire_watch::look(bool stirred, std::vector<int>& quiet) {
  std::lock_guard const guard(mutex_);
  auto const now = boot_clock::now();
  // The next call comes soon after one that has ended, and then need not wake the thread.
  auto next = std::exchange(stirs_, false) ? now + between_looks : boot_time_point::max();
  quiet.clear();
  // Under the mutex: a call that got its reply in time is not cut off afterwards.
  for (auto* const one : watched_) {
    auto const bytes = received_bytes(one->on->fd());
    bool const first = !one->seen && bytes;
    if (first) one->until_bytes = *bytes + one->most_bytes;
    if (bytes > one->until_bytes) one->on->overrun_.store(true, std::memory_order_relaxed);
    if (one->on->overrun() || one->deadline <= now) {
      one->on->shut_down();
      continue;
    }
    auto const before = one->seen;
    one->seen = bytes ? bytes : before;
    if (stirred || (!first && one->seen != before)) one->moved = now;
    next = std::min(next, one->deadline);
    if (!one->seen) continue;
    if (now - one->moved < between_looks)
      next = std::min<boot_time_point>(next, now + between_looks);
    else
      quiet.push_back(one->on->fd());
  }
  asleep_until_ = next;
  return next;
}

void wire_watch::run(std::stop_token const& stop) {
  base::name_thread("rowlock-wire");
  std::vector<int> quiet;
  bool stirred = false;
  while (!stop.stop_requested()) {
    auto const next = look(stirred, quiet);
    stirred = waiter_.wait_until(next, quiet);
  }
}

}  // namespace rowlock::backend
