#include <rowlock/error.hpp>

#include "base/never_destroyed.hpp"

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {
namespace {

class category final : public std::error_category {
 public:
  char const* name() const noexcept override { return "rowlock"; }

  std::string message(int code) const override {
    switch (static_cast<errc>(code)) {
      case errc::unreachable:
        return "database unreachable";
      case errc::access_denied:
        return "access denied";
      case errc::read_only:
        return "database is read-only";
      case errc::too_many_connections:
        return "too many connections";
      case errc::storage_full:
        return "database storage is full";
      case errc::schema_missing:
        return "rowlock's tables are missing";
      case errc::schema_old:
        return "rowlock's tables are older than this program needs";
      case errc::schema_new:
        return "rowlock's tables are newer than this program understands";
      case errc::strategy_mismatch:
        return "the name is in use with another strategy";
      case errc::lock_lost:
        return "the lock was lost";
      case errc::in_doubt:
        return "the database's reply was lost";
      case errc::row_locked:
        return "the row is locked by a transaction";
      case errc::conflict:
        return "conflict with another transaction";
      case errc::would_deadlock:
        return "the calling thread holds this lock already";
      case errc::forked:
        return "used in a forked child";
      case errc::unsupported:
        return "not supported";
      case errc::invalid_argument:
        return "invalid argument";
      case errc::not_in_transaction:
        return "not in a transaction";
      case errc::transaction_ended:
        return "the transaction has ended";
      case errc::snapshot_too_old:
        return "the transaction's snapshot is older than the lock";
      case errc::closed:
        return "the lock_manager has ended";
      case errc::not_acquired:
        return "the lock was not acquired";
      case errc::not_voting:
        return "the database does not vote in this quorum";
      case errc::failed:
        return "the database refused a statement";
    }
    return "unknown error";
  }

  std::error_condition default_error_condition(int code) const noexcept override {
    switch (static_cast<errc>(code)) {
      case errc::would_deadlock:
        return std::errc::resource_deadlock_would_occur;
      case errc::closed:
        return std::errc::operation_canceled;
      case errc::invalid_argument:
        return std::errc::invalid_argument;
      case errc::unsupported:
        return std::errc::not_supported;
      case errc::read_only:
        return std::errc::read_only_file_system;
      case errc::access_denied:
        return std::errc::permission_denied;
      default:
        return {code, *this};
    }
  }
};

}  // namespace

std::error_category const& error_category() noexcept {
  static auto const& instance = base::never_destroyed<category>();
  return instance;
}

std::error_code make_error_code(errc code) noexcept { return {static_cast<int>(code), error_category()}; }

error::error(errc code, std::string const& message) : std::system_error(code, message) {}

struct error::details {
  std::string statement;
  std::string sqlstate;
  int native_code;
};

error::error(errc code, std::string const& message, std::string statement, std::string sqlstate,
             int native_code)
    : std::system_error(code, message),
      details_(
          std::make_shared<details const>(details{std::move(statement), std::move(sqlstate), native_code})) {}

namespace {

std::string const& nothing() noexcept {
  static auto const& empty = base::never_destroyed<std::string>();
  return empty;
}

}  // namespace

std::string const& error::sqlstate() const noexcept { return details_ ? details_->sqlstate : nothing(); }
std::string const& error::statement() const noexcept { return details_ ? details_->statement : nothing(); }
int error::native_code() const noexcept { return details_ ? details_->native_code : 0; }

bool error::retryable() const noexcept {
  switch (reason()) {
    case errc::unreachable:
    case errc::too_many_connections:
    case errc::row_locked:
    case errc::conflict:
    case errc::in_doubt:
    case errc::snapshot_too_old:
    case errc::not_acquired:
      return true;
    default:
      return false;
  }
}

bool error::transaction_retryable() const noexcept {
  return reason() == errc::transaction_ended || (retryable() && reason() != errc::in_doubt);
}

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
