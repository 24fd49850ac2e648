#include "manager/acquirer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/process_end.hpp"
#include "manager/closer.hpp"

namespace rowlock::managing {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

// How long one attempt rides out what is locked although nobody holds it; a statement that is waiting then
// has its own second.
constexpr std::chrono::milliseconds moment{1000};
constexpr std::chrono::milliseconds longest_wait = std::chrono::hours(24 * 366);  // that a clock can add

}  // namespace

std::optional<steady_clock::time_point> deadline_after(std::chrono::nanoseconds timeout) noexcept {
  auto const now = steady_clock::now();
  if (timeout > steady_clock::time_point::max() - now) return std::nullopt;
  return now + timeout;
}

acquirer::acquirer(engine& e, lock_spec const& s, patience p, std::stop_token stop)
    : engine_(e),
      spec_(s),
      patience_(p),
      on_stop_(std::move(stop), forward{stop_source_}),
      on_closing_(e.closing.get_token(), forward{stop_source_}),
      owner_(s.owner()),
      waits_(s.options.retry, p.insistent),
      attempts_(e, s, owner_, stop_) {}

acquirer::result acquirer::lost(acquire_status why) const {
  auto const& seen = attempts_.seen();
  if (!seen || why == acquire_status::contended) return {nullptr, why, std::nullopt};
  return {nullptr, why, seen->holder};
}

bool acquirer::past_deadline() const {
  return patience_.deadline && steady_clock::now() >= *patience_.deadline;
}

bool acquirer::stopped() const noexcept { return stop_.stop_requested() || base::process_ends_elsewhere(); }

acquirer::result acquirer::run() {
  if (stopped()) return lost(acquire_status::cancelled);
  try {
    connect();
  } catch (error const&) {
    if (stopped()) return lost(acquire_status::cancelled);
    throw;
  }
  closer::of_this_process().get_ready();  // before anything can be held
  return queue();
}

waiting::local_queue::key acquirer::place() const {
  return {waiting::local_queue::of_this_process().number_of(engine_.database.identity()), spec_.name};
}

acquirer::result acquirer::queue() {
  if (stopped()) return lost(acquire_status::cancelled);
  auto const queue_until = patience_.one_attempt ? std::optional(called_at_) : patience_.deadline;
  auto entered =
      waiting::local_queue::of_this_process().enter(place(), owner_, queue_until, stop_, in_line());
  if (auto* mine = std::get_if<waiting::local_queue::already_held>(&entered)) {
    auto h = std::static_pointer_cast<holding::hold>(std::move(mine->by_me));
    if (spec_.recursive) {
      // Another thread may just have given back the last handle: then it is to be waited for.
      return h->share() ? result{std::move(h)} : queue();
    }
    if (!owner_.is_explicit())
      throw error(errc::would_deadlock,
                  fmt::format("this thread holds '{}' already: use recursive_mutex", spec_.name));
    return compete({}, h);
  }
  if (auto const* no = std::get_if<waiting::local_queue::not_now>(&entered))
    return {nullptr, stopped() ? acquire_status::cancelled : no->why,
            no->holder ? std::optional(no->holder->as_holder()) : std::nullopt};
  attempts_.look_at(std::nullopt);  // whom it was waited for has given it back
  return compete(std::move(std::get<waiting::local_queue::turn>(entered)), nullptr);
}

// Each look at a holder of this process is an attempt like any other, for which the database need not be
// asked.
waiting::local_queue::stay_until acquirer::in_line() {
  auto const& retry = spec_.options.retry;
  if (patience_.one_attempt || (!retry.policy && (retry.attempts <= 0 || patience_.insistent))) return {};
  return [this](waiting::occupant const* holder) -> std::optional<steady_clock::time_point> {
    waits_.count_attempt();
    attempts_.look_at(holder == nullptr ? std::nullopt : std::optional(holder->as_holder()));
    auto const wait = next_wait();
    if (!wait) return std::nullopt;
    return steady_clock::now() + std::clamp<std::chrono::milliseconds>(*wait, 0ms, longest_wait);
  };
}

// Until the database was reached once it is not known which tables these are, and so whether this process
// holds the name already.
void acquirer::connect() {
  while (engine_.database.identity().empty()) {
    waits_.count_attempt();
    try {
      (void)engine_.pool_of(spec_.strategy).borrow(engine_.reply_deadline(), stop_);
    } catch (error const& e) {
      if (!can_ride_out(e) || !wait_for_next_attempt()) throw;
    }
  }
  waits_.begin_anew();
}

acquirer::result acquirer::compete(waiting::local_queue::turn turn,
                                   std::shared_ptr<holding::hold> const& former_self) {
  for (;;) {
    if (stopped()) return give_up(acquire_status::cancelled);
    waits_.count_attempt();
    last_error_.reset();
    try {
      if (attempts_.make(patience_.one_attempt ? std::nullopt : std::optional(patience_ends()))) {
        if (auto h = start_holding(former_self ? supersede(former_self) : std::move(turn))) return {h};
        return give_up(acquire_status::cancelled);
      }
    } catch (error const& e) {
      if (stopped()) return give_up(acquire_status::cancelled);
      if (!can_ride_out(e)) {
        give_up(acquire_status::busy);
        if (attempts_.in_doubt()) throw doubtful(e);
        throw;
      }
    }
    // Whether a lost reply meant yes or no can only be told by looking again.
    bool const look_again = patience_.one_attempt && attempts_.in_doubt() && waits_.attempts() == 1;
    if (look_again) continue;
    if (patience_.one_attempt) {
      if (attempts_.contended() && ride_out()) continue;
      break;
    }
    if (!wait_for_next_attempt()) break;
  }
  if (stopped()) return give_up(acquire_status::cancelled);
  auto const failed = last_error_;
  auto const held = patience_.one_attempt ? acquire_status::busy : acquire_status::timed_out;
  auto given_up = give_up(attempts_.contended() ? acquire_status::contended : held);
  if (failed && attempts_.in_doubt()) throw doubtful(*failed);
  if (!failed || failed->reason() == errc::row_locked) return given_up;
  throw *failed;
}

error acquirer::doubtful(error const& last) const {
  return {errc::in_doubt,
          fmt::format("'{}': the reply was lost and the database can't be asked ({}); if it was granted, it "
                      "ends by its expiry",
                      spec_.name, last.what())};
}

boot_time_point acquirer::patience_ends() const noexcept {
  if (!patience_.deadline) return boot_time_point::max();
  auto const left = std::max<std::chrono::nanoseconds>(*patience_.deadline - steady_clock::now(), 0ns);
  auto const now = boot_clock::now();
  return left > boot_time_point::max() - now ? boot_time_point::max() : now + left;
}

// @return false if the caller has to hear of it at once
bool acquirer::can_ride_out(error const& e) {
  // A read-only server at first is a wrong address; later it is a switch-over that may yet end, as may a full
  // disk.
  bool const refuses_writes = e.reason() == errc::read_only || e.reason() == errc::storage_full;
  bool const may_end = refuses_writes && (engine_.has_granted || waits_.attempts() > 1);
  bool const ride = e.retryable() || (may_end && !patience_.one_attempt);
  last_error_ = e;
  if (e.reason() != errc::row_locked)
    engine_.events.tell({.kind = event_kind::error, .name = spec_.name, .message = e.what()});
  return ride && !(patience_.one_attempt && engine_.database.identity().empty());
}

std::optional<std::chrono::milliseconds> acquirer::next_wait() {
  auto const& seen = attempts_.seen();
  return waits_.next(seen ? &seen->holder : nullptr, last_error_ ? std::nullopt : attempts_.can_be_had_in());
}

// @return false if there is to be no other attempt
bool acquirer::wait_for_next_attempt() {
  if (past_deadline() || patience_.one_attempt) return false;
  auto const wait = next_wait();
  if (!wait) return false;
  auto until = steady_clock::now() + std::clamp<std::chrono::milliseconds>(*wait, 0ms, longest_wait);
  if (patience_.deadline) until = std::min(until, *patience_.deadline);
  return pause(until);
}

// @return false if it was cut short
bool acquirer::pause(steady_clock::time_point until) const {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_until(lock, stop_, until, [] { return false; });
  return !stopped();
}

// Busy means held by somebody: a locked row or file says nothing of that.
bool acquirer::ride_out() const {
  auto const now = steady_clock::now();
  if (now - called_at_ >= moment) return false;
  return pause(now + waits_.short_wait());
}

// The new term stands where the former one stood, before the others in line. If that one ended by itself
// meanwhile, as anybody may.
waiting::local_queue::turn acquirer::supersede(std::shared_ptr<holding::hold> const& former_self) {
  if (auto turn = engine_.expiries.report_superseded(former_self)) return std::move(*turn);
  auto entered = waiting::local_queue::of_this_process().enter(place(), owner_, called_at_, {});
  auto* turn = std::get_if<waiting::local_queue::turn>(&entered);
  return turn == nullptr ? waiting::local_queue::turn() : std::move(*turn);
}

std::shared_ptr<holding::hold> acquirer::start_holding(waiting::local_queue::turn turn) {
  auto const waited = steady_clock::now() - called_at_;
  auto h = holding::hold::make(std::move(attempts_.granted().facts), std::move(turn));
  auto const& f = h->facts();
  engine_.has_granted = true;
  try {
    if (auto& session = attempts_.granted().session)
      engine_.pings.keep(h, std::move(*session));
    else if (f.renew)
      engine_.renewals.keep(h);
    if (base::process_ends_elsewhere() || !engine_.expiries.watch(h)) {
      give_back_unwatched(*h);
      return nullptr;
    }
  } catch (...) {  // no thread to be had: nobody would renew it, nobody would say that it is lost
    give_back_unwatched(*h);
    throw;
  }
  if (waits_.attempts() > 1)
    engine_.events.tell(
        {.kind = event_kind::waited, .name = f.name, .term = f.term.value, .duration = waited});
  engine_.events.tell({.kind = event_kind::taken,
                       .name = f.name,
                       .term = f.term.value,
                       .token = f.token,
                       .duration = waited,
                       .trusted_until = h->trusted_until()});
  return h;
}

void acquirer::give_back_unwatched(holding::hold& h) {
  auto const& f = h.facts();
  engine_.renewals.forget(h);
  engine_.expiries.forget(h);
  h.lose(loss_reason::expired);
  if (traits(f.strategy).owns_session) {
    (void)engine_.pings.give_back(h, engine_.reply_deadline());
    return;
  }
  try {
    auto loan = engine_.pool.borrow(engine_.reply_deadline());
    attempts_.give_back_at_once(*loan, f.term);
  } catch (error const&) {
    engine_.renewals.give_back_later({{f.name, f.term}, f.strategy, 0ms, f.sent_at + f.ttl});
  }
}

acquirer::result acquirer::give_up(acquire_status why) {
  attempts_.give_back_doubts();
  if (waits_.attempts() > 1)
    engine_.events.tell(
        {.kind = event_kind::waited, .name = spec_.name, .duration = steady_clock::now() - called_at_});
  return lost(why);
}

}  // namespace rowlock::managing
