#pragma once
// PgBouncer between a test and a PostgreSQL server.

#include <optional>
#include <string>

#include "support/child_process.hpp"
#include "support/support.hpp"

namespace rowlock::test {

class pgbouncer {
 public:
  /// `server`: libpq's keywords, with host, port, user and perhaps a password: all clients are that user
  /// there. `mode`: session or transaction. `settings`: more lines of its [pgbouncer] section.
  pgbouncer(std::string const& server, std::string const& mode, std::string const& settings = {});
  /// libpq's keywords.
  std::string const& address() const noexcept { return address_; }

 private:
  scratch_folder folder_;
  std::optional<child_process> process_;
  std::string address_;
};

}  // namespace rowlock::test
