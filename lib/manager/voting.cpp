#include "manager/voting.hpp"

#include <fmt/format.h>

#include <rowlock/error.hpp>

#include "holding/fate.hpp"
#include "holding/why_lost.hpp"
#include "manager/releasing.hpp"
#include "sessions/retry_deadlocks.hpp"

namespace rowlock::managing {

using strategies::quorum_member;

bool voting::confirm(std::shared_ptr<holding::hold> const& h, fencing_token token,
                     std::string const& epoch_id, std::chrono::milliseconds lasts) {
  base::calls::scope const here(engine_.under_way);
  auto const& f = h->facts();
  if (!h->share_term() || !h->valid()) return false;
  if (engine_.database.gone(f.server)) {
    engine_.expiries.report_lost(h, loss_reason::row_gone);
    return false;
  }
  auto const deadline = engine_.reply_deadline();
  auto loan = engine_.pool.borrow(deadline);
  auto const& book = engine_.database.statements();
  auto sent_at = boot_clock::now();
  bool const confirmed = sessions::retry_deadlocks(engine_.events, f.name, deadline, [&] {
    sent_at = boot_clock::now();
    return quorum_member::confirm(*loan, book, {f.name, f.term}, token, epoch_id, lasts, deadline);
  });
  if (confirmed) {
    if (h->prolong(sent_at, lasts)) return true;
    if (engine_.expiries.report_lost(h, h->why_expired())) releasing(engine_).give_back_lost(*h);
    return false;
  }
  auto const its = quorum_member::read(*loan, book, false, deadline).record;
  if (!its.votes || its.epoch_id != epoch_id)
    throw error(errc::not_voting,
                fmt::format("'{}': {} does not vote in the epoch in which it is held any more", f.name,
                            engine_.database.describe()));
  auto const fate = holding::fate_of(engine_.tables, *loan, *h, deadline);
  if (fate.lost) {
    engine_.expiries.report_lost(h, *fate.lost);
    return false;
  }
  throw error(errc::conflict,
              fmt::format("'{}' could not be renewed just now; it is held as before", f.name));
}

bool voting::is_revoked(holding::hold const& h) {
  base::calls::scope const here(engine_.under_way);
  auto const deadline = engine_.reply_deadline();
  auto loan = engine_.pool.borrow(deadline);
  return holding::why_lost(engine_.tables, *loan, h.facts(), deadline) == loss_reason::revoked;
}

strategies::member_state voting::read(bool with_highest) {
  base::calls::scope const here(engine_.under_way);
  auto const deadline = engine_.reply_deadline();
  auto loan = engine_.pool.borrow(deadline);
  return quorum_member::read(*loan, engine_.database.statements(), with_highest, deadline);
}

bool voting::write(std::string const& former, strategies::member_record const& r) {
  base::calls::scope const here(engine_.under_way);
  auto const deadline = engine_.reply_deadline();
  auto loan = engine_.pool.borrow(deadline);
  return quorum_member::write(*loan, engine_.database.statements(), former, r, deadline);
}

std::string voting::server() const {
  auto const which = engine_.database.server();
  return which.substr(0, which.rfind(':'));  // the database's own number or name comes last
}

void voting::raise_tokens(fencing_token highest) {
  base::calls::scope const here(engine_.under_way);
  auto const deadline = engine_.reply_deadline();
  auto loan = engine_.pool.borrow(deadline);
  quorum_member::raise_tokens(*loan, engine_.database.statements(), highest, deadline);
}

}  // namespace rowlock::managing
