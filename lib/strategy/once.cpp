#include "strategy/once.hpp"

namespace rowlock::strategies {

using backend::value;

bool once::record(backend::connection& c, record_of_done const& r, boot_time_point deadline) const {
  std::vector<value> const parameters{r.which.name, r.which.term.value, r.as.value,
                                      std::int64_t{r.keep_for.count()}, r.result};
  if (c.execute(book_.at("once_record"), parameters, deadline).affected > 0) return true;
  return rows_.keep_record(c, {r.which.name, r.as}, deadline);
}

}  // namespace rowlock::strategies
