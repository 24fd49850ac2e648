// Wait queues are session advisory locks. The key is a hash of table and name, as lock_release computes it
// from the row's columns. The wait is a function of the schema (migrations/postgresql).

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <rowlock/error.hpp>

#include "backend/postgresql/errors.hpp"
#include "backend/postgresql/session.hpp"
#include "backend/postgresql/values.hpp"
#include "base/never_destroyed.hpp"
#include "base/text.hpp"

namespace rowlock::backend::postgresql {
namespace {

std::string const& said() {
  static auto const& what = base::never_destroyed<std::string>("queue");
  return what;
}

statement enter_statement(table_names const& tables) {
  return {"enter_queue",
          fmt::format("SELECT {}($1::text, $2::text, $3::bigint)", tables.table("enter_queue"))};
}

/// Whether our function is the tables' owner's. No row: there is none.
statement enter_trust_statement(table_names const& tables) {
  return {
      "enter_queue_owner",
      fmt::format("SELECT p.proowner OPERATOR(pg_catalog.=) c.relowner OR r.rolsuper "
                  "FROM pg_catalog.pg_proc AS p "
                  "JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) p.proowner, "
                  "pg_catalog.pg_class AS c "
                  "WHERE p.oid OPERATOR(pg_catalog.=) pg_catalog.to_regprocedure('{}(text, text, bigint)') "
                  "AND c.oid OPERATOR(pg_catalog.=) '{}'::pg_catalog.regclass",
                  tables.table("enter_queue"), tables.table("locks"))};
}

// The next waiter has the wait queue as soon as this session leaves it, and then the queue cannot be shared.
// Before that no test works on all versions: since PostgreSQL 17 a holder can share its queue despite
// waiters.
statement const& leave_statement() {
  static auto const& s = base::never_destroyed<statement>(statement{
      "leave_queue",
      "SELECT pg_catalog.pg_advisory_unlock_all(), pg_catalog.pg_try_advisory_xact_lock_shared("
      "pg_catalog.hashtextextended($1, $2::pg_catalog.regclass::pg_catalog.oid::pg_catalog.int8))"});
  return s;
}

bool is_taken(PGresult const* left) { return decode(left).rows.at(0).at(1) != value(std::int64_t{1}); }

}  // namespace

// A role that may create objects there can make a function where ours is missing. It would run with this
// role's rights.
std::string session::prepared_enter(table_names const& tables, boot_time_point deadline) {
  auto const what = enter_statement(tables);
  // A name whose preparation failed is there, too, without a text.
  auto const known = prepared_.find(what.name);
  if (known == prepared_.end() || known->second.sql != what.sql) {
    auto const trusted = execute(enter_trust_statement(tables), {}, deadline).rows;
    if (trusted.empty())
      throw error(errc::schema_old,
                  fmt::format("{}: function {} is missing: `rowlock migrate up` makes it", where_,
                              tables.table("enter_queue")),
                  said(), "", 0);
    if (trusted[0].at(0) != value(std::int64_t{1}))
      throw error(errc::access_denied,
                  fmt::format("{}: {} does not belong to the owner of {}, and so is not called", where_,
                              tables.table("enter_queue"), tables.table("locks")),
                  said(), "", 0);
  }
  return prepare(what, deadline).server_name;
}

// A stop ends the session. The server's side can wait on until its time-out.
queue_entry session::enter_queue(table_names const& tables, std::string const& name, std::string const& who,
                                 boot_time_point until, std::chrono::nanoseconds reply_timeout,
                                 std::stop_token stop) {
  base::stop_event const stopped(std::move(stop));
  auto const left = std::chrono::ceil<std::chrono::milliseconds>(until - boot_clock::now()).count();
  begin(said(), boot_clock::now() + reply_timeout);
  queue_ = {name, tables.table("locks")};
  auto const mark = who + '/' + name;
  std::array<value, 3> const values{name, mark, std::max<std::int64_t>(1, left)};
  text_parameters const texts(values, said());
  auto const enter = prepared_enter(tables, boot_clock::now() + reply_timeout);
  auto* c = channel_.native();
  bool const sent =
      PQenterPipelineMode(c) == 1 &&
      PQsendQueryPrepared(c, enter.c_str(), texts.count(), texts.data(), nullptr, nullptr, 0) == 1 &&
      PQpipelineSync(c) == 1;
  if (!sent) end_wait(errc::unreachable, said(), channel_.error_message());
  auto r = channel_.collect_pipelined(until + reply_timeout, &stopped);
  if (r.how != reply::outcome::complete) end_wait(errc::unreachable, said(), r.message);
  if (PQexitPipelineMode(c) != 1) end_wait(errc::unreachable, said(), channel_.error_message());
  for (auto const& one : r.results) {
    if (is_forgotten(one.get())) end_wait(errc::unreachable, said(), "it was forgotten by the server");
    if (!failed(one.get())) continue;
    auto const refused = statement_error(one.get(), said(), where_);
    channel_.close();
    throw refused;
  }
  auto const rows = decode(r.results.empty() ? nullptr : r.results.back().get()).rows;
  auto const how = rows.empty() || rows[0].empty() ? 0 : as_int(rows[0][0]);
  return how == 1 ? queue_entry::was_free : how == 2 ? queue_entry::in_its_turn : queue_entry::not_mine;
}

bool session::leave_queue(boot_time_point deadline) {
  begin(said(), deadline);
  text_parameters const queue(queue_, said());
  auto* c = channel_.native();
  bool const sent = PQsendQueryParams(c, leave_statement().sql.c_str(), queue.count(), nullptr, queue.data(),
                                      nullptr, nullptr, 0) == 1;
  auto const r = finish(sent, said(), stake::nothing, deadline);
  if (r.empty()) give_up(stake::nothing, said(), no_answer_text);
  return is_taken(r.back().get());
}

// The synchronization point between the two commits the release. In one transaction the queue would be left
// before the row is visibly free.
left_queue session::execute_and_leave_queue(statement const& s, std::span<value const> parameters,
                                            boot_time_point deadline) {
  begin(s.name, deadline);
  set_flushed(is_flushed(s.sql), deadline);
  text_parameters const texts(parameters, s.name);
  text_parameters const queue(queue_, said());
  auto const release = prepare(s, deadline).server_name;
  auto const leave = prepare(leave_statement(), deadline).server_name;
  if (boot_clock::now() >= deadline) give_up(stake::nothing, s.name, "no time was left to send it");
  auto* c = channel_.native();
  bool const sent =
      PQenterPipelineMode(c) == 1 &&
      PQsendQueryPrepared(c, release.c_str(), texts.count(), texts.data(), nullptr, nullptr, 0) == 1 &&
      PQpipelineSync(c) == 1 &&
      PQsendQueryPrepared(c, leave.c_str(), queue.count(), queue.data(), nullptr, nullptr, 0) == 1 &&
      PQpipelineSync(c) == 1;
  if (!sent) give_up(stake::statement, s.name, channel_.error_message());
  auto const r = channel_.collect_pipelined(deadline);
  if (r.how != reply::outcome::complete) give_up(stake::statement, s.name, r.message);
  for (auto const& one : r.results) {
    if (is_forgotten(one.get())) give_up(stake::nothing, s.name, "it was forgotten by the server");
    if (failed(one.get())) refuse(one.get(), s.name, stake::statement);
  }
  if (r.only_local) give_up(stake::statement, s.name, only_local_text);
  if (r.results.empty()) give_up(stake::statement, s.name, no_answer_text);
  auto done = decode(r.results.back().get());
  return {std::move(done), has_left_queue(deadline)};
}

// @return whether other sessions wait, or empty if unknown: the wait queue then ends with its session.
std::optional<bool> session::has_left_queue(boot_time_point deadline) {
  auto const r = channel_.collect_pipelined(deadline);
  if (r.how == reply::outcome::complete && !r.results.empty() && !failed(r.results.back().get()) &&
      PQexitPipelineMode(channel_.native()) == 1)
    return is_taken(r.results.back().get());
  channel_.close();
  return {};
}

}  // namespace rowlock::backend::postgresql
