#include "manager/named_permits.hpp"

#include "sessions/retry_deadlocks.hpp"
#include "strategy/permits.hpp"

namespace rowlock::managing {

void named_permits::set_limit(lock_spec const& spec, std::int64_t limit) {
  auto const deadline = engine_.reply_deadline();
  auto loan = engine_.pool.borrow(deadline);
  sessions::retry_deadlocks(engine_.events, spec.name, deadline, [&] {
    strategies::permits(engine_.database.statements(), spec.strategy)
        .set_limit(*loan, spec.name, limit, deadline);
  });
}

std::optional<std::int64_t> named_permits::free_units(lock_spec const& spec) {
  auto const deadline = engine_.reply_deadline();
  auto loan = engine_.pool.borrow(deadline);
  return strategies::permits(engine_.database.statements(), spec.strategy)
      .free_units(*loan, spec.name, spec.permit->limit, deadline);
}

}  // namespace rowlock::managing
