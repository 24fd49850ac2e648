#pragma once
// All strategies, by name. A new one is a file of its own, its statements in lib/sql, and a line in
// catalogue.cpp.

#include <map>
#include <memory>
#include <span>
#include <string_view>

#include "strategy/locking_strategy.hpp"

namespace rowlock::strategies {

/// What is known about a strategy without a database.
struct registration {
  rowlock::strategy which{};
  char const* name = "";
  strategy_traits traits{};
  std::unique_ptr<locking_strategy> (*make)(backend::statement_book const&) = nullptr;
  /// Why the strategy can't be used on that database; empty if it can.
  std::string_view (*why_not_on)(backend::dialect const&) = [](backend::dialect const&) {
    return std::string_view{};
  };
};

/// Those of the library, and what was added.
std::span<registration const> registered() noexcept;
/// For tests: adds one more, which stays. To be called before any manager is made, by one thread.
void add(registration);

/// Precondition: it is registered.
registration const& registration_of(rowlock::strategy) noexcept;

/// The strategies of one set of tables. The book must be there as long as it is used.
class catalogue {
 public:
  explicit catalogue(backend::statement_book const&);
  locking_strategy const& of(rowlock::strategy s) const { return *made_.at(s); }
  auto begin() const noexcept { return made_.begin(); }
  auto end() const noexcept { return made_.end(); }

 private:
  std::map<rowlock::strategy, std::unique_ptr<locking_strategy>>
      made_;  ///< those that can be used on that database
};

}  // namespace rowlock::strategies
