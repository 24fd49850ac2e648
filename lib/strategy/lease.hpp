#pragma once
// Strategy lease: a row that outlives its terms. A take is one UPDATE that claims a takeable row, or several.

#include <span>

#include "strategy/row_strategy.hpp"

namespace rowlock::strategies {

class lease : public row_strategy {
 public:
  explicit lease(backend::statement_book const& book) : lease(book, rowlock::strategy::lease) {}

  /// If the UPDATE met no row, a SELECT tells absent from busy. An absent row is inserted, and the UPDATE
  /// repeated.
  outcome take(backend::connection&, take_request const&, std::optional<superseded> const&,
               boot_time_point deadline, boot_time_point& sent_at) const override;

  std::size_t most_at_once() const noexcept override { return 64; }

  /// One statement, or a transaction where an UPDATE can't skip locked rows. If it met not all rows, a SELECT
  /// tells absent from busy. If none is busy, absent rows are inserted, sorted by name, and it is repeated.
  outcome_for_all take_all(backend::connection&, take_request const& how, std::span<wanted_lock const> wanted,
                           boot_time_point deadline, boot_time_point& sent_at) const override;
  std::vector<std::optional<granted>> take_each(backend::connection&, take_request const& how,
                                                std::span<wanted_lock const> wanted, boot_time_point deadline,
                                                boot_time_point& sent_at) const override;
  std::vector<given_back> give_back_all(backend::connection&, std::span<name_and_term const>,
                                        boot_time_point deadline) const override;

  int most_tokens() const noexcept override { return 64; }

 protected:
  /// For a strategy that is a lease in its takes, renewals and releases.
  lease(backend::statement_book const& book, rowlock::strategy kind) : row_strategy(book), kind_(kind) {}

  struct claiming {
    char const* statement;
    std::vector<backend::value> parameters;
  };
  /// `any_row`: also one that has had no token yet.
  virtual claiming claim_of(take_request const&, std::optional<superseded> const&, bool any_row) const;

 private:
  struct several;
  char const* release_statement() const noexcept override { return "lock_release"; }
  std::optional<outcome> claim(backend::connection&, take_request const&, std::optional<superseded> const&,
                               bool any_row, boot_time_point deadline, boot_time_point& sent_at) const;
  /// In the order of the wanted locks.
  using highest_tokens = std::vector<std::optional<fencing_token>>;
  highest_tokens claim_several(backend::connection&, several const&, bool all_or_none,
                               boot_time_point deadline, boot_time_point& sent_at) const;
  static highest_tokens tokens_in(backend::row_list const&, several const&);
  highest_tokens read_back(backend::connection&, several const&, boot_time_point deadline) const;
  static std::vector<given_back> told_by(backend::result const&, std::vector<given_back>);
  /// @return false if a transaction was in the way
  bool put_free_rows(backend::connection&, several const&, std::span<std::optional<term_row> const>,
                     boot_time_point deadline) const;
  outcome read_back(backend::connection&, take_request const&, boot_time_point deadline) const;

  rowlock::strategy const kind_;
};

}  // namespace rowlock::strategies
