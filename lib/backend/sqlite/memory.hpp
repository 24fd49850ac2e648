#pragma once
// A database in memory for tests of programs that use rowlock. The connections of one source share it.

#include <string>

#include "backend/backend.hpp"
#include "backend/sqlite/native.hpp"
#include "base/fork_epoch.hpp"

namespace rowlock::backend::sqlite {

/// The database lives as long as this and its connections. Empty at first.
class memory_database {
 public:
  memory_database();

  /// @throws error(errc::forked) in a child, which has a copy
  std::unique_ptr<connection> connect(boot_time_point deadline) const;

  /// For other connections of this process (SQLITE_OPEN_URI).
  std::string uri() const;

 private:
  std::string name_;
  std::unique_ptr<connection> anchor_;  ///< SQLite drops the database with its last connection
  unsigned epoch_ = base::fork_epoch();
};

}  // namespace rowlock::backend::sqlite
