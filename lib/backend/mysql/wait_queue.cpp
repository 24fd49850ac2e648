// Wait queues are user locks, named by a hash of database, table and name: a server has one space of names.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <rowlock/error.hpp>

#include "backend/mysql/session.hpp"
#include "base/never_destroyed.hpp"
#include "base/text.hpp"

namespace rowlock::backend::mysql {
namespace {

using namespace std::chrono_literals;

// ER_LOCK_DEADLOCK, ER_USER_LOCK_DEADLOCK, ER_QUERY_TIMEOUT, ER_QUERY_INTERRUPTED, ER_STATEMENT_TIMEOUT.
bool is_time_out(int number) {
  return number == 1213 || number == 3058 || number == 3024 || number == 1317 || number == 1969;
}

// The name is in hexadecimal digits, and the table as each statement quotes it: neither ends the string.
// lock_release has the same text.
std::string key_text(std::string const& table, std::string const& name) {
  return fmt::format("SHA2(CONCAT_WS('/', DATABASE(), '{}', X'{}'), 256)", table, base::hexadecimal(name));
}

// The waiter's name: a second user lock, whose text begins with a slash, unlike a wait queue's. lock_waiters
// compares it with the row's owner: the session with the wait queue is the holder's, or the first waiter's.
// No session waits for this lock, and it may fail.
std::string mark_text(std::string const& table, std::string const& name, std::string const& who) {
  return fmt::format("SHA2(CONCAT_WS('/', '', DATABASE(), '{}', X'{}', X'{}'), 256)", table,
                     base::hexadecimal(who), base::hexadecimal(name));
}

// Returns 2 if the wait queue was free. MySQL waits whole seconds only, and a hint ends the statement
// earlier.
std::string wait_text(bool mariadb, std::string const& queue, std::string const& mark, std::int64_t ms) {
  auto const try_it = fmt::format("COALESCE(GET_LOCK({}, 0), 0) >= 0 AND GET_LOCK({}, 0) = 1", mark, queue);
  if (mariadb)
    return fmt::format("SELECT IF({0}, 2, GET_LOCK({1}, {2}.{3:03}))", try_it, queue, ms / 1000, ms % 1000);
  return fmt::format("SELECT /*+ MAX_EXECUTION_TIME({2}) */ IF({0}, 2, GET_LOCK({1}, {3}))", try_it, queue,
                     ms, ms / 1000 + 1);
}

std::string const& said() {
  static auto const& what = base::never_destroyed<std::string>("queue");
  return what;
}

}  // namespace

// `stop` ends the session. The server's side waits until its time-out, and then notices.
queue_entry session::enter_queue(table_names const& tables, std::string const& name, std::string const& who,
                                 boot_time_point deadline, std::chrono::nanoseconds reply_timeout,
                                 std::stop_token stop) {
  auto const left = std::chrono::ceil<std::chrono::milliseconds>(deadline - boot_clock::now()).count();
  auto const reply_by = deadline + reply_timeout;
  begin(said(), boot_clock::now() + reply_timeout);
  auto const table = tables.table("locks");
  queue_ = key_text(table, name);
  {
    auto const limit = until(reply_by);
    std::stop_callback const on_stop(stop, [socket = socket_] {
      if (socket) socket->shut_down();
    });
    try {
      auto const got = native_->run(
          wait_text(mariadb_, queue_, mark_text(table, name, who), std::max<std::int64_t>(1, left)));
      last_used_ = boot_clock::now();
      auto const how = got.rows.empty() ? value(nullptr) : got.rows[0].at(0);
      if (how == value(std::int64_t{2})) return queue_entry::was_free;
      if (how == value(std::int64_t{1})) return queue_entry::in_its_turn;
    } catch (refusal const& e) {
      if (!is_time_out(e.native())) refuse(e, stake::nothing, said());
    }
  }
  (void)leave_queue(reply_by);  // perhaps granted at the last moment
  return queue_entry::not_mine;
}

// At that moment the next waiter has the wait queue.
bool session::leave_queue(boot_time_point deadline) {
  begin(said(), deadline);
  auto const limit = until(deadline);
  try {
    auto const got = native_->run(fmt::format("SELECT RELEASE_ALL_LOCKS(), IS_FREE_LOCK({})", queue_));
    last_used_ = boot_clock::now();
    return got.rows.empty() || got.rows[0].at(1) != value(std::int64_t{1});
  } catch (refusal const& e) {
    refuse(e, stake::nothing, said());
  }
}

// lock_release's number: it has left the wait queue (3), where other sessions wait (4).
left_queue session::execute_and_leave_queue(statement const& s, std::span<value const> parameters,
                                            boot_time_point deadline) {
  auto done = execute(s, parameters, deadline);
  bool const others_wait = done.number == 4;
  if (done.number == 3 || others_wait) return {std::move(done), others_wait};
  return {std::move(done), leave_queue_or_close(deadline)};
}

}  // namespace rowlock::backend::mysql
