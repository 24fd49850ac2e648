#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <rowlock/types.hpp>
#include <vector>

#include "backend/soci/seat.hpp"

namespace soci {
class connection_pool;
}

namespace rowlock::backend::soci {

/// The sessions leased from the program's connection pool. Thread-safe.
/// - An unused session stays here, and is the next to be used. Before its return it must be connected again,
///   and a call whose deadline is over has no time for this.
/// - The destructor returns all sessions. Precondition: all connections are closed.
/// - In a forked child nothing is returned: the pool's mutex can be locked for ever.
class borrowed {
 public:
  explicit borrowed(::soci::connection_pool& p);
  ~borrowed();
  borrowed(borrowed const&) = delete;
  borrowed& operator=(borrowed const&) = delete;

  struct taken {
    std::size_t position = 0;
    std::unique_ptr<seat> place;  ///< null: nothing was done to the session yet
  };
  /// @throws error(errc::too_many_connections) if none was free until the deadline
  taken take(boot_time_point deadline);
  ::soci::session& session_of(taken const&);
  /// Keeps an unused session. Precondition: a connection in its place is closed.
  void put_by(taken) noexcept;
  std::size_t pool_size() const noexcept { return size_; }
  bool forked() const noexcept;

 private:
  bool take_idle(taken&);
  bool lease(std::size_t& position, std::chrono::nanoseconds wait_policy);
  [[noreturn]] void refuse();
  void give_back(std::size_t position) noexcept;

  ::soci::connection_pool& pool_;
  std::size_t const size_;
  unsigned const epoch_;
  std::mutex mutex_;
  std::vector<taken> idle_;
  std::size_t taken_ = 0;  ///< including idle_
};

}  // namespace rowlock::backend::soci
