#include "holding/outcome.hpp"

#include "holding/loss_reason_of.hpp"

namespace rowlock::holding {

bool is_recorded(strategies::term_tables const& tables, backend::connection& session, hold& h,
                 boot_time_point deadline) {
  if (!h.may_be_recorded()) return false;
  auto const row = tables.locks.read(session, h.facts().name, deadline);
  return row && row->term == h.term_of_record();
}

bool keep_record(strategies::term_tables const& tables, backend::connection& session, hold& h,
                 boot_time_point deadline) {
  return h.may_be_recorded() &&
         tables.locks.keep_record(session, {h.facts().name, h.term_of_record()}, deadline);
}

// In this order, so that a record made between the two questions is found.
outcome outcome_of(strategies::term_tables const& tables, backend::connection& session, hold& h,
                   boot_time_point deadline) {
  auto const why = loss_reason_of(tables, session, h.facts(), deadline);
  if (why && is_recorded(tables, session, h, deadline)) return {.done = true};
  return {why};
}

}  // namespace rowlock::holding
