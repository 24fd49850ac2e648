#include "strategy/catalogue.hpp"

#include <algorithm>

#include "base/never_destroyed.hpp"
#include "strategy/lease.hpp"
#include "strategy/once.hpp"
#include "strategy/permits.hpp"
#include "strategy/quorum_member.hpp"
#include "strategy/row_lock.hpp"
#include "strategy/unique_insert.hpp"

namespace rowlock::strategies {
namespace {

template <class Strategy>
std::unique_ptr<locking_strategy> make(backend::statement_book const& book) {
  return std::make_unique<Strategy>(book);
}

template <rowlock::strategy which>
std::unique_ptr<locking_strategy> make_permits(backend::statement_book const& book) {
  return std::make_unique<permits>(book, which);
}

constexpr strategy_traits of_a_row{.has_expiry = true,
                                   .revocable = true,
                                   .owns_session = false,
                                   .waits_in_server = false,
                                   .fenced_by_default = true};
constexpr strategy_traits of_once{.has_expiry = true,
                                  .revocable = true,
                                  .owns_session = false,
                                  .waits_in_server = false,
                                  .fenced_by_default = true,
                                  .records_done = true};
constexpr strategy_traits of_a_permit{.has_expiry = true,
                                      .revocable = true,
                                      .owns_session = false,
                                      .waits_in_server = false,
                                      .fenced_by_default = true,
                                      .counted = true};
constexpr strategy_traits of_a_vote{.has_expiry = true,
                                    .revocable = true,
                                    .owns_session = false,
                                    .waits_in_server = false,
                                    .fenced_by_default = true,
                                    .by_majority = true};
constexpr strategy_traits of_a_session{.has_expiry = false,
                                       .revocable = false,
                                       .owns_session = true,
                                       .waits_in_server = true,
                                       .fenced_by_default = false};

std::vector<registration>& list() {
  static auto& all = base::never_destroyed<std::vector<registration>>(std::vector<registration>{
      {rowlock::strategy::lease, "lease", of_a_row, make<lease>},
      {rowlock::strategy::unique_insert, "unique_insert", of_a_row, make<unique_insert>},
      {rowlock::strategy::row_lock, "row_lock", of_a_session, make<row_lock>,
       [](backend::dialect const& d) { return d.no_row_locks; }},
      {rowlock::strategy::once, "once", of_once, make<once>},
      {rowlock::strategy::shared, "shared", of_a_permit, make_permits<rowlock::strategy::shared>},
      {rowlock::strategy::semaphore, "semaphore", of_a_permit, make_permits<rowlock::strategy::semaphore>},
      {rowlock::strategy::quorum, "quorum", of_a_vote, make<quorum_member>}});
  return all;
}

}  // namespace

std::span<registration const> registered() noexcept { return list(); }
void add(registration r) { list().push_back(r); }

registration const& registration_of(rowlock::strategy s) noexcept {
  auto const& all = list();
  auto const found = std::find_if(all.begin(), all.end(), [s](auto const& r) { return r.which == s; });
  return found == all.end() ? all.front() : *found;
}

catalogue::catalogue(backend::statement_book const& book) {
  for (auto const& r : registered())
    if (r.why_not_on(book.sql()).empty()) made_.emplace(r.which, r.make(book));
}

}  // namespace rowlock::strategies

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

strategy_traits const& traits(strategy s) noexcept { return strategies::registration_of(s).traits; }

char const* to_string(strategy s) noexcept {
  for (auto const& r : strategies::registered())
    if (r.which == s) return r.name;
  return "?";
}

std::optional<strategy> strategy_from_string(std::string_view text) noexcept {
  for (auto const& r : strategies::registered())
    if (text == r.name) return r.which;
  return std::nullopt;
}

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
