#include "manager/queue_place.hpp"

#include <algorithm>

namespace rowlock::managing {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

void queue_place::stand(boot_time_point until, std::stop_token const& stop) noexcept {
  ticket_.reset();
  auto came = wait_queues_.enter(name_, who_.process, until, stop);
  stood_ = came.stood;
  if (came.mine) accept_hand_off(*std::move(came.mine));
}

void queue_place::accept_hand_off(waiting::wait_queues::ticket t) noexcept {
  ticket_.emplace(std::move(t));
  since_ = steady_clock::now();
}

steady_clock::time_point queue_place::next_look(std::optional<std::chrono::milliseconds> can_be_had_in,
                                                bool often) const {
  auto const now = steady_clock::now();
  auto const longest = often ? 50ms : 250ms;
  std::chrono::nanoseconds wait = std::clamp<std::chrono::nanoseconds>((now - since_) / 8, 2ms, longest);
  if (can_be_had_in) wait = std::min<std::chrono::nanoseconds>(wait, std::max(1ms, *can_be_had_in));
  return now + wait;
}

backend::connection* queue_place::session() noexcept {
  auto* const mine = ticket_ ? ticket_->session() : nullptr;
  if (mine != nullptr && mine->alive()) return mine;
  ticket_.reset();
  return nullptr;
}

std::optional<waiting::wait_queues::ticket> queue_place::take() noexcept {
  auto taken = std::move(ticket_);
  ticket_.reset();
  return taken;
}

void queue_place::leave(boot_time_point deadline) noexcept {
  if (auto mine = take()) mine->leave(deadline);
}

}  // namespace rowlock::managing
