// Wait queues are session advisory locks. The key is a hash of table and name.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <rowlock/error.hpp>

#include "backend/postgresql/errors.hpp"
#include "backend/postgresql/session.hpp"
#include "backend/postgresql/values.hpp"
#include "base/never_destroyed.hpp"
#include "base/text.hpp"

namespace rowlock::backend::postgresql {
namespace {

// Hexadecimal digits and the quoted table cannot end a string. lock_release computes the same key from the
// row's columns.
constexpr char const* key_text =
    "pg_catalog.hashtextextended(pg_catalog.convert_from(pg_catalog.decode('{1}', 'hex'), 'UTF8'),"
    " '{0}'::pg_catalog.regclass::pg_catalog.oid::pg_catalog.int8)";

// A mark shows lock_waiters whose session this is. Its key has the negated oid. It is shared, so it excludes
// no session. lock_waiters compares it with the row's owner: the session that has the wait queue is the
// holder's, or the first waiter's.
constexpr char const* mark_text =
    "pg_catalog.hashtextextended(pg_catalog.convert_from(pg_catalog.decode('{1}', 'hex'), 'UTF8'),"
    " - '{0}'::pg_catalog.regclass::pg_catalog.oid::pg_catalog.int8)";

// SQLSTATEs of the block's INFO messages. These go to the client under any settings, by default not to the
// server's log. So the session hears of its turn without a second statement.
constexpr char const* was_free = "RLG01";
constexpr char const* too_late = "RLG02";

// A block, because outside one a wait that ends by lock_timeout writes two lines to the server's log. The
// time-out can come although the lock was granted (T9), so the handler gives up every lock: a session has one
// wait queue at most. (A row's columns are evaluated from left to right. Otherwise the session's own
// lock_timeout of a second applies.)
constexpr char const* wait_text =
    "DO $queue$ DECLARE queue CONSTANT pg_catalog.int8 := {0};"
    " BEGIN"
    " IF pg_catalog.pg_try_advisory_lock_shared({2}) AND pg_catalog.pg_try_advisory_lock(queue) THEN"
    " RAISE INFO USING MESSAGE = 'the wait queue was free', ERRCODE = '{3}';"
    " ELSE"
    " PERFORM pg_catalog.set_config('lock_timeout', '{1}', true), pg_catalog.pg_advisory_lock(queue);"
    " END IF;"
    " EXCEPTION WHEN lock_not_available OR deadlock_detected THEN"
    " PERFORM pg_catalog.pg_advisory_unlock_all();"
    " RAISE INFO USING MESSAGE = 'the wait queue was not free in time', ERRCODE = '{4}';"
    " END $queue$";

std::string const& said() {
  static auto const& what = base::never_destroyed<std::string>("queue");
  return what;
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

// The server forgot a statement, or a migration changed its columns' types. Nothing was done.
bool is_forgotten(PGresult const* r) {
  char const* const state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
  return state != nullptr && (state == std::string_view("26000") || state == std::string_view("0A000"));
}

}  // namespace

// A stop ends the session. The server's side can wait on until its time-out.
queue_entry session::enter_queue(table_names const& tables, std::string const& name, std::string const& who,
                                 boot_time_point until, std::chrono::nanoseconds reply_timeout,
                                 std::stop_token stop) {
  base::stop_event const stopped(std::move(stop));
  auto const left = std::chrono::ceil<std::chrono::milliseconds>(until - boot_clock::now()).count();
  begin(said(), boot_clock::now() + reply_timeout);
  queue_ = {name, tables.table("locks")};
  auto const queue = fmt::format(key_text, tables.table("locks"), base::hexadecimal(name));
  auto const mark = fmt::format(mark_text, tables.table("locks"), base::hexadecimal(who + '/' + name));
  auto const text = fmt::format(wait_text, queue, std::max<std::int64_t>(1, left), mark, was_free, too_late);
  auto* c = channel_.native();
  channel_.forget_information();
  bool const sent = PQenterPipelineMode(c) == 1 &&
                    PQsendQueryParams(c, text.c_str(), 0, nullptr, nullptr, nullptr, nullptr, 0) == 1 &&
                    PQpipelineSync(c) == 1;
  if (!sent) end_wait(errc::unreachable, said(), channel_.error_message());
  auto r = channel_.collect_pipelined(until + reply_timeout, &stopped);
  if (r.how != reply::outcome::complete) end_wait(errc::unreachable, said(), r.message);
  if (PQexitPipelineMode(c) != 1) end_wait(errc::unreachable, said(), channel_.error_message());
  for (auto const& one : r.results)
    if (failed(one.get())) {
      auto const refused = statement_error(one.get(), said(), where_);
      channel_.close();
      throw refused;
    }
  auto const how = channel_.informed();
  return how == was_free   ? queue_entry::was_free
         : how == too_late ? queue_entry::not_mine
                           : queue_entry::in_its_turn;
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
