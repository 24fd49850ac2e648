#pragma once
// Strategy unique_insert: the lock is that the row exists; the primary key lets one INSERT through. The row
// goes with the term, so the token is drawn from rowlock_tokens, after the INSERT was granted and in the same
// transaction.

#include "strategy/row_strategy.hpp"
#include "strategy/tokens.hpp"

namespace rowlock::strategies {

class unique_insert final : public row_strategy {
 public:
  explicit unique_insert(backend::statement_book const& book) : row_strategy(book), tokens_(book) {}

  /// A transaction with the INSERT, which does not fail on a duplicate, and the token, in one round trip
  /// where the database takes several statements at once; if the row is there, one SELECT that tells busy
  /// from takeable, and for the latter a transaction that first deletes exactly what may be taken.
  outcome take(backend::connection&, take_request const&, std::optional<superseded> const&,
               boot_time_point deadline, boot_time_point& sent_at) const override;

  /// A row goes at once if `at_least` is over: one without a term would keep out who locks by INSERT.
  given_back give_back(backend::connection&, name_and_term const&, std::chrono::milliseconds at_least,
                       boot_time_point deadline) const override;

 private:
  char const* release_statement() const noexcept override { return "unique_release"; }
  std::optional<granted> insert(backend::connection&, take_request const&, bool clear_first,
                                std::optional<superseded> const&, boot_time_point deadline) const;
  std::optional<granted> insert_at_once(backend::connection&, take_request const&,
                                        boot_time_point deadline) const;
  std::optional<granted> insert_by_steps(backend::connection&, take_request const&, bool clear_first,
                                         std::optional<superseded> const&, boot_time_point deadline) const;

  tokens tokens_;
};

}  // namespace rowlock::strategies
