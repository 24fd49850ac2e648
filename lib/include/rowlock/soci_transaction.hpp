#pragma once

#include <rowlock/version.hpp>

#include <rowlock/soci.hpp>
#include <rowlock/transaction.hpp>

namespace soci {
class session;  // SOCI's own, so that its headers need not be included
}

namespace rowlock::soci::inline ROWLOCK_ABI_NAMESPACE {

/// The open transaction on a session of the program's own, on SOCI's back end postgresql, mysql or sqlite3,
/// with or without one of SOCI's transaction objects. The lock_manager may reach the same database through
/// any back end.
class ROWLOCK_EXPORT transaction : public basic_transaction {
 public:
  /// @throws error(errc::unsupported) for other back ends of SOCI; errc::invalid_argument if the session is
  /// not open or `manager` is on another kind of database
  transaction(lock_manager& manager, ::soci::session& session, transaction_options options = {});
};

/// Executes the statement COMMIT and checks its result. SOCI's own commit() hides that PostgreSQL has rolled
/// back instead. Throws as execute_commit() of the database's own header. Use it with begin() and rollback()
/// of the session: the destructor of SOCI's transaction object would roll back again (harmless, but a warning
/// on PostgreSQL).
ROWLOCK_EXPORT void execute_commit(::soci::session& session);

}  // namespace rowlock::soci::inline ROWLOCK_ABI_NAMESPACE
