#pragma once
// A database in memory, which the connections of one source share: for tests of programs that use rowlock.

#include <string>

#include "backend/backend.hpp"
#include "backend/sqlite/native.hpp"

namespace rowlock::backend::sqlite {

/// Lives as long as this, and the connections that it has opened. Empty at first.
class memory_database {
 public:
  memory_database();

  /// @throws error(errc::forked) in a child: what it has is a copy
  std::unique_ptr<connection> connect(boot_time_point deadline) const;

  /// By which others of this process open it, too (SQLITE_OPEN_URI).
  std::string uri() const;

 private:
  std::string name_;
  std::unique_ptr<connection> anchor_;  ///< SQLite drops the database with its last connection
  pid_t process_;
};

}  // namespace rowlock::backend::sqlite
