#pragma once
// All strategies. A new one is a file, its statements in lib/sql, and a line in catalogue.cpp.

#include <map>
#include <memory>
#include <span>
#include <string_view>

#include "strategy/locking_strategy.hpp"

namespace rowlock::strategies {

/// A strategy, as far as no database is needed.
struct registration {
  rowlock::strategy which{};
  char const* name = "";
  strategy_traits traits{};
  std::unique_ptr<locking_strategy> (*make)(backend::statement_book const&) = nullptr;
  /// Why it can't be used on a database; empty if it can.
  std::string_view (*why_not_on)(backend::dialect const&) = [](backend::dialect const&) {
    return std::string_view{};
  };
};

std::span<registration const> registered() noexcept;
/// For tests: adds one for good. Precondition: one thread, and no manager yet.
void add(registration);

/// Precondition: it is registered.
registration const& registration_of(rowlock::strategy) noexcept;

/// The strategies of one set of tables. The book must outlive it.
class catalogue {
 public:
  explicit catalogue(backend::statement_book const&);
  locking_strategy const& of(rowlock::strategy s) const { return *made_.at(s); }
  auto begin() const noexcept { return made_.begin(); }
  auto end() const noexcept { return made_.end(); }

 private:
  std::map<rowlock::strategy, std::unique_ptr<locking_strategy>> made_;  ///< those that the database can have
};

}  // namespace rowlock::strategies
