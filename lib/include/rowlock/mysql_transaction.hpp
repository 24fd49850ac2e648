#pragma once

#include <rowlock/version.hpp>

#include <rowlock/mysql.hpp>
#include <rowlock/transaction.hpp>

namespace rowlock::mysql::inline ROWLOCK_ABI_NAMESPACE {

/// The transaction that is open on a connection of the program's own: after START TRANSACTION, or in a
/// session with autocommit = 0.
///
/// Do not commit by `connection.commit()`: Connector/C++ drops the server's answer, so that a transaction
/// that was not committed looks as if it was. execute_commit() looks at the answer.
class ROWLOCK_EXPORT transaction : public basic_transaction {
 public:
  /// @throws error(errc::invalid_argument) if `manager` is on another kind of database
  transaction(lock_manager& manager, ::sql::Connection& connection, transaction_options options = {});
};

/// Executes the statement COMMIT and looks at the answer, which `connection.commit()` does not.
/// @throws error(errc::conflict) if the server has rolled back instead (Galera's certification); in_doubt if
/// no reply came, or one that does not say so
ROWLOCK_EXPORT void execute_commit(::sql::Connection& connection);

}  // namespace rowlock::mysql::inline ROWLOCK_ABI_NAMESPACE
