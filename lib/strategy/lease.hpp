#pragma once
// Strategy lease: a row that outlives its terms; a take is one UPDATE that claims a takeable row.

#include "strategy/row_strategy.hpp"

namespace rowlock::strategies {

class lease final : public row_strategy {
 public:
  explicit lease(backend::statement_book const& book) : row_strategy(book) {}

  /// The UPDATE; if it met no row, one SELECT that tells absent from busy; if absent, a free row is put there
  /// and the UPDATE repeated.
  outcome take(backend::connection&, take_request const&, std::optional<superseded> const&,
               boot_time_point deadline, boot_time_point& sent_at) const override;

  int most_tokens() const noexcept override { return 64; }

 private:
  given_back release(backend::connection&, name_and_term const&, boot_time_point deadline) const override;
  std::optional<outcome> claim(backend::connection&, take_request const&, std::optional<superseded> const&,
                               boot_time_point deadline, boot_time_point& sent_at) const;
  outcome read_back(backend::connection&, take_request const&, boot_time_point deadline) const;
};

}  // namespace rowlock::strategies
