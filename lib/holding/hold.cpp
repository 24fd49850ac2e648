#include "holding/hold.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/never_destroyed.hpp"
#include "base/random_id.hpp"

namespace rowlock::holding {

using namespace std::chrono_literals;

boot_time_point trust_after(boot_time_point sent_at, std::chrono::milliseconds lasts) noexcept {
  return sent_at + std::chrono::nanoseconds(lasts) - std::chrono::nanoseconds(lasts) / 10;
}

namespace {

// The limit is usually much longer than the ttl. A fiftieth of it covers the clocks' rates, and a tenth of
// the ttl steps of the database's clock.
boot_time_point hard_trust(grant_facts const& f) noexcept {
  if (f.hard_limit == 0ms) return boot_time_point::max();
  return f.sent_at + f.hard_limit - std::chrono::nanoseconds(f.hard_limit) / 50 -
         std::min(std::chrono::nanoseconds(f.ttl), std::chrono::nanoseconds(f.hard_limit)) / 10;
}

// One for all holds, because few of them are ever hindered or watched.
std::mutex& mutex_of_rare_parts() {
  static std::mutex one;
  return one;
}

// Of the watched holds. Not in each hold: a process can have very many.
std::unordered_map<hold const*, std::stop_source>& ends() {
  static auto& all = base::never_destroyed<std::unordered_map<hold const*, std::stop_source>>();
  return all;
}

}  // namespace

boot_time_point leftover_until(rowlock::takeover how, std::chrono::milliseconds ttl,
                               boot_time_point from) noexcept {
  constexpr std::chrono::nanoseconds at_most_if_observed = 1h;
  std::chrono::nanoseconds const lasts = ttl;
  return from + (how == takeover::observed ? std::max(lasts, at_most_if_observed) : lasts);
}

boot_time_point first_trust(grant_facts const& f) noexcept {
  if (!traits_of(f).has_expiry) return boot_time_point::max();
  return std::min(trust_after(f.sent_at, f.ttl), hard_trust(f));
}

boot_time_point confirmed_at(grant_facts const& f, boot_time_point trusted_until) noexcept {
  return trusted_until - (first_trust(f) - f.sent_at);
}

std::shared_ptr<extras const> extras_of(mutex_options const& o) {
  if (o.note.empty() && !o.on_trust && o.label.empty()) return nullptr;
  return std::make_shared<extras const>(extras{o.note, o.on_trust, o.label});
}

grant_facts for_successor(grant_facts const& from, owner_id const& to, boot_time_point trusted_until) {
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

hold::~hold() {
  if (!is_watched_.load() || forked()) return;
  std::lock_guard const guard(mutex_of_rare_parts());
  ends().erase(this);
}

std::shared_ptr<hold> hold::make(grant_facts&& facts, waiting::local_queue::turn&& turn) {
  auto made = std::make_shared<hold>(std::move(facts), std::move(turn));
  made->turn_.took(made);
  return made;
}

std::optional<loss_reason> hold::loss() const noexcept {
  if (forked()) return loss_reason::forked;
  // Trust first: a release ends it after the state, and must not look like a loss.
  bool const over = boot_clock::now() >= offered_until();
  auto const now = state_.load();
  if (now == state::lost) return static_cast<loss_reason>(reason_.load());
  // The watchdog can be late, as in a paused process.
  if (over && is_held(now)) return why_expired();
  return std::nullopt;
}

void hold::renewal_begins(boot_time_point now) noexcept {
  auto confirmed = boot_clock::duration(0);
  unconfirmed_since_.compare_exchange_strong(confirmed, now.time_since_epoch());
}

void hold::hindered_by(std::shared_ptr<trouble const> what) noexcept {
  std::lock_guard const guard(mutex_of_rare_parts());
  hindrance_.swap(what);
  hindered_.store(hindrance_ != nullptr);
}

std::shared_ptr<trouble const> hold::hindrance() const noexcept {
  if (!hindered_.load()) return nullptr;
  std::lock_guard const guard(mutex_of_rare_parts());
  return hindrance_;
}

// A twentieth of the ttl (or of a shorter hard limit) before trust ends: a holder can still stop in time.
boot_time_point hold::told_at() const noexcept {
  auto const lasts = facts_.hard_limit == 0ms ? facts_.ttl : std::min(facts_.ttl, facts_.hard_limit);
  return trusted_until() - std::min<std::chrono::nanoseconds>(std::chrono::nanoseconds(lasts) / 20, 1s);
}

// The watchdog asks at told_at(). If it asks much later, this process did not run, and a hindrance since then
// proves nothing.
loss_reason hold::why_expired() const noexcept {
  if (!facts_.renew || trusted_until() >= hard_trust(facts_)) return loss_reason::expired;
  auto const now = boot_clock::now();
  auto const why = hindrance();
  if (why && now - told_at() < std::chrono::nanoseconds(facts_.ttl) / 2) return why->why;
  if (now >= trusted_until()) return loss_reason::suspended;
  return unconfirmed_since_.load() == boot_clock::duration(0) ? loss_reason::expired
                                                              : loss_reason::database_unreachable;
}

std::string hold::loss_details() const {
  if (forked()) return {};
  auto const lost = loss();
  auto const known = hindrance();
  auto const why = lost ? *lost : known ? known->why : loss_reason::database_unreachable;
  auto what = known && known->why == why ? known->what : std::string();
  auto const since = unconfirmed_since_.load();
  auto const until =
      lost_at_.load() == boot_clock::duration(0) ? boot_clock::now().time_since_epoch() : lost_at_.load();
  bool const unconfirmed = since != boot_clock::duration(0) &&
                           (lost || known || until - since > std::chrono::nanoseconds(facts_.ttl) / 10);
  auto const lasted = std::chrono::duration<double>(until - since).count();
  switch (why) {
    case loss_reason::row_locked:
      return fmt::format("another transaction has had its row locked for {:.1f} s{}{}", lasted,
                         what.empty() ? "" : ": ", what);
    case loss_reason::database_unreachable:
    case loss_reason::read_only:
      if (!unconfirmed) return what;
      return fmt::format("the database has confirmed no renewal for {:.1f} s{}{}", lasted,
                         what.empty() ? "" : ": ", what);
    case loss_reason::suspended:
      return "this process, or its machine, was stopped, suspended or starved";
    default:
      return what;
  }
}

holder_info hold::as_holder() const {
  holder_info who;
  who.strategy = facts_.strategy;
  who.owner = facts_.owner;
  who.token = facts_.token;
  who.acquired_at = facts_.acquired_at;
  who.note = facts_.note();
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
  } while (after > before && !trust_.compare_exchange_weak(before, after));
  unconfirmed_since_.store(boot_clock::duration(0));
  if (hindered_.load()) hindered_by(nullptr);
  return true;
}

void hold::may_last(boot_time_point until) noexcept {
  auto before = extended_until_.load();
  while (before < until.time_since_epoch() &&
         !extended_until_.compare_exchange_weak(before, until.time_since_epoch())) {
  }
}

boot_time_point hold::leftover_until() const noexcept {
  // A renewal might be on its way.
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
  // Before the state, so that a thread that sees `lost` also sees the reason. The first reason stays.
  auto none = no_reason;
  reason_.compare_exchange_strong(none, static_cast<std::int8_t>(why));
  lost_at_.store(boot_clock::now().time_since_epoch());
  if (!change_if_held(state::lost)) return false;
  if (why == loss_reason::taken_over || why == loss_reason::row_gone || !traits_of(facts_).has_expiry)
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
  queue_.reset();
  turn_.leave();
  tell_end();
  return true;
}

std::optional<waiting::local_queue::turn> hold::lose_to_successor() noexcept {
  if (!leave_held(loss_reason::taken_over)) return std::nullopt;
  queue_.reset();
  tell_end();
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

bool hold::share_term() noexcept {
  auto now = state::held;
  if (state_.compare_exchange_strong(now, state::term_shared)) return true;
  return now != state::offered && now != state::handed_on;
}

bool hold::offer() noexcept {
  auto unexposed = state::held;
  if (!state_.compare_exchange_strong(unexposed, state::offered)) return false;
  assert(!guarded() && !may_be_recorded());
  return true;
}

bool hold::hand_on(std::shared_ptr<hold> const& h, void const* manager) noexcept {
  assert(h->state_.load() == state::offered);
  // Before the successor can see it.
  h->state_.store(state::handed_on);
  if (h->turn_.leave_to_successor(h, manager)) {
    h->tell_end();
    return true;
  }
  h->end_trust_now();
  h->state_.store(state::releasing);
  return false;
}

void hold::end_release(std::optional<loss_reason> lost, boot_time_point leave_by) noexcept {
  assert(state_.load() == state::releasing);
  if (lost) reason_.store(static_cast<std::int8_t>(*lost));
  state_.store(lost ? state::lost : state::released);
  if (queue_) queue_->leave(leave_by);
  queue_.reset();
  turn_.leave();
  tell_end();
}

// Either the end sees that it is watched, or the watcher sees the end: the state is stored before one look,
// the flag before the other, and both are sequentially consistent.
std::stop_token hold::end_token() {
  auto source = [this] {
    std::lock_guard const guard(mutex_of_rare_parts());
    return ends()[this];
  }();
  is_watched_.store(true);
  auto const now = state_.load();
  if (now == state::handed_on || now == state::released || now == state::lost) (void)source.request_stop();
  return source.get_token();
}

void hold::tell_end() noexcept {
  if (!is_watched_.load()) return;
  auto source = [this] {
    std::lock_guard const guard(mutex_of_rare_parts());
    return ends().at(this);
  }();
  (void)source.request_stop();
}

}  // namespace rowlock::holding
