#pragma once
// Fencing tokens for strategies whose row does not outlive the term: the name's row in rowlock_tokens.

#include "backend/backend.hpp"

namespace rowlock::strategies {

class tokens {
 public:
  explicit tokens(backend::statement_book const& book) : book_(book) {}

  /// A token above all earlier ones of the name. Precondition: an earlier statement granted the lock. A token
  /// that is drawn before that can be lower than the previous holder's.
  /// @throws error as connection::execute(); then at most a number is lost
  fencing_token draw(backend::connection&, std::string const& name, boot_time_point deadline) const;

 private:
  backend::statement_book const& book_;
};

}  // namespace rowlock::strategies
