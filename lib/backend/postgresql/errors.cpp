#include "backend/postgresql/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "backend/postgresql/native.hpp"

namespace rowlock::backend::postgresql {
namespace {

constexpr std::array<std::pair<std::string_view, errc>, 19> meanings{{
    {"55P03", errc::row_locked},      // lock_not_available: lock_timeout, NOWAIT
    {"40001", errc::conflict},        // serialization_failure
    {"40P01", errc::conflict},        // deadlock_detected
    {"57014", errc::conflict},        // query_canceled by an administrator. Nothing was done: retry
    {"25006", errc::read_only},       // read_only_sql_transaction
    {"42P01", errc::schema_missing},  // undefined_table
    {"42703", errc::schema_missing},  // undefined_column
    {"3F000", errc::schema_missing},  // invalid_schema_name
    {"3D000", errc::schema_missing},  // invalid_catalog_name, of the database
    {"42501", errc::access_denied},   // insufficient_privilege
    {"28000", errc::access_denied},   // invalid_authorization_specification
    {"28P01", errc::access_denied},   // invalid_password
    {"53300", errc::too_many_connections},
    {"53100", errc::storage_full},      // disk_full
    {"22021", errc::invalid_argument},  // character_not_in_repertoire: not UTF-8
    {"22P05", errc::invalid_argument},  // untranslatable_character in the database's encoding
    {"40003", errc::in_doubt},          // statement_completion_unknown
}};

std::string_view way_out(errc code, std::string_view state) {
  if (state == "57014")
    return "; an administrator cancelled it, or a statement_timeout (of the role, the database, or a "
           "pooler): no "
           "process holds anything because of that";
  switch (code) {
    case errc::schema_missing:
      return "; `rowlock migrate validate` tells what is missing";
    case errc::read_only:
      return "; if this is a standby, connect to the primary (target_session_attrs=read-write); if "
             "default_transaction_read_only is on for this role, database or server, set it off";
    case errc::access_denied:
      return "; grant SELECT, INSERT, UPDATE and DELETE on rowlock's tables to this role";
    default:
      return "";
  }
}

// "FATAL:  28P01: password authentication failed": only the severity can be translated. Several hosts leave
// several lines, and the last one decided.
std::string_view sqlstate_in(std::string_view verbose) {
  std::string_view found;
  for (auto at = verbose.find(":  "); at != verbose.npos; at = verbose.find(":  ", at + 1)) {
    auto const state = verbose.substr(at + 3, 5);
    bool const plain = std::all_of(state.begin(), state.end(),
                                   [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z'); });
    if (state.size() == 5 && plain && verbose.substr(at + 8, 2) == ": ") found = state;
  }
  return found;
}

// Without the SQLSTATE, and without the line that names the server's source.
std::string readable(std::string_view verbose) {
  std::string out;
  for (std::size_t at = 0; at < verbose.size();) {
    auto const end = std::min(verbose.find('\n', at), verbose.size());
    std::string line(verbose.substr(at, end - at));
    at = end + 1;
    if (line.find(".c:") != line.npos && line.find_last_not_of("0123456789") == line.rfind(".c:") + 2)
      continue;
    if (auto const state = sqlstate_in(line); !state.empty())
      line.erase(line.find(":  " + std::string(state)) + 3, 7);
    // The attempts with and without TLS fail alike.
    if (out.find(line + '\n') == out.npos) out += line + '\n';
  }
  return one_line(out);
}

bool asks_for_too_much(std::string_view said) {
  return said.find("authentication method requirement") != said.npos;
}

errc classify_connect(PGconn const* c, std::string_view state) {
  // libpq itself reports a missing password, and a server that asks for it in clear, without a SQLSTATE.
  bool const of_libpq = PQconnectionNeedsPassword(c) != 0 || asks_for_too_much(PQerrorMessage(c));
  if (state.empty()) return of_libpq ? errc::access_denied : errc::unreachable;
  if (state.substr(0, 2) == "28" || state == "42501") return errc::access_denied;
  if (state == "3D000") return errc::schema_missing;
  if (state == "53300") return errc::too_many_connections;
  if (state.substr(0, 2) == "42" || state.substr(0, 2) == "22")
    return errc::invalid_argument;  // of options=-c ...
  return errc::unreachable;         // starting up, shutting down, ALLOW_CONNECTIONS false, ... [C76]
}

std::string_view connect_way_out(errc code, std::string_view state, std::string_view said) {
  if (state == "55000") return "; ALTER DATABASE ... ALLOW_CONNECTIONS true, when its maintenance is over";
  switch (code) {
    case errc::unreachable:
      // OpenSSL has one text for all of these.
      return said.find("certificate verify failed") == said.npos
                 ? ""
                 : "; the server answers, and its certificate is not accepted: see that it has not expired, "
                   "and was signed by one in sslrootcert";
    case errc::schema_missing:
      return "; create the database, then `rowlock migrate up` makes rowlock's tables";
    case errc::access_denied:
      if (asks_for_too_much(said))
        return "; nothing proves that it is the right server: let it ask for scram-sha-256 "
               "(password_encryption, a password that is set anew, pg_hba.conf), or connect with "
               "sslmode=verify-full or by a Unix socket";
      return "; check user and password (PGPASSWORD, ~/.pgpass) and the server's pg_hba.conf";
    case errc::too_many_connections:
      return "; raise the server's max_connections or use fewer connections";
    default:
      return "";
  }
}

}  // namespace

errc classify(std::string_view sqlstate) noexcept {
  // Operator intervention (a shutdown) and connection exceptions (of a pooler) end the session.
  if (sqlstate.substr(0, 3) == "57P" || sqlstate.substr(0, 2) == "08") return errc::in_doubt;
  auto const* found =
      std::find_if(meanings.begin(), meanings.end(), [&](auto const& m) { return m.first == sqlstate; });
  return found == meanings.end() ? errc::failed : found->second;
}

error statement_error(PGresult const* r, std::string const& statement, std::string const& where) {
  auto const text = [r](int which) {
    char const* t = PQresultErrorField(r, which);
    return std::string(t == nullptr ? "" : t);
  };
  auto state = text(PG_DIAG_SQLSTATE);
  // A standby refuses to plan a statement on an unlogged table (rowlock_pulse), before it looks whether the
  // statement writes.
  if (state == "0A000" && text(PG_DIAG_SOURCE_FUNCTION) == "get_relation_info") state = "25006";
  auto const primary = text(PG_DIAG_MESSAGE_PRIMARY);
  auto const code = classify(state);
  return error(code,
               fmt::format("{}: {}: {} (SQLSTATE {}){}", where, statement,
                           one_line(primary.empty() ? PQresultErrorMessage(r) : primary), one_line(state),
                           way_out(code, state)),
               statement, state, 0);
}

error connect_error(PGconn const* c, std::string const& where) {
  std::string_view const verbose = PQerrorMessage(c);
  std::string const state(sqlstate_in(verbose));
  auto const code = classify_connect(c, state);
  return error(code, fmt::format("{}: {}{}", where, readable(verbose), connect_way_out(code, state, verbose)),
               "", state, 0);
}

bool failed(PGresult const* r) {
  auto const status = PQresultStatus(r);
  return status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK && status != PGRES_EMPTY_QUERY;
}

bool is_forgotten(std::string_view sqlstate) noexcept { return sqlstate == "26000" || sqlstate == "0A000"; }

bool is_forgotten(PGresult const* r) {
  char const* const state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
  return state != nullptr && is_forgotten(std::string_view(state));
}

bool ends_session(PGresult const* r) {
  char const* text = PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
  std::string_view const severity = text == nullptr ? "" : text;
  return severity == "FATAL" || severity == "PANIC";
}

}  // namespace rowlock::backend::postgresql
