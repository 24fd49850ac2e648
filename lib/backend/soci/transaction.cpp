#include <fmt/format.h>
#include <soci/mysql/soci-mysql.h>
#include <soci/postgresql/soci-postgresql.h>
#include <soci/session.h>

#include <rowlock/error.hpp>
#include <rowlock/soci_transaction.hpp>

#include "backend/mysql/caller_session.hpp"
#include "backend/postgresql/caller_session.hpp"
#include "backend/soci/libmariadb.hpp"
#include "backend/soci/sqlite_path.hpp"
#include "backend/sqlite/caller_session.hpp"

namespace rowlock::soci::inline ROWLOCK_ABI_NAMESPACE {

namespace {

std::unique_ptr<backend::caller_connection> borrow(::soci::session& s, transaction_options options = {}) {
  if (s.get_backend() == nullptr)
    throw error(errc::invalid_argument, "the soci::session of a transaction is not open");
  auto const name = s.get_backend_name();
  // Not dynamic_cast: the types' information is not exported.
  if (name == "postgresql")
    return backend::postgresql::borrow(
        static_cast<::soci::postgresql_session_backend&>(*s.get_backend()).conn_, options.keep_prepared);
  if (name == "mysql")
    return backend::mysql::borrow(backend::soci::borrowed_channel_over(
                                      *static_cast<::soci::mysql_session_backend&>(*s.get_backend()).conn_),
                                  options.keep_prepared);
  if (name == "sqlite3") return backend::sqlite::borrow(backend::soci::sqlite_handle(s));
  throw error(errc::unsupported,
              fmt::format("SOCI's back end {} can't be used: use postgresql, mysql or sqlite3", name));
}

}  // namespace

transaction::transaction(lock_manager& manager, ::soci::session& session, transaction_options options)
    : basic_transaction(manager, borrow(session, options)) {}

void execute_commit(::soci::session& session) { borrow(session)->commit(); }

}  // namespace rowlock::soci::inline ROWLOCK_ABI_NAMESPACE
