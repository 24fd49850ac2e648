#include "manager/recording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <rowlock/error.hpp>

#include "base/event.hpp"
#include "base/text.hpp"
#include "holding/outcome.hpp"
#include "manager/wait_policy.hpp"

namespace rowlock::managing::recording {

using namespace std::chrono_literals;

template <class Ask>
static bool ride_out(engine&, holding::hold const&, Ask const&);
static void finish(engine&, holding::hold&) noexcept;

namespace {

constexpr std::chrono::milliseconds longest_kept = std::chrono::hours(24 * 365) * 100;
constexpr std::chrono::nanoseconds first_pause = 10ms;
constexpr std::chrono::nanoseconds last_pause = 250ms;

}  // namespace

void require_keepable(std::string const& name, std::chrono::milliseconds keep_for,
                      std::string const& result) {
  if (keep_for < 1ms || keep_for > longest_kept)
    throw error(errc::invalid_argument,
                fmt::format("'{}': a record that it is done can't be kept for {} ms: 1 ms to 100 years", name,
                            keep_for.count()));
  base::require_text("the result", result, base::longest_note);
}

void require_recordable(holding::grant_facts const& f, std::chrono::milliseconds keep_for,
                        std::string const& result) {
  if (!holding::traits_of(f).records_done)
    throw error(errc::unsupported,
                fmt::format("'{}' is held with {}, which keeps no record of what is done: use once", f.name,
                            to_string(f.strategy)));
  require_keepable(f.name, keep_for, result);
}

bool record(engine& in, std::shared_ptr<holding::hold> const& h, std::chrono::milliseconds keep_for,
            std::string const& result) {
  auto const& f = h->facts();
  require_recordable(f, keep_for, result);
  if (h->recorded()) return true;
  if (h->held() && !h->valid()) in.expiries.report_lost(h, h->why_expired());
  if (!h->valid() || !h->share_term()) return false;
  strategies::record_of_done const what{{f.name, f.term}, h->term_of_record(), keep_for, result};
  auto const& strategy = in.strategies.of(f.strategy);
  bool const done = ride_out(in, *h, [&](backend::connection& session, boot_time_point deadline) {
    if (strategy.record(session, what, deadline)) return true;
    auto const seen = holding::outcome_of(in.tables, session, *h, deadline);
    if (seen.lost) in.expiries.report_lost(h, *seen.lost);
    return seen.done && holding::keep_record(in.tables, session, *h, deadline);
  });
  if (done) finish(in, *h);
  return done;
}

bool was_recorded(engine& in, std::shared_ptr<holding::hold> const& h) {
  if (h->recorded()) return true;
  bool const done = ride_out(in, *h, [&](backend::connection& session, boot_time_point deadline) {
    // Reads first: before the transaction ends, its row is locked and nothing is recorded.
    return holding::is_recorded(in.tables, session, *h, deadline) &&
           holding::keep_record(in.tables, session, *h, deadline);
  });
  if (done) finish(in, *h);
  return done;
}

// Repeats the statement after a deadlock, a locked row, a refused write or a lost reply. Each time it names
// the same two terms. So it can be applied several times, or late, without harm.
template <class Ask>
bool ride_out(engine& in, holding::hold const& h, Ask const& ask) {
  auto const until = std::max(in.reply_deadline(), h.trusted_until());
  base::event const never;
  bool in_doubt = false;
  for (auto pause = first_pause;; pause = std::min(2 * pause, last_pause)) {
    try {
      auto const deadline = std::min(until, in.reply_deadline());
      auto loan = in.pool.borrow(deadline);
      return ask(*loan, deadline);
    } catch (error const& e) {
      in_doubt = in_doubt || e.reason() == errc::in_doubt;
      if (!(e.retryable() || may_end(e)) || boot_clock::now() + pause >= until) {
        if (!in_doubt || e.reason() == errc::in_doubt) throw;
        throw error(errc::in_doubt, base::plain_message(e), e.statement(), e.sqlstate(), e.native_code());
      }
      in.events.report({.kind = event_kind::error, .name = h.facts().name, .message = e.what()});
    }
    base::wait_for(never, boot_clock::now() + pause);
  }
}

void finish(engine& in, holding::hold& h) noexcept {
  auto const since = boot_clock::now();
  h.mark_recorded();
  in.renewals.forget(h);
  in.expiries.forget(h);
  if (!h.begin_release()) return;
  h.end_release({}, since + in.options.release_timeout);
  auto const& f = h.facts();
  in.events.report({.kind = event_kind::released,
                    .name = f.name,
                    .term = f.term.value,
                    .token = f.token,
                    .duration = boot_clock::now() - since});
}

}  // namespace rowlock::managing::recording
