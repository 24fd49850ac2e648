#pragma once

#include "strategy/lease.hpp"
#include "strategy/unique_insert.hpp"

namespace rowlock::strategies {

/// All strategies of this kind, by name.
class row_strategies {
 public:
  explicit row_strategies(backend::statement_book const& book)
      : rows_(book), lease_(book), unique_insert_(book) {}

  row_strategy const& of(rowlock::strategy how) const noexcept {
    if (how == rowlock::strategy::unique_insert) return unique_insert_;
    return lease_;
  }

  /// release(), or with `at_least` release_at_least(). @return false if the term is not there any more
  bool give_back(backend::connection& c, rowlock::strategy how, name_and_term const& which,
                 std::chrono::milliseconds at_least, boot_time_point deadline) const {
    return at_least.count() > 0 ? rows_.release_at_least(c, which, at_least, deadline)
                                : of(how).release(c, which, deadline);
  }

 private:
  term_rows rows_;
  lease lease_;
  unique_insert unique_insert_;
};

}  // namespace rowlock::strategies
