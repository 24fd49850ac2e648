#pragma once
// Strategy quorum: one of the databases that grant a lock by majority. See lib/doc/quorum.md.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "strategy/lease.hpp"
#include "strategy/quorum_record.hpp"

namespace rowlock::strategies {

/// A lease that is granted only while the database votes. Always observed, and fenced.
class quorum_member final : public lease {
 public:
  explicit quorum_member(backend::statement_book const& book) : lease(book, rowlock::strategy::quorum) {}

  /// @throws error(errc::not_voting), and as lease::take()
  outcome take(backend::connection&, take_request const&, std::optional<superseded> const&,
               boot_time_point deadline, boot_time_point& sent_at) const override;

  // Names taken together, and blocks of tokens, are for a single database.
  std::size_t most_at_once() const noexcept override { return 1; }
  int most_tokens() const noexcept override { return 1; }

  /// Renews a term, and raises its row's token to at least `token`. @return false, with no change, if the
  /// term is gone or revoked, or the member does not vote in that epoch
  static bool confirm(backend::connection&, backend::statement_book const&, name_and_term const&,
                      fencing_token token, std::string const& epoch_id, std::chrono::milliseconds lasts,
                      boot_time_point deadline);

  static member_state read(backend::connection&, backend::statement_book const&, bool with_highest,
                           boot_time_point deadline);
  /// @return false if its epoch is not `former` (empty: none)
  static bool write(backend::connection&, backend::statement_book const&, std::string const& former,
                    member_record const&, boot_time_point deadline);
  /// Each later token of any name is higher.
  static void raise_tokens(backend::connection&, backend::statement_book const&, fencing_token,
                           boot_time_point deadline);

 private:
  claiming claim_of(take_request const&, std::optional<superseded> const&, bool any_row) const override;
};

}  // namespace rowlock::strategies
