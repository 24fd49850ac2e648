#include "manager/watched_row.hpp"

#include <algorithm>

namespace rowlock::managing {

using namespace std::chrono_literals;

boot_time_point watched_row::observation::ripe() const noexcept {
  return since + std::chrono::nanoseconds(silence) + std::chrono::nanoseconds(silence) / 50;
}

// `since` is after the reply, and ripe() is checked before the claim is sent. The holder's trust counts from
// before its last renewal was sent. So it has ended if no other renewal came in between.
std::optional<strategies::superseded> watched_row::look(strategies::term_row const& row,
                                                        std::int64_t incarnation,
                                                        waiting::observations& of_manager, bool over_calls) {
  auto const silence = row.must_be_silent_for();
  if (!silence) {
    seen_.reset();
    return std::nullopt;
  }
  bool const same = seen_ && seen_->term == row.term && seen_->renewals == row.renewals &&
                    seen_->incarnation == incarnation;
  auto since = same ? seen_->since : boot_clock::now();
  if (row.takeover == takeover::clock || over_calls)
    since = std::min(since, of_manager.since(row, incarnation));
  seen_ = observation{row.term, row.renewals, incarnation, *silence, since};
  if (boot_clock::now() < seen_->ripe()) return std::nullopt;
  return strategies::superseded{seen_->term, seen_->renewals, incarnation};
}

std::optional<std::chrono::milliseconds> watched_row::can_be_had_in(strategies::term_row const& seen) const {
  if (seen.term.empty()) return std::nullopt;
  std::optional<std::chrono::milliseconds> soon;
  if (seen_) soon = std::chrono::ceil<std::chrono::milliseconds>(seen_->ripe() - boot_clock::now());
  if (seen.takeover == takeover::clock && seen.holder.expires_in > 0ms) {
    auto const expires_in = seen.holder.expires_in + 1ms;
    soon = std::min(soon.value_or(expires_in), expires_in);
  }
  return soon;
}

}  // namespace rowlock::managing
