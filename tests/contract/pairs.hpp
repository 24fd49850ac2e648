#pragma once
// The pairs of strategy and database that cases run for: one table, from which a case chooses by what it
// needs.

#include <doctest/doctest.h>

#include <concepts>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>

#include "contract/databases.hpp"
#ifdef ROWLOCK_TOY_PAIRS
#include "toys/toys.hpp"
#endif

namespace rowlock::test {

/// What a term of a strategy is: a row of rowlock_locks, a session, or a row of rowlock_permits.
enum class term { row, session, permit };

/// A database on which managers use a strategy unless they are told otherwise.
template <strategy How, term Term, class Database>
struct on : Database {
  using database = Database;
  static constexpr auto how = How;
  static constexpr auto what = Term;
  on() {
    this->options.strategy = How;
    this->options.row_lock_connections = 80;
  }
};

/// For which only the cases of its own strategy are run: what the others show, the whole pairs show for it.
/// The statements are the same there as with its strategy on another back end of the dialect, or its own
/// cases ask for each of them; and the session is the same as with another strategy on this one.
template <class Pair>
struct own_cases_of;
template <strategy How, term Term, class Database>
struct own_cases_of<on<How, Term, Database>> {
  using database = Database;
  static constexpr auto how = How;
};

/// There is no such pair, for the reason that users are told.
template <strategy How, char const* Why, class Database>
struct missing {
  using database = Database;
  static constexpr auto how = How;
  static constexpr auto why = Why;
};
inline constexpr char files_not_rows[] = "SQLite locks files, not rows";
inline constexpr char a_pooler_between[] =
    "there is a pooler between that lends out the server's sessions by the transaction: use lease";

// A strategy's code, of which there is one for all servers, is looked at on a file; what differs between
// servers, with leases; unique_insert with each dialect, too, whose statements are others, but not under
// the sanitizers.
//
// Leases on MySQL, whose statements and sessions are those on MariaDB, have all cases under the sanitizer for
// threads, which has no MariaDB; those on MariaDB everywhere else.
#ifdef ROWLOCK_FEWER_PAIRS
template <class Pair>
using on_its_server = own_cases_of<Pair>;
template <class Pair>
using under_a_sanitizer = Pair;
#else
template <class Pair>
using on_its_server = Pair;
template <class Pair>
using under_a_sanitizer = own_cases_of<Pair>;
#endif

// The table. A further pair is a line here.
// clang-format off
using table = std::tuple<
#ifdef ROWLOCK_TOY_PAIRS
    // Strategies that lib knows nothing of.
    on<toy_upsert,                  term::row,          sqlite_fixture>,
    on<toy_upsert,                  term::row,          postgresql_fixture>,
    on<toy_advisory,                term::session,      postgresql_fixture>
#else
    on<strategy::lease,             term::row,          sqlite_fixture>,
    on<strategy::lease,             term::row,          postgresql_fixture>,
    on_its_server<on<strategy::lease, term::row,        mariadb_fixture>>,
    under_a_sanitizer<on<strategy::lease, term::row,    mysql_fixture>>,
    on<strategy::unique_insert,     term::row,          sqlite_fixture>,
    on_its_server<on<strategy::unique_insert, term::row,    postgresql_fixture>>,
    on_its_server<on<strategy::unique_insert, term::row,    mariadb_fixture>>,
    own_cases_of<on<strategy::unique_insert, term::row,     mysql_fixture>>,
    missing<strategy::row_lock,     files_not_rows,     sqlite_fixture>,
    on<strategy::row_lock,          term::session,      postgresql_fixture>,
    on<strategy::row_lock,          term::session,      mariadb_fixture>,
    on<strategy::row_lock,          term::session,      mysql_fixture>,
    on<strategy::once,              term::row,          sqlite_fixture>,
    own_cases_of<on<strategy::once, term::row,          postgresql_fixture>>,
    own_cases_of<on<strategy::once, term::row,          mariadb_fixture>>,
    own_cases_of<on<strategy::once, term::row,          mysql_fixture>>,
    // A writer, as a plain mutex. Permits have cases of their own on every database: permits*.cpp.
    on<strategy::shared,            term::permit,       postgresql_fixture>,
    on<strategy::shared,            term::permit,       mariadb_fixture>
#endif
#ifdef ROWLOCK_POOLER_PAIRS
  , on<strategy::lease,             term::row,          postgresql_pooler_fixture>,
    own_cases_of<on<strategy::unique_insert, term::row, postgresql_pooler_fixture>>,
    missing<strategy::row_lock,     a_pooler_between,   postgresql_pooler_fixture>,
    own_cases_of<on<strategy::once, term::row,          postgresql_pooler_fixture>>
#endif
    >;
// clang-format on

/// The pair that a case runs for.
struct running_pair {
  rowlock::strategy strategy;
  term what;  ///< that its terms are
  char const* backend;
  dialect engine;
  route via;
  int row_locks;  ///< so many at a time must be possible
  std::unique_ptr<fixture> (*make)();

  /// Whether a free row stays when the lock is given back.
  bool keeps_row() const {
    return traits(strategy).has_expiry && strategy != rowlock::strategy::unique_insert;
  }
  /// A take locks a row that the last one has left.
  bool locks_free_row() const { return as_lease() || what == term::permit; }
  /// It is taken, renewed and given back by the statements of a lease.
  bool as_lease() const {
    return strategy == rowlock::strategy::lease || strategy == rowlock::strategy::once;
  }
  /// The step before which something may still come between the last look at the row and the take.
  char const* before_take() const {
    return strategy == rowlock::strategy::unique_insert ? "begin" : "lock_take";
  }
};
template <class Pair>
constexpr running_pair running{Pair::how,
                               Pair::what,
                               Pair::backend,
                               Pair::engine,
                               Pair::via,
                               Pair::row_locks,
                               []() -> std::unique_ptr<fixture> { return std::make_unique<Pair>(); }};

// What a case may need of its pair.
constexpr bool any(running_pair const&) { return true; }
constexpr bool in_rows(running_pair const& p) { return p.what == term::row; }
constexpr bool leases(running_pair const& p) { return p.strategy == strategy::lease; }
constexpr bool onces(running_pair const& p) { return p.strategy == strategy::once; }
constexpr bool inserts(running_pair const& p) { return p.strategy == strategy::unique_insert; }
constexpr bool row_locks(running_pair const& p) { return p.strategy == strategy::row_lock; }
constexpr bool direct(running_pair const& p) { return p.via == route::direct; }
constexpr bool on_sqlite(running_pair const& p) { return p.engine == dialect::sqlite; }
constexpr bool sent_at_once(running_pair const& p) { return p.engine == dialect::postgresql; }
constexpr bool on_a_server(running_pair const& p) { return p.engine != dialect::sqlite; }
constexpr bool not_permits(running_pair const& p) { return p.what != term::permit; }
/// `rowlock run --strategy` has it: once has a command of its own, permits have --shared and --permits.
constexpr bool run_takes(running_pair const& p) { return not_permits(p) && !onces(p); }
/// All of them at once.
template <auto... Needs>
constexpr bool all(running_pair const& p) {
  return (Needs(p) && ...);
}

template <class Kept, auto Wanted, class... Rows>
struct filtered {
  using type = Kept;
};
template <class... Kept, auto Wanted, strategy How, term Term, class Database, class... Others>
struct filtered<std::tuple<Kept...>, Wanted, on<How, Term, Database>, Others...>
    : filtered<std::conditional_t<Wanted(running<on<How, Term, Database>>),
                                  std::tuple<Kept..., on<How, Term, Database>>, std::tuple<Kept...>>,
               Wanted, Others...> {};
template <auto>
struct predicate;
/// The predicate of a strategy's own cases. Types are compared, as under -fsanitize=undefined GCC has no
/// constant from comparing functions.
template <auto Wanted>
constexpr bool is_own(strategy s) {
  using wanted = predicate<Wanted>;
  return (s == strategy::once && std::is_same_v<wanted, predicate<onces>>) ||
         (s == strategy::unique_insert && std::is_same_v<wanted, predicate<inserts>>) ||
         (s == strategy::row_lock && std::is_same_v<wanted, predicate<row_locks>>) ||
         (s == strategy::lease && std::is_same_v<wanted, predicate<leases>>);
}
template <class... Kept, auto Wanted, class Pair, class... Others>
struct filtered<std::tuple<Kept...>, Wanted, own_cases_of<Pair>, Others...>
    : filtered<std::conditional_t<is_own<Wanted>(Pair::how), std::tuple<Kept..., Pair>, std::tuple<Kept...>>,
               Wanted, Others...> {};
template <class Kept, auto Wanted, strategy How, char const* Why, class Database, class... Others>
struct filtered<Kept, Wanted, missing<How, Why, Database>, Others...> : filtered<Kept, Wanted, Others...> {};
template <auto Wanted, class Rows>
struct chosen;
template <auto Wanted, class... Rows>
struct chosen<Wanted, std::tuple<Rows...>> : filtered<std::tuple<>, Wanted, Rows...> {};

/// The pairs of the table for which `Wanted`, a function of a running_pair, is true.
template <auto Wanted>
using pairs_where = typename chosen<Wanted, table>::type;

template <class Pair>
concept is_pair = requires {
  typename Pair::database;
  { Pair::how } -> std::convertible_to<strategy>;
};

}  // namespace rowlock::test

// Cases are named after their pair, "lease on sqlite": more constrained than doctest's own function.
namespace doctest {
template <rowlock::test::is_pair Pair>
String toString() {
  return (std::string(to_string(Pair::how)) + " on " + Pair::backend).c_str();
}
}  // namespace doctest

/// A case for each of the pairs. Its body knows `pair` and `f`, the pair's own database; it is a plain
/// function and no template over the pairs, of which there are 29: that would take the compiler ten times as
/// long.
#define PAIRS_CASE(text, ...) PAIRS_CASE_AS(DOCTEST_ANONYMOUS(BODY_), text, (__VA_ARGS__))
#define PAIRS_CASE_AS(body, text, wanted)                                                             \
  [[maybe_unused]] static void body(::rowlock::test::running_pair const&, ::rowlock::test::fixture&); \
  TEST_CASE_TEMPLATE_DEFINE(text, Pair, body) {                                                       \
    auto const f = ::rowlock::test::running<Pair>.make();                                             \
    body(::rowlock::test::running<Pair>, *f);                                                         \
  }                                                                                                   \
  TEST_CASE_TEMPLATE_APPLY(body, ::rowlock::test::pairs_where<wanted>);                               \
  static void body([[maybe_unused]] ::rowlock::test::running_pair const& pair,                        \
                   [[maybe_unused]] ::rowlock::test::fixture& f)

/// One whose body is a template after all, over `Pair`.
#define PAIRS_TEMPLATE_CASE(text, Pair, ...) \
  PAIRS_TEMPLATE_CASE_AS(DOCTEST_ANONYMOUS(BODY_), text, Pair, (__VA_ARGS__))
#define PAIRS_TEMPLATE_CASE_AS(body, text, Pair, wanted)                \
  template <class>                                                      \
  static void body();                                                   \
  TEST_CASE_TEMPLATE_DEFINE(text, Pair, body) { body<Pair>(); }         \
  TEST_CASE_TEMPLATE_APPLY(body, ::rowlock::test::pairs_where<wanted>); \
  template <class Pair>                                                 \
  static void body()

#define LEASE_CASE(text) PAIRS_CASE(text, leases)
#define INSERT_CASE(text) PAIRS_CASE(text, inserts)
#define ONCE_CASE(text) PAIRS_CASE(text, onces)
#define ROW_LOCK_CASE(text) PAIRS_CASE(text, row_locks)
/// For the strategies whose term stands in a row.
#define CONTRACT_CASE(text) PAIRS_CASE(text, in_rows)
/// For every strategy.
#define EVERY_CASE(text) PAIRS_CASE(text, any)
