// Findings that only a taken lock shows: a trigger that raises, a constraint, a foreign column.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/random_id.hpp"
#include "diagnose/checks.hpp"
#include "diagnose/rehearsal.hpp"
#include "strategy/catalogue.hpp"
#include "strategy/quarantine.hpp"

namespace rowlock::diagnose {
namespace {

using strategies::locking_strategy;

strategies::take_request request(examination const& x, strategy_traits const& traits) {
  strategies::take_request r;
  r.name = "rowlock doctor " + base::random_id();
  r.term = term_id{base::random_id()};
  r.owner = {"rowlock doctor", 0, base::random_id(), 0};
  r.ttl = x.options().ttl;
  r.fencing = traits.fenced_by_default;
  r.note = "rowlock doctor";
  r.permit.limit = 1;
  return r;
}

/// Takes, renews and releases. @return a problem without an error; empty if there is none
std::string rehearse(examination& x, rehearsal& c, strategy which, locking_strategy const& how) {
  auto const& known = traits(which);
  auto r = request(x, known);
  strategies::server_wait const wait{
      .only_look = true, .stop = {}, .reply_timeout = x.options().reply_timeout, .another_session = {}};
  if (known.owns_session) r.wait = &wait;
  boot_time_point sent_at;
  if (!std::holds_alternative<strategies::granted>(how.take(c, r, {}, x.deadline(), sent_at)))
    return "is refused, although it has no holder";
  strategies::name_and_term const mine{r.name, r.term};
  if (known.owns_session) {
    how.ping(c, x.deadline());
  } else {
    strategies::term_rows const rows(x.statements(), known.counted ? strategies::term_rows::table::permits
                                                                   : strategies::term_rows::table::locks);
    auto const renewed = rows.renew(c, std::span(&mine, 1), x.deadline());
    if (std::find(renewed.begin(), renewed.end(), r.term) == renewed.end())
      return "is taken, but its renewal changes no row";
  }
  if (!how.give_back(c, mine, {}, x.deadline()).was_there)
    return "is taken, but giving it back changes no row";
  return "";
}

opinion in_quarantine(strategies::quarantine const& now) {
  return {verdict::warning, "not tried: " + strategies::reason_of(now),
          now.frozen ? "`rowlock thaw` ends it."
                     : "Wait. The time begins with the first process that asks for a lock."};
}

/// Errors that say nothing about the tables: the check has no result.
bool decides_nothing(errc reason) {
  switch (reason) {
    case errc::unreachable:
    case errc::in_doubt:
    case errc::row_locked:
    case errc::conflict:
    case errc::read_only:
    case errc::schema_missing:
    case errc::schema_old:
    case errc::too_many_connections:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::optional<opinion> takes(examination& x) {
  if (x.has_strangers())  // a foreign trigger would run with this role's rights [C12]
    return opinion{verdict::unknown,
                   "not tried: what another role has put there would run with this role's rights",
                   "See `creators`."};
  std::vector<std::string> good;
  for (auto const& [which, how] : strategies::catalogue(x.statements())) {
    if (traits(which).by_majority) continue;  // like a lease, and only in an existing quorum
    std::string wrong;
    {
      rehearsal c(x.session(), x.statements(), x.deadline());
      try {
        // In the trial's transaction, because what a take writes before is rolled back, too.
        auto const quarantine =
            strategies::settle_quarantine(c, x.statements(), x.options().ttl, x.deadline());
        if (quarantine.left.count() > 0) return in_quarantine(quarantine);
        if (traits(which).owns_session) c.expect_row_locks();
        wrong = rehearse(x, c, which, *how);
      } catch (error const& e) {
        if (e.reason() == errc::unsupported) continue;
        auto const& first = c.first_refusal() ? *c.first_refusal() : e;
        if (decides_nothing(first.reason())) throw first;
        wrong = "is refused: " + x.words(first);
      }
    }
    if (!wrong.empty())
      return opinion{verdict::error, fmt::format("a lock of strategy {} {}", to_string(which), wrong),
                     "Drop the foreign trigger, constraint or column that is in the way: rowlock migrate "
                     "validate, as the tables' owner, names what is not rowlock's."};
    good.emplace_back(to_string(which));
  }
  return opinion{verdict::ok,
                 fmt::format("taken, renewed and given back, in transactions that were rolled back: {}",
                             fmt::join(good, ", "))};
}

std::optional<opinion> as_migrated(examination& x) {
  (void)x.session();
  try {
    auto const wrong = x.validate();
    if (wrong.empty()) return opinion{verdict::ok, "as `rowlock migrate` makes them"};
    return opinion{verdict::warning, fmt::format("{}", fmt::join(wrong, "; ")), "rowlock migrate validate"};
  } catch (error const& e) {
    if (e.reason() != errc::access_denied) throw;
    // The error names more rights than needed: a role that only locks needs none on rowlock_migrations.
    return opinion{verdict::unknown, "not looked at: this role may not read what was migrated",
                   "Run it as the tables' owner: rowlock migrate validate"};
  }
}

}  // namespace rowlock::diagnose
