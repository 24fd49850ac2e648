#include "quorum/quorum_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "base/event.hpp"
#include "base/stop_event.hpp"

namespace rowlock::voting {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

/// After this wait at one member, the call checks whether it still answers.
constexpr auto longest_wait_at_one = 10s;
constexpr auto longest_pause = 250ms;

}  // namespace

quorum_call::quorum_call(quorum_engine& engine, std::string const& name, mutex_options const& options,
                         quorum_wait_policy const& p, std::stop_token stop)
    : engine_(engine), name_(name), options_(options), wait_policy_(p), stop_(std::move(stop)) {}

bool quorum_call::over() const noexcept {
  return wait_policy_.one_attempt || (wait_policy_.deadline && steady_clock::now() >= *wait_policy_.deadline);
}

quorum_result quorum_call::run() {
  auto const began = boot_clock::now();
  int epochs = 0;
  for (;;) {
    std::optional<error> no_view;
    auto came = next::failed;
    try {
      auto const v = engine_.view();
      if (options_.ttl > v->record.max_ttl || options_.at_least > v->record.max_ttl)
        throw error(errc::invalid_argument,
                    fmt::format("'{}': a ttl, or at_least, of more than {} ms: the longest of this quorum",
                                name_, v->record.max_ttl.count()));
      came = attempt(*v);
    } catch (error const& e) {
      if (!e.retryable()) throw;
      failure_ = e;
    }
    if (came == next::won) {
      keep();
      engine_.report({.kind = event_kind::taken,
                      .name = name_,
                      .token = hold_->token(),
                      .duration = boot_clock::now() - began,
                      .trusted_until = hold_->trusted_until(),
                      .label = options_.label});
      return {std::move(hold_), acquire_status::acquired, {}};
    }
    if (stop_.stop_requested() || why_ == acquire_status::cancelled)
      return {nullptr, acquire_status::cancelled, std::move(holder_)};
    if (std::exchange(other_epoch_, false) && ++epochs < 8) continue;
    if (over()) {
      if (came == next::failed && failure_) throw error(*failure_);
      bool const told = why_ == acquire_status::contended || why_ == acquire_status::quarantined;
      auto const why = told                       ? why_
                       : wait_policy_.one_attempt ? acquire_status::busy
                                                  : acquire_status::timed_out;
      engine_.report({.kind = event_kind::refused,
                      .name = name_,
                      .duration = boot_clock::now() - began,
                      .message = to_string(why),
                      .label = options_.label});
      return {nullptr, why, std::move(holder_)};
    }
    if (came == next::failed && failure_ && !failure_->retryable()) throw error(*failure_);
    if (came == next::failed) ++in_vain_;
    pause();
  }
}

// Asking all members at once takes half the time. But ten callers of one name would divide the members, and
// reach a third of the rate. So after it met a competitor, the process asks one member first, for a while.
quorum_call::next quorum_call::attempt(quorum_view const& v) try {
  auto& members = engine_.members();
  auto here = members.size();
  std::size_t silent = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (v.left_out[i]) continue;
    if (members.is_suspect(i))
      ++silent;
    else
      here = std::min(here, i);
  }
  // If the clocks were wrong when read, no member gets a token from them: the first member draws it.
  bool const at_once =
      here < members.size() && silent < v.majority() && !quorum_engine::is_far_ahead(v.token_now());
  if (at_once && !engine_.in_demand().lately(name_)) {
    auto const came = try_all_at_once(v, here);
    if (came != next::refused || other_epoch_) return came;
    engine_.in_demand().met(name_);
    if (wait_policy_.one_attempt) return came;
  }
  return try_one_first(v);
} catch (...) {
  give_back();
  throw;
}

quorum_call::next quorum_call::try_all_at_once(quorum_view const& v, std::size_t here) {
  begin_anew(v);
  auto const token = v.token_now();
  if (!hold_->begin_to_ask(here)) return next::refused;
  ask_others(v, here, token);
  hold_->answered(here, ask(v, here, {.vote = {.token = token.value}, .has_others_to_ask = true}));
  return settle(v, here);
}

quorum_call::next quorum_call::try_one_first(quorum_view const& v) {
  begin_anew(v);
  auto const first = ask_first(v);
  if (!first) {
    give_back();  // grants of the members that asks() asked
    return judge(v);
  }
  if (!others_asked_) ask_others(v, *first, hold_->highest());
  return settle(v, *first);
}

// At the head of the first member's queue this caller is alone at the other members, too: the last owner
// released them before. So it asks all at once, and saves a round trip.
fencing_token quorum_call::asks() {
  begin_anew_at_first();  // the hard limit does not count the wait until now
  auto const token = view_->token_now();
  others_asked_ = true;
  ask_others(*view_, first_, token);
  return token;
}

// Releases the other members, so that this wait keeps no other caller from them.
void quorum_call::refused() {
  give_back();
  begin_anew_at_first();
}

void quorum_call::begin_anew_at_first() {
  begin_anew(*view_);
  hold_->begin_to_ask(first_);
}

void quorum_call::begin_anew(quorum_view const& v) {
  failure_.reset();
  others_asked_ = false;
  view_ = &v;
  hold_ = std::make_shared<quorum_hold>(name_, options_, engine_.members().size(), v.majority());
  for (std::size_t i = 0; i < engine_.members().size(); ++i)
    if (v.left_out[i]) hold_->leave_out(i);
}

quorum_call::next quorum_call::settle(quorum_view const& v, std::size_t first) {
  hold_->was_first(first);
  auto const until = boot_clock::now() + engine_.members().reply_timeout();
  std::vector<bool> awaited(engine_.members().size());
  for (std::size_t i = 0; i < awaited.size(); ++i)
    awaited[i] = i != first && !v.left_out[i] && !engine_.members().is_suspect(i);
  hold_->wait_for_ballots(awaited, until);
  auto const top = hold_->highest();
  auto const behind = hold_->behind(top);
  for (auto const i : behind) engine_.confirm(i, hold_, top, v.record.epoch_id, options_.ttl);
  if (!behind.empty()) hold_->wait_for_confirmations(top, until);
  if (hold_->begin(hold_->highest())) return next::won;
  for (std::size_t i = 0; i < engine_.members().size(); ++i)
    if (i != first && !v.left_out[i]) remember(i, hold_->last_answer(i), v.record.epoch_id);
  give_back();
  ++in_vain_;
  return judge(v);
}

// After a failure no thread would renew the lock, or report its loss.
void quorum_call::keep() try { engine_.keep(hold_); } catch (...) {
  engine_.forget(*hold_);
  give_back();
  throw;
}

// Releases by term. A member without a reply is left to its own manager. No program had the lock, so at_least
// does not apply.
void quorum_call::give_back() noexcept {
  if (!hold_) return;
  bool was_held = false;
  auto granted = hold_->end(was_held);
  if (granted.empty()) return;
  for (auto& h : granted)
    if (h) h.forget_at_least();
  (void)engine_.give_back(std::move(granted), hold_->first());
}

// Returns `refused` if a majority could still be reached without the members that failed; else `failed`. A
// refusal shows that the lock is held, so members without an answer count as reachable.
quorum_call::next quorum_call::judge(quorum_view const& v) {
  std::size_t could = 0;
  bool refused = false;
  std::vector<std::size_t> silent;
  for (std::size_t i = 0; i < engine_.members().size(); ++i) {
    if (v.left_out[i] || hold_->last_answer(i).failure) continue;
    refused = refused || hold_->has_refused(i);
    if (hold_->is_awaited(i))
      silent.push_back(i);
    else
      ++could;
  }
  if (refused) could += silent.size();
  if (could >= v.majority()) return next::refused;
  if (!failure_ && !silent.empty())
    failure_ = error(errc::unreachable,
                     fmt::format("'{}': {} has not answered in time, and without it only {} of "
                                 "the members could be asked; {} are needed",
                                 name_, engine_.members().where(silent.front()), could, v.majority()));
  return failure_ ? next::failed : next::refused;
}

std::optional<std::size_t> quorum_call::ask_first(quorum_view const& v) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < engine_.members().size(); ++i)
    if (!v.left_out[i] && !engine_.members().is_suspect(i)) order.push_back(i);
  if (order.size() < v.majority())
    for (std::size_t i = 0; i < engine_.members().size(); ++i)
      if (!v.left_out[i] && engine_.members().is_suspect(i)) order.push_back(i);
  for (auto const i : order) {
    question q{.vote = {}, .has_others_to_ask = true};
    if (!wait_policy_.one_attempt) {
      q.deadline = steady_clock::now() + longest_wait_at_one;
      if (wait_policy_.deadline) q.deadline = std::min(*q.deadline, *wait_policy_.deadline);
    }
    if (!hold_->begin_to_ask(i)) continue;
    first_ = i;
    if (!quorum_engine::is_far_ahead(v.token_now())) q.in_front = this;
    auto b = ask(v, i, std::move(q));
    auto const granted = static_cast<bool>(b.granted);
    // A foreign transaction has locked the row, or the member may have forgotten locks: that says nothing of
    // this lock.
    bool const says_nothing = b.why == acquire_status::contended || b.why == acquire_status::quarantined;
    bool const silent = b.failure || (!granted && says_nothing);
    if (!silent && (!granted || b.holder)) engine_.in_demand().met(name_);
    hold_->answered(i, std::move(b));
    if (granted) return i;
    if (!silent || other_epoch_) return std::nullopt;  // busy for all
  }
  return std::nullopt;
}

ballot quorum_call::ask(quorum_view const& v, std::size_t i, question q) {
  q.vote.epoch_id = v.record.epoch_id;
  auto const sent_at = boot_clock::now();
  auto b = engine_.take(i, name_, options_, q, stop_);
  if (b.granted && !b.holder) round_trip_ = boot_clock::now() - sent_at;
  remember(i, b, v.record.epoch_id);
  return b;
}

void quorum_call::ask_others(quorum_view const& v, std::size_t first, fencing_token token) {
  for (std::size_t i = 0; i < engine_.members().size(); ++i)
    if (i != first && !v.left_out[i]) engine_.ask_for(i, hold_, v.record.epoch_id, token);
}

void quorum_call::remember(std::size_t i, ballot const& b, std::string const& epoch_id) {
  if (b.granted) return;
  if (!b.failure) {
    if (b.holder) holder_ = b.holder;
    why_ = b.why;
    return;
  }
  failure_ = b.failure;
  if (b.failure->reason() == errc::strategy_mismatch) throw error(*b.failure);
  if (b.failure->reason() != errc::not_voting) return;
  try {
    other_epoch_ =
        engine_.look_again(i, epoch_id) || engine_.view()->record.epoch_id != epoch_id || other_epoch_;
  } catch (std::exception const&) {  // the first failure is enough
  }
}

// Longer after each lost attempt: then a member has a row that must be watched for its ttl.
void quorum_call::pause() {
  thread_local std::minstd_rand random{std::random_device{}()};
  auto const some = std::min<boot_clock::duration>(5ms + 4 * round_trip_, 50ms);
  auto const least = std::min<boot_clock::duration>(1ms * (1 << std::min(in_vain_, 8)), longest_pause);
  boot_clock::duration const length(
      std::uniform_int_distribution<boot_clock::rep>(least.count(), (least + some).count())(random));
  auto until = boot_clock::now() + length;
  if (wait_policy_.deadline)
    until = std::min<boot_time_point>(
        until, boot_clock::now() +
                   std::max<boot_clock::duration>(*wait_policy_.deadline - steady_clock::now(), 0ns));
  base::event const never;
  std::stop_callback const at_stop(stop_, [&] { never.set(); });
  base::wait_for(never, until);
}

}  // namespace rowlock::voting
