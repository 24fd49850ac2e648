#pragma once
// What each condition of a statement is for: the statement is asked directly, from both sides of each
// condition. What is built of it need not notice that one is gone (found by tools/dev/mutate).

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/random_id.hpp"
#include "contract/permits.hpp"

namespace rowlock::test {

constexpr bool leases_directly(running_pair const& p) { return leases(p) && direct(p); }
#define STATEMENT_CASE(text) PAIRS_CASE(text, leases_directly)

/// Asked by themselves, on a session of their own.
struct statements {
  explicit statements(fixture& f)
      : book(f.source.implementation()->sql(), f.tables()),
        session(f.source.implementation()->connect(soon())) {}
  static boot_time_point soon() { return boot_clock::now() + 30s; }

  backend::result run(std::string const& statement, std::vector<backend::value> const& with) {
    return session->execute(book.at(statement), with, soon());
  }
  /// How many rows it changes, or returns.
  std::int64_t meets(std::string const& statement, std::vector<backend::value> const& with) {
    auto const done = run(statement, with);
    return done.rows.empty() ? done.affected : static_cast<std::int64_t>(done.rows.size());
  }

  backend::statement_book book;
  std::unique_ptr<backend::connection> session;
};

/// What `ask` says of what `set` has made, both within half a second: what is to last for a second and a half
/// lasts then, and what is to be more than two seconds ahead still is.
template <class Set, class Ask>
auto at_once(Set const& set, Ask const& ask) {
  for (int tries = 0; tries < 60; ++tries) {
    auto const before = boot_clock::now();
    set();
    auto const said = ask();
    if (boot_clock::now() - before < 500ms) return said;
  }
  throw std::runtime_error("a statement takes half a second");
}

inline std::string yes(fixture& f) { return dialect_of(f) == dialect::postgresql ? "true" : "1"; }
inline std::string no(fixture& f) { return dialect_of(f) == dialect::postgresql ? "false" : "0"; }
inline backend::value text(std::string s) { return backend::value(std::move(s)); }

/// A free row of that strategy.
inline void put_name(fixture& f, std::string const& name, std::string const& how, int limit = 10) {
  f.sql("INSERT INTO rowlock_locks (name, strategy, token, expires_at, permit_limit) VALUES ('" + name +
        "', '" + how + "', 5, " + in_ms(f, 0) + ", " + std::to_string(limit) + ")");
}

/// Whether x lasts for longer than that.
inline bool lasts(fixture& f, std::int64_t ms) {
  return number(f, "SELECT count(*) FROM rowlock_locks WHERE name = 'x' AND expires_at > " + in_ms(f, ms)) ==
         1;
}

inline std::int64_t microseconds_now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace rowlock::test
