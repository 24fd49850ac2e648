#pragma once

#include <rowlock/export.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <system_error>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// What went wrong. "Held by somebody else" is not an error but a result (acquire_status).
enum class errc {
  unreachable = 1,       ///< no connection could be made; nothing was sent
  access_denied,         ///< the login was refused, or the role lacks a grant
  read_only,             ///< the server or file takes no writes (a standby, a demoted primary, permissions)
  too_many_connections,  ///< the server takes no more connections; or all that the lock_manager or SOCI's
                         ///< pool may have were in use for too long, and the message says which
  storage_full,          ///< the database has no room left
  schema_missing,        ///< rowlock's tables, or the database file, are not there
  schema_old,            ///< the tables are older than this program needs: `rowlock migrate up`
  schema_new,            ///< the tables no longer serve programs as old as this one
  strategy_mismatch,     ///< the name is in use with another strategy
  lock_lost,             ///< the lock that was needed is not held any more
  in_doubt,              ///< the reply was lost, and whether the statement was applied could not be found out
  row_locked,            ///< another session's open transaction has the row (or file) locked
  conflict,              ///< deadlock or serialization failure; the statement did nothing
  would_deadlock,        ///< the calling thread holds this name already (equals
                         ///< std::errc::resource_deadlock_would_occur)
  forked,                ///< used in a forked child; make a new lock_manager there
  unsupported,           ///< this back end, or this build, can't do it; the message says what can
  invalid_argument,  ///< a name, identifier, URL or option that can't be used; the message says which and why
  failed,  ///< the database refused a statement for another reason; see what(), sqlstate(), native_code()
  not_in_transaction,  ///< the connection that was handed over is in no transaction, or in one that can't
                       ///< write
  transaction_ended,  ///< the caller's transaction is gone, or of no use any more: roll back, and begin again
  snapshot_too_old,   ///< the caller's transaction sees the database as before the lock: begin it again
  closed,  ///< the lock_manager was destroyed, or the process ends (equals std::errc::operation_canceled)
  not_acquired,  ///< acquisition::value() was called and there is no lock; the message says why not
  not_voting,  ///< of a quorum: a database is none of its members, was not joined yet, or belongs to another
               ///< list of members: `rowlock quorum status`
};

ROWLOCK_EXPORT std::error_category const& error_category() noexcept;
ROWLOCK_EXPORT std::error_code make_error_code(errc) noexcept;

/// The root of all errors that rowlock throws.
///
/// Exception safety: copies and moves throw nothing. So an error may be kept, handed to another thread and
/// thrown again. An error that was moved from is as it was.
///
/// Thread safety: distinct objects are independent, also if one is the other's copy. Const members may be
/// called from several threads.
class ROWLOCK_EXPORT error : public std::system_error {
 public:
  error(errc code, std::string const& message);
  /// `statement`: the statement's name in lib/sql; `sqlstate`: five characters or empty; `native_code`: the
  /// driver's own number or 0.
  error(errc code, std::string const& message, std::string statement, std::string sqlstate, int native_code);

  error(error const&) noexcept = default;
  error& operator=(error const&) noexcept = default;
  ~error() override = default;

  errc reason() const noexcept { return static_cast<errc>(code().value()); }
  std::string const& sqlstate() const noexcept;
  int native_code() const noexcept;
  std::string const& statement() const noexcept;
  /// True if the same call may succeed later although nobody fixes anything: unreachable,
  /// too_many_connections, row_locked, conflict, in_doubt, not_acquired. Also true if the whole transaction
  /// may succeed later: snapshot_too_old.
  bool retryable() const noexcept;
  /// For errors in the caller's own transaction: true if the transaction may succeed when it is rolled back
  /// and begun again. True where retryable() is, and for transaction_ended (InnoDB ends a transaction at each
  /// deadlock), but not for in_doubt: the COMMIT may have been applied.
  bool transaction_retryable() const noexcept;

 private:
  struct details;
  std::shared_ptr<details const> details_;  ///< null without details
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE

// Doxygen 1.9.4 loses its way here.
/// @cond
template <>
struct std::is_error_code_enum<rowlock::errc> : std::true_type {};
/// @endcond
