#pragma once

#include <rowlock/version.hpp>

#include <rowlock/mysql.hpp>
#include <rowlock/transaction.hpp>

namespace rowlock::mysql::inline ROWLOCK_ABI_NAMESPACE {

/// The open transaction on a connection of the program's own, after START TRANSACTION, or with autocommit =
/// 0.
///
/// Commit by execute_commit(), not by `connection.commit()`: Connector/C++ drops the server's answer, and so
/// hides a failed commit.
class ROWLOCK_EXPORT transaction : public basic_transaction {
 public:
  /// @throws error(errc::invalid_argument) if `manager` is on another kind of database
  transaction(lock_manager& manager, ::sql::Connection& connection, transaction_options options = {});
};

/// Executes the statement COMMIT and checks the answer.
/// @throws error(errc::conflict) if the server has rolled back instead (Galera's certification).
/// errc::in_doubt if no reply came, or an unclear one
ROWLOCK_EXPORT void execute_commit(::sql::Connection& connection);

}  // namespace rowlock::mysql::inline ROWLOCK_ABI_NAMESPACE
