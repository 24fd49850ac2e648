#pragma once
// Everything that was built, with the constructor from a URL. Target rowlock::rowlock.

#include <rowlock/doctor.hpp>
#include <rowlock/error.hpp>
#include <rowlock/export.hpp>
#include <rowlock/lock_manager.hpp>
#include <rowlock/metrics.hpp>
#include <rowlock/migrator.hpp>
#include <rowlock/reaper.hpp>

#include <string_view>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// The back end's source for a URL: "sqlite:PATH", "postgresql://..." or "postgres://...", "mysql://..." or
/// "mariadb://...", or a libpq keyword string (contains '='). @throws error(errc::invalid_argument) naming
/// what is understood, or errc::unsupported if the back end was not built in.
ROWLOCK_EXPORT connection_source source_from_url(std::string_view url);

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
