#include "exit_status.hpp"

#include <fmt/format.h>

#include "base/way_out.hpp"

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
    case errc::not_voting:
    case errc::unsupported:
      return exit_setup;
    case errc::row_locked:
    case errc::not_acquired:
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

namespace {

std::string with_options(std::string_view message, std::string const& options) {
  constexpr std::string_view begin = "`rowlock ";
  constexpr std::string_view database = "--db ";
  std::string out;
  for (;;) {
    auto const at = message.find(begin);
    auto const end = at == message.npos ? at : message.find('`', at + begin.size());
    if (end == message.npos) return out.append(message);
    auto command = message.substr(at + begin.size(), end - at - begin.size());
    // The library names the file, because it knows nothing of options: the last two words are the command.
    if (auto const what = command.rfind(" migrate "); command.starts_with(database) && what != command.npos)
      command.remove_prefix(what + 1);
    out.append(message.substr(0, at + begin.size())).append(command).append(options).append("`");
    message.remove_prefix(end + 1);
  }
}

}  // namespace

std::string message_of(error const& e, std::string const& options) {
  std::string_view text = e.what();
  auto const added = ": " + e.code().message();
  if (text.size() > added.size() && text.ends_with(added)) text.remove_suffix(added.size());
  return with_options(text, options);
}

namespace {

/// Whose trouble it is when the database refused a statement, by the SQLSTATE that it gave.
enum class culprit {
  rowlock,
  server,             ///< out of memory or some limit, or broken
  whoever_set_it_up,  ///< a trigger, constraint, function of somebody's is in the way
  pooler,             ///< it is not what the connection string says
  file,               ///< it is damaged
};

/// By SQLite's own number: there is no SQLSTATE.
culprit culprit_in_file(int code) noexcept {
  constexpr int corrupt = 11;
  constexpr int check_failed = 275;
  constexpr int trigger_raised = 1811;
  if (code == check_failed || code == trigger_raised) return culprit::whoever_set_it_up;
  return (code & 0xff) == corrupt ? culprit::file : culprit::rowlock;
}

culprit culprit_of(error const& e) {
  auto const& state = e.sqlstate();
  if (state.empty()) return culprit_in_file(e.native_code());
  for (auto const* kind : {"53", "54", "58", "XX"})
    if (state.starts_with(kind)) return culprit::server;
  // raise_exception, SIGNAL, check_violation, duplicate_function.
  for (auto const* one : {"P0001", "45000", "23514", "42723"})
    if (state == one) return culprit::whoever_set_it_up;
  return state == "42P05" ? culprit::pooler : culprit::rowlock;  // duplicate_prepared_statement
}

}  // namespace

exit_status status_of(error const& e) noexcept {
  if (e.reason() != errc::failed) return status_of(e.reason());
  switch (culprit_of(e)) {
    case culprit::server:
      return exit_unreachable;
    case culprit::whoever_set_it_up:
    case culprit::pooler:
    case culprit::file:
      return exit_setup;
    case culprit::rowlock:
      break;
  }
  return status_of(e.reason());
}

std::string advice_for_refused(error const& e) {
  switch (culprit_of(e)) {
    case culprit::server:
      return "That is the server's own trouble: its log says more.";
    case culprit::whoever_set_it_up:
      return "A trigger, constraint or function that is not rowlock's is in the way: see what is on the "
             "tables "
             "and in their schema.";
    case culprit::pooler:
      return "A pooler in between lends out the server's sessions by the transaction: leave pooler=session "
             "out "
             "of the connection string.";
    case culprit::file:
      return "See why: another program, or the disk.";
    case culprit::rowlock:
      break;
  }
  return "This may be a bug of rowlock's: please report it with this message.";
}

std::string advice_for(error const& e, std::string const& options) {
  if (auto const known = base::way_out_of(e.what())) return *known;
  switch (e.reason()) {
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
      return "Locks need the primary (libpq: target_session_attrs=read-write), a role whose "
             "default_transaction_read_only is off, or a file that can be written.";
    case errc::storage_full:
      return "Make room in the database.";
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
    default:
      return "";
  }
}

std::string advice_for_file(error const& e, std::string const& options) {
  switch (e.reason()) {
    case errc::unreachable:
    case errc::too_many_connections:
      return "Is the path right (--db, or ROWLOCK_DB), and is its file system there and whole?";
    case errc::access_denied:
    case errc::read_only:
    case errc::storage_full:
      return "";  // the message says what the file needs
    default:
      return advice_for(e, options);
  }
}

}  // namespace rowlock::tool
