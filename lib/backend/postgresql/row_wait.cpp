// Waits for a row lock in the server.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <rowlock/error.hpp>
#include <utility>

#include "backend/postgresql/errors.hpp"
#include "backend/postgresql/session.hpp"
#include "backend/postgresql/values.hpp"
#include "base/never_destroyed.hpp"

namespace rowlock::backend::postgresql {
namespace {

// lock_timeout in whole milliseconds, "0" for none.
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
    return wait_once(prepare_wait(s, prepare_by), s.name, parameters, deadline, reply_timeout, stopped);
  } catch (error const& e) {
    if (!is_forgotten(e.sqlstate())) throw;
    prepared_.clear();  // as in execute(), but any of the statements
  }
  return wait_once(prepare_wait(s, prepare_by), s.name, parameters, deadline, reply_timeout, stopped);
}

session::prepared_wait session::prepare_wait(statement const& s, boot_time_point deadline) {
  static auto const& limit = base::never_destroyed<statement>(
      statement{"lock_timeout", "SELECT set_config('lock_timeout', $1, true)"});
  auto begin_name = prepare(begin_statement(), deadline).server_name;
  auto limit_name = prepare(limit, deadline).server_name;
  return {std::move(begin_name), std::move(limit_name), prepare(s, deadline)};
}

result session::wait_once(prepared_wait const& ready, std::string const& what,
                          std::span<value const> parameters, boot_time_point deadline,
                          std::chrono::nanoseconds reply_timeout, base::stop_event const& stop) {
  text_parameters const texts(parameters, what);
  auto* c = channel_.native();
  auto const limit = lock_timeout(deadline);
  char const* const limits[] = {limit.c_str()};
  auto const send = [c](char const* name, int count, char const* const* values) {
    return PQsendQueryPrepared(c, name, count, values, nullptr, nullptr, 0) == 1;
  };
  // The session's own settings limit the rest: longest_silence, and lock_timeout of a second.
  bool const waits = !ready.what.sql.ends_with("SKIP LOCKED");
  bool const sent = PQenterPipelineMode(c) == 1 && send(ready.begin.c_str(), 0, nullptr) &&
                    (!waits || send(ready.limit.c_str(), 1, limits)) &&
                    send(ready.what.server_name.c_str(), texts.count(), texts.data()) &&
                    PQpipelineSync(c) == 1;
  if (!sent) end_wait(errc::unreachable, what, channel_.error_message());
  auto r = channel_.collect_pipelined(later(deadline, reply_timeout), &stop);
  if (r.how == reply::outcome::stopped) end_wait(errc::row_locked, what, "the wait was cancelled");
  if (r.how != reply::outcome::complete) end_wait(errc::unreachable, what, r.message);
  if (PQexitPipelineMode(c) != 1) end_wait(errc::unreachable, what, channel_.error_message());
  for (auto const& one : r.results) {
    if (!failed(one.get())) continue;
    auto const refused = statement_error(one.get(), what, where_);
    if (refused.reason() == errc::in_doubt || refused.sqlstate().empty() || ends_session(one.get()))
      end_wait(errc::unreachable, what, one_line(PQresultErrorMessage(one.get())));
    if (refused.reason() == errc::read_only)
      channel_.close();  // as in refuse()
    else
      roll_back();
    throw refused;
  }
  if (r.results.empty()) end_wait(errc::unreachable, what, no_answer_text);
  return decode(r.results.back().get());
}

void session::end_wait(errc code, std::string const& what, std::string const& why) {
  channel_.close();
  throw error(code, fmt::format("{}: {}: {}", where_, what, why), what, "", 0);
}

}  // namespace rowlock::backend::postgresql
