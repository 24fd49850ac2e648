#pragma once

#include <memory>
#include <rowlock/rowlock.hpp>
#include <vector>

#include "cli.hpp"

namespace rowlock::tool {

/// The databases of several --db, as the members of a quorum.
class members {
 public:
  /// Asks nobody yet. `options`: of each manager, but for where the tables are.
  /// @throws failure(exit_usage) if there are fewer than three
  explicit members(std::vector<database> const&, manager_options options = {});
  quorum& all() noexcept { return *quorum_; }
  lock_manager& at(std::size_t i) { return *managers_.at(i); }
  std::size_t size() const noexcept { return managers_.size(); }

 private:
  std::vector<std::unique_ptr<lock_manager>> managers_;
  std::unique_ptr<quorum> quorum_;
};

}  // namespace rowlock::tool
