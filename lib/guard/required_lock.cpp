#include "guard/required_lock.hpp"

#include <fmt/format.h>

#include <rowlock/error.hpp>

#include "holding/hold.hpp"

namespace rowlock::guard {

void refuse(std::string const& name, char const* why) {
  throw error(errc::lock_lost,
              fmt::format("'{}' is not held any more ({}): roll the transaction back", name, why));
}

void lost(required_lock const& lock, std::optional<loss_reason> why) {
  if (why) lock.manager->parts().expiries.report_lost(lock.hold, *why);
  auto const* const how = lock.hold->recorded() ? was_recorded : "it was given back";
  refuse(lock.hold->facts().name, why ? to_string(*why) : how);
}

void expect_requirable(required_lock const& lock) {
  auto& held = *lock.hold;
  auto const& facts = held.facts();
  if (!holding::traits_of(facts).has_expiry)
    throw error(errc::unsupported,
                fmt::format("'{}' is held with {} on a session of the manager's, which can end at any "
                            "moment: use lease or unique_insert, or transaction::lock()",
                            facts.name, to_string(facts.strategy)));
  // Trust that has ended does not come back.
  if (!lock.live || !held.valid() || !held.share_term())
    lost(lock, held.held() ? held.why_expired() : held.loss());
  if (lock.manager->parts().database.gone(facts.server)) lost(lock, loss_reason::row_gone);
  held.mark_guarded();
}

}  // namespace rowlock::guard
