#pragma once
// The differences between SOCI's back ends: lib/doc/soci.md.

#include <memory>
#include <string>

#include "backend/backend.hpp"

namespace soci {
class session;
}

namespace rowlock::backend::soci {

/// The place of a pool's session. One thread at a time uses it.
class seat {
 public:
  virtual ~seat() = default;

  /// Connects with the session's parameters, one at a time, after vacate().
  virtual source& native() noexcept = 0;

  /// native(), if it can tell whether a database is gone, also after the seat's end; else null.
  virtual std::shared_ptr<source> witness() const noexcept { return nullptr; }

  /// Ends the session's own connection, unless rowlock's stands beside it.
  virtual void vacate() noexcept = 0;

  /// Connects the session again, once rowlock's connection is closed. If this fails, the session's next use
  /// fails.
  virtual void restore(boot_time_point deadline) noexcept = 0;
};

/// Chosen by get_backend_name(). Does nothing to the session, which must live longer.
/// @throws error(errc::invalid_argument) if it was not opened, or with parameters that can't be used;
/// errc::unsupported for other back ends
std::unique_ptr<seat> make_seat(::soci::session&);

std::unique_ptr<seat> make_postgresql_seat(::soci::session&);
std::unique_ptr<seat> make_mysql_seat(::soci::session&);
std::unique_ptr<seat> make_sqlite_seat(::soci::session&);

}  // namespace rowlock::backend::soci
