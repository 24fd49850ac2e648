#pragma once
// What each condition of a statement is for: the statement is asked directly, from both sides of each
// condition. What is built of it need not notice that one is gone (found by tools/dev/mutate).

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/random_id.hpp"
#include "contract/permits.hpp"

namespace rowlock::test {

constexpr bool leases_directly(running_pair const& p) { return leases(p) && direct(p); }
constexpr bool leases_of_mysql(running_pair const& p) {
  return leases_directly(p) && p.engine == dialect::mysql;
}
constexpr bool direct_leases_on_servers(running_pair const& p) {
  return leases_directly(p) && on_a_server(p);
}
constexpr bool leases_of_postgresql(running_pair const& p) {
  return leases_directly(p) && p.engine == dialect::postgresql;
}
#define STATEMENT_CASE(text) PAIRS_CASE(text, leases_directly)

/// Asked by themselves, on a session of their own.
struct statements {
  explicit statements(fixture& f)
      : book(f.source.implementation()->sql(), f.tables()), session(f.connect()) {}
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

/// Locks "x" and "y" that somebody else holds; and "z", which is free.
struct held_lock_of_another {
  explicit held_lock_of_another(fixture& fixture) : f(fixture), s(f), rows(s.book), other(f) {
    REQUIRE(other.take("x", 30s));
    REQUIRE(other.take("y", 30s));
    put_name(f, "z", "lease");
    term = other.read("x")->term;
  }
  void set(std::string const& columns) { f.sql("UPDATE rowlock_locks SET " + columns + " WHERE name = 'x'"); }
  bool is(std::string const& condition) {
    return number(f, "SELECT count(*) FROM rowlock_locks WHERE name = 'x' AND " + condition) == 1;
  }
  /// The lowest token, if it got the lock. `tokens`: 0 for none.
  std::optional<fencing_token> takes(std::string const& name,
                                     std::optional<strategies::superseded> const& old, int tokens = 1,
                                     std::chrono::milliseconds hard_limit = 0ms) {
    strategies::catalogue const all(s.book);
    strategies::take_request r{
        name, {base::random_id()}, {"elsewhere", 1, "taker", 1}, 30s, hard_limit, takeover::clock, tokens > 0,
        ""};
    r.tokens = std::max(tokens, 1);
    boot_time_point sent_at;
    auto const came = all.of(strategy::lease).take(*s.session, r, old, statements::soon(), sent_at);
    auto const* const got = std::get_if<strategies::granted>(&came);
    return got ? std::optional(got->token) : std::nullopt;
  }
  /// As it was at first.
  void again() {
    set("term = '" + term.value + "', strategy = 'lease', takeover = 'clock', revoked = " + no(f) +
        ", renewals = 0, hard_until = NULL, acquired_at = " + in_ms(f, 0) +
        ", expires_at = " + in_ms(f, 30'000));
  }

  fixture& f;
  statements s;
  strategies::term_rows rows;
  stranger other;
  term_id term;
};

inline void put_permit_that_is_over(fixture& f) {
  f.sql(permit_of_somebody(f, 1, 10, strategy::semaphore));
  expire_permits(f);
}

/// A role that may do everything but what a policy forbids.
struct ordinary_role {
  explicit ordinary_role(fixture& fixture) : f(fixture), name("r" + base::random_id()) {
    f.sql("CREATE ROLE " + name);
    f.sql(
        "GRANT ALL ON rowlock_locks, rowlock_permits, rowlock_tokens, rowlock_meta, rowlock_pulse, "
        "rowlock_reach TO " +
        name);
    if (!f.options.schema.empty()) f.sql("GRANT USAGE ON SCHEMA " + f.options.schema + " TO " + name);
  }
  ~ordinary_role() { f.sql("DROP OWNED BY " + name + "; DROP ROLE " + name); }
  fixture& f;
  std::string name;
};

}  // namespace rowlock::test
