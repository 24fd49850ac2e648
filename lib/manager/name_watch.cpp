#include "manager/name_watch.hpp"

#include <algorithm>

#include "waiting/retry_waits.hpp"

namespace rowlock::managing {

using namespace std::chrono_literals;

namespace {

constexpr std::chrono::nanoseconds shortest_pace = 100ms;
constexpr std::chrono::nanoseconds longest_pace = 2s;
constexpr int idle_share = 100;  // times as long as a look takes
// One statement's. The next look goes on behind them.
constexpr std::size_t most_names = 4096;
// Between two attempts of all calls together that got no hint.
constexpr std::chrono::nanoseconds between_own_attempts = 100ms;
// As long a look may take.
constexpr std::chrono::nanoseconds patience = 1s;

}  // namespace

void name_look::ask(engine& e) noexcept {
  try {
    auto const deadline = e.reply_deadline();
    auto session = e.pool.borrow(deadline, e.closing.get_token());
    auto const began = std::chrono::steady_clock::now();
    rows = e.tables.locks.read_all(*session, names, deadline);
    took = std::chrono::steady_clock::now() - began;
  } catch (std::exception const&) {
    failed = true;
  }
  done.store(true, std::memory_order_release);
}

name_watch::clock::duration name_watch::own_pace() const {
  std::chrono::duration<double> const few(1 + 4 * waiting::random_part());
  auto const each = std::chrono::duration<double>(between_own_attempts) * static_cast<double>(all_.size());
  auto const many = each * (0.75 + waiting::random_part() / 2);
  return std::chrono::duration_cast<clock::duration>(std::max(few, many));
}

name_watch::registration name_watch::add(async_call& c, watchable const& w, clock::time_point until) {
  auto const now = clock::now();
  if (all_.empty()) next_at_ = std::max(next_at_, now + shortest_pace);
  auto const at =
      all_.emplace(w.name->name, entry{&c, w.seen->term, w.seen->renewals, w.explicit_owner, until});
  return {at, works_ ? std::max(until, std::min(w.at_latest, now + own_pace())) : until};
}

std::shared_ptr<name_look> name_watch::next_look(clock::time_point now) {
  if (look_ || all_.empty() || now < next_at_) return nullptr;
  auto look = std::make_shared<name_look>();
  auto at = all_.lower_bound(from_);
  if (at == all_.end()) at = all_.begin();
  for (; at != all_.end() && look->names.size() < most_names; at = all_.upper_bound(at->first))
    look->names.push_back({std::string(at->first), {}});
  from_ = at == all_.end() ? std::string() : std::string(at->first);
  sent_at_ = now;
  look_ = look;
  return look;
}

name_watch::clock::time_point name_watch::due() const noexcept {
  if (look_) return works_ ? sent_at_ + patience : clock::time_point::max();
  return all_.empty() ? clock::time_point::max() : next_at_;
}

name_watch::findings name_watch::findings_of_look(clock::time_point now) {
  if (!look_) return {};
  if (!look_->done.load(std::memory_order_acquire)) {
    if (now < sent_at_ + patience) return {};
    return {{}, std::exchange(works_, false)};
  }
  auto const look = std::exchange(look_, nullptr);
  auto const pace =
      std::clamp<std::chrono::nanoseconds>(look->took * idle_share, shortest_pace, longest_pace);
  next_at_ = now + (look->failed ? longest_pace : pace);
  if (look->failed) return {{}, std::exchange(works_, false)};
  works_ = true;
  findings found;
  for (std::size_t i = 0; i < look->names.size(); ++i) {
    auto const of_name = all_.equal_range(look->names[i].name);
    for (auto at = of_name.first; at != of_name.second; ++at)
      if (may_be_had(at->second, look->rows[i], now)) found.may_try.push_back(at->second.call);
  }
  return found;
}

bool name_watch::may_be_had(entry const& e, std::optional<strategies::term_row> const& row,
                            clock::time_point now) {
  if (!row || row->takeable() || row->holder.done || !row->unreadable.empty()) return true;
  bool const another = row->term != e.term;
  if ((another || row->renewals != e.renewals) && row->must_be_silent_for()) return true;
  if (!another) return false;
  bool const own = e.owner != nullptr && row->holder.owner.same(*e.owner) && !row->holder.revoked;
  return own || now >= e.until;
}

}  // namespace rowlock::managing
