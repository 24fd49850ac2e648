#include "holding/why_lost.hpp"

namespace rowlock::holding {

std::optional<loss_reason> why_lost(strategies::term_rows const& rows, backend::connection& session,
                                    grant_facts const& facts, boot_time_point deadline) {
  auto const row = rows.read(session, facts.name, deadline);
  if (!row) return loss_reason::row_gone;
  if (row->term != facts.term)
    return row->term.empty() && row->holder.revoked ? loss_reason::revoked : loss_reason::taken_over;
  if (row->holder.revoked) return loss_reason::revoked;
  if (row->hard_limit_reached) return loss_reason::expired;
  return std::nullopt;
}

}  // namespace rowlock::holding
