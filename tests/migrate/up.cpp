// Going up, and what status, validate, repair and sql say.

#include <algorithm>
#include <filesystem>

#include "database.hpp"
#include "sessions/database.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

bool has_line(std::vector<std::string> const& lines, std::string_view text) {
  return std::any_of(lines.begin(), lines.end(), [&](auto const& l) { return l.find(text) != l.npos; });
}

}  // namespace

TEST_CASE_TEMPLATE("up applies each version once and in order, and records it", DB, ROWLOCK_DATABASES) {
  DB db;
  std::vector<std::string> told;
  migrator m(db.source(), {.progress = [&](std::string_view line) { told.emplace_back(line); }});
  CHECK(m.latest() == 3);
  CHECK(m.latest() == sessions::latest_schema_version + 1);  // "made for" is one number everywhere
  CHECK(m.up(0).empty());
  CHECK(m.up() == every_up);
  CHECK(told == std::vector<std::string>{"applied 1 schema", "applied 2 quarantine", "applied 3 toy"});
  CHECK(m.up().empty());
  CHECK(m.validate().empty());
  auto const status = m.status();
  REQUIRE(status.size() == 3);
  CHECK(status[0].name == "schema");
  CHECK(status[1].name == "quarantine");
  CHECK(status[2].name == "toy");
  for (auto const& s : status) {
    CHECK(s.applied);
    CHECK_FALSE(s.adopted);
    CHECK_FALSE(s.checksum_differs);
    REQUIRE(s.applied_at);
    CHECK(s.applied_at->size() == std::string_view("2026-01-31T23:59:59Z").size());
  }
}

TEST_CASE_TEMPLATE("up stops at its target, and goes on from there", DB, ROWLOCK_DATABASES) {
  DB db;
  migrator m(db.source());
  CHECK(m.up(1) == versions{1});
  CHECK(m.status()[0].applied);
  CHECK_FALSE(m.status()[1].applied);
  CHECK(has_line(m.validate(), "the tables are at version 1, this program has 3: run `rowlock migrate up`"));
  CHECK(m.up(1).empty());
  CHECK(m.up(2) == versions{2});
  CHECK(m.up() == versions{toy_version});
  CHECK(m.up(1).empty());  // never down
  CHECK(m.status().back().applied);
}

TEST_CASE_TEMPLATE("a target that does not exist is refused", DB, ROWLOCK_DATABASES) {
  DB db;
  migrator m(db.source());
  for (int const bad : {-1, toy_version + 1}) {
    CHECK(catch_error([&] { m.up(bad); }).reason == errc::invalid_argument);
    CHECK(catch_error([&] { m.down(bad); }).reason == errc::invalid_argument);
    CHECK(catch_error([&] { m.sql(0, bad); }).reason == errc::invalid_argument);
  }
}

TEST_CASE_TEMPLATE("a differing checksum is shown by status and validate, and mended by repair", DB,
                   ROWLOCK_DATABASES) {
  DB db;
  std::vector<std::string> told;
  migrator m(db.source(), {.progress = [&](std::string_view line) { told.emplace_back(line); }});
  m.up();
  db.script("UPDATE rowlock_migrations SET checksum = 'something else' WHERE version = 2");
  CHECK_FALSE(m.status()[0].checksum_differs);
  CHECK(m.status()[1].checksum_differs);
  CHECK(has_line(m.validate(), "version 2 is recorded with another name or checksum"));
  told.clear();
  CHECK(m.up().empty());
  CHECK(has_line(told, "warning: version 2"));
  CHECK(m.repair() == std::vector<std::string>{"corrected name and checksum of version 2"});
  CHECK(m.validate().empty());
  CHECK(m.repair().empty());
}

TEST_CASE_TEMPLATE("tables of a newer program: used while they serve this one, else refused", DB,
                   ROWLOCK_DATABASES) {
  DB db;
  std::vector<std::string> told;
  migrator m(db.source(), {.progress = [&](std::string_view line) { told.emplace_back(line); }});
  m.up();
  db.script("ALTER TABLE rowlock_locks ADD COLUMN later integer");
  db.script(
      "INSERT INTO rowlock_migrations SELECT 4, 'later', 'abc', applied_at FROM rowlock_migrations WHERE "
      "version = 3");
  db.script("UPDATE rowlock_meta SET schema_version = 4, oldest_reader = 1");
  told.clear();
  CHECK(m.up().empty());
  CHECK(has_line(told, "newer than this program's 3, and still serve it"));
  auto const status = m.status();
  REQUIRE(status.size() == 4);
  CHECK(status[3].version == 4);
  CHECK(status[3].name == "later");
  CHECK(status[3].applied);
  CHECK(has_line(m.validate(), "version 4, unknown to this program"));
  auto const down = catch_error([&] { m.down(1); });
  CHECK(down.reason == errc::schema_new);
  CHECK(down.mentions("version 4"));

  db.script("UPDATE rowlock_meta SET oldest_reader = 4");
  auto const up = catch_error([&] { m.up(); });
  CHECK(up.reason == errc::schema_new);
  CHECK(up.mentions("use a newer rowlock"));
  CHECK(m.repair().empty());
  CHECK(db.query("SELECT count(*) FROM rowlock_migrations")[0][0] == backend::value{std::int64_t{4}});
}

TEST_CASE_TEMPLATE("tables with another prefix live beside the usual ones", DB, ROWLOCK_DATABASES) {
  DB db;
  migrator usual(db.source());
  migrator other(db.source(), {.table_prefix = "My_App_"});
  CHECK(other.up() == every_up);
  CHECK(catch_error([&] { usual.validate(); }).reason == errc::schema_missing);
  CHECK(usual.up() == every_up);
  CHECK(db.query(db.is_mysql() ? "SELECT count(*) FROM My_App_migrations"
                               : "SELECT count(*) FROM \"My_App_migrations\"")[0][0] ==
        backend::value{std::int64_t{toy_version}});
  CHECK(other.down(0) == every_down);
  CHECK(usual.validate().empty());
}

TEST_CASE_TEMPLATE("prefixes that are no plain identifiers are refused", DB, ROWLOCK_DATABASES) {
  DB db;
  for (auto const* bad : {"", "1a", "a-b", "a b", "a\"b", "a'b", "a.b", "a;DROP TABLE x;--", "é"})
    CHECK(catch_error([&] { migrator(db.source(), {.table_prefix = bad}); }).reason ==
          errc::invalid_argument);
  CHECK(catch_error([&] { migrator(db.source(), {.table_prefix = std::string(300, 'a')}); }).reason ==
        errc::invalid_argument);
}

TEST_CASE_TEMPLATE("status, validate, repair and down make nothing", DB, ROWLOCK_DATABASES) {
  DB db;
  migrator m(db.source());
  if (db.kind() == "sqlite") {
    for (auto const& f : std::vector<std::function<void()>>{[&] { m.status(); }, [&] { m.validate(); },
                                                            [&] { m.repair(); }, [&] { m.down(0); }})
      CHECK(catch_error(f).reason == errc::schema_missing);
    CHECK_FALSE(std::filesystem::exists(db.address()));
    return;
  }
  CHECK_FALSE(m.status()[0].applied);
  CHECK(m.down(0).empty());
  CHECK(catch_error([&] { m.validate(); }).mentions("run `rowlock migrate up`"));
  CHECK(catch_error([&] { m.repair(); }).reason == errc::schema_missing);
}
