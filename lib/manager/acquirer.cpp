#include "manager/acquirer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/process_end.hpp"
#include "manager/closer.hpp"
#include "manager/releasing.hpp"
#include "manager/start_holding.hpp"

namespace rowlock::managing {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

// Between two looks of whoever others keep away for: half a second at most.
constexpr std::chrono::milliseconds while_waited_for = 25ms;

}  // namespace

acquirer::acquirer(engine& e, lock_spec const& s, patience p, std::stop_token stop, waiting::bell& to_ring)
    : engine_(e),
      spec_(s),
      patience_(p),
      bell_(to_ring),
      on_stop_(std::move(stop), forward{stop_source_, to_ring}),
      on_closing_(e.closing.get_token(), forward{stop_source_, to_ring}),
      owner_(s.owner()),
      waits_(s.options.retry, p.insistent),
      attempts_(e, std::span(&s, 1), owner_, stop_),
      gate_(e.gates, s.name, owner_) {}

acquirer::~acquirer() {
  try {  // what it was handed on just as it gave up
    if (auto came = line_ ? line_->leave() : std::nullopt; came && came->inherited)
      won_ = inherit(static_cast<holding::hold&>(*came->inherited), came->turn);
  } catch (std::exception const&) {  // no thread to be had: it has been given back
  }
  if (won_) (void)releasing(engine_).give_back(won_, boot_clock::now() + engine_.options.release_timeout);
}

acquirer::need acquirer::next() {
  for (;;)
    if (auto what = (this->*state_)()) return *std::move(what);
}

void acquirer::ask() {
  failure_.reset();
  try {
    (this->*question_)();
  } catch (error const& e) {
    failure_ = e;
  }
}

acquirer::need acquirer::ask_then(question q, state then) noexcept {
  question_ = q;
  state_ = then;
  return reply{};
}

std::optional<acquirer::need> acquirer::go_on(state then) noexcept {
  state_ = then;
  return std::nullopt;
}

std::optional<acquirer::need> acquirer::rest_before(state then, steady_clock::time_point until) noexcept {
  rest_until_ = until;
  after_rest_ = then;
  return go_on(&acquirer::rest);
}

std::optional<acquirer::need> acquirer::rest() {
  if (!stopped() && steady_clock::now() < rest_until_) return pause{rest_until_};
  return go_on(after_rest_);
}

// Until the database was reached once it is not known which tables these are, and so whether this process
// holds the name already.
std::optional<acquirer::need> acquirer::begin() {
  if (stopped()) return lost(acquire_status::cancelled);
  if (engine_.database.identity().empty()) return ask_then(&acquirer::connect, &acquirer::connected);
  closer::of_this_process().get_ready();  // before anything can be held
  waits_.begin_anew();
  return go_on(&acquirer::line_up);
}

void acquirer::connect() {
  waits_.count_attempt();
  (void)engine_.pool_of(spec_.strategy).borrow(engine_.reply_deadline(), stop_);
}

std::optional<acquirer::need> acquirer::connected() {
  if (!failure_) return go_on(&acquirer::begin);
  if (stopped()) return lost(acquire_status::cancelled);
  if (can_ride_out(*failure_))
    if (auto const until = next_attempt_at()) return rest_before(&acquirer::begin, *until);
  throw *failure_;
}

waiting::local_queue::key acquirer::place() const {
  return {waiting::local_queue::of_this_process().number_of(engine_.database.identity()), spec_.name};
}

// A thread that reads has what it asks for; one that wants to write would wait for itself.
std::optional<acquirer::need> acquirer::look_at_own_permit() {
  if (!spec_.permit || spec_.is(permit_spec::kind::counted) || as_reader_) return std::nullopt;
  auto entered = waiting::local_queue::of_this_process().enter(place().of(owner_), owner_, nullptr);
  if (auto* const mine = std::get_if<waiting::local_queue::already_held>(&entered)) {
    if (spec_.alone()) say_would_deadlock("reads");
    auto held = std::static_pointer_cast<holding::hold>(std::move(mine->by_me));
    if (held->share()) return result{std::move(held)};
  } else if (auto* const turn = std::get_if<waiting::local_queue::turn>(&entered); turn && !spec_.alone()) {
    as_reader_.emplace(std::move(*turn));
  }
  return std::nullopt;
}

void acquirer::say_would_deadlock(char const* does) const {
  throw error(errc::would_deadlock,
              fmt::format("this thread {} '{}' already, by a handle that was not given back (it may be in "
                          "another thread): owner each_acquire is for handles that go from thread to thread",
                          does, spec_.name));
}

std::optional<acquirer::need> acquirer::line_up() {
  failure_.reset();
  if (stopped()) return lost(acquire_status::cancelled);
  if (auto had = look_at_own_permit()) return had;
  bool const would_wait = !patience_.one_attempt && !patience_.over();
  auto entered =
      waiting::local_queue::of_this_process().enter(place(), owner_, would_wait ? &bell_ : nullptr, this);
  if (auto* const mine = std::get_if<waiting::local_queue::already_held>(&entered))
    return met(std::static_pointer_cast<holding::hold>(std::move(mine->by_me)));
  if (auto* const line = std::get_if<waiting::local_queue::in_line>(&entered)) {
    line_.emplace(std::move(*line));
    if (spec_.options.on_wait) {
      auto const holder = line_->in_front();
      attempts_.look_at(holder ? std::optional(holder->as_holder()) : std::nullopt);
      attempts_.tell_wait();
    }
    if (counts_looks()) look_at_ = steady_clock::now();
    return go_on(&acquirer::stand_in_line);
  }
  if (auto const* const busy = std::get_if<waiting::local_queue::busy>(&entered)) {
    if (!spec_.alone()) return begin_to_compete({});  // there may be room for both
    return lost_to(busy->holder.get(), acquire_status::busy);
  }
  return begin_to_compete(std::get<waiting::local_queue::turn>(std::move(entered)));
}

std::optional<acquirer::need> acquirer::met(std::shared_ptr<holding::hold> mine) {
  if (spec_.recursive) {
    if (mine->share()) return result{std::move(mine)};
    return std::nullopt;  // another thread has just given back the last handle: then it is to be waited for
  }
  if (spec_.permit) say_would_deadlock("writes to");
  if (!owner_.is_explicit())
    throw error(errc::would_deadlock,
                fmt::format("this thread took '{}', and has not given it back (its handle may be in another "
                            "thread): use recursive_mutex to take it twice, or owner each_acquire for a "
                            "handle that goes from thread to thread",
                            spec_.name));
  former_self_ = std::move(mine);
  return go_on(&acquirer::compete);
}

// Each look at a holder of this process is an attempt like any other, for which the database need not be
// asked.
bool acquirer::counts_looks() const noexcept {
  auto const& retry = spec_.options.retry;
  return retry.policy || (retry.attempts > 0 && !patience_.insistent);
}

std::optional<acquirer::need> acquirer::stand_in_line() {
  if (auto came = line_->come()) return take_turn(*std::move(came));
  auto const holder = line_->in_front();
  if (stopped()) return lost_to(holder.get(), acquire_status::cancelled);
  if (patience_.over()) return lost_to(holder.get(), acquire_status::timed_out);
  if (!look_at_) return pause{patience_.deadline};
  if (steady_clock::now() >= *look_at_) {
    waits_.count_attempt();
    attempts_.look_at(holder ? std::optional(holder->as_holder()) : std::nullopt);
    auto const wait = next_wait();
    if (!wait) {
      if (auto came = line_->come()) return take_turn(*std::move(came));
      return lost_to(holder.get(), acquire_status::timed_out);
    }
    look_at_ = steady_clock::now() + *wait;
  }
  return pause{patience_.deadline ? std::min(*look_at_, *patience_.deadline) : *look_at_};
}

std::optional<acquirer::need> acquirer::take_turn(waiting::local_queue::arrival came) {
  if (came.inherited)
    if (auto mine = inherit(static_cast<holding::hold&>(*came.inherited), came.turn))
      return hand_out(std::move(mine));
  attempts_.draw_for_others();
  had_turn_ = true;
  return begin_to_compete(std::move(came.turn));
}

std::optional<acquirer::need> acquirer::begin_to_compete(waiting::local_queue::turn turn) {
  turn_.emplace(std::move(turn));
  attempts_.look_at(std::nullopt);  // whom it was waited for has given it back
  return go_on(&acquirer::compete);
}

std::optional<acquirer::need> acquirer::compete() {
  if (stopped()) return give_up(acquire_status::cancelled);
  if (!gate_.got() && begins_at_gate()) return ask_then(&acquirer::stand_at_gate, &acquirer::at_gate);
  return try_now();
}

acquirer::need acquirer::try_now() noexcept {
  rested_ = false;
  return ask_then(&acquirer::attempt, &acquirer::judge);
}

// A policy of the program's, or a bound of attempts, says itself when to try.
bool acquirer::waits_at_gate() const noexcept {
  return engine_.gates.there() && !patience_.one_attempt && !traits(spec_.strategy).waits_in_server &&
         !counts_looks();
}

bool acquirer::begins_at_gate() const {
  if (spec_.options.fair) return engine_.gates.there() && !patience_.one_attempt;
  return waits_at_gate() && engine_.gates.begins_at(spec_.name);
}

void acquirer::stand_at_gate() {
  auto until = patience_.ends();
  if (auto const soon = attempts_.can_be_had_in())
    until = std::min<boot_time_point>(until, boot_clock::now() + *soon);
  gate_.stand(until, stop_);
}

// Who could not stand there waits elsewhere, and then asks for a place once more.
std::optional<acquirer::need> acquirer::at_gate() {
  if (stopped()) return give_up(acquire_status::cancelled);
  bool const first = waits_.attempts() == 0;
  if (gate_.stood() || rested_ || first) return try_now();
  return try_again_later();
}

bool acquirer::make_attempt() {
  auto const wait_until = patience_.one_attempt ? std::nullopt : std::optional(patience_.ends());
  auto* const beside = patience_.beside;
  if (beside == nullptr || !(gate_.got() || had_turn_) || std::exchange(was_in_front_, true))
    return attempts_.make(wait_until, place_in_line());
  attempts_.propose(beside->asks());
  others_asked_ = true;
  bool had = false;
  try {
    had = attempts_.make(wait_until, place_in_line());
  } catch (error const&) {
    attempts_.propose(std::nullopt);
    others_asked_ = false;
    beside->refused();
    throw;
  }
  attempts_.propose(std::nullopt);
  if (!had) {
    others_asked_ = false;
    beside->refused();
  }
  return had;
}

void acquirer::attempt() {
  waits_.count_attempt();
  granted_ = make_attempt();
  if (!granted_) return;
  auto& facts = attempts_.granted().front().facts;
  if (!spec_.alone()) {
    won_ =
        start_holding(std::move(facts), as_reader_ ? *std::move(as_reader_) : waiting::local_queue::turn());
    turn_.reset();  // the next one may come in beside
    gate_.leave(engine_.reply_deadline());
    return;
  }
  won_ = start_holding(std::move(facts), former_self_ ? supersede() : *std::move(turn_));
}

strategies::wanted_permit::place acquirer::place_in_line() const noexcept {
  using place = strategies::wanted_permit::place;
  if (gate_.got()) return place::first;
  return patience_.one_attempt || engine_.gates.there() ? place::in_line : place::without_line;
}

std::optional<acquirer::need> acquirer::hand_out(std::shared_ptr<holding::hold> mine) {
  if (is_too_late(*mine)) return came_too_late(mine);
  mine->hand_out();
  return result{std::move(mine)};
}

// This thread was kept from its work for so long: what is lost already, or is about to be, is not handed out.
// Whoever waits gets another one; but not an explicit owner, whose newer self may have the name by now: from
// that another try would take it. Other threads of such an owner may share what is lost: they hear of it, and
// the last of them gives it back.
std::optional<acquirer::need> acquirer::came_too_late(std::shared_ptr<holding::hold> const& lost) {
  if (lost->unshare())
    (void)releasing(engine_).give_back(lost, boot_clock::now() + engine_.options.release_timeout);
  else
    (void)engine_.expiries.report_lost(lost, lost->why_expired());
  granted_ = false;
  former_self_.reset();
  as_reader_.reset();
  turn_.reset();
  line_.reset();
  if (std::exchange(others_asked_, false)) patience_.beside->refused();
  failure_ = too_late(spec_.name);
  tell_came_too_late();
  if (stopped()) return give_up(acquire_status::cancelled);
  if (!can_ride_out(*failure_) || owner_.is_explicit()) {
    (void)give_up(acquire_status::busy);
    throw *failure_;
  }
  auto const until = next_attempt_at();
  if (!until) return conclude();
  return rest_before(&acquirer::line_up, *until);
}

void acquirer::tell_came_too_late() const noexcept {
  if (patience_.came_too_late != nullptr) *patience_.came_too_late = true;
}

std::optional<acquirer::need> acquirer::judge() {
  if (won_) return hand_out(std::exchange(won_, nullptr));
  if (granted_) return give_up(acquire_status::cancelled);
  if (failure_) {
    if (stopped()) return give_up(acquire_status::cancelled);
    if (attempts_.came_too_late()) tell_came_too_late();
    // As in came_too_late().
    if (!can_ride_out(*failure_) || (attempts_.came_too_late() && owner_.is_explicit())) {
      (void)give_up(acquire_status::busy);
      throw attempts_.in_doubt() ? doubtful() : *failure_;
    }
  }
  if (!failure_ && attempts_.was_done()) return give_up(acquire_status::done);
  // Whether a lost reply meant yes or no can only be told by looking again.
  bool const look_again = patience_.one_attempt && attempts_.in_doubt() && waits_.attempts() == 1;
  if (look_again) return go_on(&acquirer::compete);
  if (patience_.one_attempt) {
    if (auto const until = ride_out_until()) return rest_before(&acquirer::compete, *until);
    return conclude();
  }
  attempts_.tell_wait();
  // Nobody has it, and it can't be had: others are to be asked.
  bool const asks_others = !patience_.rides_out_outages && attempts_.contended() &&
                           steady_clock::now() - called_at_ >= longest_moment;
  if (asks_others) return conclude();
  if (failure_ || !waits_at_gate() || patience_.over()) return try_again_later();
  if (gate_.got()) {
    auto const look = gate_.next_look(attempts_.can_be_had_in(), spec_.permit.has_value());
    return rest_before(&acquirer::compete, patience_.deadline ? std::min(look, *patience_.deadline) : look);
  }
  engine_.gates.others_wait(spec_.name, true);
  return ask_then(&acquirer::stand_at_gate, &acquirer::at_gate);
}

std::optional<acquirer::need> acquirer::try_again_later() {
  auto const until = next_attempt_at();
  if (!until) return conclude();
  rested_ = true;
  return rest_before(&acquirer::compete, *until);
}

acquirer::result acquirer::conclude() {
  if (stopped()) return give_up(acquire_status::cancelled);
  auto const held = patience_.one_attempt ? acquire_status::busy : acquire_status::timed_out;
  auto given_up = give_up(attempts_.contended() ? acquire_status::contended : held);
  if (failure_ && attempts_.in_doubt()) throw doubtful();
  if (failure_ && failure_->reason() != errc::row_locked) throw *failure_;
  return given_up;
}

acquirer::result acquirer::give_up(acquire_status why) {
  if (why != acquire_status::cancelled) gate_.leave(engine_.reply_deadline());
  if (waits_.attempts() > 1)
    engine_.events.tell(
        {.kind = event_kind::waited, .name = spec_.name, .duration = steady_clock::now() - called_at_});
  return lost(why);
}

acquirer::result acquirer::lost(acquire_status why) const {
  auto const* const seen = attempts_.seen();
  if (seen == nullptr || why == acquire_status::contended) return {nullptr, why, std::nullopt};
  return {nullptr, why, seen->holder};
}

acquirer::result acquirer::lost_to(waiting::occupant const* holder, acquire_status why) const {
  return {nullptr, why, holder == nullptr ? std::nullopt : std::optional(holder->as_holder())};
}

bool acquirer::stopped() const noexcept { return stop_.stop_requested() || base::process_ends_elsewhere(); }

error acquirer::doubtful() const {
  return {errc::in_doubt,
          fmt::format("'{}': the reply was lost and the database can't be asked ({}); if it was granted, it "
                      "ends by its expiry",
                      spec_.name, failure_->what())};
}

bool acquirer::can_ride_out(error const& e) noexcept {
  return rides_out(engine_, spec_.name, e, patience_, waits_.attempts());
}

std::optional<std::chrono::milliseconds> acquirer::next_wait() {
  auto const* const seen = attempts_.seen();
  auto const wait = waits_.next(seen == nullptr ? nullptr : &seen->holder,
                                failure_ ? std::nullopt : attempts_.can_be_had_in());
  if (!wait) return std::nullopt;
  bool const soon = attempts_.waited_for() && !spec_.options.retry.policy;
  return std::clamp<std::chrono::milliseconds>(*wait, 0ms, soon ? while_waited_for : longest_pause);
}

// @return nothing if there is to be no other attempt
std::optional<steady_clock::time_point> acquirer::next_attempt_at() {
  if (patience_.over() || patience_.one_attempt) return std::nullopt;
  auto const wait = next_wait();
  if (!wait) return std::nullopt;
  auto const at = steady_clock::now() + *wait;
  return patience_.deadline ? std::min(at, *patience_.deadline) : at;
}

// Busy means held by somebody: a locked row or file says nothing of that.
std::optional<steady_clock::time_point> acquirer::ride_out_until() const {
  auto const now = steady_clock::now();
  if (!attempts_.contended() || now - called_at_ >= longest_moment) return std::nullopt;
  return now + waits_.short_wait();
}

// The new term stands where the former one stood, before the others in line. If that one ended by itself
// meanwhile, as anybody may.
waiting::local_queue::turn acquirer::supersede() {
  if (auto turn = engine_.expiries.report_superseded(former_self_)) return std::move(*turn);
  auto entered = waiting::local_queue::of_this_process().enter(place(), owner_, nullptr);
  auto* turn = std::get_if<waiting::local_queue::turn>(&entered);
  return turn == nullptr ? waiting::local_queue::turn() : std::move(*turn);
}

// The same term, with an owner and a token of its own.
bool acquirer::takes_over(waiting::occupant const& o, void const* of) const noexcept {
  auto const* h = dynamic_cast<holding::hold const*>(&o);
  if (h == nullptr || of != &engine_ || owner_.is_explicit() || spec_.permit) return false;
  auto const& f = h->facts();
  auto const& mine = spec_.options;
  bool const same = f.strategy == spec_.strategy && f.ttl == mine.ttl && f.takeover == mine.takeover &&
                    f.fencing == spec_.fencing && f.note() == mine.note;
  bool const plain = mine.renew && mine.at_least == 0ms && mine.hard_limit == 0ms;
  return same && plain && !(mine.fair && engine_.gates.begins_at(spec_.name));
}

// Looks at the clock: this thread may have been stopped since it was rung. What was not confirmed for long
// may have been taken away since, and another owner may have a higher token. [C62]
std::shared_ptr<holding::hold> acquirer::inherit(holding::hold& left, waiting::local_queue::turn& turn) {
  holding::grant_facts f;
  try {
    f = holding::for_heir(left.facts(), owner_, left.offered_until());
    f.more = holding::extras_of(spec_.options);
  } catch (...) {  // no memory
    engine_.renewals.give_back_later(left);
    throw;
  }
  if (auto gate = left.take_gate()) gate_.inherit(*std::move(gate));
  if (boot_clock::now() <
      std::min<boot_time_point>(holding::first_trust(f), f.sent_at + engine_.confirmed_for))
    return start_holding(std::move(f), std::move(turn));
  engine_.renewals.give_back_later(left);
  return nullptr;
}

std::shared_ptr<holding::hold> acquirer::start_holding(holding::grant_facts facts,
                                                       waiting::local_queue::turn turn) {
  auto& won = attempts_.granted();
  auto held = managing::start_holding(
      engine_, {.facts = std::move(facts),
                .turn = std::move(turn),
                .session = won.empty() ? std::nullopt : std::exchange(won.front().session, std::nullopt),
                .gate = spec_.alone() ? gate_.take() : std::nullopt,
                .had_to_wait = waits_.attempts() > 1,
                .waited = steady_clock::now() - called_at_});
  attempts_.are_held();
  return held;
}

acquirer::result drive(acquirer& call, waiting::thread_bell& bell) {
  for (;;) {
    auto what = call.next();
    if (auto* const done = std::get_if<acquirer::result>(&what)) return std::move(*done);
    if (auto const* const wait = std::get_if<acquirer::pause>(&what))
      bell.wait(wait->until);
    else
      call.ask();
  }
}

}  // namespace rowlock::managing
