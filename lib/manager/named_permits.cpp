#include "manager/named_permits.hpp"

#include "sessions/retry_deadlocks.hpp"
#include "strategy/permits.hpp"

namespace rowlock::managing::named_permits {

void set_limit(engine& in, lock_spec const& spec, std::int64_t limit) {
  auto const deadline = in.reply_deadline();
  auto loan = in.pool.borrow(deadline);
  sessions::retry_deadlocks(in.events, spec.name, deadline, [&] {
    strategies::permits(in.database.statements(), spec.strategy).set_limit(*loan, spec.name, limit, deadline);
  });
}

std::optional<std::int64_t> free_units(engine& in, lock_spec const& spec) {
  auto const deadline = in.reply_deadline();
  auto loan = in.pool.borrow(deadline);
  return strategies::permits(in.database.statements(), spec.strategy)
      .free_units(*loan, spec.name, spec.permit->limit, deadline);
}

}  // namespace rowlock::managing::named_permits
