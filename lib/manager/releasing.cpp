#include "manager/releasing.hpp"

#include <algorithm>
#include <map>

#include "base/process_end.hpp"
#include "holding/loss_reason_of.hpp"
#include "holding/outcome.hpp"
#include "sessions/retry_deadlocks.hpp"

namespace rowlock::managing::releasing {

using namespace std::chrono_literals;

using holds = std::vector<std::shared_ptr<holding::hold>>;

/// Steps without the database. @return empty if the row or session still has to be released
static std::optional<release_result> let_go(engine&, std::shared_ptr<holding::hold> const&) noexcept;
static release_result end(engine&, holding::hold&, boot_time_point deadline) noexcept;
/// One statement, where possible. @return which locks are released. The rest needs end()
static std::vector<bool> end_together(engine&, holds const&, boot_time_point deadline);
static bool goes_with_others(engine&, holding::hold const&) noexcept;
static release_result end_session(engine&, holding::hold&, boot_time_point deadline) noexcept;
/// Sets `why` if the term is gone.
static release_result tell_row(engine&, holding::hold&, boot_time_point deadline, loss_reason& why);
/// On the wait queue's session. Empty if there is none, or it released nothing.
static std::optional<strategies::given_back> give_back_at_queue(engine&, holding::hold&,
                                                                boot_time_point deadline);
static loss_reason why_gone(engine&, holding::hold const&,
                            std::optional<sessions::connection_pool::loan> session,
                            boot_time_point deadline) noexcept;
/// The term is gone from its row: lost, or its work is done.
static release_result not_there(engine&, holding::hold&,
                                std::optional<sessions::connection_pool::loan> session,
                                boot_time_point deadline, loss_reason& why);
static strategies::given_back give_back_alone(engine&, holding::hold const&, strategies::name_and_term const&,
                                              backend::connection&, boot_time_point deadline);
static strategies::given_back try_to_give_back(engine&, holding::hold const&,
                                               strategies::name_and_term const&,
                                               std::optional<sessions::connection_pool::loan>& session,
                                               boot_time_point deadline);
static strategies::given_back give_back_with_others(engine&, holding::hold const&,
                                                    strategies::name_and_term const&,
                                                    boot_time_point deadline,
                                                    std::optional<traffic::line<shared_release>::turn>& turn);
static bool is_locked(engine&, holding::hold const&, backend::connection&, boot_time_point deadline);
static bool offer(engine&, std::shared_ptr<holding::hold> const&) noexcept;
static void forget(engine&, holding::hold const&) noexcept;
static void tell_released(engine&, holding::hold const&, boot_time_point since) noexcept;
static void tell_error(engine&, holding::hold const&, std::exception const&) noexcept;

namespace {

constexpr int most_times = 64;

bool row_may_be_ours(holding::hold const& h) noexcept {
  auto const why = h.loss();
  return holding::traits_of(h.facts()).has_expiry && why && *why != loss_reason::taken_over &&
         *why != loss_reason::row_gone;
}

}  // namespace

release_result give_back(engine& in, std::shared_ptr<holding::hold> const& h,
                         boot_time_point deadline) noexcept {
  if (auto const done = let_go(in, h)) return *done;
  return end(in, *h, deadline);
}

void leave_behind(engine& in, std::shared_ptr<holding::hold> const& h) noexcept {
  if (h->held() && !h->valid()) in.expiries.report_lost(h, h->why_expired());
  bool const nobodys = offer(in, h);
  bool const goes_on = nobodys && holding::hold::hand_on(h, &in);
  bool const ours = nobodys || h->begin_release();
  forget(in, *h);
  if (goes_on) return tell_released(in, *h, boot_clock::now());
  if (!ours) return;
  if (holding::traits_of(h->facts()).owns_session)
    in.pings.drop(*h);
  else
    in.renewals.give_back_later(*h);
  h->end_release({}, boot_time_point::min());
}

std::optional<release_result> let_go(engine& in, std::shared_ptr<holding::hold> const& h) noexcept {
  if (h->recorded()) {
    forget(in, *h);
    if (h->begin_release()) h->end_release();
    return release_result::released;
  }
  // After a pause of the process this thread might come before the watchdog.
  if (h->held() && !h->valid()) in.expiries.report_lost(h, h->why_expired());
  bool const nobodys = offer(in, h);
  if (nobodys && holding::hold::hand_on(h, &in)) {
    forget(in, *h);
    tell_released(in, *h, boot_clock::now());
    return release_result::released;
  }
  bool const ours = nobodys || h->begin_release();
  forget(in, *h);  // no effect on a loss that is still to be reported
  if (ours) return std::nullopt;
  give_back_lost(in, *h);
  return release_result::already_lost;
}

release_result end(engine& in, holding::hold& h, boot_time_point deadline) noexcept {
  auto const& f = h.facts();
  auto const start = boot_clock::now();
  if (holding::traits_of(f).owns_session) return end_session(in, h, deadline);
  auto outcome = release_result::in_doubt;
  auto why = loss_reason::taken_over;
  auto const is_gone = [&] { return in.database.gone(f.server); };
  try {
    outcome = is_gone() ? release_result::already_lost : tell_row(in, h, deadline, why);
  } catch (error const& e) {
    if (e.reason() == errc::row_locked || e.reason() == errc::conflict) outcome = release_result::handed_over;
    if (e.reason() == errc::row_locked) in.pool.locked_out();
    tell_error(in, h, e);
  } catch (std::exception const& e) {
    tell_error(in, h, e);
  }
  if (outcome != release_result::released && is_gone()) {
    outcome = release_result::already_lost;
    why = loss_reason::row_gone;
  }
  if (outcome == release_result::handed_over || outcome == release_result::in_doubt)
    in.renewals.give_back_later(h);
  h.end_release(outcome == release_result::already_lost ? std::optional(why) : std::nullopt,
                outcome == release_result::in_doubt ? boot_time_point::min() : deadline);
  if (outcome == release_result::released) tell_released(in, h, start);
  return outcome;
}

release_result give_back_all(engine& in, holds all, boot_time_point deadline) noexcept {
  auto whole = release_result::released;
  auto const heard = [&whole](release_result one) {
    if (whole == release_result::released) whole = one;
  };
  std::erase_if(all, [&](auto const& h) {
    auto const done = let_go(in, h);
    if (done) heard(*done);
    return done.has_value();
  });
  std::vector<bool> ended;
  try {
    ended = end_together(in, all, deadline);
  } catch (error const& e) {
    tell_error(in, *all.front(), e);
    // No time to ask for each lock: the renewer does.
    bool const answered = e.reason() == errc::row_locked || e.reason() == errc::conflict;
    if (e.reason() == errc::row_locked) in.pool.locked_out();
    if (!answered) deadline = boot_clock::now();
  } catch (std::exception const& e) {
    tell_error(in, *all.front(), e);
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i >= ended.size() || !ended[i]) heard(end(in, *all[i], deadline));
  return whole;
}

bool goes_with_others(engine& in, holding::hold const& h) noexcept {
  auto const& f = h.facts();
  return holding::traits_of(f).has_expiry && h.at_least() == 0ms && !h.guarded() &&
         !in.database.gone(f.server);
}

std::vector<bool> end_together(engine& in, holds const& all, boot_time_point deadline) {
  std::vector<bool> ended(all.size());
  std::map<std::string_view, std::size_t> in_order;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (goes_with_others(in, *all[i])) in_order.emplace(all[i]->facts().name, i);
  if (in_order.size() < 2) return ended;
  std::vector<strategies::name_and_term> which;
  which.reserve(in_order.size());
  for (auto const& [name, i] : in_order) which.push_back({all[i]->facts().name, all[i]->facts().term});
  auto const start = boot_clock::now();
  auto const& strategy = in.strategies.of(all.front()->facts().strategy);
  auto const given = [&] {
    auto loan = in.session_to_write(deadline);
    auto done = sessions::retry_deadlocks(in.events, which.front().name, deadline,
                                          [&] { return strategy.give_back_all(*loan, which, deadline); });
    auto const tables = in.database.tables();
    for (std::size_t k = 0; k < done.size(); ++k)
      done[k].others_wait = done[k].others_wait || loan->is_waited_for(tables, which[k].name);
    return done;
  }();
  std::size_t k = 0;
  for (auto const& [name, i] : in_order) {
    auto const& one = given[k++];
    if (!one.was_there) continue;
    ended[i] = true;
    if (!all[i]->has_queue()) in.wait_queues.others_wait(all[i]->facts().name, one.others_wait);
    all[i]->end_release({}, deadline);
    tell_released(in, *all[i], start);
  }
  return ended;
}

void forget(engine& in, holding::hold const& h) noexcept {
  in.renewals.forget(h);
  in.expiries.forget(h);
}

// The conditions: lib/doc/hand_on.md.
bool offer(engine& in, std::shared_ptr<holding::hold> const& h) noexcept {
  auto const& f = h->facts();
  auto const now = boot_clock::now();
  bool const good = f.renew && f.at_least == 0ms && f.hard_limit == 0ms && !f.owner.is_explicit() &&
                    holding::traits_of(f).has_expiry;
  bool const may = good && f.handed_on < most_times && now < f.in_process + in.hand_on_for &&
                   now < holding::confirmed_at(f, h->trusted_until()) + in.confirmed_for &&
                   (!f.fencing || f.tokens_left > 0) &&
                   h->trusted_until() - now > std::chrono::nanoseconds(f.ttl) * 2 / 3;
  if (!may || h->guarded() || !h->has_successor(&in)) return false;
  if (in.closing.stop_requested() || base::process_ends() || in.database.gone(f.server)) return false;
  return h->offer();
}

void tell_released(engine& in, holding::hold const& h, boot_time_point since) noexcept {
  auto const& f = h.facts();
  in.events.report({.kind = event_kind::released,
                    .name = f.name,
                    .term = f.term.value,
                    .token = f.token,
                    .duration = boot_clock::now() - since});
}

void tell_error(engine& in, holding::hold const& h, std::exception const& e) noexcept {
  auto const& f = h.facts();
  in.events.report({.kind = event_kind::error, .name = f.name, .term = f.term.value, .message = e.what()});
}

release_result end_session(engine& in, holding::hold& h, boot_time_point deadline) noexcept {
  auto const start = boot_clock::now();
  if (!in.pings.give_back(h, deadline)) {
    h.end_release(loss_reason::session_ended);
    return release_result::already_lost;
  }
  h.end_release({}, deadline);
  tell_released(in, h, start);
  return release_result::released;
}

release_result tell_row(engine& in, holding::hold& h, boot_time_point deadline, loss_reason& why) {
  auto const& f = h.facts();
  if (auto const given = give_back_at_queue(in, h, deadline)) {
    if (given->was_there) {
      in.wait_queues.others_wait(f.name, given->others_wait);
      return release_result::released;
    }
    return not_there(in, h, std::nullopt, deadline, why);
  }
  strategies::name_and_term const which{f.name, f.term};
  std::optional<traffic::line<shared_release>::turn> turn;
  if (auto const given = give_back_with_others(in, h, which, deadline, turn); given.was_there) {
    if (!h.has_queue()) in.wait_queues.others_wait(f.name, given.others_wait);
    return release_result::released;
  }
  std::optional<sessions::connection_pool::loan> session(in.session_to_write(deadline));
  if (h.guarded() && is_locked(in, h, **session, deadline)) return release_result::handed_over;
  auto const given = h.guarded() && in.database.sql().writes_lock_database
                         ? try_to_give_back(in, h, which, session, deadline)
                         : give_back_alone(in, h, which, **session, deadline);
  if (!h.has_queue())
    in.wait_queues.others_wait(f.name,
                               given.others_wait || (*session)->is_waited_for(in.database.tables(), f.name));
  if (given.was_there) return release_result::released;
  return not_there(in, h, std::move(session), deadline, why);
}

strategies::given_back give_back_alone(engine& in, holding::hold const& h,
                                       strategies::name_and_term const& which, backend::connection& session,
                                       boot_time_point deadline) {
  auto const& f = h.facts();
  return sessions::retry_deadlocks(in.events, f.name, deadline, [&] {
    return in.strategies.of(f.strategy).give_back(session, which, h.at_least(), deadline);
  });
}

// A single short try, because a transaction, perhaps of this thread, can lock the whole file.
strategies::given_back try_to_give_back(engine& in, holding::hold const& h,
                                        strategies::name_and_term const& which,
                                        std::optional<sessions::connection_pool::loan>& session,
                                        boot_time_point deadline) {
  try {
    return give_back_alone(in, h, which, **session,
                           std::min<boot_time_point>(deadline, boot_clock::now() + 100ms));
  } catch (error const& e) {
    if (e.reason() != errc::unreachable) throw;
  }
  // This process had no processor, and the session was given up. Nothing was done.
  session.reset();
  session.emplace(in.pool.borrow(deadline));
  return give_back_alone(in, h, which, **session, deadline);
}

std::optional<strategies::given_back> give_back_at_queue(engine& in, holding::hold& h,
                                                         boot_time_point deadline) {
  auto const& f = h.facts();
  if (!h.has_queue() || !in.database.sql().leaves_queue_at_once || h.at_least() != 0ms || h.guarded())
    return std::nullopt;
  std::optional<strategies::given_back> done;
  (void)h.leave_queue_with([&](backend::connection& session) {
    done = in.strategies.of(f.strategy).give_back_at_queue(session, {f.name, f.term}, deadline);
  });
  return done;
}

loss_reason why_gone(engine& in, holding::hold const& h,
                     std::optional<sessions::connection_pool::loan> session,
                     boot_time_point deadline) noexcept try {
  if (!session) session.emplace(in.pool.borrow(deadline));
  return holding::loss_reason_of(in.tables, **session, h.facts(), deadline).value_or(loss_reason::taken_over);
} catch (std::exception const&) {
  return loss_reason::taken_over;
}

// Asks for the record last, to find one that is written between the two questions. If it can't be read, the
// result is in_doubt.
release_result not_there(engine& in, holding::hold& h, std::optional<sessions::connection_pool::loan> session,
                         boot_time_point deadline, loss_reason& why) {
  why = why_gone(in, h, std::move(session), deadline);
  bool const done =
      h.may_be_recorded() && holding::is_recorded(in.tables, *in.pool.borrow(deadline), h, deadline);
  return done ? release_result::released : release_result::already_lost;
}

/// @param turn  the release's place; it lasts as long as this
strategies::given_back give_back_with_others(engine& in, holding::hold const& h,
                                             strategies::name_and_term const& which, boot_time_point deadline,
                                             std::optional<traffic::line<shared_release>::turn>& turn) {
  auto const& f = h.facts();
  auto const& strategy = in.strategies.of(f.strategy);
  if (!goes_with_others(in, h) || strategy.most_at_once() == 1) return {};
  shared_release mine{&strategy, which, deadline};
  turn.emplace(in.traffic.releases.join(mine, deadline, {}));
  if (!turn->served()) return {};
  if (mine.failed) throw error(*mine.failed);
  return mine.done;
}

// A release from inside one's own guarded transaction would wait for itself. [B26]
bool is_locked(engine& in, holding::hold const& h, backend::connection& session, boot_time_point deadline) {
  strategies::name_and_term const which{h.facts().name, h.facts().term};
  return in.tables.of(h.facts().strategy).is_locked(session, which, deadline);
}

void give_back_lost(engine& in, holding::hold const& h) noexcept {
  auto const& f = h.facts();
  if (holding::traits_of(f).owns_session && h.loss())
    (void)in.pings.give_back(h, boot_clock::now() + in.options.release_timeout);
  else if (row_may_be_ours(h))
    in.renewals.give_back_later(h);
}

void give_back_lost(engine& in, holding::hold const& h, boot_time_point deadline) noexcept {
  if (!row_may_be_ours(h)) return;
  auto const& f = h.facts();
  try {
    auto loan = in.pool.borrow(deadline);
    in.strategies.of(f.strategy).give_back(*loan, {f.name, f.term}, h.at_least(), deadline);
  } catch (std::exception const&) {
    give_back_lost(in, h);
  }
}

}  // namespace rowlock::managing::releasing
