// Every strategy on every back end either runs the whole suite or says in words why it does not exist.
#include <fmt/format.h>

#include <algorithm>

#include "contract/fixture.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

struct cell {
  rowlock::strategy strategy;
  char const* backend;
  char const* gap;  ///< null: the suite runs for it
};

constexpr cell table[] = {
    {strategy::lease, "sqlite", nullptr},
    {strategy::lease, "postgresql", nullptr},
    {strategy::unique_insert, "sqlite", nullptr},
    {strategy::unique_insert, "postgresql", nullptr},
    {strategy::lease, "mariadb", nullptr},
    {strategy::lease, "mysql", nullptr},
    {strategy::unique_insert, "mariadb", nullptr},
    {strategy::unique_insert, "mysql", nullptr},
    {strategy::row_lock, "sqlite", "SQLite locks files, not rows"},
    {strategy::row_lock, "postgresql", nullptr},
    {strategy::row_lock, "mariadb", nullptr},
    {strategy::row_lock, "mysql", nullptr},
    // With ROWLOCK_SOCI_PAIRS. A server of MySQL is the same to SOCI as one of MariaDB:
    // tests/backend/soci_tests.cpp
    {strategy::lease, "soci-sqlite", nullptr},
    {strategy::lease, "soci-postgresql", nullptr},
    {strategy::lease, "soci-mariadb", nullptr},
    {strategy::unique_insert, "soci-sqlite", nullptr},
    {strategy::unique_insert, "soci-postgresql", nullptr},
    {strategy::unique_insert, "soci-mariadb", nullptr},
    {strategy::row_lock, "soci-sqlite", "SQLite locks files, not rows"},
    {strategy::row_lock, "soci-postgresql", nullptr},
    {strategy::row_lock, "soci-mariadb", nullptr},
    // With ROWLOCK_POOLER_PAIRS.
    {strategy::lease, "postgresql-pooler", nullptr},
    {strategy::unique_insert, "postgresql-pooler", nullptr},
    {strategy::row_lock, "postgresql-pooler",
     "there is a pooler between that lends out the server's sessions by the transaction: use lease"},
};

template <class Database>
void check_cells(int& seen) {
  for (auto const& c : table) {
    if (std::string_view(c.backend) != Database::backend) continue;
    CAPTURE(to_string(c.strategy));
    Database f;
    f.options.strategy = c.strategy;
    auto const m = f.manager();
    if (c.gap == nullptr) {
      CHECK(m->make_mutex("x").try_acquire());
    } else {
      try {
        (void)m->make_mutex("x").try_acquire();
        FAIL("the gap is not there: run the suite for it");
      } catch (error const& e) {
        CHECK(e.reason() == errc::unsupported);
        CHECK(std::string(e.what()).find(c.gap) != std::string::npos);
        CHECK(std::string(e.what()).find("lease") != std::string::npos);
      }
    }
    ++seen;
  }
}

}  // namespace

TEST_CASE_TEMPLATE("each strategy works on each back end or declares its gap", Database, sqlite_fixture,
                   postgresql_fixture, mariadb_fixture,
                   mysql_fixture ROWLOCK_SOCI_DATABASES ROWLOCK_POOLER_DATABASES) {
  int seen = 0;
  check_cells<Database>(seen);
  CHECK(seen == 3);
  CHECK(std::size(table) == 3 * (4 + 3 + 1));
}

// The suite itself runs for the pair: a case of this name for each.
EVERY_CASE("the pair is in the table, without a gap") {
  auto const is_this = [&](cell const& c) {
    return c.strategy == pair.strategy && std::string_view(c.backend) == pair.backend && c.gap == nullptr;
  };
  CHECK(std::count_if(std::begin(table), std::end(table), is_this) == 1);
}
