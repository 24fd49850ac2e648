#include "backend/postgresql/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <rowlock/error.hpp>
#include <utility>

#include "backend/postgresql/errors.hpp"
#include "backend/postgresql/settings.hpp"
#include "backend/postgresql/values.hpp"
#include "backend/wire.hpp"
#include "base/never_destroyed.hpp"
#include "base/text.hpp"

namespace rowlock::backend::postgresql {
namespace {

constexpr int oldest_server = 12'00'00;
// A role's statement_timeout may be so short that it ends the set-up, now and then.
constexpr int most_set_ups = 20;
constexpr char const* set_up_name = "session set-up";
constexpr char const* no_answer = "what answers there does not speak PostgreSQL's protocol";
constexpr char const* other_server =
    "behind the pooler another server or database answers than at the log-in (or the server was restarted)";
// The setting may also be the role's own: we can't tell, so it is obeyed.
constexpr char const* left_read_only =
    "; or, if that is the primary, another program has left default_transaction_read_only = on in a session "
    "of "
    "the pooler's: it should undo that, or let the pooler do so (PgBouncer: server_reset_query_always = 1)";
constexpr char const* only_local_text =
    "the wait for the synchronous standby was cancelled: the commit may be lost at a failover";

// Leaves out pg_temp if the user names it: nobody else sees a temporary table, so it excludes nobody.
std::vector<std::string> schemas_in(char const* json) {
  std::vector<std::string> all;
  for (auto const& name : nlohmann::json::parse(json, nullptr, false)) {
    auto const* schema = name.get_ptr<std::string const*>();
    if (schema != nullptr && !schema->starts_with("pg_")) all.push_back(*schema);
  }
  return all;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
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

bool begins_with(std::string_view sql, std::string_view wanted) {
  auto const at = sql.find_first_not_of(" \t\r\n");
  if (at == sql.npos) return false;
  std::string word(sql.substr(at, wanted.size()));
  for (char& c : word) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return word == wanted;
}

bool says_rollback(std::string_view sql) { return begins_with(sql, "ROLLBACK") || begins_with(sql, "ABORT"); }

// In one transaction with the settings: that which the text begins, or that which several statements are by
// themselves. (BEGIN first, or its isolation level would come too late.)
std::string with_settings(std::string_view sql, std::string_view settings) {
  bool const begins = begins_with(sql, "BEGIN") || begins_with(sql, "START");
  return begins ? fmt::format("{}; {}", sql, settings) : fmt::format("{}; {}", settings, sql);
}

}  // namespace

session::session(native_connection c, std::string where, boot_time_point deadline, pooling how)
    : channel_(std::move(c)), where_(std::move(where)), pooling_(how) {
  set_up(deadline);
}

// One round trip. Whether a pooler is between is seen in the server: then nothing is set there, where it
// would stay behind for other programs.
void session::set_up(boot_time_point deadline) {
  int const version = PQserverVersion(channel_.native());
  if (version < oldest_server)
    throw error(errc::unsupported,
                fmt::format("{}: PostgreSQL {} is too old: 12 is the oldest that rowlock works on", where_,
                            version / 1'00'00));
  bool check_client = true;
  for (int tries = 1;; ++tries) {
    auto const text = set_up_text(version, check_client, pooling_, PQbackendPID(channel_.native()));
    auto const results = [&] {
      try {
        return finish(PQsendQuery(channel_.native(), text.c_str()) == 1, set_up_name, stake::nothing,
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
    if (results.size() <= who_place) give_up(stake::nothing, set_up_name, no_answer);
    return meet(results[who_place].get());
  }
}

void session::meet(PGresult const* who) {
  if (PQntuples(who) != 1 || PQnfields(who) != 4 || !is_number(PQgetvalue(who, 0, 0)) ||
      !is_number(PQgetvalue(who, 0, 1)))
    give_up(stake::nothing, set_up_name, no_answer);
  local_settings_ =
      local_settings_text(PQserverVersion(channel_.native()), {PQgetvalue(who, 0, 0), PQgetvalue(who, 0, 1)});
  identity_ = fmt::format("postgresql:{}:{}", PQgetvalue(who, 0, 0), PQgetvalue(who, 0, 1));
  if (pooling_ == pooling::detect)
    pooling_ = std::to_string(PQbackendPID(channel_.native())) == PQgetvalue(who, 0, 2)
                   ? pooling::session
                   : pooling::transaction;
  path_ = schemas_in(PQgetvalue(who, 0, 3));
  channel_.expect_long_replies();
  if (pooling_ != pooling::transaction) return;
  std::string_view const encoding = pg_encoding_to_char(PQclientEncoding(channel_.native()));
  if (encoding != "UTF8")
    throw error(errc::unsupported,
                fmt::format("{}: client_encoding is {}: behind a pooler rowlock changes no setting of the "
                            "session, so ask for UTF8 when connecting",
                            where_, encoding));
}

// A transaction's session may have been left with a search path by another program: the one that the user,
// the role or the database has is meant.
std::vector<std::string> session::usual_path(boot_time_point deadline) {
  static auto const& what = base::never_destroyed<std::string>("search path");
  if (pooling_ != pooling::transaction) return path_;
  begin(what, deadline);
  auto const results =
      finish(PQsendQuery(channel_.native(),
                         "SET LOCAL statement_timeout = 0; SET LOCAL search_path TO DEFAULT;"
                         " SELECT pg_catalog.array_to_json(pg_catalog.current_schemas(false))") == 1,
             what, stake::nothing, deadline);
  if (results.empty() || PQntuples(results.back().get()) != 1) give_up(stake::nothing, what, no_answer);
  return schemas_in(PQgetvalue(results.back().get(), 0, 0));
}

// Not a view, which runs functions of whoever made it when it is read. [C12]
std::optional<std::string> session::find_schema(std::string const& table, bool or_new,
                                                boot_time_point deadline) {
  auto const path = usual_path(deadline);
  static auto const& find = base::never_destroyed<statement>(
      statement{"find_schema",
                "SELECT p.name FROM json_array_elements_text($1::json) WITH ORDINALITY AS p(name, place)"
                " WHERE EXISTS (SELECT 1 FROM pg_class AS c WHERE c.relkind IN ('r', 'p')"
                " AND c.oid = to_regclass(format('%I.%I', p.name, $2::text))) ORDER BY p.place LIMIT 1"});
  std::vector<value> const parameters{nlohmann::json(path).dump(), table};
  auto const found = execute(find, parameters, deadline);
  if (found.rows.empty() && (!or_new || path.empty())) return std::nullopt;
  auto schema = found.rows.empty() ? path.front() : as_text(found.rows[0].at(0));
  // It is put into statements and functions, also within strings.
  if (schema.find('\'') != schema.npos || schema.find("$$") != schema.npos)
    throw error(errc::unsupported,
                fmt::format("{}: rowlock's tables can't be in schema {}, which the search path leads to: its "
                            "name could end a string",
                            where_, schema),
                find.name, "", 0);
  return schema;
}

bool session::usable() const noexcept {
  return channel_.open() && PQstatus(channel_.native()) == CONNECTION_OK;
}

session_facts session::facts() const {
  session_facts out;
  auto* const c = channel_.native();
  out.server_process = PQbackendPID(c);
  out.pooled = pooling_ == pooling::transaction;
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

void session::refuse(PGresult const* r, std::string const& what, stake at_stake) {
  auto const refused = statement_error(r, what, where_);
  if (refused.reason() == errc::in_doubt || refused.sqlstate().empty() || ends_session(r))
    give_up(at_stake, what, one_line(PQresultErrorMessage(r)));
  if (refused.sqlstate() == "22023" && std::string_view(refused.what()).find(moved) != std::string_view::npos)
    give_up(stake::nothing, what, other_server);
  if (pooling_ == pooling::transaction && refused.reason() == errc::read_only)
    throw error(errc::read_only, base::plain_message(refused) + left_read_only, what, refused.sqlstate(), 0);
  throw refused;
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
    if (failed(one.get())) refuse(one.get(), what, at_stake);
  }
  if (r.only_local) give_up(at_stake, what, only_local_text);
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

// Nothing is prepared: the next transaction may come to another of the server's sessions.
bool session::send_pooled(statement const& s, text_parameters const& texts) {
  auto* c = channel_.native();
  auto const send = [c](char const* text) {
    return PQsendQueryParams(c, text, 0, nullptr, nullptr, nullptr, nullptr, 0) == 1;
  };
  auto const send_statement = [&] {
    return PQsendQueryParams(c, s.sql.c_str(), texts.count(), nullptr, texts.data(), nullptr, nullptr, 0) ==
           1;
  };
  if (PQtransactionStatus(c) != PQTRANS_IDLE) return send_statement();
  return PQenterPipelineMode(c) == 1 && send("BEGIN ISOLATION LEVEL READ COMMITTED") &&
         send(local_settings_.c_str()) && send_statement() && send("COMMIT") && PQpipelineSync(c) == 1;
}

// A transaction of its own, unless one is open. The server skips what comes after a statement that fails,
// so COMMIT is either answered or was not run. What was sent and not answered is in doubt, as ever.
native_result session::run_pooled(statement const& s, std::span<value const> parameters,
                                  boot_time_point deadline) {
  constexpr std::size_t its_place = 2;
  text_parameters const texts(parameters, s.name);
  auto* c = channel_.native();
  if (PQtransactionStatus(c) != PQTRANS_IDLE) {
    auto results = finish(send_pooled(s, texts), s.name, stake::statement, deadline);
    return results.empty() ? nullptr : std::move(results.back());
  }
  if (!send_pooled(s, texts)) give_up(stake::statement, s.name, channel_.error_message());
  auto r = channel_.collect_pipelined(deadline);
  if (r.how != reply::outcome::complete) give_up(stake::statement, s.name, r.message);
  if (PQexitPipelineMode(c) != 1) give_up(stake::statement, s.name, channel_.error_message());
  for (auto const& one : r.results) {
    if (!failed(one.get())) continue;
    try {
      refuse(one.get(), s.name, stake::statement);
    } catch (error const&) {
      if (usable() && PQtransactionStatus(c) != PQTRANS_IDLE) roll_back();
      throw;
    }
  }
  if (r.results.size() != its_place + 2 || PQcmdStatus(r.results.back().get()) != std::string_view("COMMIT"))
    give_up(stake::statement, s.name, "COMMIT was not answered as such");
  if (r.only_local) give_up(stake::statement, s.name, only_local_text);
  return std::move(r.results[its_place]);
}

result session::execute(statement const& s, std::span<value const> parameters, boot_time_point deadline) {
  begin(s.name, deadline);
  if (pooling_ == pooling::transaction) return decode(run_pooled(s, parameters, deadline).get());
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
  static auto const& what = base::never_destroyed<std::string>("script");
  begin(what, deadline);
  bool const bare =
      pooling_ == pooling::transaction && PQtransactionStatus(channel_.native()) == PQTRANS_IDLE;
  std::string const text = bare ? with_settings(sql, local_settings_) : std::string(sql);
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
  if (pooling_ == pooling::transaction)
    throw error(
        errc::unsupported,
        fmt::format("{}: a row_lock is a transaction that stays open, and there is a pooler between that "
                    "lends out the server's sessions by the transaction: use lease or unique_insert, connect "
                    "to the server itself, or say pooler=session in the connection string if it lends "
                    "them out by the session",
                    where_),
        s.name, "", 0);
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
