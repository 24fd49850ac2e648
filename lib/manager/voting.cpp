#include "manager/voting.hpp"

#include <fmt/format.h>

#include <rowlock/error.hpp>

#include "holding/loss_reason_of.hpp"
#include "holding/outcome.hpp"
#include "manager/releasing.hpp"
#include "sessions/retry_deadlocks.hpp"

namespace rowlock::managing::voting {

using strategies::quorum_member;

bool confirm(engine& in, std::shared_ptr<holding::hold> const& h, fencing_token token,
             std::string const& epoch_id, std::chrono::milliseconds lasts) {
  base::calls::scope const here(in.under_way);
  auto const& f = h->facts();
  if (!h->share_term() || !h->valid()) return false;
  if (in.database.gone(f.server)) {
    in.expiries.report_lost(h, loss_reason::row_gone);
    return false;
  }
  auto const deadline = in.reply_deadline();
  auto loan = in.pool.borrow(deadline);
  auto const& book = in.database.statements();
  auto sent_at = boot_clock::now();
  bool const confirmed = sessions::retry_deadlocks(in.events, f.name, deadline, [&] {
    sent_at = boot_clock::now();
    return quorum_member::confirm(*loan, book, {f.name, f.term}, token, epoch_id, lasts, deadline);
  });
  if (confirmed) {
    if (h->prolong(sent_at, lasts)) return true;
    if (in.expiries.report_lost(h, h->why_expired())) releasing::give_back_lost(in, *h);
    return false;
  }
  auto const its = quorum_member::read(*loan, book, false, deadline).record;
  if (!its.votes || its.epoch_id != epoch_id)
    throw error(errc::not_voting,
                fmt::format("'{}': {} does not vote in the epoch in which it is held any more", f.name,
                            in.database.describe()));
  auto const seen = holding::outcome_of(in.tables, *loan, *h, deadline);
  if (seen.lost) {
    in.expiries.report_lost(h, *seen.lost);
    return false;
  }
  throw error(errc::conflict,
              fmt::format("'{}' could not be renewed just now; it is held as before", f.name));
}

bool is_revoked(engine& in, holding::hold const& h) {
  base::calls::scope const here(in.under_way);
  auto const deadline = in.reply_deadline();
  auto loan = in.pool.borrow(deadline);
  return holding::loss_reason_of(in.tables, *loan, h.facts(), deadline) == loss_reason::revoked;
}

strategies::member_state read(engine& in, bool with_highest) {
  base::calls::scope const here(in.under_way);
  auto const deadline = in.reply_deadline();
  auto loan = in.pool.borrow(deadline);
  return quorum_member::read(*loan, in.database.statements(), with_highest, deadline);
}

bool write(engine& in, std::string const& former, strategies::member_record const& r) {
  base::calls::scope const here(in.under_way);
  auto const deadline = in.reply_deadline();
  auto loan = in.pool.borrow(deadline);
  return quorum_member::write(*loan, in.database.statements(), former, r, deadline);
}

std::string server(engine& in) {
  auto const which = in.database.server();
  return which.substr(0, which.rfind(':'));  // the database's own number or name comes last
}

void raise_tokens(engine& in, fencing_token highest) {
  base::calls::scope const here(in.under_way);
  auto const deadline = in.reply_deadline();
  auto loan = in.pool.borrow(deadline);
  quorum_member::raise_tokens(*loan, in.database.statements(), highest, deadline);
}

}  // namespace rowlock::managing::voting
