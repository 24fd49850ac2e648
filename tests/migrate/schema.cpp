// What the catalog shows: up and down leave no trace of each other, and migrate_columns_expected lists what
// there is.

#include <map>
#include <regex>

#include "database.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

using backend::row;

// Everything that the catalog knows about the tables, names of the schema left out.
std::vector<row> catalog(sqlite_database const& db) {
  auto rows = db.query("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name");
  // SQLite keeps the text: without comments, quotes and blanks.
  for (auto& r : rows) {
    if (backend::is_null(r[3])) continue;
    auto text = std::regex_replace(backend::as_text(r[3]), std::regex("--[^\n]*"), "");
    r[3] = std::regex_replace(text, std::regex("[\\s\"]+"), "");
  }
  auto const meta = db.query("SELECT id, schema_version, oldest_reader, token_floor FROM rowlock_meta");
  rows.insert(rows.end(), meta.begin(), meta.end());
  return rows;
}

std::vector<row> catalog(postgresql_database const& db) {
  auto rows = db.query(
      "SELECT c.relname::text, c.relkind::text, c.relpersistence::text, c.reloptions::text, "
      "row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum), "
      "  a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull::int::bigint, "
      "a.attcollation::bigint, "
      "  a.attstorage::text, pg_get_expr(d.adbin, d.adrelid) "
      "FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
      "LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum "
      "WHERE c.relnamespace = current_schema()::regnamespace ORDER BY 1, 5");
  for (auto const* more :
       {"SELECT conrelid::regclass::text, conname::text, contype::text, pg_get_constraintdef(oid) FROM "
        "pg_constraint "
        "WHERE connamespace = current_schema()::regnamespace ORDER BY 1, 2",
        "SELECT tablename::text, indexname::text, replace(indexdef, current_schema() || '.', '') FROM "
        "pg_indexes "
        "WHERE schemaname = current_schema() ORDER BY 1, 2",
        "SELECT replace(replace(pg_get_functiondef(oid), current_schema(), ''), '\"', '') FROM pg_proc "
        "WHERE pronamespace = current_schema()::regnamespace ORDER BY proname",
        "SELECT count(*) FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid "
        "WHERE c.relnamespace = current_schema()::regnamespace",
        "SELECT id::bigint, schema_version::bigint, oldest_reader::bigint, token_floor FROM rowlock_meta"}) {
    auto const found = db.query(more);
    rows.insert(rows.end(), found.begin(), found.end());
  }
  return rows;
}

std::vector<row> catalog(mysql_like_database const& db) {
  auto rows = db.query(
      "SELECT c.table_name, c.ordinal_position, c.column_name, c.column_type, c.is_nullable, "
      "c.collation_name, "
      "c.column_default, c.column_key, c.extra, t.engine, t.table_collation "
      "FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name) "
      "WHERE c.table_schema = database() ORDER BY 1, 2");
  for (auto const* more :
       {"SELECT table_name, index_name, seq_in_index, column_name, non_unique FROM "
        "information_schema.statistics "
        "WHERE table_schema = database() ORDER BY 1, 2, 3",
        "SELECT constraint_name, check_clause FROM information_schema.check_constraints "
        "WHERE constraint_schema = database() ORDER BY 1, 2",
        "SELECT routine_name, sql_mode, security_type, sql_data_access, "
        "  regexp_replace(replace(routine_definition, '`', ''), '[[:space:]]+', ' ') "
        "FROM information_schema.routines WHERE routine_schema = database() ORDER BY 1",
        "SELECT specific_name, ordinal_position, parameter_mode, parameter_name, dtd_identifier, "
        "collation_name "
        "FROM information_schema.parameters WHERE specific_schema = database() ORDER BY 1, 2",
        "SELECT count(*) FROM information_schema.triggers WHERE trigger_schema = database()",
        "SELECT id, schema_version, oldest_reader, token_floor FROM rowlock_meta"}) {
    auto const found = db.query(more);
    rows.insert(rows.end(), found.begin(), found.end());
  }
  return rows;
}

}  // namespace

TEST_CASE_TEMPLATE("up, down and up again leaves the same tables", DB, ROWLOCK_DATABASES) {
  DB db;
  migrator m(db.source());
  std::map<int, std::vector<row>> catalogs;
  for (int const version : every_up) {
    m.up(version);
    catalogs[version] = catalog(db);
  }
  for (int version = toy_version - 1; version > 0; --version) {
    CAPTURE(version);
    m.down(version);
    CHECK(catalog(db) == catalogs[version]);
  }
  m.up();
  CHECK(catalog(db) == catalogs[toy_version]);
}

TEST_CASE_TEMPLATE("each version's columns are what migrate_columns_expected says", DB, ROWLOCK_DATABASES) {
  DB db;
  migrator m(db.source());
  auto const names = backend::table_names::of(db.source().implementation()->sql(), "", "rowlock_");
  backend::statement_book const book(db.source().implementation()->sql(), names);
  for (int version = 1; version <= m.latest(); ++version) {
    CAPTURE(version);
    m.up(version);
    auto const c = db.connect();
    auto const run = [&](char const* statement, backend::value const& parameter) {
      return c->execute(book.at(statement), std::vector<backend::value>{parameter}, soon()).rows;
    };
    std::map<std::string, std::map<std::string, std::string>> expected;
    for (auto const& r : run("migrate_columns_expected", std::int64_t{version}))
      expected[backend::as_text(r[0])][backend::as_text(r[1])] = backend::as_text(r[2]);
    CHECK_FALSE(expected.empty());
    for (auto const& [table, columns] : expected) {
      std::map<std::string, std::string> found;
      for (auto const& r : run("migrate_columns", names.table(table)))
        found[backend::as_text(r[0])] = backend::as_text(r[1]);
      CHECK(found == columns);
    }
    CHECK(db.query("SELECT schema_version FROM rowlock_meta")[0][0] == backend::value{std::int64_t{version}});
  }
}
