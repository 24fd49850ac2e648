#include <rowlock/mysql_transaction.hpp>

#include "backend/mysql/caller_session.hpp"
#include "backend/mysql/connector.hpp"

namespace rowlock::mysql::inline ROWLOCK_ABI_NAMESPACE {

namespace {

std::unique_ptr<backend::caller_connection> borrow(::sql::Connection& c, transaction_options options = {}) {
  return backend::mysql::borrow(backend::mysql::borrowed_channel_over(c), options.keep_prepared);
}

}  // namespace

transaction::transaction(lock_manager& manager, ::sql::Connection& connection, transaction_options options)
    : basic_transaction(manager, borrow(connection, options)) {}

void execute_commit(::sql::Connection& connection) { borrow(connection)->commit(); }

}  // namespace rowlock::mysql::inline ROWLOCK_ABI_NAMESPACE
