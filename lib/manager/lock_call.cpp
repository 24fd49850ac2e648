#include "manager/lock_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <exception>
#include <utility>

#include "manager/closer.hpp"
#include "manager/releasing.hpp"
#include "manager/start_holding.hpp"

namespace rowlock::managing {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

// The longest pause while other takes leave a permit for this call (half a second).
constexpr std::chrono::milliseconds while_waited_for = 25ms;

// Attempts for several names that are repeated soon: mostly a single statement has locked the skipped row.
constexpr int soon_again = 5;

}  // namespace

void tell_refused(engine const& in, std::span<lock_spec const> specs, taken const& t,
                  boot_time_point began) noexcept {
  if (!t.won.empty() || t.why == acquire_status::cancelled) return;
  in.events.report({.kind = event_kind::refused,
                    .name = specs.size() == 1 ? specs.front().name : t.busy,
                    .duration = boot_clock::now() - began,
                    .message = to_string(t.why),
                    .label = specs.front().options.label});
}

lock_call::lock_call(engine& e, std::span<lock_spec const> specs, wait_policy p, std::stop_token stop,
                     waiting::bell& to_ring)
    : engine_(e),
      specs_(specs),
      any_(specs.front()),
      wait_policy_(p),
      bell_(to_ring),
      stop_(e, std::move(stop), to_ring),
      owner_(any_.owner()),
      waits_(any_.options.retry, p.retry_forever),
      places_(specs.size()),
      previous_holders_(specs.size()),
      attempts_(e, specs, owner_, stop_.token()),
      run_(run()) {}

lock_call::~lock_call() {
  try {  // a hand-off that came just as the call gave up
    if (auto came = line_ ? line_->leave() : std::nullopt; came && came->handed_off) {
      handed_off_ = std::static_pointer_cast<holding::hold>(std::move(came->handed_off));
      places_.front().emplace(std::move(came->turn));
    }
    if (handed_off_) (void)accept_hand_off();
  } catch (std::exception const&) {  // no memory or thread: the lock has been released
  }
  for (auto const& h : won_) releasing::leave_behind(engine_, h);
}

steps<taken> lock_call::run() {
  using kind = question::kind;
  using status = acquire_status;
  while (engine_.database.number() == 0) {
    if (stopped()) co_return lost(status::cancelled);
    co_await all(kind::connect);
    if (!failure_) continue;
    if (stopped()) co_return lost(status::cancelled);
    auto const again = ride_out() ? next_attempt_at() : std::nullopt;
    if (!again) throw error(*failure_);
    co_await rest{*again};
  }
  closer::of_this_process().get_ready();  // before anything can be held
  waits_.begin_anew();

  ending end;
  for (;;) {
    assert(won_.empty() && !line_ && !handed_off_);
    failure_.reset();
    if (stopped()) break;

    // The local queue.
    if (auto mine = own_permit()) co_return taken{{std::move(mine)}};
    auto in_process = take_places();
    if (in_process.shared) co_return taken{{std::move(in_process.shared)}};
    if (in_process.again) continue;
    if (in_process.busy && (may_wait() || any_.alone())) {  // else there might be permits for both
      auto const i = *in_process.busy;
      auto const holder = std::exchange(in_front_, nullptr);
      if (!one() && has_queue()) co_await all(kind::leave);
      if (!one()) keep_only(std::nullopt);
      if (!may_wait())
        co_return lost_to(i, holder.get(),
                          one() || wait_policy_.one_attempt ? status::busy : status::timed_out);
      attempts_.look_at(i, holder ? std::optional(holder->as_holder()) : std::nullopt);
      attempts_.report_wait();
      if (!one() && counts_looks()) {
        waits_.count_attempt();
        auto const again = next_attempt_at();
        if (!again) co_return lost_to(i, holder.get(), status::timed_out);
        co_await rest{*again};
        continue;
      }
      if (turns_to(i)) {
        co_await rest{soon()};
        continue;
      }
      stand_in_line(i);
      while (line_ && !arrived(i)) {
        auto const before = line_->in_front();
        if (stopped()) co_return lost_to(i, before.get(), status::cancelled);
        if (wait_policy_.over()) co_return lost_to(i, before.get(), status::timed_out);
        if (look_at_ && steady_clock::now() >= *look_at_ && !count_look()) {
          if (arrived(i)) break;
          co_return lost_to(i, before.get(), status::timed_out);
        }
        if (look_at_)
          co_await pause{next_look_in_line()};
        else
          co_await pause{wait_policy_.deadline};
      }
      if (!handed_off_) continue;  // take the other places
    }

    if (!(handed_off_ && accept_hand_off())) {
      // The wait queue.
      if (auto const i = begins_at()) {
        if (leaves_queue(i)) co_await all(kind::leave);
        if (!one()) keep_only(i);
        co_await at(kind::stand, *i);
        if (stopped()) break;
        // Without room there, the call rests once and asks again.
        stood_ = queue_->stood() || rested_ || waits_.attempts() == 0;
        if (stood_) continue;
        auto const again = next_attempt_at();
        if (!again) {
          end = conclusion();
          break;
        }
        rested_ = true;
        co_await rest{*again};
        continue;
      }
      stood_ = rested_ = false;
      assert(has_places());
      co_await all(kind::attempt);
    }

    late_ = !won_.empty() && is_late();
    if (!won_.empty() && !late_) co_return hand_out();
    if (late_) co_await all(kind::give_back);
    if (stopped() || granted_) break;
    if (failure_) {
      late_ = late_ || attempts_.came_too_late();
      if (late_ && wait_policy_.quorum != nullptr) wait_policy_.quorum->came_too_late();
      // A newer call of the same explicit owner might hold the name by now. Another try would take it over.
      if (!ride_out() || (late_ && owner_.is_explicit())) {
        end = {status::busy, attempts_.in_doubt() ? doubtful() : *failure_};
        break;
      }
    } else if (attempts_.was_done()) {
      end = {status::done};
      break;
    }
    if (wait_policy_.one_attempt) {
      // Only another attempt finds out whether a take with a lost reply was granted.
      if (attempts_.in_doubt() && waits_.attempts() == 1) continue;
      auto const again = moment_ends_at();
      if (!again) {
        end = conclusion();
        break;
      }
      if (!one()) keep_only(std::nullopt);
      co_await rest{*again};
      continue;
    }
    if (!late_) attempts_.report_wait();
    if (wait_policy_.over() || asks_others()) {
      end = conclusion();
      break;
    }

    // The wait for one of the names.
    auto const i = failure_ ? std::nullopt : one() ? index(0) : attempts_.busy();
    bool const crosswise = i && turns_to(*i) && !counts_looks();
    if (!one()) {
      auto const kept = crosswise ? std::nullopt : i;
      if (leaves_queue(kept)) co_await all(kind::leave);
      keep_only(kept);
    }
    bool const changed = changed_hands();
    if (i && !crosswise && waits_at_queue() && gives_place_up()) {
      if (has_queue()) co_await all(kind::leave);
    } else if (i && !crosswise && waits_at_queue()) {
      if (has_queue()) {
        auto const look = queue_->next_look(attempts_.can_be_had_in(), any_.permit.has_value());
        co_await rest{wait_policy_.deadline ? std::min(look, *wait_policy_.deadline) : look};
        continue;
      }
      engine_.wait_queues.others_wait(specs_[*i].name, true);
      co_await at(kind::stand, *i);
      if (stopped()) break;
      stood_ = queue_->stood();
      in_vain_ = stood_ && !has_queue();
      if (stood_) continue;
      if (changed) engine_.wait_queues.want_place();
    }
    bool const briefly =
        crosswise || (!one() && !i && !failure_ && !counts_looks() && waits_.attempts() < soon_again);
    auto const again = briefly ? soon() : next_attempt_at();
    if (!again) {
      end = conclusion();
      break;
    }
    rested_ = true;
    co_await rest{*again, i && !briefly ? watched() : watchable{}};
  }

  // Without a lock.
  if (end.why != status::cancelled && has_queue()) co_await all(kind::leave);
  if (waits_.attempts() > 1)
    engine_.events.report(
        {.kind = event_kind::waited, .name = any_.name, .duration = steady_clock::now() - called_at_});
  if (end.thrown) throw error(*end.thrown);
  co_return lost(end.why);
}

void lock_call::ask() {
  auto const asked = *run_.asks();
  if (asked.what != question::kind::leave) failure_.reset();
  try {
    switch (asked.what) {
      case question::kind::connect:
        return connect();
      case question::kind::stand:
        return stand(static_cast<std::size_t>(asked.of.data() - specs_.data()));
      case question::kind::attempt:
        return attempt();
      case question::kind::leave:
        return queue_->leave(engine_.reply_deadline());
      case question::kind::give_back:
        return give_back_won(true);
      case question::kind::look:
      case question::kind::exchange:
        return;  // not of this kind of call
    }
  } catch (error const& e) {
    failure_ = e;
  }
}

void lock_call::find_no_room() {
  auto const& asked = *run_.asks();
  failure_.reset();
  granted_ = false;
  if (asked.what == question::kind::stand) {
    queue_.reset();
    (void)queue_of(static_cast<std::size_t>(asked.of.data() - specs_.data()));
  } else if (waits_.attempts() == 0 && (wait_policy_.one_attempt || wait_policy_.over())) {
    failure_ = error(errc::too_many_connections,
                     fmt::format("'{}': all connections for such locks are in use", any_.name));
  }
}

// Not what is this one's or that one's alone: a connection that was not waited for, or of another kind.
void lock_call::share_answer(lock_call const& other) {
  if (run_.asks() == nullptr) return;  // it has not begun
  if (other.stopped() || &engine_.pool_of(any_.strategy) != &engine_.pool_of(other.any_.strategy)) return;
  waits_.count_attempt();
  failure_ = other.failure_;
}

void lock_call::connect() {
  waits_.count_attempt();
  (void)engine_.pool_of(any_.strategy).borrow(engine_.reply_deadline(), stop_.token());
}

waiting::local_queue::key lock_call::place(std::size_t i) const {
  return {engine_.database.number(), specs_[i].name};
}

// A reading thread gets one more handle, but would wait for itself as a writer.
std::shared_ptr<holding::hold> lock_call::own_permit() {
  if (!any_.permit || any_.is(permit_spec::kind::counted) || as_reader_) return nullptr;
  auto entered = waiting::local_queue::of_this_process().enter(place(0).of(owner_), owner_, nullptr);
  if (auto* const mine = std::get_if<waiting::local_queue::already_held>(&entered)) {
    if (any_.alone()) say_would_deadlock("reads");
    auto held = std::static_pointer_cast<holding::hold>(std::move(mine->by_me));
    if (held->share()) return held;
  } else if (auto* const turn = std::get_if<waiting::local_queue::turn>(&entered); turn && !any_.alone()) {
    as_reader_.emplace(std::move(*turn));
  }
  return nullptr;
}

void lock_call::say_would_deadlock(char const* does) const {
  throw error(errc::would_deadlock,
              fmt::format("this thread {} '{}' already, by a handle that was not given back (it may be in "
                          "another thread): owner each_acquire is for handles that go from thread to thread",
                          does, any_.name));
}

lock_call::entrance lock_call::take_places() {
  entrance all;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    previous_holders_[i].reset();
    if (places_[i]) continue;
    auto entered = waiting::local_queue::of_this_process().enter(place(i), owner_, nullptr);
    if (auto* const turn = std::get_if<waiting::local_queue::turn>(&entered)) {
      places_[i].emplace(std::move(*turn));
    } else if (auto* const mine = std::get_if<waiting::local_queue::already_held>(&entered)) {
      meet(i, std::static_pointer_cast<holding::hold>(std::move(mine->by_me)), all);
    } else if (!all.busy) {
      all.busy = i;
      in_front_ = std::get<waiting::local_queue::busy>(std::move(entered)).holder;
    }
  }
  return all;
}

void lock_call::meet(std::size_t i, std::shared_ptr<holding::hold> mine, entrance& all) {
  if (any_.recursive) {
    all.again = !mine->share();  // another thread just releases the last handle: wait for it
    if (!all.again) all.shared = std::move(mine);
    return;
  }
  if (any_.permit) say_would_deadlock("writes to");
  if (!owner_.is_explicit())
    throw error(errc::would_deadlock,
                fmt::format("this thread took '{}', and has not given it back (its handle may be in another "
                            "thread): use recursive_mutex to take it twice, or owner each_acquire for a "
                            "handle that goes from thread to thread",
                            specs_[i].name));
  previous_holders_[i] = std::move(mine);
}

void lock_call::stand_in_line(std::size_t i) {
  auto entered =
      waiting::local_queue::of_this_process().enter(place(i), owner_, &bell_, one() ? this : nullptr);
  if (auto* const turn = std::get_if<waiting::local_queue::turn>(&entered))
    places_[i].emplace(std::move(*turn));
  if (auto* const line = std::get_if<waiting::local_queue::in_line>(&entered))
    line_.emplace(std::move(*line));
  if (counts_looks()) look_at_ = steady_clock::now();
}

bool lock_call::arrived(std::size_t i) {
  auto came = line_->come();
  if (!came) return false;
  line_.reset();
  look_at_.reset();
  places_[i].emplace(std::move(came->turn));
  handed_off_ = std::static_pointer_cast<holding::hold>(std::move(came->handed_off));
  attempts_.look_at(i, std::nullopt);  // the holder has released it
  attempts_.draw_for_others();
  had_turn_ = true;
  return true;
}

// Each look at a holder in this process counts as an attempt, without a question to the database.
bool lock_call::counts_looks() const noexcept {
  auto const& retry = any_.options.retry;
  return retry.policy || (retry.attempts > 0 && !wait_policy_.retry_forever);
}

// @return false if the retry options allow no other look
bool lock_call::count_look() {
  waits_.count_attempt();
  auto const holder = line_->in_front();
  attempts_.look_at(0, holder ? std::optional(holder->as_holder()) : std::nullopt);
  auto const wait = next_wait();
  if (wait) look_at_ = steady_clock::now() + *wait;
  return wait.has_value();
}

lock_call::time_point lock_call::next_look_in_line() const {
  return wait_policy_.deadline ? std::min(*look_at_, *wait_policy_.deadline) : *look_at_;
}

// Called with the local queue's mutex. The conditions: lib/doc/hand_on.md.
bool lock_call::takes_over(waiting::local_holder const& o, void const* of) const noexcept {
  auto const* h = dynamic_cast<holding::hold const*>(&o);
  if (h == nullptr || of != &engine_ || owner_.is_explicit() || any_.permit) return false;
  auto const& f = h->facts();
  auto const& mine = any_.options;
  bool const same = f.strategy == any_.strategy && f.ttl == mine.ttl && f.takeover == mine.takeover &&
                    f.fencing == any_.fencing && f.note() == mine.note;
  bool const plain = mine.renew && mine.at_least == 0ms && mine.hard_limit == 0ms;
  return same && plain && !(mine.fair && engine_.wait_queues.begins_at(any_.name));
}

// Reads the clock, because this thread might have been stopped since its bell rang. A term without a recent
// confirmation might be revoked, and another owner might have a higher token. [C62]
// @return false if the term must not be used any more: the renewer releases it
bool lock_call::accept_hand_off() {
  auto const left = std::exchange(handed_off_, nullptr);
  holding::grant_facts f;
  try {
    f = holding::for_successor(left->facts(), owner_, left->offered_until());
    f.more = holding::extras_of(any_.options);
  } catch (...) {  // no memory
    engine_.renewals.give_back_later(*left);
    throw;
  }
  if (auto queue = left->take_queue()) queue_of(0).accept_hand_off(*std::move(queue));
  if (boot_clock::now() >=
      std::min<boot_time_point>(holding::first_trust(f), f.sent_at + engine_.confirmed_for)) {
    engine_.renewals.give_back_later(*left);
    return false;
  }
  auto held = start_holding(engine_,
                            {.facts = std::move(f),
                             .turn = std::exchange(places_.front(), std::nullopt).value(),
                             .session = std::nullopt,
                             .queue = queue_ ? queue_->take() : std::nullopt,
                             .had_to_wait = waits_.attempts() > 1,
                             .waited = steady_clock::now() - called_at_},
                            when_unwatched::give_back_later);
  granted_ = held == nullptr;
  if (held) won_.push_back(std::move(held));
  return true;
}

// The name at whose wait queue the call begins. A retry policy or a bound of attempts rules out the wait
// queue, but not with `fair`.
lock_call::index lock_call::begins_at() const {
  if (stood_ || has_queue() || wait_policy_.one_attempt || !engine_.wait_queues.there()) return std::nullopt;
  if (any_.options.fair) return waited_for_.value_or(0);
  if (!waits_at_queue()) return std::nullopt;
  for (std::size_t i = 0; i < specs_.size(); ++i)
    if (engine_.wait_queues.begins_at(specs_[i].name)) return i;
  return std::nullopt;
}

bool lock_call::waits_at_queue() const noexcept {
  return engine_.wait_queues.there() && !wait_policy_.one_attempt && !traits(any_.strategy).waits_in_server &&
         !counts_looks();
}

// After its time, if another call wants the place. It rests then, and comes back.
bool lock_call::gives_place_up() noexcept {
  bool const over = std::exchange(in_vain_, false) || (queue_ && queue_->was_first_for_long());
  return over && one() && engine_.wait_queues.takes_place_back();
}

// Whether other owners have passed the name on since the attempt before the last.
bool lock_call::changed_hands() noexcept try {
  auto const* const seen = attempts_.seen();
  if (seen == nullptr || seen->term.empty() || seen->term == met_) return false;
  bool const again = !met_.empty();
  met_ = seen->term;
  return again;
} catch (std::exception const&) {  // no memory
  return false;
}

queue_place& lock_call::queue_of(std::size_t i) {
  if (!queue_ || queue_of_ != i) queue_.emplace(engine_.wait_queues, specs_[i].name, owner_);
  queue_of_ = i;
  return *queue_;
}

void lock_call::stand(std::size_t i) {
  auto until = wait_policy_.ends();
  if (auto const time = attempts_.can_be_had_in(); time && attempts_.busy() == i)
    until = std::min<boot_time_point>(until, boot_clock::now() + *time);
  queue_of(i).stand(until, stop_.token());
}

void lock_call::attempt() {
  waits_.count_attempt();
  granted_ = false;
  granted_ = make_attempt();
  if (granted_) hold_all();
}

bool lock_call::make_attempt() {
  using place = strategies::wanted_permit::place;
  auto const wait_until = wait_policy_.one_attempt ? std::nullopt : std::optional(wait_policy_.ends());
  bool const at_queue = has_queue() && one() && engine_.database.sql().leaves_queue_at_once;
  auto* const on = at_queue ? queue_->session() : nullptr;
  auto const where = has_queue()                                               ? place::first
                     : wait_policy_.one_attempt || engine_.wait_queues.there() ? place::in_line
                                                                               : place::without_line;
  auto* const quorum = wait_policy_.quorum;
  if (quorum == nullptr) return attempts_.make(wait_until, where, on);
  bool const in_front = (has_queue() || had_turn_) && !std::exchange(was_in_front_, true);
  attempts_.ask_for(quorum->asks(in_front));
  others_asked_ = in_front;
  try {
    if (attempts_.make(wait_until, where, on)) return true;
  } catch (error const&) {
    take_back_others();
    throw;
  }
  take_back_others();
  return false;
}

void lock_call::take_back_others() {
  if (std::exchange(others_asked_, false)) wait_policy_.quorum->refused();
}

bool lock_call::has_places() const noexcept {
  for (std::size_t i = 0; i < specs_.size(); ++i)
    if (any_.alone() && !places_[i] && !previous_holders_[i]) return false;
  return true;
}

waiting::local_queue::turn lock_call::turn_for(std::size_t i) {
  if (previous_holders_[i]) return supersede(i);
  if (any_.alone()) return std::exchange(places_[i], std::nullopt).value();
  return as_reader_ ? *std::exchange(as_reader_, std::nullopt) : waiting::local_queue::turn();
}

// The new term gets the previous term's place, before the waiting threads. If that term has ended meanwhile,
// the call enters the local queue as any other.
waiting::local_queue::turn lock_call::supersede(std::size_t i) {
  if (auto turn = engine_.expiries.report_superseded(previous_holders_[i])) return std::move(*turn);
  auto entered = waiting::local_queue::of_this_process().enter(place(i), owner_, nullptr);
  auto* turn = std::get_if<waiting::local_queue::turn>(&entered);
  return turn == nullptr ? waiting::local_queue::turn() : std::move(*turn);
}

// If one can't be held, all are released.
void lock_call::hold_all() {
  auto& granted = attempts_.granted();
  std::exception_ptr failed;
  won_.assign(specs_.size(), nullptr);
  for (std::size_t i = 0; i < specs_.size(); ++i) try {
      bool const with_queue = any_.alone() && queue_ && queue_of_ == i;
      won_[i] = start_holding(engine_, {.facts = std::move(granted[i].facts),
                                        .turn = turn_for(i),
                                        .session = std::exchange(granted[i].session, std::nullopt),
                                        .queue = with_queue ? queue_->take() : std::nullopt,
                                        .had_to_wait = waits_.attempts() > 1,
                                        .waited = steady_clock::now() - called_at_});
    } catch (...) {
      failed = std::current_exception();
    }
  if (!any_.alone()) {
    places_.front().reset();  // the next thread can take a permit, too
    if (has_queue()) queue_->leave(engine_.reply_deadline());
  }
  bool const whole = std::find(won_.begin(), won_.end(), nullptr) == won_.end();
  if (whole || (one() && !failed)) attempts_.are_held();
  if (whole) return;
  std::erase(won_, nullptr);
  give_back_won(false);
  failure_.reset();
  granted_ = true;
  if (failed) std::rethrow_exception(failed);
}

bool lock_call::is_late() const noexcept {
  return std::any_of(won_.begin(), won_.end(), [](auto const& h) { return is_too_late(*h); });
}

// Other threads of an explicit owner can share a lock. These threads learn of its loss, and the last of them
// releases it.
void lock_call::give_back_won(bool whole) {
  for (auto const& h : won_) {
    if (!one()) (void)h->share_term();  // no hand-off
    if (h->unshare())
      (void)releasing::give_back(engine_, h, boot_clock::now() + engine_.options.release_timeout);
    else
      (void)engine_.expiries.report_lost(h, whole ? h->why_expired() : loss_reason::row_gone);
  }
  won_.clear();
  granted_ = false;
  take_back_others();
  failure_ = too_late(any_.name);
}

taken lock_call::hand_out() {
  for (auto const& h : won_) h->hand_out();
  return {std::exchange(won_, {})};
}

void lock_call::keep_only(index kept) noexcept {
  if (queue_ && kept != queue_of_) queue_.reset();
  for (std::size_t i = 0; i < places_.size(); ++i)
    if (kept != i) places_[i].reset();
}

// Whether the call waited for another name before. Then two calls might wait crosswise.
bool lock_call::turns_to(std::size_t i) noexcept {
  bool const another = waited_for_ && *waited_for_ != i;
  waited_for_ = i;
  return another;
}

bool lock_call::ride_out() {
  return rides_out(engine_, any_.name, *failure_, wait_policy_, waits_.attempts());
}

std::optional<std::chrono::milliseconds> lock_call::next_wait() {
  auto const* const seen = attempts_.seen();
  auto const wait = waits_.next(seen == nullptr ? nullptr : &seen->holder,
                                failure_ ? std::nullopt : attempts_.can_be_had_in());
  if (!wait) return std::nullopt;
  bool const again_soon = attempts_.waited_for() && !any_.options.retry.policy;
  return std::clamp<std::chrono::milliseconds>(*wait, 0ms, again_soon ? while_waited_for : longest_pause);
}

// @return empty if there will be no other attempt
std::optional<lock_call::time_point> lock_call::next_attempt_at() {
  if (wait_policy_.over() || wait_policy_.one_attempt) return std::nullopt;
  auto const wait = next_wait();
  if (!wait) return std::nullopt;
  auto const at = steady_clock::now() + *wait;
  return wait_policy_.deadline ? std::min(at, *wait_policy_.deadline) : at;
}

// Busy means held. A locked row or file does not say that.
std::optional<lock_call::time_point> lock_call::moment_ends_at() const {
  auto const now = steady_clock::now();
  if (!attempts_.contended() || now - called_at_ >= longest_moment) return std::nullopt;
  return now + waits_.short_wait();
}

// Not a call that keeps a pace of the program's, nor a refusal without a holder.
watchable lock_call::watched() const noexcept {
  auto const* const seen = attempts_.seen();
  auto const& strategy = traits(any_.strategy);
  if (seen == nullptr || seen->term.empty() || attempts_.contended() || attempts_.quarantined()) return {};
  if (counts_looks() || any_.permit || wait_policy_.quorum != nullptr || strategy.waits_in_server) return {};
  auto at_latest = wait_policy_.deadline.value_or(time_point::max());
  if (auto const ripe = attempts_.ripe()) {
    auto const left = std::max<std::chrono::nanoseconds>(*ripe - boot_clock::now(), 1ms);
    at_latest = std::min(at_latest, steady_clock::now() + left);
  }
  return {&specs_[*attempts_.busy()], seen, owner_.is_explicit() ? &owner_ : nullptr, at_latest};
}

// Random, so that calls that were refused together do not return together.
lock_call::time_point lock_call::soon() const {
  std::chrono::duration<double, std::milli> const part(4 * waiting::random_part());
  return steady_clock::now() + 1ms + std::chrono::duration_cast<std::chrono::nanoseconds>(part);
}

// A quorum member's call gives up a row that is locked without a holder for a second.
bool lock_call::asks_others() const noexcept {
  return !wait_policy_.rides_out_outages() && attempts_.contended() &&
         steady_clock::now() - called_at_ >= longest_moment;
}

lock_call::ending lock_call::conclusion() const {
  if (stopped()) return {};
  ending end{wait_policy_.one_attempt ? acquire_status::busy : acquire_status::timed_out};
  if (attempts_.contended()) end.why = acquire_status::contended;
  if (attempts_.quarantined()) end.why = acquire_status::quarantined;
  if (failure_ && attempts_.in_doubt())
    end.thrown = doubtful();
  else if (failure_ && failure_->reason() != errc::row_locked)
    end.thrown = failure_;
  return end;
}

error lock_call::doubtful() const {
  constexpr auto it =
      "'{}': the reply was lost and the database can't be asked ({}); if it was granted, it ends "
      "by its expiry";
  constexpr auto they =
      "'{}' and {} more: the reply was lost and the database can't be asked ({}); if they were "
      "granted, they end by their expiry";
  return {errc::in_doubt, one() ? fmt::format(it, any_.name, failure_->what())
                                : fmt::format(they, any_.name, specs_.size() - 1, failure_->what())};
}

taken lock_call::lost(acquire_status why) const {
  auto const* const seen = attempts_.seen();
  if (seen == nullptr || why == acquire_status::contended || why == acquire_status::quarantined)
    return {{}, why, {}, {}};
  return {{}, why, seen->holder, specs_[*attempts_.busy()].name};
}

taken lock_call::lost_to(std::size_t i, waiting::local_holder const* holder, acquire_status why) const {
  return {{}, why, holder == nullptr ? std::nullopt : std::optional(holder->as_holder()), specs_[i].name};
}

}  // namespace rowlock::managing
