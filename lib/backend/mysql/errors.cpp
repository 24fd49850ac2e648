#include "backend/mysql/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/printable.hpp"

namespace rowlock::backend::mysql {
namespace {

using meaning = std::pair<int, errc>;

// 1290 and 1030 are not here: their meaning is in the message.
constexpr std::array<meaning, 57> meanings{{
    {1205, errc::row_locked},   // ER_LOCK_WAIT_TIMEOUT, also for tables and, in MariaDB, NOWAIT
    {3572, errc::row_locked},   // ER_LOCK_NOWAIT
    {3024, errc::row_locked},   // ER_QUERY_TIMEOUT: MySQL's max_execution_time
    {1969, errc::row_locked},   // ER_STATEMENT_TIMEOUT: MariaDB's max_statement_time
    {1213, errc::conflict},     // ER_LOCK_DEADLOCK, Galera's failed certification
    {1020, errc::conflict},     // ER_CHECKREAD: MariaDB's innodb_snapshot_isolation
    {1317, errc::conflict},     // ER_QUERY_INTERRUPTED: nothing was done
    {3101, errc::conflict},     // ER_TRANSACTION_ROLLBACK_DURING_COMMIT in Group Replication
    {1615, errc::conflict},     // ER_NEED_REPREPARE: the tables change under it
    {1180, errc::in_doubt},     // ER_ERROR_DURING_COMMIT
    {3100, errc::in_doubt},     // ER_RUN_HOOK_ERROR: Group Replication's commit
    {1047, errc::unreachable},  // ER_UNKNOWN_COM_ERROR: a Galera node without a quorum
    {4031, errc::unreachable},  // ER_CLIENT_INTERACTION_TIMEOUT
    {1040, errc::too_many_connections},
    {1203, errc::too_many_connections},  // ER_TOO_MANY_USER_CONNECTIONS
    {1226, errc::too_many_connections},  // ER_USER_LIMIT_REACHED
    {1461, errc::too_many_connections},  // ER_MAX_PREPARED_STMT_COUNT_REACHED
    {1044, errc::access_denied},
    {1045, errc::access_denied},
    {1130, errc::access_denied},  // ER_HOST_NOT_PRIVILEGED
    {1142, errc::access_denied},
    {1143, errc::access_denied},
    {1227, errc::access_denied},
    {1251, errc::access_denied},  // ER_NOT_SUPPORTED_AUTH_MODE
    {1370, errc::access_denied},  // ER_PROCACCESS_DENIED_ERROR
    {1410, errc::access_denied},  // ER_CANT_CREATE_USER_WITH_GRANT
    {1698, errc::access_denied},
    {1820, errc::access_denied},     // ER_MUST_CHANGE_PASSWORD
    {1862, errc::access_denied},     // ER_MUST_CHANGE_PASSWORD_LOGIN
    {2059, errc::access_denied},     // CR_AUTH_PLUGIN_CANNOT_LOAD
    {2061, errc::access_denied},     // CR_AUTH_PLUGIN_ERR
    {3118, errc::access_denied},     // ER_ACCOUNT_HAS_BEEN_LOCKED
    {3159, errc::access_denied},     // ER_SECURE_TRANSPORT_REQUIRED
    {4151, errc::access_denied},     // MariaDB's ER_ACCOUNT_HAS_BEEN_LOCKED
    {5010, errc::access_denied},     // CR_PLUGIN_NOT_ALLOWED: see handshake.cpp
    {1792, errc::read_only},         // ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
    {1836, errc::read_only},         // ER_READ_ONLY_MODE
    {1874, errc::read_only},         // ER_INNODB_READ_ONLY
    {1046, errc::schema_missing},    // ER_NO_DB_ERROR
    {1049, errc::schema_missing},    // ER_BAD_DB_ERROR
    {1051, errc::schema_missing},    // ER_BAD_TABLE_ERROR
    {1054, errc::schema_missing},    // ER_BAD_FIELD_ERROR
    {1146, errc::schema_missing},    // ER_NO_SUCH_TABLE
    {1932, errc::schema_missing},    // ER_NO_SUCH_TABLE_IN_ENGINE
    {1021, errc::storage_full},      // ER_DISK_FULL
    {1114, errc::storage_full},      // ER_RECORD_FILE_FULL
    {1286, errc::unsupported},       // ER_UNKNOWN_STORAGE_ENGINE
    {1665, errc::unsupported},       // ER_BINLOG_STMT_MODE_AND_ROW_ENGINE
    {3161, errc::unsupported},       // ER_DISABLED_STORAGE_ENGINE
    {1300, errc::invalid_argument},  // ER_INVALID_CHARACTER_STRING
    {1366, errc::invalid_argument},  // ER_TRUNCATED_WRONG_VALUE_FOR_FIELD
    {1406, errc::invalid_argument},  // ER_DATA_TOO_LONG
    {2002, errc::unreachable},       // CR_CONNECTION_ERROR
    {2003, errc::unreachable},       // CR_CONN_HOST_ERROR
    {2005, errc::unreachable},       // CR_UNKNOWN_HOST
    {2014, errc::unreachable},       // CR_COMMANDS_OUT_OF_SYNC: not sent
    {2030, errc::unreachable},       // CR_NO_PREPARE_STMT: not sent
}};

// The reply was lost, or the server ended the session during a call.
constexpr std::array<int, 17> lost{
    1053,                                      // ER_SERVER_SHUTDOWN
    1152, 1158, 1159, 1160, 1161, 1184, 1189,  // network errors
    1927,                                      // ER_CONNECTION_KILLED
    2006, 2012, 2013, 2020, 2027, 2055,        // the client library's
    2026,  // CR_SSL_CONNECTION_ERROR: also when rowlock ends a connection at the deadline
    3169,  // ER_SESSION_WAS_KILLED
};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

std::string_view way_out(errc code, int native) {
  if (native == 1046) return "; name a database in the URL, or a schema";
  if (native == 1461)
    return "; raise the server's max_prepared_stmt_count, or see who leaves statements prepared";
  if (native == 1286 || (native == 1290 && code == errc::unsupported))
    return "; rowlock's tables need InnoDB: does the server have it, and is enforce_storage_engine (MariaDB) "
           "empty or InnoDB?";
  if (native == 3161) return "; rowlock's tables need InnoDB: take it out of disabled_storage_engines";
  if (native == 1665) return "; set the server's binlog_format to MIXED or ROW";
  switch (code) {
    case errc::schema_missing:
      return "; `rowlock migrate validate` tells what is missing";
    case errc::read_only:
      return "; connect to the primary, or name all hosts in the URL";
    case errc::access_denied:
      return "; grant SELECT, INSERT, UPDATE and DELETE on rowlock's tables to this user";
    default:
      return "";
  }
}

std::string_view connect_way_out(errc code, int native, std::string_view said) {
  if (native == 2026 && contains(said, "certificate"))
    return "; the server answers, and its certificate is not accepted: see that it has not expired, says "
           "this "
           "host's name, and was signed by one in ssl-ca";
  if (native == 5010)
    return ": the server asks for a way to log in that gives the password away to whoever answers in its "
           "place; "
           "give the account another one (caching_sha2_password, ed25519, mysql_native_password), or, for "
           "mysql_clear_password, say ssl-mode=verify";
  switch (code) {
    case errc::schema_missing:
      return "; create the database, then `rowlock migrate up` makes rowlock's tables";
    case errc::access_denied:
      return "; check user and password (MYSQL_PWD, password-file=PATH in the URL, ~/.my.cnf) and what the "
             "server grants";
    case errc::too_many_connections:
      return "; raise the server's max_connections or use fewer connections";
    default:
      return "";
  }
}

error described(refusal const& e, errc code, std::string_view hint, std::string const& statement,
                std::string const& where) {
  int const native = e.native();
  auto const number = native == 0 ? std::string() : fmt::format(", error {}", native);
  // A misuse of the driver has no SQLSTATE.
  auto const state = native == 0 ? std::string() : e.sqlstate();
  return error(code,
               fmt::format("{}: {}{}{}{}{}", where, statement.empty() ? "" : statement + ": ",
                           base::printable(e.what()), number,
                           state.empty() ? "" : fmt::format(" (SQLSTATE {})", base::printable(state)), hint),
               statement, state, native);
}

errc meaning_of(int native, std::string_view message) noexcept {
  if (native == 1290 && (contains(message, "read-only") || contains(message, "read_only")))
    return errc::read_only;
  if (native == 1290 && contains(message, "NO_ENGINE_SUBSTITUTION"))
    return errc::unsupported;  // MariaDB's enforce_storage_engine
  if (native == 1030 && contains(message, "error 28")) return errc::storage_full;
  auto const* found =
      std::find_if(meanings.begin(), meanings.end(), [&](meaning const& m) { return m.first == native; });
  return found == meanings.end() ? errc::failed : found->second;
}

}  // namespace

bool ends_session(int native) noexcept {
  return std::find(lost.begin(), lost.end(), native) != lost.end() ||
         classify(native, "", stake::nothing) == errc::unreachable;
}

bool is_forgotten(int native) noexcept { return native == 1243 || native == 1615; }

bool is_unpreparable(int native) noexcept { return native == 1295; }

errc classify(int native, std::string_view message, stake at_stake) noexcept {
  bool const unknown = std::find(lost.begin(), lost.end(), native) != lost.end();
  if (unknown) return at_stake == stake::nothing ? errc::unreachable : errc::in_doubt;
  auto const found = meaning_of(native, message);
  if (at_stake != stake::commit) return found;
  // A failed certification rolls back. Any other error leaves the outcome unknown.
  return found == errc::conflict && native != 1317 ? found : errc::in_doubt;
}

error statement_error(refusal const& e, stake at_stake, std::string const& statement,
                      std::string const& where, std::string const& why_ended) {
  auto const code = classify(e.native(), e.what(), at_stake);
  return described(e, code, why_ended.empty() ? way_out(code, e.native()) : why_ended, statement, where);
}

error connect_error(refusal const& e, std::string const& where, std::string const& why_ended) {
  auto code = classify(e.native(), e.what(), stake::nothing);
  // Start-up, shutdown, too many errors, ...: a later attempt might succeed.
  if (code == errc::failed && e.native() != 0) code = errc::unreachable;
  return described(e, code, why_ended.empty() ? connect_way_out(code, e.native(), e.what()) : why_ended, "",
                   where);
}

}  // namespace rowlock::backend::mysql
