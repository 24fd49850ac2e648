#pragma once
// What clients do while they have a lock: nothing, or they read a number, think, and write it back with one
// more. Two who do that at a time lose what one of them has added. (Jepsen's set, as two numbers: how often
// somebody has added, and what came of it.)

#include <cstdint>
#include <functional>
#include <memory>
#include <rowlock/rowlock.hpp>
#include <string>
#include <vector>

#include "checker.hpp"
#include "options.hpp"

namespace rowlock::torture {

/// What one thread does. Not thread-safe.
class section {
 public:
  virtual ~section() = default;
  /// @param think passes the section's time, or some of it if the lock is lost
  /// @param briefly a bit of it: for who thinks in a transaction that has the lock's row, so that it is not
  /// renewed meanwhile
  /// @param give_back lets go of the lock, which the caller does otherwise: for who does it in a transaction
  /// that requires the lock, and so keeps it from others until its end
  virtual void run(held_lock& lock, std::uint32_t name, std::function<void()> const& think,
                   std::function<void()> const& briefly, std::function<void()> const& give_back) = 0;
  /// Of workload row_lock: takes the lock itself, in its transaction. @param got is called then
  /// @throws std::exception before or after that; what COMMIT was to write may be there or not
  virtual void lock_and_run(std::string const& lock, std::uint32_t name, std::function<void()> const& got,
                            std::function<void()> const& think);
};

struct sums {
  std::int64_t added = 0;  ///< so often somebody has written
  std::int64_t lost = 0;   ///< so many of these are not in the numbers
  std::int64_t committed =
      0;  ///< so often somebody was told that it is committed, where execute_commit says so
};

/// Where it is promised that nothing that was written is lost: what breaks that, by the rule "guard".
std::vector<violation> violations_of(sums const&);

/// Where the numbers are, for all clients. Made before they are forked.
class ledger {
 public:
  virtual ~ledger() = default;
  /// `db`: the client's own way there.
  virtual std::unique_ptr<section> open(std::string const& db, lock_manager&) = 0;
  virtual sums read() = 0;
};

/// @throws std::exception if it can't be made
std::unique_ptr<ledger> make_ledger(options const&);

}  // namespace rowlock::torture
