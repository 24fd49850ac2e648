#pragma once
// The strategies whose lock is a term in a row of rowlock_locks. They differ in how the term gets into the
// row, and leaves it.

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

  /// Ends the term $2 of the name $1. See what_became() for its reply.
  virtual char const* release_statement() const noexcept = 0;

  backend::statement_book const& book_;
  term_rows const rows_;
};

/// For an attempt that met `row`. A takeable row means that it, or the whole file, was locked, or that rows
/// changed too quickly.
refused refused_by(std::optional<term_row> row, std::optional<superseded> const& old);

/// The reply to a release. Whether other sessions wait: its first column, or else its number is 2.
given_back what_became(backend::result const&);

/// The highest of `tokens` tokens, from the reply to a granting statement.
/// @throws error(errc::in_doubt) if it is impossible: then the caller must look at the row
std::int64_t token_in(backend::result const&, int tokens = 1);
std::int64_t checked_token(std::int64_t highest, int tokens = 1);

/// The parameters $1 to $11 of granting statements.
std::vector<backend::value> granting_parameters(take_request const&, rowlock::strategy);

/// @throws error(errc::strategy_mismatch) if another strategy made the row
void require_strategy(term_row const&, rowlock::strategy);

}  // namespace rowlock::strategies
