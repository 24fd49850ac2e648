#include "backend/postgresql/settings.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

#include "backend/backend.hpp"

namespace rowlock::backend::postgresql {
namespace {

// Under the user's own search path, which anybody may have put something on: so all names are qualified, and
// operators, too. [C12]
constexpr std::string_view started_text =
    "(extract(epoch FROM pg_catalog.pg_postmaster_start_time()) OPERATOR(pg_catalog.*) 1000000)"
    "::pg_catalog.int8::pg_catalog.text";
constexpr std::string_view database_text =
    "(SELECT d.oid::pg_catalog.text FROM pg_catalog.pg_database AS d"
    " WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())";

std::string who_text() {
  return fmt::format(
      "SELECT {}, {}, pg_catalog.pg_backend_pid(),"
      " pg_catalog.array_to_json(pg_catalog.current_schemas(false))",
      started_text, database_text);
}

using setting = std::pair<std::string, std::string>;

// What statements rely on. A take must survive a crash of the server, so commits are flushed (but a
// synchronous standby's remote_apply, which is more, stays). search_path: a schema in which others may create
// operators and functions comes before the server's own where theirs fit better, so there is none; and
// pg_temp is named, last, or it would come first. lock_timeout: a row that a transaction has locked is busy.
// A client that stops, or is cut off, within a transaction would keep a row, or a pooler's session, for
// hours: hence longest_silence. jit: to compile a statement of ours costs a hundred times what it can save.
// No other timeout may end a statement or an idle session of ours, whatever the
// role's defaults are.
std::vector<setting> needed_settings(int server_version) {
  std::vector<setting> all{
      {"search_path", "'pg_catalog, pg_temp'"},
      {"synchronous_commit",
       "CASE WHEN pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=)"
       " ANY (ARRAY['off', 'local', 'remote_write']::pg_catalog.text[])"
       " THEN 'on' ELSE pg_catalog.current_setting('synchronous_commit') END"},
      {"lock_timeout", "'1s'"},
      {"statement_timeout", "'0'"},
      {"jit", "'off'"},
      {"idle_in_transaction_session_timeout", fmt::format("'{}s'", longest_silence.count())}};
  if (server_version >= 17'00'00) all.emplace_back("transaction_timeout", "'0'");
  return all;
}

// And what only a session of our own has. Keepalives: the server's own default finds a client whose host is
// gone after two hours, and until then it keeps what the session has locked; the client side has the same in
// connect.cpp.
std::vector<setting> session_settings(int server_version, bool check_client) {
  auto all = needed_settings(server_version);
  all.insert(all.end(), {{"default_transaction_isolation", "'read committed'"},
                         {"tcp_keepalives_idle", "'5'"},
                         {"tcp_keepalives_interval", "'2'"},
                         {"tcp_keepalives_count", "'3'"},
                         {"tcp_user_timeout", "'10s'"},
                         {"standard_conforming_strings", "'on'"},
                         {"quote_all_identifiers", "'off'"},
                         {"client_encoding", "'UTF8'"}});
  if (server_version >= 14'00'00) all.emplace_back("idle_session_timeout", "'0'");
  // Ends a statement that waits for a row although its client is gone: otherwise it would get a lock that
  // nobody holds.
  if (server_version >= 14'00'00 && check_client)
    all.emplace_back("client_connection_check_interval", "'1s'");
  return all;
}

std::string set_text(std::vector<setting> const& settings, bool local) {
  std::string text;
  for (auto const& [name, value] : settings)
    text += fmt::format("{} pg_catalog.set_config('{}', {}, {})", text.empty() ? "SELECT" : ",", name, value,
                        local);
  return text;
}

}  // namespace

// SET LOCAL comes first and is quick: from then on no statement_timeout of the role's ends the rest.
std::string set_up_text(int server_version, bool check_client, pooling how, int told_process) {
  auto text = fmt::format("SET LOCAL statement_timeout = 0; {}", who_text());
  if (how == pooling::transaction) return text;
  text += "; " + set_text(session_settings(server_version, check_client), false);
  if (how == pooling::detect)
    text += fmt::format(" WHERE pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) {}", told_process);
  return text;
}

// A value that lock_timeout can't have is how a SELECT fails where and when we want it: set_config() is
// volatile, so nothing of it is worked out before it is known who answers.
std::string local_settings_text(int server_version, whereabouts const& place) {
  auto all = needed_settings(server_version);
  for (auto& [name, value] : all)
    if (name == "lock_timeout")
      value = fmt::format(
          "CASE WHEN {} OPERATOR(pg_catalog.=) '{}' AND {} OPERATOR(pg_catalog.=) '{}' THEN {} ELSE '{}' END",
          started_text, place.started, database_text, place.database, value, moved);
  return set_text(all, true);
}

}  // namespace rowlock::backend::postgresql
