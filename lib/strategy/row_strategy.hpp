#pragma once
// The strategies whose lock is a row of rowlock_locks with a term in it: what differs between them is how a
// term gets into the row and how it leaves it. What they share is in term_rows.

#include <chrono>
#include <optional>
#include <string>
#include <variant>

#include "strategy/term_rows.hpp"

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
  bool look_first = false;  ///< it was busy a moment ago: reading disturbs the holder less than trying
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
  std::optional<term_row> row;
};

using outcome = std::variant<granted, refused>;

class row_strategy {
 public:
  virtual ~row_strategy() = default;
  row_strategy(row_strategy const&) = delete;
  row_strategy& operator=(row_strategy const&) = delete;

  /// One attempt, as many statements as it needs. `sent_at` is set before the granting statement is sent:
  /// trust counts from there.
  /// @throws error(errc::strategy_mismatch) and what connection::execute throws. After errc::in_doubt the
  /// term may have been granted, or may be granted yet.
  virtual outcome take(backend::connection&, take_request const&, std::optional<superseded> const&,
                       boot_time_point deadline, boot_time_point& sent_at) const = 0;

  /// @return false if the term is not there any more
  virtual bool release(backend::connection&, name_and_term const&, boot_time_point deadline) const = 0;

 protected:
  row_strategy() = default;
};

/// The parameters that the granting statements have in common, in their order: $1 to $11.
std::vector<backend::value> granting_parameters(take_request const&, rowlock::strategy);

/// @throws error(errc::strategy_mismatch) if the row was made by another strategy
void require_strategy(term_row const&, rowlock::strategy);

}  // namespace rowlock::strategies
