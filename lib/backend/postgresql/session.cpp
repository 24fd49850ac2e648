#include "backend/postgresql/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <rowlock/error.hpp>
#include <utility>

#include "backend/postgresql/connect.hpp"
#include "backend/postgresql/errors.hpp"
#include "backend/postgresql/settings.hpp"
#include "backend/postgresql/values.hpp"
#include "backend/wire.hpp"
#include "base/never_destroyed.hpp"
#include "base/text.hpp"

namespace rowlock::backend::postgresql {
namespace {

constexpr char const* other_server =
    "behind the pooler another server or database answers than at the log-in (or the server was restarted)";
// The setting can also be the role's own, so rowlock obeys it.
constexpr char const* left_read_only =
    "; or, if that is the primary, another program has left default_transaction_read_only = on in a session "
    "of "
    "the pooler's: it should undo that, or let the pooler do so (PgBouncer: server_reset_query_always = 1)";

bool begins_with(std::string_view sql, std::string_view wanted) {
  auto const at = sql.find_first_not_of(" \t\r\n");
  if (at == sql.npos) return false;
  std::string word(sql.substr(at, wanted.size()));
  for (char& c : word) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return word == wanted;
}

bool says_rollback(std::string_view sql) { return begins_with(sql, "ROLLBACK") || begins_with(sql, "ABORT"); }

// One transaction with the settings: the text's own, or the implicit one of several statements. BEGIN comes
// first, or its isolation level would be too late.
std::string with_settings(std::string_view sql, std::string_view settings) {
  bool const begins = begins_with(sql, "BEGIN") || begins_with(sql, "START");
  return begins ? fmt::format("{}; {}", sql, settings) : fmt::format("{}; {}", settings, sql);
}

}  // namespace

session::session(native_connection c, std::string where, boot_time_point deadline, own_words words)
    : channel_(std::move(c)), where_(std::move(where)), pooling_(words.how), flushes_all_(words.flushes_all) {
  set_up(deadline);
}

bool session::usable() const noexcept {
  return channel_.open() && PQstatus(channel_.native()) == CONNECTION_OK;
}

bool session::alive() {
  look_.forget();
  if (channel_.forked() || !channel_.alive()) return false;
  look_.remember();
  return true;
}

session_facts session::facts() const {
  session_facts out;
  auto* const c = channel_.native();
  out.server_process = PQbackendPID(c);
  out.pooled = pooling_ == pooling::transaction;
  out.flushes_less = !flushes_all_;
  char const* const protocol = PQsslInUse(c) != 0 ? PQsslAttribute(c, "protocol") : "";
  out.encryption = protocol == nullptr ? "TLS" : protocol;
  out.gives_password = gives_password(c);
  read_wire(PQsocket(c), out);
  return out;
}

void session::give_up(stake at_stake, std::string const& what, std::string const& why) {
  channel_.close();
  auto const code = at_stake == stake::nothing ? errc::unreachable : errc::in_doubt;
  throw error(code, fmt::format("{}: {}: {}", where_, what, why), what, "", 0);
}

// Checks before sending: a session that ended while idle (a restarted server) leaves no statement in doubt.
void session::begin(std::string const& what, boot_time_point deadline) {
  if (channel_.forked())
    throw error(errc::forked, fmt::format("{}: connected before the process was forked", where_), what, "",
                0);
  if (!channel_.open()) give_up(stake::nothing, what, "the connection was given up");
  if (!look_.use() && !channel_.alive()) {
    auto const why = channel_.error_message();
    give_up(stake::nothing, what, why.empty() ? "the server ended the session" : why);
  }
  if (PQtransactionStatus(channel_.native()) == PQTRANS_ACTIVE)
    give_up(stake::nothing, what, "an earlier reply was not read to its end");
  if (boot_clock::now() >= deadline) give_up(stake::nothing, what, "no time was left to send it");
}

bool session::is_flushed(std::string_view sql) const noexcept {
  return flushes_all_ || !sql.starts_with(volatile_mark);
}

void session::set_flushed(bool wanted, boot_time_point deadline) {
  static auto const& what = base::never_destroyed<std::string>("flush");
  bool const settable =
      pooling_ != pooling::transaction && PQtransactionStatus(channel_.native()) == PQTRANS_IDLE;
  if (wanted == flushes_now_ || !settable) return;
  // Its columns are evaluated from left to right.
  auto const text = fmt::format(
      "SELECT pg_catalog.current_setting('synchronous_commit'), "
      "pg_catalog.set_config('synchronous_commit', '{}', false)",
      wanted ? flushed_level_ : "off");
  auto const results =
      finish(PQsendQuery(channel_.native(), text.c_str()) == 1, what, stake::nothing, deadline);
  if (results.empty() || PQntuples(results.back().get()) != 1) give_up(stake::nothing, what, no_answer_text);
  if (!wanted) flushed_level_ = PQgetvalue(results.back().get(), 0, 0);
  flushes_now_ = wanted;
}

void session::refuse(PGresult const* r, std::string const& what, stake at_stake) {
  auto const refused = statement_error(r, what, where_);
  if (refused.reason() == errc::in_doubt || refused.sqlstate().empty() || ends_session(r))
    give_up(at_stake, what, one_line(PQresultErrorMessage(r)));
  if (refused.sqlstate() == "22023" && std::string_view(refused.what()).find(moved) != std::string_view::npos)
    give_up(stake::nothing, what, other_server);
  // The next session might find the new primary.
  if (refused.reason() == errc::read_only) channel_.close();
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
  // Flushed or not, it is the same to the server.
  std::string_view sql = s.sql;
  if (sql.starts_with(volatile_mark)) sql.remove_prefix(volatile_mark.size());
  if (!known.server_name.empty() && known.sql == sql) return known;
  known = {};
  // A new name each time: the server's state for an old name is unknown.
  auto const name = fmt::format("{}_{}", s.name, ++prepared_count_);
  std::string text(sql);
  bool const sent = PQsendPrepare(channel_.native(), name.c_str(), text.c_str(), 0, nullptr) == 1;
  finish(sent, s.name, stake::nothing, deadline);
  known = {std::move(text), name};
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
  // A SELECT of ours commits nothing that has to stay.
  if (!s.sql.starts_with("SELECT")) set_flushed(is_flushed(s.sql), deadline);
  if (pooling_ == pooling::transaction) return decode(run_pooled(s, parameters, deadline).get());
  bool const in_transaction = PQtransactionStatus(channel_.native()) != PQTRANS_IDLE;
  // The portal of a prepared statement keeps its snapshot until the transaction ends, and a freeze waits for
  // snapshots. A simple query, as a row lock's ping is here, closes that portal.
  if (in_transaction && parameters.empty()) {
    auto const results =
        finish(PQsendQuery(channel_.native(), s.sql.c_str()) == 1, s.name, stake::statement, deadline);
    return decode(results.empty() ? nullptr : results.back().get());
  }
  try {
    return decode(run_prepared(s, parameters, deadline).get());
  } catch (error const& e) {
    if (in_transaction || !is_forgotten(e.sqlstate())) throw;
    prepared_.erase(s.name);
  }
  return decode(run_prepared(s, parameters, deadline).get());
}

void session::script(std::string_view sql, boot_time_point deadline) {
  static auto const& what = base::never_destroyed<std::string>("script");
  begin(what, deadline);
  set_flushed(is_flushed(sql), deadline);
  bool const bare =
      pooling_ == pooling::transaction && PQtransactionStatus(channel_.native()) == PQTRANS_IDLE;
  std::string const text = bare ? with_settings(sql, local_settings_) : std::string(sql);
  auto const results =
      finish(PQsendQuery(channel_.native(), text.c_str()) == 1, what, stake::statement, deadline);
  // The server answers COMMIT of an aborted transaction with success and this tag.
  if (!results.empty() && std::string_view(PQcmdStatus(results.back().get())) == "ROLLBACK" &&
      !says_rollback(sql))
    throw error(errc::conflict,
                fmt::format("{}: the transaction had failed before: COMMIT rolled it back", where_), what,
                "25P02", 0);
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
