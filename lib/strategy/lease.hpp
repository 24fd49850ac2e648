#pragma once
// Strategy lease: a row that outlives its terms; a take is one UPDATE that claims a takeable row.

#include <variant>

#include "strategy/lock_rows.hpp"

namespace rowlock::strategies {

struct take_request {
  std::string name;
  term_id term;  ///< fresh for every attempt whose outcome the last one does not know
  owner_id owner;
  std::chrono::milliseconds ttl{0};
  std::chrono::milliseconds hard_limit{0};  ///< 0: none
  rowlock::takeover takeover = takeover::clock;
  bool fencing = true;
  std::string note;
};

/// Which term exactly is to be replaced although it has not expired by the clock.
struct superseded {
  term_id term;
  std::optional<std::int64_t> renewals;  ///< if given, only while it stands at that
};

struct granted {
  fencing_token token;
};

/// The row as it stood when the attempt failed; empty if it came and went too quickly to be seen.
struct refused {
  std::optional<lock_row> row;
};

using outcome = std::variant<granted, refused>;

class lease {
 public:
  explicit lease(backend::statement_book const& book) : book_(book), rows_(book) {}

  /// One attempt: the UPDATE; if no row came back, one SELECT that tells absent from busy; if absent, a free
  /// row is put there and the UPDATE repeated. `sent_at` is set before each UPDATE is sent: trust counts from
  /// there.
  /// @throws error(errc::strategy_mismatch) and what connection::execute throws. After errc::in_doubt the
  /// term may have been granted, or may be granted yet.
  outcome take(backend::connection&, take_request const&, std::optional<superseded> const&,
               boot_time_point deadline, boot_time_point& sent_at) const;

  /// @return false if the term is not there any more
  bool release(backend::connection&, name_and_term const&, boot_time_point deadline) const;

  /// As release(), but until `at_least` after it was taken the row keeps a term that nobody knows.
  bool release_at_least(backend::connection&, name_and_term const&, std::chrono::milliseconds at_least,
                        boot_time_point deadline) const;

 private:
  std::optional<granted> update(backend::connection&, take_request const&, std::optional<superseded> const&,
                                boot_time_point deadline, boot_time_point& sent_at) const;

  backend::statement_book const& book_;
  lock_rows rows_;
};

}  // namespace rowlock::strategies
