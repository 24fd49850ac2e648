// The conditions of lib/sql/<dialect>/meta.sql.
#include <string>
#include <vector>

#include "contract/conditions.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

constexpr bool of_postgresql(running_pair const& p) {
  return leases_directly(p) && p.engine == dialect::postgresql;
}

}  // namespace

STATEMENT_CASE("meta_views: views by the names of rowlock's tables, where those are looked for [C12]") {
  statements s(f);
  auto const where = s.book.tables();
  auto const found_in = [&](std::string const& schema, std::string const& prefix) {
    std::vector<std::string> views;
    for (auto const& columns : s.run("meta_views", {schema, prefix}).rows)
      views.push_back(backend::as_text(columns.at(0)));
    return views;
  };
  auto const found = [&] { return found_in(where.schema, where.prefix); };
  CHECK(found().empty());
  // A view by another name, or elsewhere.
  std::string const place = where.schema.empty() ? "" : where.schema + ".";
  f.sql("CREATE VIEW " + place + "a_view AS SELECT 1 AS one");
  CHECK(found().empty());
  bool const has_schemas = dialect_of(f) != dialect::sqlite;
  std::string const elsewhere = "b" + base::random_id().substr(0, 20);
  if (has_schemas) {
    auto const run = [&](std::string const& sql) { s.session->script(sql, statements::soon()); };
    auto const view = elsewhere + "." + where.prefix + "meta";
    run("CREATE SCHEMA " + elsewhere);
    run("CREATE VIEW " + view + " AS SELECT 1 AS one");
    CHECK(found().empty());
    CHECK(found_in(elsewhere, where.prefix) == std::vector<std::string>{where.prefix + "meta"});
    run("DROP VIEW " + view);
    run("DROP SCHEMA " + elsewhere);
  }
  for (std::string const table :
       {"meta", "migrations", "locks", "tokens", "reaper", "permits", "quorum", "admitted"}) {
    CAPTURE(table);
    f.sql("ALTER TABLE rowlock_" + table + " RENAME TO moved_away");
    f.sql("CREATE VIEW rowlock_" + table + " AS SELECT 1 AS one");
    CHECK(found() == std::vector<std::string>{where.prefix + table});
    CHECK(found_in(where.schema, "other_").empty());
    if (has_schemas) CHECK(found_in(elsewhere, where.prefix).empty());
    f.sql("DROP VIEW rowlock_" + table);
    statements(f).session->script("ALTER TABLE " + place + "moved_away RENAME TO " + where.prefix + table,
                                  statements::soon());
    CHECK(found().empty());
  }
  CHECK(f.manager()->make_mutex("x").try_acquire());
}

// A copy of a database has all that is in it, but not its number.
PAIRS_CASE("meta_lineage: the number of this database, and of no other one", of_postgresql) {
  statements s(f);
  auto const told = s.run("meta_lineage", {}).rows;
  REQUIRE(told.size() == 1);
  auto const own = number(f, "SELECT oid::bigint FROM pg_database WHERE datname = current_database()");
  CHECK(backend::as_text(told[0].at(0)).ends_with(":" + std::to_string(own)));
}
