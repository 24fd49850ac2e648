#pragma once
// The strategies whose lock is a row of rowlock_locks with a term in it: what differs between them is how a
// term gets into the row and how it leaves it. What they share is in term_rows.

#include "strategy/locking_strategy.hpp"

namespace rowlock::strategies {

class row_strategy : public locking_strategy {
 public:
  given_back give_back(backend::connection&, name_and_term const&, std::chrono::milliseconds at_least,
                       boot_time_point deadline) const override;
  given_back give_back_at_queue(backend::connection&, name_and_term const&,
                                boot_time_point deadline) const final;

  std::optional<term_row> find_doubtful(backend::connection&, std::string const& name,
                                        std::span<term_id const> terms, boot_time_point deadline) const final;

 protected:
  explicit row_strategy(backend::statement_book const& book) : book_(book), rows_(book) {}

  /// A statement that ends the term $2 of the name $1. Its first column, or else the number of its reply
  /// being 2, tells whether others wait at the wait queue.
  virtual char const* release_statement() const noexcept = 0;

  backend::statement_book const& book_;
  term_rows const rows_;
};

/// For an attempt of such a strategy that met `row` and was not to replace one certain term. If the row is
/// takeable, somebody has it, or the whole file, locked; or rows came and went too quickly.
refused refused_by(std::optional<term_row> row, std::optional<superseded> const& old);

/// Of a statement that gives back: its first column, or else the number of its reply being 2, tells whether
/// others wait at the wait queue.
given_back what_became(backend::result const&);

/// Of the reply to a statement that has granted a term: the highest of `tokens` tokens that were drawn.
/// @throws error(errc::in_doubt) if it is none that can be: whether the term was granted is to be looked at
std::int64_t token_in(backend::result const&, int tokens = 1);
std::int64_t checked_token(std::int64_t highest, int tokens = 1);

/// The parameters that the granting statements have in common, in their order: $1 to $11.
std::vector<backend::value> granting_parameters(take_request const&, rowlock::strategy);

/// @throws error(errc::strategy_mismatch) if the row was made by another strategy
void require_strategy(term_row const&, rowlock::strategy);

}  // namespace rowlock::strategies
