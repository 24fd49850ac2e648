#pragma once
// What cases of the reaper have in common. Idle rows are made so by hand: nobody waits for a day.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "contract/fixture.hpp"
#include "reap/sweep.hpp"

namespace rowlock::test {

inline constexpr std::int64_t hour = 3'600'000;          // milliseconds
inline constexpr std::int64_t token_hour = hour * 1000;  // tokens are microseconds
inline constexpr char const* before_delete = "reap_locks_delete";

inline void expire(fixture& f, std::int64_t ms_ago, std::string const& where = "1 = 1") {
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, -ms_ago) + " WHERE " + where);
}

/// As if the clock had been so much ahead when the last token was drawn.
inline void shift_tokens(fixture& f, std::int64_t us) {
  f.sql("UPDATE rowlock_locks SET token = token + " + std::to_string(us) + " WHERE token > 0");
  f.sql("UPDATE rowlock_tokens SET token = token + " + std::to_string(us));
}

inline std::int64_t number(fixture& f, std::string const& select) {
  auto const session = f.connect();
  auto const text = f.tables().render(select);
  return backend::as_int(
      session->execute({"test_number", text}, {}, boot_clock::now() + 30s).rows.at(0).at(0));
}

inline std::int64_t rows(fixture& f, std::string const& where = "1 = 1") {
  return number(f, "SELECT count(*) FROM rowlock_locks WHERE name <> 'rowlock.reaper' AND " + where);
}

inline std::int64_t floor_of(fixture& f) { return number(f, "SELECT token_floor FROM rowlock_meta"); }

inline reaper make_reaper(fixture& f, reaper_options o = {}) {
  o.schema = f.options.schema;
  o.table_prefix = f.options.table_prefix;
  return reaper(observed_by(f.source, f.probe), std::move(o));
}

inline reap_result reap_once(fixture& f, reaper_options o = {}) { return make_reaper(f, std::move(o)).run(); }

/// A run that does not ask for the lease.
inline reap_result reap_unbidden(fixture& f, reaper_options o = {}) {
  sessions::database database(observed_by(f.source, f.probe).implementation(), f.options);
  return rowlock::reap::sweep(database, o, {}).run();
}

/// Runs `what` once, before the first statement of that name.
inline void once_before(fixture& f, std::string const& statement, std::function<void()> what) {
  auto const done = std::make_shared<std::atomic<bool>>(false);
  f.probe->before = [=, what = std::move(what)](std::string const& s) {
    if (s == statement && !done->exchange(true)) what();
  };
}

/// A row as it stands when its holder has died two days ago.
inline void leave_dead(fixture& f, std::string const& name = "x") {
  stranger dead(f, "dead");
  REQUIRE(dead.take(name));
  expire(f, 48 * hour, "name = '" + name + "'");
}

inline std::string anchor(fixture& f, std::string const& name, std::int64_t ms_ago) {
  return "INSERT INTO rowlock_locks (name, strategy, token, expires_at) VALUES ('" + name +
         "', 'row_lock', 0, " + in_ms(f, -ms_ago) + ");";
}

inline void make_anchor(fixture& f, std::string const& name, std::int64_t ms_ago) {
  f.sql(anchor(f, name, ms_ago));
}

}  // namespace rowlock::test
