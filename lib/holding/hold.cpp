#include "holding/hold.hpp"

#include <algorithm>

#include "base/random_id.hpp"

namespace rowlock::holding {

using namespace std::chrono_literals;

boot_time_point trust_after(boot_time_point sent_at, std::chrono::milliseconds lasts) noexcept {
  return sent_at + std::chrono::nanoseconds(lasts) - std::chrono::nanoseconds(lasts) / 10;
}

namespace {

// The hard limit is usually much longer than the ttl: a fiftieth of it covers the clocks' different rates, a
// tenth of the ttl steps of the database's clock as ever.
boot_time_point hard_trust(grant_facts const& f) noexcept {
  if (f.hard_limit == 0ms) return boot_time_point::max();
  return f.sent_at + f.hard_limit - std::chrono::nanoseconds(f.hard_limit) / 50 -
         std::min(std::chrono::nanoseconds(f.ttl), std::chrono::nanoseconds(f.hard_limit)) / 10;
}

}  // namespace

boot_time_point leftover_until(rowlock::takeover how, std::chrono::milliseconds ttl,
                               boot_time_point from) noexcept {
  constexpr std::chrono::nanoseconds at_most_if_observed = 1h;
  std::chrono::nanoseconds const lasts = ttl;
  return from + (how == takeover::observed ? std::max(lasts, at_most_if_observed) : lasts);
}

boot_time_point first_trust(grant_facts const& f) noexcept {
  if (!traits_of(f).has_expiry) return boot_time_point::max();  // as long as the session lives
  return std::min(trust_after(f.sent_at, f.ttl), hard_trust(f));
}

boot_time_point confirmed_at(grant_facts const& f, boot_time_point trusted_until) noexcept {
  return trusted_until - (first_trust(f) - f.sent_at);
}

grant_facts for_heir(grant_facts const& from, owner_id const& to, boot_time_point trusted_until) {
  auto f = from;
  f.owner = to;
  f.sent_at = confirmed_at(from, trusted_until);
  f.acquired_at = std::chrono::system_clock::now();
  ++f.handed_on;
  if (f.fencing) {
    ++f.token.value;
    --f.tokens_left;
  }
  return f;
}

hold::hold(grant_facts&& facts, waiting::local_queue::turn&& turn)
    : facts_(std::move(facts)), turn_(std::move(turn)), trust_(first_trust(facts_).time_since_epoch()) {}

std::shared_ptr<hold> hold::make(grant_facts&& facts, waiting::local_queue::turn&& turn) {
  auto made = std::make_shared<hold>(std::move(facts), std::move(turn));
  made->turn_.took(made);
  return made;
}

std::optional<loss_reason> hold::loss() const noexcept {
  if (forked()) return loss_reason::forked;
  if (state_.load() == state::lost) return static_cast<loss_reason>(reason_.load());
  // The watchdog may be late (a paused process): trust that has ended is a loss all the same.
  if (is_held(state_.load()) && boot_clock::now() >= trusted_until()) return why_expired();
  return std::nullopt;
}

loss_reason hold::why_expired() const noexcept {
  bool const at_limit = trusted_until() >= hard_trust(facts_);
  return facts_.renew && !at_limit && renewal_failed_.load() ? loss_reason::database_unreachable
                                                             : loss_reason::expired;
}

holder_info hold::as_holder() const {
  holder_info who;
  who.strategy = facts_.strategy;
  who.owner = facts_.owner;
  who.token = facts_.token;
  who.acquired_at = facts_.acquired_at;
  who.note = facts_.note;
  who.units = facts_.units;
  who.limit = facts_.limit;
  if (!traits_of(facts_).has_expiry) return who;
  auto const margin =
      trust_after(boot_time_point{}, facts_.ttl).time_since_epoch() - std::chrono::nanoseconds(facts_.ttl);
  who.expires_in = std::chrono::ceil<std::chrono::milliseconds>(trusted_until() - margin - boot_clock::now());
  return who;
}

bool hold::prolong(boot_time_point sent_at, std::chrono::milliseconds lasts) noexcept {
  auto before = trust_.load();
  auto const after = std::min(trust_after(sent_at, lasts), hard_trust(facts_)).time_since_epoch();
  do {
    if (!held() || boot_clock::now() >= boot_time_point(before)) return false;
    if (after <= before) return true;
  } while (!trust_.compare_exchange_weak(before, after));
  return true;
}

void hold::may_last(boot_time_point until) noexcept {
  auto before = extended_until_.load();
  while (before < until.time_since_epoch() &&
         !extended_until_.compare_exchange_weak(before, until.time_since_epoch())) {
  }
}

boot_time_point hold::leftover_until() const noexcept {
  // A renewal may be on its way.
  return std::max(holding::leftover_until(facts_.takeover, facts_.ttl, boot_clock::now()),
                  boot_time_point(extended_until_.load()));
}

void hold::end_trust_now() noexcept {
  auto const now = boot_clock::now().time_since_epoch();
  auto before = trust_.load();
  while (before > now && !trust_.compare_exchange_weak(before, now)) {
  }
}

bool hold::leave_held(loss_reason why) noexcept {
  if (!is_held(state_.load())) return false;
  // Before the state, so that whoever sees `lost` sees why; of two at once the first reason stays.
  auto none = no_reason;
  reason_.compare_exchange_strong(none, static_cast<std::int8_t>(why));
  if (!change_if_held(state::lost)) return false;
  // Where the row is still ours until its expiry (revoked, out of time), what is left of trust may be used to
  // stop.
  if (why == loss_reason::taken_over || why == loss_reason::row_gone || why == loss_reason::session_ended)
    end_trust_now();
  return true;
}

term_id const& hold::term_of_record() {
  std::call_once(record_made_,
                 [this] { record_ = std::make_unique<term_id const>(term_id{base::random_id()}); });
  may_be_recorded_.store(true);
  return *record_;
}

bool hold::lose(loss_reason why) noexcept {
  if (!leave_held(why)) return false;
  gate_.reset();
  turn_.leave();
  return true;
}

std::optional<waiting::local_queue::turn> hold::lose_to_successor() noexcept {
  if (!leave_held(loss_reason::taken_over)) return std::nullopt;
  gate_.reset();
  return std::move(turn_);
}

bool hold::share() noexcept {
  auto handles = handles_.load();
  while (handles > 0 && !handles_.compare_exchange_weak(handles, handles + 1)) {
  }
  return handles > 0;
}

bool hold::change_if_held(state to) noexcept {
  auto now = state_.load();
  while (is_held(now))
    if (state_.compare_exchange_weak(now, to)) return true;
  return false;
}

bool hold::begin_release() noexcept {
  if (!change_if_held(state::releasing)) return false;
  end_trust_now();
  return true;
}

bool hold::expose() noexcept {
  auto now = state::held;
  if (state_.compare_exchange_strong(now, state::exposed)) return true;
  return now != state::offered && now != state::handed_on;
}

// Trust stays as it is, for whoever takes it over; here it is over.
bool hold::offer() noexcept {
  auto unexposed = state::held;
  return state_.compare_exchange_strong(unexposed, state::offered);
}

bool hold::hand_on(std::shared_ptr<hold> const& h, void const* manager) noexcept {
  // Before others see it: the next one takes it from there.
  h->state_.store(state::handed_on);
  if (h->turn_.leave_to_heir(h, manager)) return true;
  h->end_trust_now();
  h->state_.store(state::releasing);
  return false;
}

void hold::end_release(std::optional<loss_reason> lost, boot_time_point leave_by) noexcept {
  if (lost) reason_.store(static_cast<std::int8_t>(*lost));
  state_.store(lost ? state::lost : state::released);
  if (gate_) gate_->leave(leave_by);
  gate_.reset();
  turn_.leave();
}

}  // namespace rowlock::holding
