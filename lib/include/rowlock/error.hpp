#pragma once

#include <rowlock/export.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <system_error>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// What went wrong. "Held by somebody else" is not among them: that is a result (acquire_status).
enum class errc {
  unreachable = 1,       ///< no connection could be made; nothing was sent
  access_denied,         ///< the login was refused, or the role lacks a grant
  read_only,             ///< the server or file takes no writes (a standby, a demoted primary, permissions)
  too_many_connections,  ///< the server takes no more of them
  storage_full,          ///< the database has no room left
  schema_missing,        ///< rowlock's tables, or the database file, are not there
  schema_old,            ///< the tables are older than this program needs: `rowlock migrate up`
  schema_new,            ///< the tables no longer serve programs as old as this one
  strategy_mismatch,     ///< the name is in use with another strategy
  lock_lost,             ///< the lock that was needed is held no more
  in_doubt,          ///< the reply was lost and it could not be found out whether the statement was applied
  row_locked,        ///< another session's open transaction has the row (or file) locked
  conflict,          ///< deadlock or serialization failure; the statement did nothing
  would_deadlock,    ///< the calling thread holds this name already (equals
                     ///< std::errc::resource_deadlock_would_occur)
  forked,            ///< used in a forked child; make a new lock_manager there
  unsupported,       ///< this back end, or this build, can't do it; the message says what can
  invalid_argument,  ///< a name, identifier, URL or option that can't be used; the message says which and why
  failed,  ///< the database refused a statement for another reason; see what(), sqlstate(), native_code()
  not_in_transaction,  ///< the connection that was handed over is in no transaction, or in one that can't
                       ///< write
  transaction_ended,   ///< the caller's transaction is gone, or good for nothing: roll back, and begin again
  snapshot_too_old,    ///< the caller's transaction sees the database as before the lock: begin it anew
  closed,  ///< the lock_manager was destroyed, or the process ends (equals std::errc::operation_canceled)
  not_acquired,  ///< acquisition::value() of one that has no lock; the message says why not
};

ROWLOCK_EXPORT std::error_category const& error_category() noexcept;
ROWLOCK_EXPORT std::error_code make_error_code(errc) noexcept;

/// The one root of what rowlock throws.
///
/// Copies and moves throw nothing, so that one may be kept, handed to another thread and thrown again.
/// Distinct objects are independent, also if one is the other's copy; const members may be called from
/// several threads. What was moved from is as it was.
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
  /// True if the same call may succeed later without anybody mending anything: unreachable,
  /// too_many_connections, row_locked, conflict, in_doubt, not_acquired; and if the whole transaction may:
  /// snapshot_too_old.
  bool retryable() const noexcept;
  /// In the caller's own transaction: true if it may go through when it is rolled back and begun again. As
  /// retryable(), and transaction_ended (InnoDB ends a transaction at each deadlock), but not in_doubt: its
  /// COMMIT may have been applied.
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
