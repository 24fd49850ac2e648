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

constexpr auto between_looks = 4ms;
// After this silence the thread polls for the next byte instead of looking regularly.
constexpr auto quiet_after = 20ms;

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
    : all_(all), entry_(all.add(std::move(on), deadline, most_bytes)) {}

wire_watch::scope::~scope() { all_.remove(entry_); }

std::list<wire_watch::watched>::iterator wire_watch::add(std::shared_ptr<wire const> on,
                                                         boot_time_point deadline, std::uint64_t most_bytes) {
  auto const now = boot_clock::now();
  auto const so_far = received_bytes(on->fd());
  std::list<watched> one;
  auto const entry = one.emplace(one.end());
  entry->on = std::move(on);
  entry->deadline = deadline;
  entry->counted = so_far.has_value();
  entry->seen = so_far.value_or(0);
  entry->until_bytes = entry->seen + most_bytes;
  entry->moved = now;
  std::lock_guard const guard(mutex_);
  if (!thread_.joinable()) thread_ = std::jthread([this](std::stop_token const& stop) { run(stop); });
  watched_.splice(watched_.end(), one);
  // The thread mostly looks soon anyway: a busy session need not wake it each time.
  if (asleep_until_ > (entry->counted ? now + between_looks : deadline)) waiter_.wake();
  return entry;
}

void wire_watch::remove(std::list<watched>::iterator entry) noexcept {
  std::lock_guard const guard(mutex_);
  watched_.erase(entry);
}

/// @return the time of the next look
boot_time_point wire_watch::look(bool stirred, std::vector<int>& quiet) {
  std::lock_guard const guard(mutex_);
  auto const now = boot_clock::now();
  auto next = boot_time_point::max();
  quiet.clear();
  // Under the mutex: a call that got its reply in time is not cut off afterwards.
  for (auto& one : watched_) {
    auto const bytes = one.counted ? received_bytes(one.on->fd()).value_or(one.seen) : 0;
    if (bytes > one.until_bytes) one.on->overrun_.store(true, std::memory_order_relaxed);
    if (one.on->overrun() || one.deadline <= now) {
      one.on->shut_down();
      continue;
    }
    if (bytes != std::exchange(one.seen, bytes) || stirred) one.moved = now;
    next = std::min(next, one.deadline);
    if (!one.counted) continue;
    if (now - one.moved < quiet_after)
      next = std::min(next, now + between_looks);
    else
      quiet.push_back(one.on->fd());
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
