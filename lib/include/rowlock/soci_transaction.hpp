#pragma once

#include <rowlock/version.hpp>

#include <rowlock/soci.hpp>
#include <rowlock/transaction.hpp>

namespace soci {
class session;  // SOCI's own, so that its headers need not be included
}

namespace rowlock::soci::inline ROWLOCK_ABI_NAMESPACE {

/// The transaction that is open on a session of the program's own, on SOCI's back end postgresql, mysql or
/// sqlite3; with or without one of SOCI's transaction objects. The lock_manager may reach the same database
/// through any back end. `options` count for PostgreSQL only; elsewhere nothing is prepared.
class ROWLOCK_EXPORT transaction : public basic_transaction {
 public:
  /// @throws error(errc::unsupported) for other back ends of SOCI's; invalid_argument if the session is not
  /// open or `manager` is on another kind of database
  transaction(lock_manager& manager, ::soci::session& session, transaction_options options = {});
};

/// Executes the statement COMMIT and looks at what became of it. SOCI's own commit() does not look: it hides
/// that PostgreSQL has rolled back instead. Throws the same errors as the execute_commit() of the database's
/// own header. For use with begin() and rollback() of the session: SOCI's transaction object would roll back
/// once more when it is destroyed, which does no harm, but PostgreSQL warns of it each time.
ROWLOCK_EXPORT void execute_commit(::soci::session& session);

}  // namespace rowlock::soci::inline ROWLOCK_ABI_NAMESPACE
