#include "quorum/quorum_hold.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace rowlock::voting {

using namespace std::chrono_literals;

namespace {

constexpr boot_clock::duration for_others = 200ms;

}  // namespace

quorum_hold::quorum_hold(std::string name, mutex_options options, std::size_t members, std::size_t majority)
    : name_(std::move(name)),
      options_(std::move(options)),
      majority_(majority),
      hard_until_(options_.hard_limit == 0ms
                      ? boot_time_point::max()
                      : boot_clock::now() + std::chrono::nanoseconds(options_.hard_limit)),
      parts_(members) {}

// A thread that sees the end of trust ends it for all threads. A renewal that is acknowledged a moment later
// must not restore trust.
bool quorum_hold::valid() const noexcept {
  if (phase_.load() != phase::held || forked()) return false;
  auto trust = trust_.load();
  while (trust != ended) {
    if (boot_clock::now().time_since_epoch().count() < trust) return phase_.load() == phase::held;
    if (trust_.compare_exchange_weak(trust, ended)) return false;
  }
  return false;
}

boot_time_point quorum_hold::trusted_until() const noexcept {
  return boot_time_point(boot_clock::duration(last_trust_.load()));
}

std::optional<loss_reason> quorum_hold::loss() const noexcept {
  if (forked()) return loss_reason::forked;
  if (lost_) return static_cast<loss_reason>(reason_.load());
  if (phase_.load() == phase::held && !valid()) return when_unseen();
  return std::nullopt;
}

// Trust has ended before the keeper thread could report it.
loss_reason quorum_hold::when_unseen() const noexcept {
  return options_.renew && options_.hard_limit == 0ms ? loss_reason::suspended : loss_reason::expired;
}

std::size_t quorum_hold::votes() const {
  std::lock_guard const guard(mutex_);
  auto const now = boot_clock::now();
  return static_cast<std::size_t>(
      std::count_if(parts_.begin(), parts_.end(), [&](part const& p) { return trust_of(p, token()) > now; }));
}

std::chrono::milliseconds quorum_hold::left_of_hard_limit() const {
  std::lock_guard const guard(mutex_);
  if (hard_until_ == boot_time_point::max()) return 0ms;
  // The shortest allowed hard limit. Trust ends at hard_until_ in any case.
  return std::max<std::chrono::milliseconds>(
      std::chrono::floor<std::chrono::milliseconds>(hard_until_ - boot_clock::now()), 100ms);
}

bool quorum_hold::begin_to_ask(std::size_t member) {
  std::lock_guard const guard(mutex_);
  auto& p = parts_.at(member);
  auto const now = phase_.load();
  if (p.asked || p.left_out || now == phase::lost || now == phase::over) return false;
  p.asked = true;
  return true;
}

bool quorum_hold::answered(std::size_t member, ballot b) {
  std::unique_lock lock(mutex_);
  auto& p = parts_.at(member);
  p.asked = false;
  p.answered = true;
  p.revoked = p.revoked || b.revoked;
  auto const now = phase_.load();
  bool const wanted = b.granted && !p.left_out && (now == phase::asking || (now == phase::held && valid()));
  if (wanted) {
    if (now == phase::asking) begin_hard_limit(b.granted.sent_at());
    p.granted = b.granted;
    p.knows = b.granted.token();
    if (now == phase::held) recount();
  }
  p.last = std::move(b);
  come_.notify_all();
  lock.unlock();
  tell_trust();
  return wanted;
}

// Counts from the first grant, because the call can have waited for longer than the limit. Members that are
// asked at once each have the same limit.
void quorum_hold::begin_hard_limit(boot_time_point first_sent_at) {
  bool const is_first =
      std::none_of(parts_.begin(), parts_.end(), [](part const& p) { return static_cast<bool>(p.granted); });
  if (is_first && options_.hard_limit != 0ms)
    hard_until_ = first_sent_at + std::chrono::nanoseconds(options_.hard_limit);
}

// Drops exceptions, as a manager does from its hooks.
void quorum_hold::tell_trust() noexcept try {
  if (!options_.on_trust || !held()) return;
  auto const now = last_trust_.load();
  auto told = told_trust_.load();
  while (now > told)
    if (told_trust_.compare_exchange_weak(told, now)) return options_.on_trust(trusted_until());
} catch (...) {
}

void quorum_hold::confirmed(std::size_t member, bool confirmed, fencing_token top,
                            std::optional<error> const& failure) {
  std::unique_lock lock(mutex_);
  auto& p = parts_.at(member);
  p.asked = false;
  p.trouble = failure;
  if (confirmed) p.knows.value = std::max(p.knows.value, top.value);
  if (phase_.load() == phase::held) recount();
  come_.notify_all();
  lock.unlock();
  tell_trust();
}

void quorum_hold::leave_out(std::size_t member) {
  std::lock_guard const guard(mutex_);
  if (std::exchange(parts_.at(member).left_out, true)) return;
  if (phase_.load() == phase::held) recount();
}

// Members that did not answer the last time are awaited only if a majority needs them, and not for long:
// meanwhile other callers can't have the granted members.
void quorum_hold::wait_for_ballots(std::vector<bool> const& awaited, boot_time_point until) {
  std::unique_lock lock(mutex_);
  bool all = false;
  auto const decided = [&] {
    std::size_t granted = 0;
    std::size_t possible = 0;
    all = true;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      auto const& p = parts_[i];
      if (p.left_out) continue;
      if (p.granted) ++granted;
      if (p.granted || p.asked) ++possible;
      if (awaited.at(i) && p.asked) all = false;
    }
    return granted >= majority_ || possible < majority_;
  };
  come_.wait_for(lock, until - boot_clock::now(), [&] { return decided() || all; });
  come_.wait_for(lock, std::min<boot_clock::duration>(until - boot_clock::now(), for_others), decided);
}

void quorum_hold::wait_for_confirmations(fencing_token top, boot_time_point until) {
  std::unique_lock lock(mutex_);
  come_.wait_for(lock, until - boot_clock::now(), [&] {
    return knowing(top) >= majority_ ||
           std::none_of(parts_.begin(), parts_.end(), [](part const& p) { return p.granted && p.asked; });
  });
}

void quorum_hold::wait_for_answers(boot_time_point until) {
  std::unique_lock lock(mutex_);
  come_.wait_for(lock, until - boot_clock::now(), [&] {
    return std::none_of(parts_.begin(), parts_.end(), [](part const& p) { return p.asked; });
  });
}

fencing_token quorum_hold::highest() const {
  std::lock_guard const guard(mutex_);
  fencing_token top;
  for (auto const& p : parts_)
    if (p.granted && !p.left_out) top.value = std::max(top.value, p.knows.value);
  return top;
}

std::vector<std::size_t> quorum_hold::behind(fencing_token top) const {
  std::lock_guard const guard(mutex_);
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (parts_[i].granted && !parts_[i].left_out && parts_[i].knows.value < top.value) all.push_back(i);
  return all;
}

bool quorum_hold::begin(fencing_token top) {
  std::lock_guard const guard(mutex_);
  if (phase_.load() != phase::asking || top.value == 0) return false;
  // In each majority a member also granted the lock to the last owner, so its grant is above that owner's
  // token. A grant that came after the caller read `top` can be the only such grant.
  auto const below = std::count_if(parts_.begin(), parts_.end(), [&](part const& p) {
    return p.granted && !p.left_out && p.granted.token().value <= top.value;
  });
  if (static_cast<std::size_t>(below) < majority_) return false;
  auto const trust = trust_of_majority(top);
  if (boot_clock::now() >= trust) return false;
  token_ = top.value;
  trust_ = trust.time_since_epoch().count();
  last_trust_ = trust_.load();
  phase_ = phase::held;
  return true;
}

// A grant with trust left must not be released, because another owner could get it.
std::optional<quorum_hold::former_grant> quorum_hold::may_ask_again(std::size_t member) {
  std::lock_guard const guard(mutex_);
  auto& p = parts_.at(member);
  if (phase_.load() != phase::held || p.asked || p.left_out || p.revoked) return std::nullopt;
  if (p.granted) {
    if (p.granted.loss() == loss_reason::revoked) return std::nullopt;
    if (trust_of(p, token()) > boot_clock::now()) return std::nullopt;
    p.former = p.granted.term();
    p.granted.forget_at_least();  // frees it for the next take
  }
  return former_grant{std::exchange(p.granted, {}), p.former};
}

managing::granted_vote quorum_hold::of(std::size_t member) const {
  std::lock_guard const guard(mutex_);
  return parts_.at(member).granted;
}

bool quorum_hold::is_awaited(std::size_t member) const {
  std::lock_guard const guard(mutex_);
  return parts_.at(member).asked;
}

bool quorum_hold::has_refused(std::size_t member) const {
  std::lock_guard const guard(mutex_);
  auto const& p = parts_.at(member);
  return p.answered && !p.last.failure && !p.last.granted && p.last.why == acquire_status::busy;
}

ballot quorum_hold::last_answer(std::size_t member) const {
  std::lock_guard const guard(mutex_);
  return parts_.at(member).last;
}

// A member that does not know the token could grant a later owner a lower one. A grant that could not be
// renewed counts until its trust ends. After any other loss it does not.
bool quorum_hold::counts(part const& p, fencing_token top) noexcept {
  if (!p.granted || p.left_out || p.knows.value < top.value) return false;
  auto const why = p.granted.loss();
  return !why || *why == loss_reason::expired || *why == loss_reason::database_unreachable;
}

boot_time_point quorum_hold::trust_of(part const& p, fencing_token top) noexcept {
  return counts(p, top) ? p.granted.trusted_until() : boot_time_point{};
}

boot_time_point quorum_hold::last_of_majority(std::vector<boot_time_point> each) const {
  auto const last = each.begin() + static_cast<std::ptrdiff_t>(majority_) - 1;
  std::nth_element(each.begin(), last, each.end(), std::greater<>());
  return std::min(*last, hard_until_);
}

boot_time_point quorum_hold::trust_of_majority(fencing_token top) const {
  std::vector<boot_time_point> each;
  for (auto const& p : parts_) each.push_back(trust_of(p, top));
  return last_of_majority(std::move(each));
}

boot_time_point quorum_hold::until_others_can_have_it() const {
  std::vector<boot_time_point> each;
  for (auto const& p : parts_)
    each.push_back(p.granted && !p.left_out ? p.granted.trusted_until() : boot_time_point{});
  return last_of_majority(std::move(each));
}

std::size_t quorum_hold::knowing(fencing_token top) const {
  return static_cast<std::size_t>(std::count_if(parts_.begin(), parts_.end(), [&](part const& p) {
    return p.granted && !p.left_out && p.knows.value >= top.value;
  }));
}

void quorum_hold::recount() {
  auto const fresh = trust_of_majority(token()).time_since_epoch().count();
  auto trust = trust_.load();
  do {
    auto const now = boot_clock::now().time_since_epoch().count();
    if (trust == ended || now >= trust || now >= fresh) {
      trust_ = ended;
      // The program may use the remaining trust to stop.
      last_trust_ = std::min(last_trust_.load(), until_others_can_have_it().time_since_epoch().count());
      return lose();
    }
  } while (!trust_.compare_exchange_weak(trust, fresh));
  last_trust_ = fresh;
}

void quorum_hold::lose() {
  reason_ = static_cast<int>(reason_of_loss());
  phase_ = phase::lost;
  lost_ = true;
}

// Members that could not be asked give no reason. Of the other reasons, the first in this order counts.
loss_reason quorum_hold::reason_of_loss() const {
  constexpr std::array<loss_reason, 3> order{loss_reason::revoked, loss_reason::taken_over,
                                             loss_reason::row_gone};
  if (std::any_of(parts_.begin(), parts_.end(), [](part const& p) { return p.revoked; }))
    return loss_reason::revoked;
  for (auto const why : order)
    for (auto const& p : parts_)
      if (p.granted && p.granted.loss() == why) return why;
  if (boot_clock::now() >= hard_until_ - ahead_of_end()) return loss_reason::expired;
  bool const troubled =
      std::any_of(parts_.begin(), parts_.end(), [](part const& p) { return p.trouble || p.last.failure; });
  if (troubled) return loss_reason::database_unreachable;
  return boot_clock::now() >= trusted_until() ? when_unseen() : loss_reason::expired;
}

boot_clock::duration quorum_hold::ahead_of_end() const noexcept {
  auto const lasts = options_.hard_limit == 0ms ? options_.ttl : std::min(options_.ttl, options_.hard_limit);
  return std::min<boot_clock::duration>(std::chrono::nanoseconds(lasts) / 20, 1s);
}

boot_time_point quorum_hold::alarm() const noexcept { return trusted_until() - ahead_of_end(); }

bool quorum_hold::look() noexcept {
  std::lock_guard const guard(mutex_);
  if (phase_.load() != phase::held) return false;
  recount();
  if (phase_.load() == phase::held && boot_clock::now() >= alarm()) {
    trust_ = ended;
    lose();
  }
  return phase_.load() == phase::lost;
}

quorum_hold::due quorum_hold::look_what_is_due() noexcept {
  (void)look();
  std::lock_guard const guard(mutex_);
  if (phase_.load() == phase::held) return due::renewal;
  return announcement_is_due() ? due::announcement : due::nothing;
}

std::vector<managing::granted_vote> quorum_hold::end(bool& was_held) {
  std::lock_guard const guard(mutex_);
  was_held = phase_.load() == phase::held && valid();
  if (phase_.load() == phase::over) return {};
  if (phase_.load() == phase::held && !was_held) recount();  // the keeper has not seen the loss yet
  phase_ = phase::over;
  trust_ = ended;
  if (was_held) last_trust_ = std::min(last_trust_.load(), boot_clock::now().time_since_epoch().count());
  std::vector<managing::granted_vote> all;
  for (auto& p : parts_) all.push_back(std::move(p.granted));
  for (auto& p : parts_) p.granted = {};
  come_.notify_all();
  return all;
}

}  // namespace rowlock::voting
