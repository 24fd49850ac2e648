// What only a file can have.

#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <rowlock/doctor.hpp>
#include <rowlock/lock_manager.hpp>
#include <rowlock/sqlite.hpp>

#include "database.hpp"

using namespace rowlock;
using namespace rowlock::test;
using namespace std::chrono_literals;

namespace {

sqlite::source read_only_source(std::string const& file) {
  return sqlite::source(std::function<sqlite3*()>([file] {
    sqlite3* db = nullptr;
    sqlite3_open_v2(file.c_str(), &db, SQLITE_OPEN_READONLY, nullptr);
    return db;
  }));
}

}  // namespace

TEST_CASE("C27: up makes the file, with the mode that the umask leaves, and in WAL mode<sqlite>") {
  sqlite_database db;
  auto const former = ::umask(022);
  CHECK(migrator(db.source()).up() == every_up);
  ::umask(former);
  struct stat found {};
  REQUIRE(::stat(db.file().c_str(), &found) == 0);
  CHECK((found.st_mode & 0777) == 0644);
  CHECK(db.query("PRAGMA journal_mode")[0][0] == backend::value{"wal"});
}

TEST_CASE("C12: a view by the name of a table is not even read<sqlite>") {
  sqlite_database db;
  migrator m(db.source());
  m.up();
  db.script(
      "ALTER TABLE rowlock_meta RENAME TO elsewhere;"
      "CREATE VIEW Rowlock_Meta AS WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r)"
      " SELECT elsewhere.* FROM elsewhere, r");
  for (auto const& e : {catch_error([&] { m.up(); }), catch_error([&] { (void)m.status(); }),
                        catch_error([&] { lock_manager(db.source()).connect(); })})
    CHECK(e.mentions("Rowlock_Meta is not an ordinary table"));
  auto const found = doctor(db.source()).examine();
  CHECK(std::any_of(found.begin(), found.end(), [](auto const& f) { return f.result == verdict::error; }));
}

TEST_CASE("an empty file is migrated<sqlite>") {
  sqlite_database db;
  std::ofstream(db.file()).flush();
  CHECK_FALSE(migrator(db.source()).status()[0].applied);
  CHECK(migrator(db.source()).up() == every_up);
}

TEST_CASE("a version that no tables can have is told, and not counted up to<sqlite>") {
  sqlite_database db;
  migrator(db.source()).up();
  for (auto const* version : {"2000000000", "4294967298"}) {  // the second one is 2 in 32 bits
    CAPTURE(version);
    db.script("UPDATE rowlock_meta SET schema_version = " + std::string(version));
    CHECK(migrator(db.source()).status().size() == toy_version);
    auto const said = migrator(db.source()).validate();
    REQUIRE_FALSE(said.empty());
    CHECK(said[0].find("schema_version is " + std::string(version)) != std::string::npos);
  }
}

TEST_CASE("a folder that is missing, and a file that is no database, are said<sqlite>") {
  scratch_folder folder;
  auto const missing = catch_error([&] { migrator(sqlite::source(folder.file("no/locks.db"))).up(); });
  CHECK(missing.mentions("its folder does not exist"));
  std::ofstream(folder.file("text")) << std::string(4096, 'x');
  auto const text = catch_error([&] { migrator(sqlite::source(folder.file("text"))).up(); });
  CHECK(text.mentions(folder.file("text")));
}

TEST_CASE("a file that can't be written is said, and is fine where nothing is to be done<sqlite>") {
  sqlite_database db;
  migrator(db.source()).up(1);
  auto const read_only = with_toy(read_only_source(db.file()));
  auto const e = catch_error([&] { migrator(read_only).up(); });
  CHECK(e.reason == errc::read_only);
  CHECK(e.mentions("the right to write the file"));
  migrator(db.source()).up();
  CHECK(migrator(read_only).up().empty());
  CHECK(migrator(read_only).validate().empty());
}

TEST_CASE("another process's write transaction is waited for until the timeout, then said<sqlite>") {
  sqlite_database db;
  migrator(db.source()).up(1);
  auto const other = db.connect();
  other->script("BEGIN IMMEDIATE", soon());
  auto const e = catch_error([&] { migrator(db.source(), {.timeout = 3s}).up(); });
  CHECK(e.reason == errc::row_locked);
  CHECK(e.mentions("gave up after 3000 ms"));
  CHECK(e.mentions("another process has a transaction open on sqlite:" + db.file()));
  CHECK(migrator(db.source()).status()[0].applied);  // reading goes on
  other->script("COMMIT", soon());
  CHECK(migrator(db.source()).up() == versions{2, toy_version});
}

TEST_CASE("a schema is refused<sqlite>") {
  sqlite_database db;
  auto const e = catch_error([&] { migrator(db.source(), {.schema = "x"}); });
  CHECK(e.reason == errc::invalid_argument);
  CHECK(e.mentions("sqlite has no schemas"));
}
