// Tables that another tool has made.

#include <fmt/format.h>

#include <algorithm>

#include "database.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

std::vector<std::string> up_and_listen(database const& db) {
  std::vector<std::string> told;
  migrator(db.source(), {.progress = [&](std::string_view line) { told.emplace_back(line); }}).up();
  return told;
}

// The file must be there before SQL can be run on it.
void make_empty(database const& db) { db.source().implementation()->create_if_missing(); }

}  // namespace

TEST_CASE_TEMPLATE("raw files of every version are adopted", DB, ROWLOCK_DATABASES) {
  DB db;
  make_empty(db);
  for (int const version : every_up) db.apply_raw(version, "up");
  migrator m(db.source());
  auto const before = m.status();
  for (auto const& each : before) {
    CHECK(each.applied);
    CHECK(each.adopted);
    CHECK_FALSE(each.applied_at);
  }
  CHECK(m.validate().size() == every_up.size());  // not recorded
  CHECK(up_and_listen(db) ==
        std::vector<std::string>{
            "adopted 1 schema, applied by another tool, or by a run that was interrupted",
            "adopted 2 quarantine, applied by another tool, or by a run that was interrupted",
            "adopted 3 toy, applied by another tool, or by a run that was interrupted"});
  CHECK(m.validate().empty());
  for (auto const& each : m.status()) {
    CHECK_FALSE(each.adopted);
    CHECK_FALSE(each.checksum_differs);
  }
}

TEST_CASE_TEMPLATE("raw files of the first version are adopted, and up goes on", DB, ROWLOCK_DATABASES) {
  DB db;
  make_empty(db);
  db.apply_raw(1, "up");
  CHECK(
      up_and_listen(db) ==
      std::vector<std::string>{"adopted 1 schema, applied by another tool, or by a run that was interrupted",
                               "applied 2 quarantine", "applied 3 toy"});
  CHECK(migrator(db.source()).validate().empty());
}

TEST_CASE_TEMPLATE("a version that another tool undid is applied again", DB, ROWLOCK_DATABASES) {
  DB db;
  migrator m(db.source());
  m.up();
  db.apply_raw(toy_version, "down");
  CHECK_FALSE(m.status().back().applied);
  auto const lines = m.validate();
  CHECK(std::any_of(lines.begin(), lines.end(), [](auto const& l) {
    return l.find("version 3 is recorded, but the tables are at version 2") != l.npos;
  }));
  SUBCASE("by up") {
    CHECK(m.up() == versions{toy_version});
    CHECK(m.validate().empty());
  }
  SUBCASE("or forgotten by repair") {
    CHECK(m.repair() == std::vector<std::string>{"forgot version 3, which is not applied"});
    CHECK(m.validate().size() == 1);
  }
}

TEST_CASE_TEMPLATE("what sql() prints goes up, is adopted, and goes down", DB, ROWLOCK_DATABASES) {
  DB db;
  make_empty(db);
  migrator m(db.source(), {.table_prefix = "x_"});
  db.script(for_the_server(m.sql(0, toy_version)));
  CHECK(m.up().empty());
  CHECK(m.validate().empty());
  db.script(for_the_server(m.sql(toy_version, 1)));
  CHECK(m.up() == versions{2, toy_version});
  db.script(for_the_server(m.sql(toy_version, 0)));
  CHECK_FALSE(m.status()[0].applied);
  CHECK(m.sql(1, 1).empty());
}

TEST_CASE_TEMPLATE("repair records what another tool applied and changes nothing else", DB,
                   ROWLOCK_DATABASES) {
  DB db;
  make_empty(db);
  db.apply_raw(1, "up");
  migrator m(db.source());
  CHECK(m.repair() == std::vector<std::string>{"recorded version 1"});
  CHECK_FALSE(m.status()[0].adopted);
  CHECK_FALSE(m.status()[1].applied);
}

TEST_CASE_TEMPLATE("tables that differ from their version are refused, saying where", DB, ROWLOCK_DATABASES) {
  DB db;
  migrator m(db.source());
  m.up();
  std::string what;
  SUBCASE("a column is missing") {
    db.script("ALTER TABLE rowlock_locks DROP COLUMN note");
    what = db.is_mysql() ? "column rowlock_locks.note (varchar(1024) utf8mb4_bin not null) is missing"
                         : "column rowlock_locks.note (text not null) is missing";
  }
  SUBCASE("a column too many") {
    db.script("ALTER TABLE rowlock_tokens ADD COLUMN mine integer");
    what = fmt::format("column rowlock_tokens.mine ({}) is not part of version 3",
                       db.is_mysql() ? "int" : "integer");
  }
  SUBCASE("a table is missing") {
    db.script("DROP TABLE rowlock_tokens");
    what = "table rowlock_tokens is missing";
  }
  SUBCASE("no primary key, so that a name could have two rows") {
    db.script("DROP TABLE rowlock_tokens");
    db.script(db.kind() == "sqlite"
                  ? "CREATE TABLE rowlock_tokens (name TEXT NOT NULL, token INTEGER NOT NULL) STRICT"
              : db.is_mysql()
                  ? "CREATE TABLE rowlock_tokens (name VARBINARY(255) NOT NULL, token BIGINT NOT NULL)"
                  : "CREATE TABLE rowlock_tokens (name text NOT NULL, token bigint NOT NULL)");
    std::string const type = db.is_mysql() ? "varbinary(255)" : "text";
    what = fmt::format(
        "column rowlock_tokens.name is '{0} not null' and should be '{0} not null primary key'", type);
  }
  SUBCASE("rowlock_meta is missing") {
    db.script("DROP TABLE rowlock_meta");
    what = "table rowlock_meta is missing";
  }
  SUBCASE("rowlock_meta is empty") {
    db.script("DELETE FROM rowlock_meta");
    what = "table rowlock_meta has no row";
  }
  SUBCASE("rowlock_meta is somebody else's") {
    db.script("DROP TABLE rowlock_meta");
    db.script("CREATE TABLE rowlock_meta (id integer)");
    what = "table rowlock_meta lacks";
  }
  SUBCASE("a version that its tables contradict") {
    m.down(shipped_version);
    db.script("UPDATE rowlock_meta SET schema_version = 3");
    what = "column rowlock_locks.toy";
  }
  CAPTURE(what);
  for (auto const& f :
       std::vector<std::function<void()>>{[&] { m.up(); }, [&] { m.down(0); }, [&] { m.repair(); }}) {
    auto const e = catch_error(f);
    CHECK(e.reason == errc::schema_missing);
    CHECK(e.mentions(what));
  }
  auto const lines = m.validate();
  CHECK(std::any_of(lines.begin(), lines.end(), [&](auto const& l) { return l.find(what) != l.npos; }));
}
