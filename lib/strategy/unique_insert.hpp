#pragma once
// Strategy unique_insert: the lock is that the row exists, and the primary key lets one INSERT through. The
// row goes with the term. So the token is drawn from rowlock_tokens, after the INSERT and in its transaction.

#include "strategy/row_strategy.hpp"
#include "strategy/tokens.hpp"

namespace rowlock::strategies {

class unique_insert final : public row_strategy {
 public:
  explicit unique_insert(backend::statement_book const& book) : row_strategy(book), tokens_(book) {}

  /// A transaction: an INSERT, which does not fail on a duplicate, and the token, in one round trip where
  /// possible. If the row is there, a SELECT tells busy from takeable. A takeable row is deleted first by
  /// another transaction.
  outcome take(backend::connection&, take_request const&, std::optional<superseded> const&,
               boot_time_point deadline, boot_time_point& sent_at) const override;

  /// Deletes the row if `at_least` is over: a row without an owner would refuse programs that lock by INSERT.
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
