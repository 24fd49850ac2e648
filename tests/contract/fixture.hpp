#pragma once
// What a contract case needs: a migrated database of its own on a real server or file, a second owner that
// goes straight to the database, and a seam at which statements are counted, delayed and cut off.

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <rowlock/rowlock.hpp>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "strategy/catalogue.hpp"
#include "support/support.hpp"
#ifdef ROWLOCK_TOY_PAIRS
#include "toys/toys.hpp"
#endif
#ifdef ROWLOCK_SOCI_PAIRS
#include <rowlock/soci.hpp>

#include "support/soci_pool.hpp"
#endif
#ifdef ROWLOCK_POOLER_PAIRS
#include <rowlock/postgresql.hpp>

#include "support/pgbouncer.hpp"
#endif

namespace rowlock::test {

using namespace std::chrono_literals;

/// A function that may be called and replaced by several threads at once, also from within itself.
template <class... Arguments>
class slot {
 public:
  using function = std::function<void(Arguments...)>;

  slot& operator=(function f) {
    auto fresh = f ? std::make_shared<function const>(std::move(f)) : nullptr;
    std::lock_guard const guard(mutex_);
    current_.swap(fresh);
    return *this;
  }
  void operator()(Arguments... arguments) const {
    auto const mine = [this] {
      std::lock_guard const guard(mutex_);
      return current_;
    }();
    if (mine) (*mine)(arguments...);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<function const> current_;
};

/// Counts what is executed, and may do something before or after it; thread-safe. A case that names lock_take
/// means whatever takes the lock in its strategy, and so for the others: see step() in fixture.cpp. What is
/// executed in a transaction has its reply, as far as anybody outside can tell, when it is committed: "begin"
/// and "commit" are counted, too.
struct seam {
  void count(std::string const& statement);
  int executed(std::string const& statement) const;
  int executed_in_all() const;
  void reset();

  /// Sees what is about to be sent.
  slot<std::string const&, std::span<backend::value const>> look;
  slot<std::string const&> before;  ///< what it throws comes instead of the statement
  slot<std::string const&> after;   ///< what it throws comes instead of the reply: the statement was applied
  std::atomic<int> connections{0};

 private:
  mutable std::mutex mutex_;
  std::map<std::string, int> counts_;
};

/// The source with the seam in between.
connection_source observed_by(connection_source, std::shared_ptr<seam>);

/// Which of its forms a case's own SQL needs.
enum class dialect { sqlite, postgresql, mysql };

/// One migrated database.
class fixture {
 public:
  static constexpr int row_locks = 50;  ///< so many at a time must be possible
  explicit fixture(connection_source, manager_options);
  virtual ~fixture() = default;

  connection_source source;  ///< without the seam
  std::shared_ptr<rowlock::test::seam> seam = std::make_shared<rowlock::test::seam>();
  manager_options options;  ///< where the tables are

  virtual std::string url() const = 0;  ///< for processes of their own

  /// A manager whose statements go through the seam.
  std::unique_ptr<lock_manager> manager() { return manager(options); }
  std::unique_ptr<lock_manager> manager(manager_options o);

  /// Whether a waiter has made so many attempts; a row lock is waited for in the server, in one.
  bool waited(int attempts) const;

  backend::table_names tables() const;
  /// Runs SQL with the table names put in, on a session of its own.
  void sql(std::string const& text);

 protected:
  void migrate();
};

class sqlite_fixture : public fixture {
 public:
  static constexpr char const* backend = "sqlite";
  static constexpr auto engine = dialect::sqlite;
  sqlite_fixture() : sqlite_fixture(std::make_unique<scratch_folder>()) {}
  std::string url() const override { return "sqlite:" + folder_->file("locks.db"); }

 private:
  explicit sqlite_fixture(std::unique_ptr<scratch_folder>);
  std::unique_ptr<scratch_folder> folder_;
};

class postgresql_fixture : public fixture {
 public:
  static constexpr char const* backend = "postgresql";
  static constexpr auto engine = dialect::postgresql;
  postgresql_fixture();
  std::string url() const override { return postgresql_conninfo(); }
  ~postgresql_fixture() override;
};

/// A database of its own on a server of MySQL or MariaDB.
class mysql_like_fixture : public fixture {
 public:
  static constexpr auto engine = dialect::mysql;
  std::string url() const override { return url_; }
  ~mysql_like_fixture() override;

 protected:
  explicit mysql_like_fixture(std::string const& server_url)
      : mysql_like_fixture(server_url, unique_identifier()) {}

 private:
  mysql_like_fixture(std::string const& server_url, std::string const& database);
  std::string url_;
  std::string database_;
};

class mariadb_fixture : public mysql_like_fixture {
 public:
  static constexpr char const* backend = "mariadb";
  mariadb_fixture() : mysql_like_fixture(mariadb_url()) {}
};

class mysql_fixture : public mysql_like_fixture {
 public:
  static constexpr char const* backend = "mysql";
  mysql_fixture() : mysql_like_fixture(mysql_url()) {}
};

#ifdef ROWLOCK_SOCI_PAIRS
/// The same database, by way of a pool of SOCI's sessions: three of them would do for most cases, those with
/// row locks hold many.
template <class Database, int Sessions>
class over_soci : public Database {
 public:
  static constexpr int row_locks = Sessions - 5;
  over_soci() : pool_(make_soci_pool(this->url(), Sessions)), native_(this->source) {
    this->source = soci::source(*pool_);
  }
  /// Once all sessions have come back: a manager that its own loss callback destroys ends in the background.
  ~over_soci() override {
    this->source = native_;
    CHECK(has_all_sessions(*pool_, Sessions));
  }

 private:
  std::shared_ptr<::soci::connection_pool> pool_;
  connection_source native_;
};

template <int Sessions = 10>
struct soci_sqlite_fixture : over_soci<sqlite_fixture, Sessions> {
  static constexpr char const* backend = "soci-sqlite";
};
template <int Sessions = 10>
struct soci_postgresql_fixture : over_soci<postgresql_fixture, Sessions> {
  static constexpr char const* backend = "soci-postgresql";
};
template <int Sessions = 10>
struct soci_mariadb_fixture : over_soci<mariadb_fixture, Sessions> {
  static constexpr char const* backend = "soci-mariadb";
};
#endif

#ifdef ROWLOCK_POOLER_PAIRS
/// The same database, by way of PgBouncer in transaction mode. [C19]
class postgresql_pooler_fixture : public postgresql_fixture {
 public:
  static constexpr char const* backend = "postgresql-pooler";
  postgresql_pooler_fixture() : pooler_(postgresql_conninfo(), "transaction"), native_(source) {
    source = rowlock::postgresql::source(pooler_.address());
  }
  ~postgresql_pooler_fixture() override { source = native_; }
  std::string url() const override { return pooler_.address(); }

 private:
  pgbouncer pooler_;
  connection_source native_;
};
#endif

dialect dialect_of(fixture const&);

/// Begins a transaction that may write.
char const* begin_of(fixture const&);
/// The database's clock plus so many milliseconds, as expires_at has it.
std::string in_ms(fixture const&, std::int64_t ms);

/// Another program on another host: an owner whose locks this process knows nothing of.
class stranger {
 public:
  explicit stranger(fixture&, std::string process = "stranger");

  bool take(std::string const& name, std::chrono::milliseconds ttl = 30s, takeover mode = takeover::clock);
  /// Takes exactly the term that is there now.
  bool take_over(std::string const& name);
  /// Takes exactly this.
  bool claim(std::string const& name, strategies::superseded const&);
  bool renew(std::string const& name);
  /// Renews somebody's term.
  bool renew(std::string const& name, term_id const&);
  /// The term that it took is there.
  bool has_still(std::string const& name);
  bool release(std::string const& name);
  std::optional<strategies::term_row> read(std::string const& name);
  /// No row, or one without a term.
  bool sees_free(std::string const& name);
  backend::connection& session() { return *session_; }
  std::int64_t token(std::string const& name) { return read(name)->holder.token.value; }

 private:
  connection_source source_;
  strategy how_;
  bool writes_lock_database_;
  bool take_for_session(std::string const& name);
  bool take_with(std::string const& name, std::chrono::milliseconds ttl, takeover mode,
                 std::optional<strategies::superseded> const&);
  boot_time_point soon() const { return boot_clock::now() + 10s; }

  backend::statement_book book_;
  strategies::catalogue taking_;
  strategies::term_rows rows_;
  std::unique_ptr<backend::connection> session_;
  owner_id self_;
  std::map<std::string, term_id> terms_;
};

/// What a session at the seam throws in place of a reply.
[[noreturn]] inline void lose_reply() { throw error(errc::in_doubt, "the reply was lost by the test"); }

/// Takes and gives back; the token.
inline std::int64_t take_once(lock_manager& m, std::string const& name = "x") {
  auto const lock = m.make_mutex(name).acquire();
  return lock->token().value;
}

/// Waits until `condition` holds; false after a generous time.
bool eventually(std::function<bool()> const& condition, std::chrono::milliseconds patience = 20s);

/// The pairs of strategy and back end that the cases run for; a row of the table in pairs.cpp each.
template <class Database, strategy How>
struct on : Database {
  static constexpr strategy how = How;
  on() {
    this->options.strategy = How;
    this->options.row_lock_connections = 80;
  }
};
using lease_on_sqlite = on<sqlite_fixture, strategy::lease>;
using lease_on_postgresql = on<postgresql_fixture, strategy::lease>;
using lease_on_mariadb = on<mariadb_fixture, strategy::lease>;
using lease_on_mysql = on<mysql_fixture, strategy::lease>;
using row_lock_on_postgresql = on<postgresql_fixture, strategy::row_lock>;
using row_lock_on_mariadb = on<mariadb_fixture, strategy::row_lock>;
using row_lock_on_mysql = on<mysql_fixture, strategy::row_lock>;
using insert_on_sqlite = on<sqlite_fixture, strategy::unique_insert>;
using insert_on_postgresql = on<postgresql_fixture, strategy::unique_insert>;
using insert_on_mariadb = on<mariadb_fixture, strategy::unique_insert>;
using insert_on_mysql = on<mysql_fixture, strategy::unique_insert>;
#ifdef ROWLOCK_SOCI_PAIRS
using lease_on_soci_sqlite = on<soci_sqlite_fixture<>, strategy::lease>;
using lease_on_soci_postgresql = on<soci_postgresql_fixture<>, strategy::lease>;
using lease_on_soci_mariadb = on<soci_mariadb_fixture<>, strategy::lease>;
using row_lock_on_soci_postgresql = on<soci_postgresql_fixture<30>, strategy::row_lock>;
using row_lock_on_soci_mariadb = on<soci_mariadb_fixture<30>, strategy::row_lock>;
using insert_on_soci_sqlite = on<soci_sqlite_fixture<>, strategy::unique_insert>;
using insert_on_soci_postgresql = on<soci_postgresql_fixture<>, strategy::unique_insert>;
using insert_on_soci_mariadb = on<soci_mariadb_fixture<>, strategy::unique_insert>;
#endif
#ifdef ROWLOCK_POOLER_PAIRS
using lease_on_postgresql_pooler = on<postgresql_pooler_fixture, strategy::lease>;
using insert_on_postgresql_pooler = on<postgresql_pooler_fixture, strategy::unique_insert>;
#endif

#ifdef ROWLOCK_TOY_PAIRS
using toy_upsert_on_sqlite = on<sqlite_fixture, toy_upsert>;
using toy_upsert_on_postgresql = on<postgresql_fixture, toy_upsert>;
using toy_advisory_on_postgresql = on<postgresql_fixture, toy_advisory>;
#endif

/// The pair that a case runs for.
struct running_pair {
  rowlock::strategy strategy;
  char const* backend;
  dialect engine;
  int row_locks;  ///< so many at a time must be possible
  std::unique_ptr<fixture> (*make)();

  /// Whether a free row stays when the lock is given back.
  bool keeps_row() const {
    return traits(strategy).has_expiry && strategy != rowlock::strategy::unique_insert;
  }
  /// The step before which something may still come between the last look at the row and the take.
  char const* before_take() const {
    return strategy == rowlock::strategy::unique_insert ? "begin" : "lock_take";
  }
};
template <class Pair>
constexpr running_pair running{Pair::how, Pair::backend, Pair::engine, Pair::row_locks,
                               []() -> std::unique_ptr<fixture> { return std::make_unique<Pair>(); }};

}  // namespace rowlock::test

TYPE_TO_STRING_AS("sqlite", rowlock::test::sqlite_fixture);
TYPE_TO_STRING_AS("postgresql", rowlock::test::postgresql_fixture);
TYPE_TO_STRING_AS("mariadb", rowlock::test::mariadb_fixture);
TYPE_TO_STRING_AS("mysql", rowlock::test::mysql_fixture);
TYPE_TO_STRING_AS("lease on sqlite", rowlock::test::lease_on_sqlite);
TYPE_TO_STRING_AS("lease on postgresql", rowlock::test::lease_on_postgresql);
TYPE_TO_STRING_AS("lease on mariadb", rowlock::test::lease_on_mariadb);
TYPE_TO_STRING_AS("lease on mysql", rowlock::test::lease_on_mysql);
TYPE_TO_STRING_AS("unique_insert on sqlite", rowlock::test::insert_on_sqlite);
TYPE_TO_STRING_AS("unique_insert on postgresql", rowlock::test::insert_on_postgresql);
TYPE_TO_STRING_AS("unique_insert on mariadb", rowlock::test::insert_on_mariadb);
TYPE_TO_STRING_AS("unique_insert on mysql", rowlock::test::insert_on_mysql);
TYPE_TO_STRING_AS("row_lock on postgresql", rowlock::test::row_lock_on_postgresql);
TYPE_TO_STRING_AS("row_lock on mariadb", rowlock::test::row_lock_on_mariadb);
TYPE_TO_STRING_AS("row_lock on mysql", rowlock::test::row_lock_on_mysql);
#ifdef ROWLOCK_TOY_PAIRS
TYPE_TO_STRING_AS("toy_upsert on sqlite", rowlock::test::toy_upsert_on_sqlite);
TYPE_TO_STRING_AS("toy_upsert on postgresql", rowlock::test::toy_upsert_on_postgresql);
TYPE_TO_STRING_AS("toy_advisory on postgresql", rowlock::test::toy_advisory_on_postgresql);
#endif

#ifdef ROWLOCK_SOCI_PAIRS
TYPE_TO_STRING_AS("soci-sqlite", rowlock::test::soci_sqlite_fixture<>);
TYPE_TO_STRING_AS("soci-postgresql", rowlock::test::soci_postgresql_fixture<>);
TYPE_TO_STRING_AS("soci-mariadb", rowlock::test::soci_mariadb_fixture<>);
TYPE_TO_STRING_AS("lease on soci-sqlite", rowlock::test::lease_on_soci_sqlite);
TYPE_TO_STRING_AS("lease on soci-postgresql", rowlock::test::lease_on_soci_postgresql);
TYPE_TO_STRING_AS("lease on soci-mariadb", rowlock::test::lease_on_soci_mariadb);
TYPE_TO_STRING_AS("unique_insert on soci-sqlite", rowlock::test::insert_on_soci_sqlite);
TYPE_TO_STRING_AS("unique_insert on soci-postgresql", rowlock::test::insert_on_soci_postgresql);
TYPE_TO_STRING_AS("unique_insert on soci-mariadb", rowlock::test::insert_on_soci_mariadb);
TYPE_TO_STRING_AS("row_lock on soci-postgresql", rowlock::test::row_lock_on_soci_postgresql);
TYPE_TO_STRING_AS("row_lock on soci-mariadb", rowlock::test::row_lock_on_soci_mariadb);
#define ROWLOCK_SOCI_DATABASES                                                      \
  , rowlock::test::soci_sqlite_fixture<>, rowlock::test::soci_postgresql_fixture<>, \
      rowlock::test::soci_mariadb_fixture<>
#define ROWLOCK_SOCI_LEASES                                                       \
  , rowlock::test::lease_on_soci_sqlite, rowlock::test::lease_on_soci_postgresql, \
      rowlock::test::lease_on_soci_mariadb
#define ROWLOCK_SOCI_INSERTS                                                        \
  , rowlock::test::insert_on_soci_sqlite, rowlock::test::insert_on_soci_postgresql, \
      rowlock::test::insert_on_soci_mariadb
#define ROWLOCK_SOCI_ROW_LOCKS \
  , rowlock::test::row_lock_on_soci_postgresql, rowlock::test::row_lock_on_soci_mariadb
#else
#define ROWLOCK_SOCI_DATABASES
#define ROWLOCK_SOCI_LEASES
#define ROWLOCK_SOCI_INSERTS
#define ROWLOCK_SOCI_ROW_LOCKS
#endif

#ifdef ROWLOCK_POOLER_PAIRS
TYPE_TO_STRING_AS("postgresql-pooler", rowlock::test::postgresql_pooler_fixture);
TYPE_TO_STRING_AS("lease on postgresql-pooler", rowlock::test::lease_on_postgresql_pooler);
TYPE_TO_STRING_AS("unique_insert on postgresql-pooler", rowlock::test::insert_on_postgresql_pooler);
#define ROWLOCK_POOLER_DATABASES , rowlock::test::postgresql_pooler_fixture
#define ROWLOCK_POOLER_LEASES , rowlock::test::lease_on_postgresql_pooler
#define ROWLOCK_POOLER_INSERTS , rowlock::test::insert_on_postgresql_pooler
#else
#define ROWLOCK_POOLER_DATABASES
#define ROWLOCK_POOLER_LEASES
#define ROWLOCK_POOLER_INSERTS
#endif

#define ROWLOCK_LEASES                                                                                 \
  rowlock::test::lease_on_sqlite, rowlock::test::lease_on_postgresql, rowlock::test::lease_on_mariadb, \
      rowlock::test::lease_on_mysql ROWLOCK_SOCI_LEASES ROWLOCK_POOLER_LEASES
#define ROWLOCK_INSERTS                                                                                   \
  rowlock::test::insert_on_sqlite, rowlock::test::insert_on_postgresql, rowlock::test::insert_on_mariadb, \
      rowlock::test::insert_on_mysql ROWLOCK_SOCI_INSERTS ROWLOCK_POOLER_INSERTS
#define ROWLOCK_ROW_LOCKS                                                    \
  rowlock::test::row_lock_on_postgresql, rowlock::test::row_lock_on_mariadb, \
      rowlock::test::row_lock_on_mysql ROWLOCK_SOCI_ROW_LOCKS

/// A case for each of the pairs. Its body knows `pair` and `f`, the pair's own database; it is a plain
/// function and no template over the pairs, of which there are 21: that would take the compiler ten times as
/// long.
#define PAIRS_CASE(text, ...) PAIRS_CASE_AS(DOCTEST_ANONYMOUS(BODY_), text, __VA_ARGS__)
#define PAIRS_CASE_AS(body, text, ...)                                                      \
  static void body(::rowlock::test::running_pair const& pair, ::rowlock::test::fixture& f); \
  TEST_CASE_TEMPLATE(text, Pair, __VA_ARGS__) {                                             \
    auto const f = ::rowlock::test::running<Pair>.make();                                   \
    body(::rowlock::test::running<Pair>, *f);                                               \
  }                                                                                         \
  static void body([[maybe_unused]] ::rowlock::test::running_pair const& pair,              \
                   [[maybe_unused]] ::rowlock::test::fixture& f)

#ifdef ROWLOCK_TOY_PAIRS
// The same cases for strategies that lib knows nothing of; not those that are about one strategy.
#define NO_CASE(body)                                                                           \
  [[maybe_unused]] static void body([[maybe_unused]] ::rowlock::test::running_pair const& pair, \
                                    [[maybe_unused]] ::rowlock::test::fixture& f)
#define LEASE_CASE(text) NO_CASE(DOCTEST_ANONYMOUS(BODY_))
#define INSERT_CASE(text) NO_CASE(DOCTEST_ANONYMOUS(BODY_))
#define ROW_LOCK_CASE(text) NO_CASE(DOCTEST_ANONYMOUS(BODY_))
#define ROWLOCK_ROW_PAIRS rowlock::test::toy_upsert_on_sqlite, rowlock::test::toy_upsert_on_postgresql
#define ROWLOCK_SESSION_PAIRS rowlock::test::toy_advisory_on_postgresql
#else
#define LEASE_CASE(text) PAIRS_CASE(text, ROWLOCK_LEASES)
#define INSERT_CASE(text) PAIRS_CASE(text, ROWLOCK_INSERTS)
#define ROW_LOCK_CASE(text) PAIRS_CASE(text, ROWLOCK_ROW_LOCKS)
#define ROWLOCK_ROW_PAIRS ROWLOCK_LEASES, ROWLOCK_INSERTS
#define ROWLOCK_SESSION_PAIRS ROWLOCK_ROW_LOCKS
#endif
/// For the strategies whose term stands in a row.
#define CONTRACT_CASE(text) PAIRS_CASE(text, ROWLOCK_ROW_PAIRS)
/// For every strategy.
#define EVERY_CASE(text) PAIRS_CASE(text, ROWLOCK_ROW_PAIRS, ROWLOCK_SESSION_PAIRS)
