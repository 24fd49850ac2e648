#include "exit_status.hpp"

#include <fmt/format.h>

namespace rowlock::tool {

exit_status status_of(errc code) noexcept {
  switch (code) {
    case errc::unreachable:
    case errc::too_many_connections:
    case errc::in_doubt:
    case errc::conflict:  // a statement lost a deadlock or was cancelled: nobody need hold anything
      return exit_unreachable;
    case errc::access_denied:
      return exit_refused;
    case errc::read_only:
    case errc::storage_full:
    case errc::schema_missing:
    case errc::schema_old:
    case errc::schema_new:
    case errc::strategy_mismatch:
    case errc::unsupported:
      return exit_setup;
    case errc::row_locked:
      return exit_busy;
    case errc::lock_lost:
      return exit_lost;
    // Of a program's own transactions, which this one has none of.
    case errc::not_in_transaction:
    case errc::transaction_ended:
    case errc::snapshot_too_old:
      return exit_bug;
    case errc::invalid_argument:
      return exit_usage;
    case errc::would_deadlock:
    case errc::forked:
    case errc::closed:
    case errc::failed:
      return exit_bug;
  }
  return exit_bug;
}

std::string advice_for(errc code, std::string const& options) {
  switch (code) {
    case errc::unreachable:
      return "Is the server running, and --db (or ROWLOCK_DB) right?";
    case errc::too_many_connections:
      return "Try again when there are fewer, raise the server's limit (max_connections), or wait: rowlock "
             "run --wait.";
    case errc::in_doubt:
      return fmt::format("See what became of it: rowlock list{}", options);
    case errc::access_denied:
      return "Is it the right user, and may it use rowlock's tables?";
    case errc::read_only:
      return "Locks need the primary (libpq: target_session_attrs=read-write) or a file that can be written.";
    case errc::storage_full:
      return "Make room in the database.";
    case errc::schema_missing:
    case errc::schema_old:
      return fmt::format("Mend it: rowlock migrate up{}", options);
    case errc::schema_new:
      return fmt::format("Install a newer rowlock; what is there now: rowlock migrate status{}", options);
    case errc::strategy_mismatch:
      return fmt::format(
          "Use the strategy that the name was first taken with (rowlock list --all --json{}), or "
          "another name.",
          options);
    case errc::row_locked:
    case errc::conflict:
      return "Try again later.";
    case errc::failed:
      return "This may be a bug of rowlock's: please report it with this message.";
    default:
      return "";
  }
}

std::string advice_for_file(errc code, std::string const& options) {
  switch (code) {
    case errc::unreachable:
    case errc::too_many_connections:
      return "Is the path right (--db, or ROWLOCK_DB), and its file system there and whole?";
    case errc::access_denied:
    case errc::read_only:
    case errc::storage_full:
      return "";  // the message says what the file needs
    default:
      return advice_for(code, options);
  }
}

}  // namespace rowlock::tool
