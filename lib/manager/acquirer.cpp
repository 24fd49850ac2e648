#include "manager/acquirer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/process_end.hpp"
#include "base/random_id.hpp"
#include "manager/closer.hpp"
#include "manager/server_wait.hpp"
#include "sessions/retry_deadlocks.hpp"

namespace rowlock::managing {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

constexpr std::size_t most_doubts = 16;
// How long one attempt rides out what is locked although nobody holds it; a statement that is waiting then
// has its own second.
constexpr std::chrono::milliseconds moment{1000};
constexpr std::chrono::milliseconds longest_wait = std::chrono::hours(24 * 366);  // that a clock can add

double random_part() {
  thread_local std::minstd_rand generator(std::random_device{}());
  return std::uniform_real_distribution<double>(0, 1)(generator);
}

}  // namespace

std::optional<steady_clock::time_point> deadline_after(std::chrono::nanoseconds timeout) noexcept {
  auto const now = steady_clock::now();
  if (timeout > steady_clock::time_point::max() - now) return std::nullopt;
  return now + timeout;
}

acquirer::acquirer(engine& e, lock_spec const& s, patience p, std::stop_token stop)
    : engine_(e),
      spec_(s),
      strategy_(e.strategies.of(s.strategy)),
      patience_(p),
      on_stop_(std::move(stop), forward{stop_source_}),
      on_closing_(e.closing.get_token(), forward{stop_source_}),
      owner_(s.owner()),
      backoff_(s.options.retry.first) {}

acquirer::result acquirer::lost(acquire_status why) const {
  if (!seen_ || why == acquire_status::contended) return {nullptr, why, std::nullopt};
  return {nullptr, why, seen_->holder};
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
  seen_.reset();  // whom it was waited for has given it back
  return compete(std::move(std::get<waiting::local_queue::turn>(entered)), nullptr);
}

// Each look at a holder of this process is an attempt like any other, for which the database need not be
// asked.
waiting::local_queue::stay_until acquirer::in_line() {
  auto const& retry = spec_.options.retry;
  if (patience_.one_attempt || (!retry.policy && (retry.attempts <= 0 || patience_.insistent))) return {};
  return [this](waiting::occupant const* holder) -> std::optional<steady_clock::time_point> {
    ++attempts_;
    seen_.reset();
    if (holder != nullptr) seen_.emplace().holder = holder->as_holder();
    auto const wait = next_wait();
    if (!wait) return std::nullopt;
    return steady_clock::now() + std::clamp<std::chrono::milliseconds>(*wait, 0ms, longest_wait);
  };
}

// Until the database was reached once it is not known which tables these are, and so whether this process
// holds the name already.
void acquirer::connect() {
  while (engine_.database.identity().empty()) {
    ++attempts_;
    try {
      (void)engine_.pool_of(spec_.strategy).borrow(engine_.reply_deadline(), stop_);
    } catch (error const& e) {
      if (!can_ride_out(e) || !wait_for_next_attempt()) throw;
    }
  }
  attempts_ = 0;
  backoff_ = spec_.options.retry.first;
}

acquirer::result acquirer::compete(waiting::local_queue::turn turn,
                                   std::shared_ptr<holding::hold> const& former_self) {
  for (;;) {
    if (stopped()) return give_up(acquire_status::cancelled);
    ++attempts_;
    last_error_.reset();
    contended_ = false;
    try {
      if (attempt()) {
        if (auto h = start_holding(former_self ? supersede(former_self) : std::move(turn))) return {h};
        return give_up(acquire_status::cancelled);
      }
    } catch (error const& e) {
      if (stopped()) return give_up(acquire_status::cancelled);
      if (!can_ride_out(e)) {
        give_up(acquire_status::busy);
        if (in_doubt_) throw doubtful(e);
        throw;
      }
    }
    // Whether a lost reply meant yes or no can only be told by looking again.
    bool const look_again = patience_.one_attempt && in_doubt_ && attempts_ == 1;
    if (look_again) continue;
    if (patience_.one_attempt) {
      if (contended_ && ride_out()) continue;
      break;
    }
    if (!wait_for_next_attempt()) break;
  }
  if (stopped()) return give_up(acquire_status::cancelled);
  auto const failed = last_error_;
  auto const held = patience_.one_attempt ? acquire_status::busy : acquire_status::timed_out;
  auto given_up = give_up(contended_ ? acquire_status::contended : held);
  if (failed && in_doubt_) throw doubtful(*failed);
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

strategies::take_request acquirer::request() const {
  auto const& o = spec_.options;
  return {spec_.name,    {},           owner_,
          o.ttl,         o.hard_limit, o.takeover,
          spec_.fencing, o.note,       seen_ && !seen_->term.empty()};
}

// Waits in the server. A session that others need meanwhile is given up after connection_pool::longest_turn,
// and with it the place in the server's line: a name that is held must not keep one that is free from its
// caller.
bool acquirer::attempt_in_server() {
  auto what = request();
  what.term = {base::random_id()};
  boot_time_point sent_at;
  auto got =
      wait_in_server(engine_, strategy_, what,
                     patience_.one_attempt ? std::nullopt : std::optional(patience_ends()), stop_, sent_at);
  if (auto* const why_not = std::get_if<strategies::refused>(&got)) {
    seen_ = std::move(why_not->row);
    contended_ = why_not->by_nobody;
    return false;
  }
  auto& won = std::get<server_grant>(got);
  granted_ = facts(won.token, what.term, sent_at, 0);
  session_.emplace(std::move(won.anchor));
  return true;
}

holding::grant_facts acquirer::facts(fencing_token token, term_id const& term, boot_time_point sent_at,
                                     std::size_t server) const {
  auto const& o = spec_.options;
  return {spec_.name, spec_.strategy, term,    token,  owner_,  o.ttl,
          o.at_least, o.hard_limit,   o.renew, o.note, sent_at, std::chrono::system_clock::now(),
          server,     o.on_trust};
}

bool acquirer::attempt() {
  if (traits(spec_.strategy).waits_in_server) return attempt_in_server();
  auto loan = engine_.pool.borrow(engine_.reply_deadline(), stop_);
  auto& session = *loan;
  if (!doubts_.empty() && settle_doubts(session)) return true;
  if (stopped()) return false;  // connecting may have taken its time
  if (take(session, std::nullopt)) return true;
  if (!seen_ || seen_->term.empty()) return false;
  if (claim_doubtful_term(session, *seen_)) return true;
  // Not what an operator wants back: its former self has to let go of it first, or it expires (C33).
  if (owner_.is_explicit() && seen_->holder.owner.same(owner_) && !seen_->holder.revoked)
    return take(session, strategies::superseded{seen_->term, std::nullopt});
  if (auto const ripe = observe(*seen_)) return take(session, ripe);
  return false;
}

bool acquirer::take(backend::connection& session, std::optional<strategies::superseded> const& old) {
  auto what = request();
  boot_time_point sent_at;
  try {
    auto const came = sessions::retry_deadlocks(engine_.events, spec_.name, engine_.reply_deadline(), [&] {
      what.term = {base::random_id()};
      return strategy_.take(session, what, old, engine_.reply_deadline(), sent_at);
    });
    if (auto const* won = std::get_if<strategies::granted>(&came))
      return accept_grant(session, won->token, what.term, sent_at);
    auto const& why_not = std::get<strategies::refused>(came);
    seen_ = why_not.row;
    contended_ = why_not.by_nobody;
    return false;
  } catch (error const& e) {
    if (e.reason() == errc::in_doubt) {
      in_doubt_ = true;
      doubts_.push_back({what.term, sent_at});
      if (doubts_.size() > most_doubts) doubts_.erase(doubts_.begin());
    }
    throw;
  }
}

bool acquirer::settle_doubts(backend::connection& session) {
  auto const row = engine_.rows.read(session, spec_.name, engine_.reply_deadline());
  in_doubt_ = false;
  return row && claim_doubtful_term(session, *row);
}

// The row has the term of an attempt whose reply was lost: it was granted, perhaps only now (the server went
// on with the statement after we had given the session up). Trust counts from when that statement was sent.
bool acquirer::claim_doubtful_term(backend::connection& session, strategies::term_row const& row) {
  auto const found =
      std::find_if(doubts_.begin(), doubts_.end(), [&](doubt const& d) { return d.term == row.term; });
  if (found == doubts_.end()) return false;
  auto const mine = *found;
  doubts_.erase(found);
  auto const token = spec_.fencing ? row.holder.token : fencing_token{};
  return accept_grant(session, token, mine.term, mine.sent_at);
}

// Looks at the clock again after the reply: an answer that took longer than the lease lasts is no lock.
bool acquirer::accept_grant(backend::connection& session, fencing_token token, term_id const& term,
                            boot_time_point sent_at) {
  auto mine = facts(token, term, sent_at, engine_.database.server_of(session));
  if (boot_clock::now() >= holding::first_trust(mine)) {
    give_back_at_once(session, term);
    throw error(errc::unreachable,
                fmt::format("'{}': the database took longer to answer than the lease of {} ms lasts",
                            spec_.name, spec_.options.ttl.count()));
  }
  granted_ = std::move(mine);
  return true;
}

void acquirer::give_back_at_once(backend::connection& session, term_id const& term) noexcept {
  try {
    strategy_.give_back(session, {spec_.name, term}, 0ms, engine_.reply_deadline());
  } catch (std::exception const&) {
    engine_.renewals.give_back_later(
        {{spec_.name, term}, spec_.strategy, 0ms, boot_clock::now() + spec_.options.ttl});
  }
}

boot_time_point acquirer::observation::ripe() const noexcept {
  return since + std::chrono::nanoseconds(silence) + std::chrono::nanoseconds(silence) / 50;
}

// `since` is the moment after the reply, and ripe() is looked at before the claim is sent: in between the
// holder's trust, which counts from before its renewal was sent, is over if no other renewal came.
// @return what may be taken now
std::optional<strategies::superseded> acquirer::observe(strategies::term_row const& row) {
  auto const silence = row.must_be_silent_for();
  if (!silence) {
    observed_.reset();
    return std::nullopt;
  }
  bool const same = observed_ && observed_->term == row.term && observed_->renewals == row.renewals;
  auto since = same ? observed_->since : boot_clock::now();
  if (row.takeover == takeover::clock) since = std::min(since, engine_.observations.since(row));
  observed_ = observation{row.term, row.renewals, *silence, since};
  if (boot_clock::now() < observed_->ripe()) return std::nullopt;
  return strategies::superseded{observed_->term, observed_->renewals};
}

// @return false if the caller has to hear of it at once
bool acquirer::can_ride_out(error const& e) {
  // A read-only server at first is a wrong address; later it is a switch-over that may yet end, as may a full
  // disk.
  bool const refuses_writes = e.reason() == errc::read_only || e.reason() == errc::storage_full;
  bool const may_end = refuses_writes && (engine_.has_granted || attempts_ > 1);
  bool const ride = e.retryable() || (may_end && !patience_.one_attempt);
  last_error_ = e;
  contended_ = e.reason() == errc::row_locked;
  if (e.reason() != errc::row_locked)
    engine_.events.tell({.kind = event_kind::error, .name = spec_.name, .message = e.what()});
  return ride && !(patience_.one_attempt && engine_.database.identity().empty());
}

std::optional<std::chrono::milliseconds> acquirer::next_wait() {
  auto const& retry = spec_.options.retry;
  auto const* holder = seen_ ? &seen_->holder : nullptr;
  if (retry.policy) {
    auto const wait = [&] {
      base::outside const there;
      return retry.policy(attempts_, holder);
    }();
    if (wait || !patience_.insistent) return wait;
  } else if (retry.attempts > 0 && attempts_ >= retry.attempts && !patience_.insistent) {
    return std::nullopt;
  }
  auto const jittered =
      std::chrono::duration<double, std::milli>(backoff_) * (1 - retry.jitter * random_part());
  backoff_ = std::min(backoff_ * 2, retry.longest);
  auto wait = std::max(1ms, std::chrono::duration_cast<std::chrono::milliseconds>(jittered));
  if (holder == nullptr || seen_->term.empty() || last_error_) return wait;
  // Not past the moment at which it can be had.
  if (observed_)
    wait =
        std::min(wait, std::chrono::ceil<std::chrono::milliseconds>(observed_->ripe() - boot_clock::now()));
  if (seen_->takeover == takeover::clock && holder->expires_in > 0ms)
    wait = std::min(wait, holder->expires_in + 1ms);
  return std::max(wait, 1ms);
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
  auto const part = std::chrono::duration<double, std::milli>(attempts_ * random_part());
  return pause(now + 1ms + std::chrono::duration_cast<std::chrono::microseconds>(part));
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
  auto h = holding::hold::make(std::move(*granted_), std::move(turn));
  auto const& f = h->facts();
  engine_.has_granted = true;
  try {
    if (session_)
      engine_.pings.keep(h, std::move(*session_));
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
  if (attempts_ > 1)
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
    give_back_at_once(*loan, f.term);
  } catch (error const&) {
    engine_.renewals.give_back_later({{f.name, f.term}, f.strategy, 0ms, f.sent_at + f.ttl});
  }
}

// What may have been granted without our hearing of it is given back as soon as that can be done.
acquirer::result acquirer::give_up(acquire_status why) {
  for (auto const& d : doubts_) {
    auto const until = d.sent_at + std::chrono::nanoseconds(spec_.options.ttl);
    if (boot_clock::now() < until)
      engine_.renewals.give_back_later({{spec_.name, d.term}, spec_.strategy, 0ms, until});
  }
  doubts_.clear();
  if (attempts_ > 1)
    engine_.events.tell(
        {.kind = event_kind::waited, .name = spec_.name, .duration = steady_clock::now() - called_at_});
  return lost(why);
}

}  // namespace rowlock::managing
