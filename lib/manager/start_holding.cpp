#include "manager/start_holding.hpp"

#include <fmt/format.h>

#include "base/process_end.hpp"

namespace rowlock::managing {

using namespace std::chrono_literals;

namespace {

void give_back_unwatched(engine& e, holding::hold& h, when_unwatched how) {
  auto const& f = h.facts();
  e.renewals.forget(h);
  e.expiries.forget(h);
  h.lose(loss_reason::expired);
  if (how == when_unwatched::give_back_later) return e.renewals.give_back_later(h);
  if (traits(f.strategy).owns_session) {
    (void)e.pings.give_back(h, e.reply_deadline());
    return;
  }
  try {
    auto loan = e.pool.borrow(e.reply_deadline());
    e.strategies.of(f.strategy).give_back(*loan, {f.name, f.term}, 0ms, e.reply_deadline());
  } catch (std::exception const&) {
    e.renewals.give_back_later(h);
  }
}

void report(engine const& e, holding::hold const& h, granted_lock const& w) noexcept {
  auto const& f = h.facts();
  if (w.had_to_wait)
    e.events.report({.kind = event_kind::waited, .name = f.name, .term = f.term.value, .duration = w.waited});
  e.events.report({.kind = event_kind::taken,
                   .name = f.name,
                   .term = f.term.value,
                   .token = f.token,
                   .duration = w.waited,
                   .trusted_until = h.trusted_until(),
                   .label = f.label()});
}

}  // namespace

holding::grant_facts facts_of(lock_spec const& s, owner_id const& owner, fencing_token token,
                              term_id const& term, boot_time_point sent_at, std::size_t server) {
  auto const& o = s.options;
  return {.name = s.name,
          .strategy = s.strategy,
          .takeover = o.takeover,
          .term = term,
          .token = token,
          .owner = owner,
          .ttl = o.ttl,
          .at_least = o.at_least,
          .hard_limit = o.hard_limit,
          .renew = o.renew,
          .fencing = s.fencing,
          .units = s.permit ? static_cast<std::int32_t>(s.permit->units) : 0,
          .in_process = boot_clock::now(),
          .sent_at = sent_at,
          .acquired_at = std::chrono::system_clock::now(),
          .server = static_cast<std::uint32_t>(server),
          .limit = s.permit ? static_cast<std::int32_t>(s.permit->limit.value_or(0)) : 0,
          .more = holding::extras_of(o)};
}

bool is_too_late(holding::hold const& h) noexcept { return !h.held() || boot_clock::now() >= h.told_at(); }

error too_late(std::string const& name) {
  return {errc::unreachable,
          fmt::format("'{}': it was granted, and lost again before this thread could go on", name)};
}

std::shared_ptr<holding::hold> start_holding(engine& e, granted_lock w, when_unwatched how) {
  std::shared_ptr<holding::hold> h;
  try {
    h = holding::hold::make(std::move(w.facts), std::move(w.turn));
  } catch (...) {  // no memory: the facts are as before
    auto const& f = w.facts;
    if (!w.session)
      e.renewals.give_back_later(f.name, f.term, f.strategy, 0ms,
                                 holding::leftover_until(f.takeover, f.ttl, boot_clock::now()));
    throw;
  }
  if (w.queue) h->keep_queue(*std::move(w.queue));
  e.has_granted = true;
  try {
    if (w.session)
      e.pings.keep(h, *std::move(w.session));
    else if (h->facts().renew)
      e.renewals.keep(h);
    if (base::process_ends_elsewhere() || !e.expiries.watch(h)) {
      give_back_unwatched(e, *h, how);
      return nullptr;
    }
  } catch (...) {  // no thread could renew the lock or report its loss
    give_back_unwatched(e, *h, how);
    throw;
  }
  report(e, *h, w);
  return h;
}

}  // namespace rowlock::managing
