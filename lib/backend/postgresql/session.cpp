#include "backend/postgresql/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <rowlock/error.hpp>
#include <utility>

#include "backend/postgresql/errors.hpp"
#include "backend/postgresql/values.hpp"
#include "backend/wire.hpp"

namespace rowlock::backend::postgresql {
namespace {

constexpr int oldest_server = 12'00'00;

// A role's statement_timeout may be so short that it ends the set-up, now and then.
constexpr int most_set_ups = 20;

// One round trip. SET comes first and is quick: from then on no statement_timeout of the role's ends the
// rest. A take must survive a crash of the server, so commits are flushed (but a synchronous standby's
// remote_apply, which is more, stays). lock_timeout: a row that a transaction has locked is busy. No other
// timeout may end a statement or an idle session of ours, whatever the role's defaults are. Keepalives: the
// server's own default finds a client whose host is gone after two hours, and until then it keeps what the
// session has locked; the client side has the same in connect.cpp.
std::string set_up_text(int server_version, bool check_client) {
  std::string text =
      "SET statement_timeout = 0;"
      "SELECT (extract(epoch FROM pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint::text,"
      " (SELECT oid::text FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()),"
      " set_config('default_transaction_isolation', 'read committed', false),"
      " set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN"
      " ('off', 'local', 'remote_write') THEN 'on' ELSE current_setting('synchronous_commit') END, false),"
      " set_config('lock_timeout', '1s', false),"
      " set_config('statement_timeout', '0', false),"
      " set_config('idle_in_transaction_session_timeout', '0', false),"
      " set_config('tcp_keepalives_idle', '5', false),"
      " set_config('tcp_keepalives_interval', '2', false),"
      " set_config('tcp_keepalives_count', '3', false),"
      " set_config('tcp_user_timeout', '10s', false),"
      " set_config('standard_conforming_strings', 'on', false),"
      " set_config('client_encoding', 'UTF8', false)";
  if (server_version >= 14'00'00) text += ", set_config('idle_session_timeout', '0', false)";
  if (server_version >= 17'00'00) text += ", set_config('transaction_timeout', '0', false)";
  // Ends a statement that waits for a row although its client is gone: it would get the lock for nobody.
  if (server_version >= 14'00'00 && check_client)
    text += ", set_config('client_connection_check_interval', '1s', false)";
  return text;
}

bool failed(PGresult const* r) {
  auto const status = PQresultStatus(r);
  return status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK && status != PGRES_EMPTY_QUERY;
}

bool ends_session(PGresult const* r) {
  char const* text = PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
  std::string_view const severity = text == nullptr ? "" : text;
  return severity == "FATAL" || severity == "PANIC";
}

bool says_rollback(std::string_view sql) {
  auto const at = sql.find_first_not_of(" \t\r\n");
  if (at == sql.npos) return false;
  std::string word(sql.substr(at, 8));
  for (char& c : word) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return word == "ROLLBACK" || word.substr(0, 5) == "ABORT";
}

}  // namespace

session::session(native_connection c, std::string where, boot_time_point deadline)
    : channel_(std::move(c)), where_(std::move(where)) {
  set_up(deadline);
}

void session::set_up(boot_time_point deadline) {
  int const version = PQserverVersion(channel_.native());
  if (version < oldest_server)
    throw error(errc::unsupported,
                fmt::format("{}: PostgreSQL {} is too old: 12 is the oldest that rowlock works on", where_,
                            version / 1'00'00));
  bool check_client = true;
  for (int tries = 1;; ++tries) {
    auto const text = set_up_text(version, check_client);
    auto const results = [&] {
      try {
        return finish(PQsendQuery(channel_.native(), text.c_str()) == 1, "session set-up", stake::nothing,
                      deadline);
      } catch (error const& e) {
        // Not every operating system of a server can watch its clients.
        bool const can_not_watch = check_client && e.sqlstate() == "22023";
        if (can_not_watch) check_client = false;
        if (!can_not_watch && (e.sqlstate() != "57014" || tries == most_set_ups)) throw;
        return std::vector<native_result>{};
      }
    }();
    if (results.empty()) continue;
    auto const* told = results.back().get();
    identity_ = fmt::format("postgresql:{}:{}", PQgetvalue(told, 0, 0), PQgetvalue(told, 0, 1));
    channel_.expect_long_replies();
    return;
  }
}

bool session::usable() const noexcept {
  return channel_.open() && PQstatus(channel_.native()) == CONNECTION_OK;
}

session_facts session::facts() const {
  session_facts out;
  auto* const c = channel_.native();
  out.server_process = PQbackendPID(c);
  char const* const protocol = PQsslInUse(c) != 0 ? PQsslAttribute(c, "protocol") : "";
  out.encryption = protocol == nullptr ? "TLS" : protocol;
  read_wire(PQsocket(c), out);
  return out;
}

void session::give_up(stake at_stake, std::string const& what, std::string const& why) {
  channel_.close();
  auto const code = at_stake == stake::nothing ? errc::unreachable : errc::in_doubt;
  throw error(code, fmt::format("{}: {}: {}", where_, what, why), what, "", 0);
}

// Before anything is sent: a session that ended while it was idle (a restarted server) is no doubt about a
// statement.
void session::begin(std::string const& what, boot_time_point deadline) {
  if (channel_.forked())
    throw error(errc::forked, fmt::format("{}: connected before the process was forked", where_), what, "",
                0);
  if (!channel_.open()) give_up(stake::nothing, what, "the connection was given up");
  if (!channel_.alive()) {
    auto const why = channel_.error_message();
    give_up(stake::nothing, what, why.empty() ? "the server ended the session" : why);
  }
  if (PQtransactionStatus(channel_.native()) == PQTRANS_ACTIVE)
    give_up(stake::nothing, what, "an earlier reply was not read to its end");
  if (boot_clock::now() >= deadline) give_up(stake::nothing, what, "no time was left to send it");
}

std::vector<native_result> session::finish(bool sent, std::string const& what, stake at_stake,
                                           boot_time_point deadline) {
  if (!sent) {
    auto const why = channel_.error_message();
    if (!usable()) give_up(at_stake, what, why);
    throw error(errc::failed, fmt::format("{}: {}: {}", where_, what, why), what, "", 0);
  }
  auto r = channel_.collect(deadline);
  if (r.how != reply::outcome::complete) give_up(at_stake, what, r.message);
  for (auto const& one : r.results) {
    if (!failed(one.get())) continue;
    auto const refused = statement_error(one.get(), what, where_);
    if (refused.reason() == errc::in_doubt || refused.sqlstate().empty() || ends_session(one.get()))
      give_up(at_stake, what, one_line(PQresultErrorMessage(one.get())));
    throw refused;
  }
  if (r.only_local)
    give_up(at_stake, what,
            "the wait for the synchronous standby was cancelled: the commit may be lost at a failover");
  return std::move(r.results);
}

session::prepared const& session::prepare(statement const& s, boot_time_point deadline) {
  auto& known = prepared_[s.name];
  if (!known.server_name.empty() && known.sql == s.sql) return known;
  known = {};
  // A new name each time: what an old one means to the server now is unknown.
  auto const name = fmt::format("{}_{}", s.name, ++prepared_count_);
  bool const sent = PQsendPrepare(channel_.native(), name.c_str(), s.sql.c_str(), 0, nullptr) == 1;
  finish(sent, s.name, stake::nothing, deadline);
  known = {s.sql, name};
  return known;
}

native_result session::run_prepared(statement const& s, std::span<value const> parameters,
                                    boot_time_point deadline) {
  text_parameters const texts(parameters, s.name);
  auto const& ready = prepare(s, deadline);
  if (boot_clock::now() >= deadline) give_up(stake::nothing, s.name, "no time was left to send it");
  bool const sent = PQsendQueryPrepared(channel_.native(), ready.server_name.c_str(), texts.count(),
                                        texts.data(), nullptr, nullptr, 0) == 1;
  auto results = finish(sent, s.name, stake::statement, deadline);
  return results.empty() ? nullptr : std::move(results.back());
}

result session::execute(statement const& s, std::span<value const> parameters, boot_time_point deadline) {
  begin(s.name, deadline);
  bool const in_transaction = PQtransactionStatus(channel_.native()) != PQTRANS_IDLE;
  try {
    return decode(run_prepared(s, parameters, deadline).get());
  } catch (error const& e) {
    // Forgotten by the server (DISCARD, a pooler), or its columns have another type since a migration.
    // Neither has done anything yet.
    if (in_transaction || (e.sqlstate() != "26000" && e.sqlstate() != "0A000")) throw;
    prepared_.erase(s.name);
  }
  return decode(run_prepared(s, parameters, deadline).get());
}

void session::script(std::string_view sql, boot_time_point deadline) {
  static std::string const what = "script";
  begin(what, deadline);
  std::string const text(sql);
  auto const results =
      finish(PQsendQuery(channel_.native(), text.c_str()) == 1, what, stake::statement, deadline);
  // COMMIT of a transaction that a failed statement has aborted is answered with success, and with this tag.
  if (!results.empty() && std::string_view(PQcmdStatus(results.back().get())) == "ROLLBACK" &&
      !says_rollback(sql))
    throw error(errc::conflict,
                fmt::format("{}: the transaction had failed before: COMMIT rolled it back", where_), what,
                "25P02", 0);
}

namespace {

// PostgreSQL's lock_timeout: whole milliseconds, 0 for none.
std::string lock_timeout(boot_time_point deadline) {
  using namespace std::chrono;
  if (deadline == boot_time_point::max()) return "0";
  auto const left = ceil<milliseconds>(deadline - boot_clock::now());
  return std::to_string(std::clamp<std::int64_t>(left.count(), 1, INT32_MAX));
}

boot_time_point later(boot_time_point t, std::chrono::nanoseconds by) {
  return t > boot_time_point::max() - by ? boot_time_point::max() : t + by;
}

}  // namespace

result session::wait_for_row(statement const& s, std::span<value const> parameters, boot_time_point deadline,
                             std::chrono::nanoseconds reply_timeout, std::stop_token stop) {
  base::stop_event const stopped(std::move(stop));
  auto const prepare_by = boot_clock::now() + reply_timeout;
  begin(s.name, prepare_by);
  try {
    return wait_once(prepare(s, prepare_by), s.name, parameters, deadline, reply_timeout, stopped);
  } catch (error const& e) {
    if (e.sqlstate() != "26000" && e.sqlstate() != "0A000") throw;
    prepared_.erase(s.name);  // as in execute()
  }
  return wait_once(prepare(s, prepare_by), s.name, parameters, deadline, reply_timeout, stopped);
}

result session::wait_once(prepared const& ready, std::string const& what, std::span<value const> parameters,
                          boot_time_point deadline, std::chrono::nanoseconds reply_timeout,
                          base::stop_event const& stop) {
  text_parameters const texts(parameters, what);
  auto* c = channel_.native();
  auto const limit = lock_timeout(deadline);
  auto const silence = std::to_string(std::chrono::milliseconds(longest_silence).count());
  char const* const limits[] = {limit.c_str(), silence.c_str()};
  bool const sent = PQenterPipelineMode(c) == 1 &&
                    PQsendQueryParams(c, "BEGIN ISOLATION LEVEL READ COMMITTED", 0, nullptr, nullptr, nullptr,
                                      nullptr, 0) == 1 &&
                    PQsendQueryParams(c,
                                      "SELECT set_config('lock_timeout', $1, true),"
                                      " set_config('idle_in_transaction_session_timeout', $2, true)",
                                      2, nullptr, limits, nullptr, nullptr, 0) == 1 &&
                    PQsendQueryPrepared(c, ready.server_name.c_str(), texts.count(), texts.data(), nullptr,
                                        nullptr, 0) == 1 &&
                    PQpipelineSync(c) == 1;
  if (!sent) end_wait(errc::unreachable, what, channel_.error_message());
  auto r = collect_pipeline(c, later(deadline, reply_timeout), &stop);
  if (r.how == reply::outcome::stopped) end_wait(errc::row_locked, what, "the wait was cancelled");
  if (r.how != reply::outcome::complete) end_wait(errc::unreachable, what, r.message);
  if (PQexitPipelineMode(c) != 1) end_wait(errc::unreachable, what, channel_.error_message());
  for (auto const& one : r.results) {
    if (!failed(one.get())) continue;
    auto const refused = statement_error(one.get(), what, where_);
    if (refused.reason() == errc::in_doubt || refused.sqlstate().empty() || ends_session(one.get()))
      end_wait(errc::unreachable, what, one_line(PQresultErrorMessage(one.get())));
    roll_back();
    throw refused;
  }
  return decode(r.results.back().get());
}

void session::end_wait(errc code, std::string const& what, std::string const& why) {
  channel_.close();
  throw error(code, fmt::format("{}: {}: {}", where_, what, why), what, "", 0);
}

void session::roll_back() noexcept {
  using namespace std::chrono_literals;
  try {
    script("ROLLBACK", boot_clock::now() + 2s);
  } catch (std::exception const&) {
    channel_.close();
  }
}

}  // namespace rowlock::backend::postgresql
