#pragma once
// Fencing tokens of the strategies whose lock row does not outlive the term: the name's row in
// rowlock_tokens.

#include "backend/backend.hpp"

namespace rowlock::strategies {

class tokens {
 public:
  explicit tokens(backend::statement_book const& book) : book_(book) {}

  /// A higher token than any that the name ever had. Only for the present holder of the name, after an
  /// earlier statement granted its lock: a token that is drawn before the wait, or during it, can be lower
  /// than the token of whoever came first.
  /// @throws error what connection::execute throws; nothing is lost then but a number
  fencing_token draw(backend::connection&, std::string const& name, boot_time_point deadline) const;

 private:
  backend::statement_book const& book_;
};

}  // namespace rowlock::strategies
