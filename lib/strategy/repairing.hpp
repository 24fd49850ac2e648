#pragma once
// Repairs a name whose fencing token leaves no room above it. lib/sql/<dialect>/repair.sql has the sessions
// that can come in between.

#include <rowlock/repair.hpp>
#include <string>

#include "backend/backend.hpp"

namespace rowlock::strategies {

class repairing {
 public:
  explicit repairing(backend::statement_book const& book) : book_(book) {}

  /// Whether a take of this name fails because of its token. A plain read.
  bool has_no_room(backend::connection&, std::string const& name, boot_time_point deadline) const;
  repair_result repair(backend::connection&, std::string const& name, boot_time_point deadline) const;

 private:
  struct tokens {
    bool of_row_unusable = false;    ///< in rowlock_locks
    bool of_entry_unusable = false;  ///< in rowlock_tokens
  };
  tokens look(backend::connection&, std::string const& name, boot_time_point deadline) const;

  backend::statement_book const& book_;
};

}  // namespace rowlock::strategies
