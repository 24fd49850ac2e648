#include "manager/acquirer_of_all.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/process_end.hpp"
#include "manager/closer.hpp"
#include "manager/releasing.hpp"
#include "manager/start_holding.hpp"

namespace rowlock::managing {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

// What is skipped is mostly locked by one statement of somebody's, and free in a moment.
constexpr int soon_again = 5;

}  // namespace

acquirer_of_all::acquirer_of_all(engine& e, std::vector<lock_spec> const& specs, patience p,
                                 std::stop_token stop)
    : engine_(e),
      specs_(specs),
      options_(specs.front().options),
      patience_(p),
      on_stop_(std::move(stop), forward{stop_source_, bell_}),
      on_closing_(e.closing.get_token(), forward{stop_source_, bell_}),
      owner_(specs.front().owner()),
      waits_(options_.retry, p.insistent),
      won_(specs.size()),
      places_(specs.size()),
      former_selves_(specs.size()),
      attempts_(e, specs, owner_, stop_) {}

acquirer_of_all::result acquirer_of_all::run() {
  if (!connect()) return {{}, acquire_status::cancelled, {}, {}};
  closer::of_this_process().get_ready();  // before anything can be held
  waits_.begin_anew();
  for (;;) {
    if (stopped()) return give_up(acquire_status::cancelled);
    std::optional<result> done;
    if (auto const other = take_places()) {
      done = wait_in_line(*other);
    } else if (auto const at = begins_at()) {
      stand_at_gate_of(*at);
      continue;
    } else {
      done = try_once();
    }
    if (done) return *std::move(done);
  }
}

// Until the database was reached once it is not known which tables these are, and so whether this process
// holds the names already.
bool acquirer_of_all::connect() {
  while (!stopped()) {
    if (!engine_.database.identity().empty()) return true;
    waits_.count_attempt();
    try {
      (void)engine_.pool.borrow(engine_.reply_deadline(), stop_);
    } catch (error const& e) {
      if (stopped()) return false;
      if (!rides_out(engine_, specs_.front().name, e, patience_, waits_.attempts())) throw;
      if (!rest_before_next_try()) throw;
    }
  }
  return false;
}

waiting::local_queue::key acquirer_of_all::place(std::size_t i) const {
  return {waiting::local_queue::of_this_process().number_of(engine_.database.identity()), specs_[i].name};
}

// All of them, in the order of the names, without waiting for any.
// @return the first that another thread has; then it has none
std::optional<std::size_t> acquirer_of_all::take_places() {
  std::optional<std::size_t> busy;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    former_selves_[i].reset();
    if (places_[i]) continue;
    auto entered = waiting::local_queue::of_this_process().enter(place(i), owner_, nullptr);
    if (auto* const turn = std::get_if<waiting::local_queue::turn>(&entered)) {
      places_[i].emplace(std::move(*turn));
    } else if (auto* const mine = std::get_if<waiting::local_queue::already_held>(&entered)) {
      if (!owner_.is_explicit())
        throw error(errc::would_deadlock, fmt::format("this thread holds '{}' already", specs_[i].name));
      former_selves_[i] = std::static_pointer_cast<holding::hold>(std::move(mine->by_me));
    } else if (!busy) {
      busy = i;
      in_front_ = std::get<waiting::local_queue::busy>(std::move(entered)).holder;
    }
  }
  if (busy) keep_only(std::nullopt);
  return busy;
}

void acquirer_of_all::keep_only(std::optional<std::size_t> kept) noexcept {
  if (gate_ && kept != gate_of_) {
    gate_->leave(engine_.reply_deadline());
    gate_.reset();
  }
  for (std::size_t i = 0; i < places_.size(); ++i)
    if (kept != i) places_[i].reset();
}

bool acquirer_of_all::turns_to(std::size_t i) noexcept {
  bool const another = waited_for_ && *waited_for_ != i;
  waited_for_ = i;
  return another;
}

std::optional<acquirer_of_all::result> acquirer_of_all::wait_in_line(std::size_t i) {
  auto const holder = in_front_ ? std::optional(in_front_->as_holder()) : std::nullopt;
  in_front_.reset();
  auto const lost = [&](acquire_status why) { return result{{}, why, holder, specs_[i].name}; };
  if (patience_.one_attempt) return lost(acquire_status::busy);
  if (patience_.over()) return lost(acquire_status::timed_out);
  tell_wait(holder ? &*holder : nullptr);
  if (counts_looks()) {
    waits_.count_attempt();
    if (!rest_before_next_try()) return lost(acquire_status::timed_out);
    return std::nullopt;
  }
  if (turns_to(i)) {
    rest_a_little();
    return std::nullopt;
  }
  auto entered = waiting::local_queue::of_this_process().enter(place(i), owner_, &bell_);
  if (auto* const turn = std::get_if<waiting::local_queue::turn>(&entered))
    places_[i].emplace(std::move(*turn));
  auto* const line = std::get_if<waiting::local_queue::in_line>(&entered);
  while (line != nullptr) {
    if (auto came = line->come()) {
      places_[i].emplace(std::move(came->turn));
      break;
    }
    if (stopped()) return lost(acquire_status::cancelled);
    if (patience_.over()) return lost(acquire_status::timed_out);
    bell_.wait(patience_.deadline);
  }
  return std::nullopt;
}

std::optional<acquirer_of_all::result> acquirer_of_all::try_once() {
  stood_ = false;
  std::optional<error> failure;
  waits_.count_attempt();
  try {
    if (attempts_.make(std::nullopt, strategies::wanted_permit::place::in_line)) return hold_all();
  } catch (error const& e) {
    failure = e;
  }
  if (stopped()) return give_up(acquire_status::cancelled);
  // As acquirer::came_too_late(): the newer self of an explicit owner may have them by now.
  if (failure && (!rides_out(engine_, specs_.front().name, *failure, patience_, waits_.attempts()) ||
                  ((came_too_late_ || attempts_.came_too_late()) && owner_.is_explicit()))) {
    (void)give_up(acquire_status::busy);
    throw attempts_.in_doubt() ? doubtful(*failure) : *failure;
  }
  if (patience_.one_attempt) {
    // Whether a lost reply meant yes or no can only be told by looking again.
    if (attempts_.in_doubt() && waits_.attempts() == 1) return std::nullopt;
    if (!attempts_.contended() || steady_clock::now() - called_at_ >= longest_moment)
      return conclude(failure);
    keep_only(std::nullopt);
    rest_until(steady_clock::now() + waits_.short_wait());
    return std::nullopt;
  }
  tell_wait(holder());
  if (patience_.over()) return conclude(failure);
  if (!failure && attempts_.busy()) return wait_for_the_busy_one();
  keep_only(std::nullopt);
  if (!failure && !counts_looks() && waits_.attempts() < soon_again)
    rest_a_little();
  else if (!rest_before_next_try())
    return conclude(failure);
  return std::nullopt;
}

std::optional<acquirer_of_all::result> acquirer_of_all::wait_for_the_busy_one() {
  auto const i = *attempts_.busy();
  if (turns_to(i) && !counts_looks()) {
    keep_only(std::nullopt);
    rest_a_little();
    return std::nullopt;
  }
  keep_only(i);
  if (waits_at_gate()) {
    if (gate_ && gate_->got()) {
      auto const look = gate_->next_look(attempts_.can_be_had_in());
      rest_until(patience_.deadline ? std::min(look, *patience_.deadline) : look);
      return std::nullopt;
    }
    engine_.gates.others_wait(specs_[i].name, true);
    stand_at_gate_of(i);
    if (gate_->stood()) return std::nullopt;
  }
  if (!rest_before_next_try()) return conclude({});
  return std::nullopt;
}

void acquirer_of_all::stand_at_gate_of(std::size_t i) {
  keep_only(i);
  if (!gate_) gate_.emplace(engine_.gates, specs_[i].name, owner_);
  gate_of_ = i;
  auto until = patience_.ends();
  if (auto const soon = attempts_.can_be_had_in(); soon && attempts_.busy() == i)
    until = std::min<boot_time_point>(until, boot_clock::now() + *soon);
  gate_->stand(until, stop_);
  stood_ = true;
}

holder_info const* acquirer_of_all::holder() const noexcept {
  auto const* const seen = attempts_.seen();
  return seen == nullptr ? nullptr : &seen->holder;
}

// A policy of the program's, or a bound of attempts, says itself when to try.
bool acquirer_of_all::counts_looks() const noexcept {
  return options_.retry.policy || (options_.retry.attempts > 0 && !patience_.insistent);
}

bool acquirer_of_all::waits_at_gate() const noexcept {
  return engine_.gates.there() && !patience_.one_attempt && !counts_looks();
}

// Where others waited a moment ago: or they would be overtaken for ever.
std::optional<std::size_t> acquirer_of_all::begins_at() const {
  if (stood_ || (gate_ && gate_->got()) || patience_.one_attempt || !engine_.gates.there())
    return std::nullopt;
  if (options_.fair) return waited_for_.value_or(0);
  if (!waits_at_gate()) return std::nullopt;
  for (std::size_t i = 0; i < specs_.size(); ++i)
    if (engine_.gates.begins_at(specs_[i].name)) return i;
  return std::nullopt;
}

acquirer_of_all::result acquirer_of_all::hold_all() {
  std::exception_ptr failed;
  std::fill(won_.begin(), won_.end(), nullptr);
  for (std::size_t i = 0; i < specs_.size(); ++i) try {
      bool const at_gate = gate_ && gate_of_ == i;
      won_[i] = start_holding(engine_, {.facts = std::move(attempts_.granted()[i].facts),
                                        .turn = former_selves_[i] ? supersede(i) : leave_place(i),
                                        .session = std::nullopt,
                                        .gate = at_gate ? gate_->take() : std::nullopt,
                                        .had_to_wait = waits_.attempts() > 1,
                                        .waited = steady_clock::now() - called_at_});
    } catch (...) {  // it has been given back
      failed = std::current_exception();
    }
  bool const all = std::find(won_.begin(), won_.end(), nullptr) == won_.end();
  // Lost, or about to be, before this thread could go on: then it is another try's turn.
  bool const late =
      all && std::any_of(won_.begin(), won_.end(), [](auto const& h) { return is_too_late(*h); });
  if (all) attempts_.are_held();
  if (all && !late) {
    for (auto const& h : won_) h->hand_out();
    return {std::move(won_), {}, {}, {}};
  }
  for (auto& h : won_)
    if (h) {
      if (h->unshare()) {
        // Not to the next in line: attempts_ gives all of its terms back once more.
        (void)h->expose();
        (void)releasing(engine_).give_back(h, boot_clock::now() + engine_.options.release_timeout);
      } else {  // another thread of an explicit owner has it already
        (void)engine_.expiries.report_lost(h, all ? h->why_expired() : loss_reason::row_gone);
      }
      h = nullptr;
    }
  if (failed) std::rethrow_exception(failed);
  came_too_late_ = late;
  if (late) throw too_late(specs_.front().name);
  return give_up(acquire_status::cancelled);
}

// What has gone to a lock is no place any more, whatever becomes of that lock.
waiting::local_queue::turn acquirer_of_all::leave_place(std::size_t i) {
  return std::exchange(places_[i], std::nullopt).value();
}

// As acquirer::supersede().
waiting::local_queue::turn acquirer_of_all::supersede(std::size_t i) {
  if (auto turn = engine_.expiries.report_superseded(former_selves_[i])) return std::move(*turn);
  auto entered = waiting::local_queue::of_this_process().enter(place(i), owner_, nullptr);
  auto* turn = std::get_if<waiting::local_queue::turn>(&entered);
  return turn == nullptr ? waiting::local_queue::turn() : std::move(*turn);
}

void acquirer_of_all::tell_wait(holder_info const* holder) const noexcept {
  if (options_.on_wait) engine_.events.call([&] { options_.on_wait(holder); });
}

void acquirer_of_all::rest_until(time_point until) {
  while (!stopped() && steady_clock::now() < until) bell_.wait(until);
}

// By chance, so that those who were refused together do not come back together.
void acquirer_of_all::rest_a_little() {
  rest_until(steady_clock::now() + 1ms +
             std::chrono::duration_cast<std::chrono::nanoseconds>(
                 std::chrono::duration<double, std::milli>(4 * waiting::random_part())));
}

// @return false if there is to be no other try
bool acquirer_of_all::rest_before_next_try() {
  if (patience_.over() || patience_.one_attempt) return false;
  auto const wait = waits_.next(holder(), attempts_.can_be_had_in());
  if (!wait) return false;
  auto const until = steady_clock::now() + std::clamp<std::chrono::milliseconds>(*wait, 0ms, longest_pause);
  rest_until(patience_.deadline ? std::min(until, *patience_.deadline) : until);
  return true;
}

bool acquirer_of_all::stopped() const noexcept {
  return stop_.stop_requested() || base::process_ends_elsewhere();
}

acquirer_of_all::result acquirer_of_all::conclude(std::optional<error> const& failure) {
  if (stopped()) return give_up(acquire_status::cancelled);
  auto const held = patience_.one_attempt ? acquire_status::busy : acquire_status::timed_out;
  auto given_up = give_up(attempts_.contended() ? acquire_status::contended : held);
  if (failure && attempts_.in_doubt()) throw doubtful(*failure);
  if (failure && failure->reason() != errc::row_locked) throw *failure;
  return given_up;
}

acquirer_of_all::result acquirer_of_all::give_up(acquire_status why) {
  if (gate_ && why != acquire_status::cancelled) gate_->leave(engine_.reply_deadline());
  if (waits_.attempts() > 1)
    engine_.events.tell({.kind = event_kind::waited,
                         .name = specs_.front().name,
                         .duration = steady_clock::now() - called_at_});
  auto const busy = attempts_.busy();
  if (!busy) return {{}, why, {}, {}};
  return {{}, why, *holder(), specs_[*busy].name};
}

error acquirer_of_all::doubtful(error const& e) const {
  return {errc::in_doubt,
          fmt::format("'{}' and {} more: the reply was lost and the database can't be asked ({}); if they "
                      "were granted, they end by their expiry",
                      specs_.front().name, specs_.size() - 1, e.what())};
}

}  // namespace rowlock::managing
