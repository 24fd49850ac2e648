#include "backend/postgresql/settings.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

#include "backend/backend.hpp"

namespace rowlock::backend::postgresql {
namespace {

// Runs under the user's search path, where other roles can have put objects: names and operators are
// qualified. [C12]
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

// Settings that statements rely on.
// - search_path: no schema in which other roles can create better-fitting operators or functions. pg_temp is
//   named last, or it would come first.
// - synchronous_commit: a take must survive a crash of the server. remote_apply, which is more, stays.
// - lock_timeout: a row that a transaction has locked counts as busy.
// - jit: compiling a statement costs a hundred times what it can save.
// - enable_seqscan, enable_bitmapscan: a plan from a small table must not read all of it when an old snapshot
//   has made it large.
// - idle_in_transaction_session_timeout: a client that stops in a transaction would keep its locks for hours.
// - No other timeout of the role's may end a statement or an idle session.
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
      {"enable_seqscan", "'off'"},
      {"enable_bitmapscan", "'off'"},
      {"idle_in_transaction_session_timeout", fmt::format("'{}s'", longest_silence.count())}};
  if (server_version >= 17'00'00) all.emplace_back("transaction_timeout", "'0'");
  return all;
}

// Settings of rowlock's own sessions only.
// - keepalives: with the server's default a lost client keeps its locks for two hours. connect.cpp has the
//   client's.
// - plan_cache_mode: a take's statement is planned once. Its plan for one call looks cheaper, since a part
//   falls away where nothing is watched, but to make it costs more than the take.
std::vector<setting> session_settings(int server_version, bool check_client) {
  auto all = needed_settings(server_version);
  all.insert(all.end(), {{"default_transaction_isolation", "'read committed'"},
                         {"tcp_keepalives_idle", "'5'"},
                         {"tcp_keepalives_interval", "'2'"},
                         {"tcp_keepalives_count", "'3'"},
                         {"tcp_user_timeout", "'10s'"},
                         {"standard_conforming_strings", "'on'"},
                         {"quote_all_identifiers", "'off'"},
                         {"client_encoding", "'UTF8'"},
                         {"plan_cache_mode", "'force_generic_plan'"}});
  if (server_version >= 14'00'00) all.emplace_back("idle_session_timeout", "'0'");
  // Ends a lost client's wait for a row. Otherwise it would get a lock without a holder.
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

// SET LOCAL comes first: after it no statement_timeout of the role's can end the rest.
std::string set_up_text(int server_version, bool check_client, pooling how, int told_process) {
  auto text = fmt::format("SET LOCAL statement_timeout = 0; {}", who_text());
  if (how == pooling::transaction) return text;
  text += "; " + set_text(session_settings(server_version, check_client), false);
  if (how == pooling::detect)
    text += fmt::format(" WHERE pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) {}", told_process);
  return text;
}

// An invalid lock_timeout makes the SELECT fail on another server. set_config() is volatile, so nothing is
// evaluated before the comparison.
std::string local_settings_text(int server_version, whereabouts const& place, bool flushed) {
  auto all = needed_settings(server_version);
  for (auto& [name, value] : all) {
    if (name == "synchronous_commit" && !flushed) value = "'off'";
    if (name == "lock_timeout")
      value = fmt::format(
          "CASE WHEN {} OPERATOR(pg_catalog.=) '{}' AND {} OPERATOR(pg_catalog.=) '{}' THEN {} ELSE '{}' END",
          started_text, place.started, database_text, place.database, value, moved);
  }
  return set_text(all, true);
}

}  // namespace rowlock::backend::postgresql
