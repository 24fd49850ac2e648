#include "strategy/row_strategy.hpp"

#include <fmt/format.h>

#include <rowlock/error.hpp>

namespace rowlock::strategies {

using backend::value;

std::vector<value> granting_parameters(take_request const& r, rowlock::strategy how) {
  value const hard_limit =
      r.hard_limit.count() == 0 ? value(nullptr) : value(std::int64_t{r.hard_limit.count()});
  return {r.name,
          to_string(how),
          r.term.value,
          r.owner.host,
          r.owner.pid,
          r.owner.process,
          r.owner.thread,
          std::int64_t{r.ttl.count()},
          to_string(r.takeover),
          hard_limit,
          r.note};
}

void require_strategy(term_row const& row, rowlock::strategy how) {
  if (row.holder.strategy == how) return;
  throw error(errc::strategy_mismatch,
              fmt::format("'{}' is in use with strategy {}, not {}: use that one, or another name", row.name,
                          to_string(row.holder.strategy), to_string(how)));
}

}  // namespace rowlock::strategies
