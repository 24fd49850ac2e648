#include "manager/exchanging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <rowlock/error.hpp>
#include <span>

#include "base/random_id.hpp"
#include "manager/releasing.hpp"
#include "manager/start_holding.hpp"
#include "manager/wait_policy.hpp"
#include "sessions/retry_deadlocks.hpp"
#include "strategy/permits.hpp"
#include "strategy/quarantine.hpp"

namespace rowlock::managing {

using namespace std::chrono_literals;

namespace {

[[noreturn]] void refuse_locked(std::string const& name) {
  throw error(errc::row_locked, fmt::format("'{}': a transaction has its row locked: end it first", name));
}

}  // namespace

exchanging::exchanging(engine& e, held const& h, permit_spec const& wanted)
    : engine_(e), former_(h), wanted_(wanted), run_(run()) {}

steps<exchanging::held> exchanging::run() {
  auto const& f = former_->facts();
  if (f.limit != strategies::all_units)
    throw error(errc::unsupported, fmt::format("'{}' is not the lock of a shared_mutex", f.name));
  if (!former_->share_term() || !former_->valid() || engine_.database.gone(f.server)) co_return nullptr;
  if (f.units == wanted_.units) co_return former_;
  if (former_->is_shared())
    throw error(errc::invalid_argument,
                fmt::format("'{}': this thread has taken it more than once: give the others back", f.name));
  if (auto mine = place())
    turn_.emplace(*std::move(mine));
  else
    co_return nullptr;
  co_await question{question::kind::exchange};
  if (failure_) throw error(*failure_);
  if (!granted_) co_return nullptr;
  if (now_ && is_too_late(*now_)) {
    co_await question{question::kind::give_back};
    engine_.expiries.report_lost(former_, loss_reason::row_gone);
    throw too_late(f.name);
  }
  end();
  if (now_) now_->hand_out();
  co_return now_;
}

void exchanging::ask() {
  try {
    if (run_.asks()->what == question::kind::exchange)
      exchange();
    else
      (void)releasing::give_back(engine_, now_, boot_clock::now() + engine_.options.release_timeout);
  } catch (error const& e) {
    failure_ = e;
  }
}

void exchanging::exchange() {
  auto fresh = take();
  if (!fresh) return;
  granted_ = true;
  try {
    now_ = start_holding(engine_,
                         {.facts = *std::move(fresh), .turn = *std::move(turn_), .session = {}, .queue = {}});
  } catch (...) {  // the previous permit's row is gone
    engine_.expiries.report_lost(former_, loss_reason::row_gone);
    throw;
  }
}

// As in lock_call: a writer has the name's place, a reader its own.
std::optional<waiting::local_queue::turn> exchanging::place() const {
  auto const& f = former_->facts();
  auto& queue = waiting::local_queue::of_this_process();
  waiting::local_queue::key const name{engine_.database.number(), f.name};
  auto entered =
      queue.enter(wanted_.what == permit_spec::kind::writer ? name : name.of(f.owner), f.owner, nullptr);
  auto* const turn = std::get_if<waiting::local_queue::turn>(&entered);
  return turn == nullptr ? std::nullopt : std::optional<waiting::local_queue::turn>(std::move(*turn));
}

// Refused if a transaction has the permit locked, because all takes that count would wait for that.
exchanging::facts exchanging::take() {
  auto const& f = former_->facts();
  auto const& wanted = wanted_;
  auto asked = f;
  asked.units = static_cast<std::int32_t>(wanted.units);
  if (f.hard_limit != 0ms)  // the rest of the limit
    asked.hard_limit -= std::chrono::ceil<std::chrono::milliseconds>(boot_clock::now() - f.sent_at);
  strategies::take_request what{f.name,           {},         f.owner,   f.ttl,
                                asked.hard_limit, f.takeover, f.fencing, std::string(f.note())};
  what.durable = f.needs_flush();
  what.permit = {.units = wanted.units,
                 .limit = wanted.limit,
                 .replaces = f.term,
                 .replaced_units = f.units,
                 .intent = base::random_id()};
  if (wanted.units < f.units) what.permit.where = strategies::wanted_permit::place::first;
  doubtful_takes takes(engine_, {f.strategy, f.takeover, f.ttl, f.fencing});
  try {
    auto const deadline = engine_.reply_deadline();
    auto loan = engine_.pool.borrow(deadline);
    if (engine_.tables.of(f.strategy).is_locked(*loan, {f.name, f.term}, deadline)) refuse_locked(f.name);
    return attempt(*loan, what, asked, takes);
  } catch (std::exception const& e) {
    auto const* const told = dynamic_cast<error const*>(&e);
    if (told != nullptr) takes.failed(told->reason());
    if (takes.sent() == nullptr && takes.none()) throw;  // nothing was sent, or it was refused
    // Memory might have run out. After an unreadable reply the statement has ended: an absent term won't
    // come.
    bool const may_come = told == nullptr || told->reason() == errc::in_doubt;
    if (takes.sent() != nullptr) takes.reply_was_lost();
    auto came = doubtful_takes::outcome::unkept;
    try {
      auto const loan = engine_.pool.borrow(engine_.reply_deadline());
      came = takes.look(*loan);
      if (came == doubtful_takes::outcome::granted)
        return granted(*loan, asked, takes.sent()->tokens.front(), takes);
    } catch (std::exception const&) {
      came = doubtful_takes::outcome::unkept;
    }
    if (may_come || came != doubtful_takes::outcome::absent) lose();
    throw;
  }
}

exchanging::facts exchanging::attempt(backend::connection& session, strategies::take_request& what,
                                      holding::grant_facts const& asked, doubtful_takes& takes) {
  auto const deadline = engine_.reply_deadline();
  auto const came = sessions::retry_deadlocks(engine_.events, asked.name, deadline, [&] {
    what.term = {base::random_id()};
    takes.send({{asked.name, what.term}});
    return engine_.strategies.of(asked.strategy).take(session, what, {}, deadline, takes.sent()->sent_at);
  });
  if (auto const* const won = std::get_if<strategies::granted>(&came))
    return granted(session, asked, won->token, takes);
  takes.settle();
  if (std::get<strategies::refused>(came).by_nobody) {
    auto const now =
        strategies::settle_quarantine(session, engine_.database.statements(), asked.ttl, deadline);
    if (now.left > 0ms) throw strategies::refused_in_quarantine(asked.name, now);
    refuse_locked(asked.name);
  }
  return std::nullopt;
}

exchanging::facts exchanging::granted(backend::connection& session, holding::grant_facts asked,
                                      fencing_token token, doubtful_takes& takes) {
  asked.term = takes.sent()->what.front().term;
  asked.sent_at = takes.sent()->sent_at;
  asked.token = token;
  asked.acquired_at = std::chrono::system_clock::now();
  asked.server = static_cast<std::uint32_t>(engine_.database.server_of(session));
  takes.settle();
  return asked;
}

// The exchange might still be applied, and the new permit might count less. So the previous one is lost. Its
// release comes before that of the new one (doubtful_takes): without it the exchange is not granted.
void exchanging::lose() noexcept {
  auto const& f = former_->facts();
  engine_.expiries.report_lost(former_, loss_reason::database_unreachable);
  auto const until = std::max<boot_time_point>(boot_clock::now(), former_->trusted_until()) + f.ttl;
  engine_.renewals.give_back_later(f.name, f.term, f.strategy, 0ms, until);
}

void exchanging::end() noexcept {
  engine_.renewals.forget(*former_);
  engine_.expiries.forget(*former_);
  if (former_->begin_release())
    former_->end_release({}, boot_time_point::min());  // a permit has no wait queue
}

}  // namespace rowlock::managing
