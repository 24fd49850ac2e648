#pragma once
// A session of the pool's whose place is taken; what differs between SOCI's back ends.

#include <memory>
#include <string>

#include "backend/backend.hpp"

namespace soci {
class session;
}

namespace rowlock::backend::soci {

/// Used by one thread at a time.
class seat {
 public:
  virtual ~seat() = default;

  /// Opens connections with the session's parameters, one at a time; after vacate().
  virtual source& native() noexcept = 0;

  /// native(), where it can tell by itself whether a database is gone, for longer than the seat lasts; else
  /// null.
  virtual std::shared_ptr<source> witness() const noexcept { return nullptr; }

  /// Ends the session's own connection, unless ours stand beside it.
  virtual void vacate() noexcept = 0;

  /// Connects the session anew, once ours is closed. If that fails it is left without a connection, which
  /// SOCI notices when it is used.
  virtual void restore(boot_time_point deadline) noexcept = 0;
};

/// By what the session's get_backend_name() says; nothing is done to the session yet, which must live longer.
/// @throws error(errc::invalid_argument) if it was not opened, or with parameters that can't be used;
/// errc::unsupported for other back ends
std::unique_ptr<seat> make_seat(::soci::session&);

std::unique_ptr<seat> make_postgresql_seat(::soci::session&);
std::unique_ptr<seat> make_mysql_seat(::soci::session&);
std::unique_ptr<seat> make_sqlite_seat(::soci::session&);

}  // namespace rowlock::backend::soci
