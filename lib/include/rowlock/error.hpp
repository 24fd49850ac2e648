#pragma once

#include <rowlock/export.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <system_error>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// The reason of an error. A busy lock is not an error but a result (acquire_status).
enum class errc {
  unreachable = 1,       ///< no connection could be made, and nothing was sent
  access_denied,         ///< the login was refused, or the role lacks a grant
  read_only,             ///< the server or file takes no writes (standby, permissions)
  too_many_connections,  ///< of the server, or those of the lock_manager were in use for too long. See what()
  storage_full,
  schema_missing,     ///< rowlock's tables, or the database file, do not exist
  schema_old,         ///< the tables are older than this program needs. Run `rowlock migrate up`
  schema_new,         ///< the tables no longer serve programs as old as this one
  strategy_mismatch,  ///< the name is in use with another strategy
  lock_lost,          ///< the lock is no longer held
  in_doubt,           ///< the reply was lost, and the outcome is unknown
  row_locked,         ///< another session's open transaction has the row (or file) locked
  conflict,           ///< deadlock or serialization failure. The statement did nothing
  would_deadlock,    ///< the calling thread holds this name (equals std::errc::resource_deadlock_would_occur)
  forked,            ///< used in a forked child. Make a new lock_manager there
  unsupported,       ///< by this back end, or this build. The message says what is supported
  invalid_argument,  ///< a name, identifier, URL or option can't be used. The message says which and why
  failed,            ///< another refusal by the database: what(), sqlstate(), native_code()
  not_in_transaction,  ///< the program's connection is in no transaction that can write
  transaction_ended,   ///< the caller's transaction is gone or useless. Roll back, and begin again
  snapshot_too_old,    ///< the caller's transaction sees the database as before the lock. Begin again
  closed,  ///< the lock_manager was destroyed, or the process ends (equals std::errc::operation_canceled)
  not_acquired,  ///< acquisition::value() without a lock. The message says why
  not_voting,    ///< of a quorum: a database is no voting member, or has another list of members: `rowlock
                 ///< quorum status`
};

ROWLOCK_EXPORT std::error_category const& error_category() noexcept;
ROWLOCK_EXPORT std::error_code make_error_code(errc) noexcept;

/// The root of all errors that rowlock throws.
///
/// Exception safety: copies and moves throw nothing, so an error may be stored, passed to another thread and
/// thrown again. An error that was moved from is as it was.
///
/// Thread safety: distinct objects are independent, also copies. Const members may be called concurrently.
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
  /// True if the same call can succeed later without repair: unreachable, too_many_connections, row_locked,
  /// conflict, in_doubt, not_acquired. For snapshot_too_old the whole transaction can.
  bool retryable() const noexcept;
  /// For errors in the caller's own transaction: true if it can succeed after a rollback and a new begin.
  /// True for transaction_ended (on InnoDB each deadlock), and where retryable() is, except for in_doubt: the
  /// COMMIT can have been applied.
  bool transaction_retryable() const noexcept;

 private:
  struct details;
  std::shared_ptr<details const> details_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE

// Doxygen 1.9.4 loses its way here.
/// @cond
template <>
struct std::is_error_code_enum<rowlock::errc> : std::true_type {};
/// @endcond
