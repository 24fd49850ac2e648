#pragma once
// A database in memory, shared by the connections of one source: for tests of programs that use rowlock.

#include <string>

#include "backend/backend.hpp"
#include "backend/sqlite/native.hpp"

namespace rowlock::backend::sqlite {

/// The database lives as long as this object, and its connections. Empty at first.
class memory_database {
 public:
  memory_database();

  /// @throws error(errc::forked) in a forked child, which has a copy
  std::unique_ptr<connection> connect(boot_time_point deadline) const;

  /// For other connections of this process (SQLITE_OPEN_URI).
  std::string uri() const;

 private:
  std::string name_;
  std::unique_ptr<connection> anchor_;  ///< SQLite drops the database with its last connection
  pid_t process_;
};

}  // namespace rowlock::backend::sqlite
