#include "strategy/locking_strategy.hpp"

namespace rowlock::strategies {

void locking_strategy::was_used(backend::connection&, std::string const&, boot_time_point) const {}
void locking_strategy::ping(backend::connection&, boot_time_point) const {}
std::vector<locking_strategy::held> locking_strategy::holders(backend::connection&, std::string const&,
                                                              boot_time_point) const {
  return {};
}

}  // namespace rowlock::strategies
