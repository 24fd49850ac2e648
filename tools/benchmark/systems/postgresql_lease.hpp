#pragma once
#include <string>

#include "systems/libpq.hpp"

namespace rowlock::bench {

/// What a lease does on a row of rowlock's table: the same columns, the newest generation, the quarantine's
/// condition, who waits; one UPDATE that is flushed, and one that need not be.
class bare_lease {
 public:
  bare_lease(std::string const& address, bool flushed);
  /// Makes the row of another name than before. Throws peer_error unless the lease is free.
  void take(std::string const& name);
  void give_back();

  pg_connection& connection() noexcept { return connection_; }
  std::string const& name() const noexcept { return name_; }
  std::string const& term() const noexcept { return term_; }

 private:
  pg_connection connection_;
  std::string name_;
  std::string term_;
};

}  // namespace rowlock::bench
