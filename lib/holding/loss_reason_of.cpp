#include "holding/loss_reason_of.hpp"

namespace rowlock::holding {

std::optional<loss_reason> loss_reason_of(strategies::term_tables const& tables, backend::connection& session,
                                          grant_facts const& facts, boot_time_point deadline) {
  auto const& rows = tables.of(facts.strategy);
  if (auto const mine = rows.check(session, {facts.name, facts.term}, deadline)) {
    if (mine->revoked) return loss_reason::revoked;
    if (mine->hard_limit_reached) return loss_reason::expired;
    return std::nullopt;
  }
  if (!rows.one_for_each_name()) return loss_reason::row_gone;
  auto const row = rows.read(session, facts.name, deadline);
  if (!row) return loss_reason::row_gone;
  // An operator who ends a term leaves a row without an owner.
  bool const nobodys = row->term.empty() || row->holder.owner.process.empty();
  return nobodys && row->holder.revoked ? loss_reason::revoked : loss_reason::taken_over;
}

}  // namespace rowlock::holding
