// SQLite's files as they should not be.
#include <fmt/format.h>
#include <linux/magic.h>
#include <sqlite3.h>
#include <unistd.h>
#include <rowlock/sqlite.hpp>

#include <filesystem>
#include <fstream>

#include "backend/sqlite/checks.hpp"
#include "doctor/scene.hpp"
#include "support/child_process.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

std::string path_of(fixture const& f) { return f.url().substr(std::string("sqlite:").size()); }

sqlite3* open_file(std::string const& path, int flags, char const* sql) {
  sqlite3* db = nullptr;
  sqlite3_open_v2(path.c_str(), &db, flags, nullptr);
  REQUIRE(sqlite3_exec(db, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
  return db;
}

/// Connections that the program opens.
findings examined_with(std::string const& path, char const* sql, int flags = SQLITE_OPEN_READWRITE) {
  return examined(sqlite::source([=] { return open_file(path, flags, sql); }));
}

/// Runs `statement` on the program's own handle just before the doctor's `before`.
findings examined_while(std::string const& path, std::string const& before, char const* statement) {
  sqlite3* handle = nullptr;
  sqlite::source const source([&] { return handle = open_file(path, SQLITE_OPEN_READWRITE, ""); });
  auto const between = std::make_shared<statement_probe>();
  between->before = [&](std::string const& name) {
    if (name == before) sqlite3_exec(handle, statement, nullptr, nullptr, nullptr);
  };
  return examined(observed_by(source, between));
}

}  // namespace

TEST_SUITE_BEGIN("sqlite");

TEST_CASE("file: durability: journals that a crash or power cut makes unsafe, or that are slow") {
  sqlite_fixture f;
  auto const path = path_of(f);
  expect(examined_while(path, "doctor_session", "PRAGMA synchronous = OFF"), "durability", verdict::error,
         "synchronous = 0: a power cut may undo", "PRAGMA synchronous");
  for (auto const* mode : {"OFF", "MEMORY"})
    expect(examined_with(path, fmt::format("PRAGMA journal_mode = {}", mode).c_str()), "durability",
           verdict::error, "a crash in the midst of a write spoils the file", "journal_mode = WAL");
  f.sql("PRAGMA journal_mode = DELETE");
  expect(examined(f.source), "durability", verdict::warning, "journal_mode = delete", "journal_mode = WAL");
}

TEST_CASE("C64: file: wal: one that something reads without end is a warning that names the process") {
  sqlite_fixture f;
  auto const path = path_of(f);
  CHECK_FALSE(looked_at(examined(f.source), "wal"));
  auto* const reader = open_file(path, SQLITE_OPEN_READWRITE, "BEGIN; SELECT count(*) FROM rowlock_locks");
  auto const writer = f.source.implementation()->connect(boot_clock::now() + 60s);
  backend::statement const add{"add", "UPDATE rowlock_meta SET token_floor = token_floor + 1"};
  for (int i = 0; i < 3000; ++i) writer->execute(add, {}, boot_clock::now() + 60s);
  expect(examined(f.source), "wal", verdict::warning, "this process reads the database without end",
         "End that transaction");
  REQUIRE(sqlite3_exec(reader, "COMMIT", nullptr, nullptr, nullptr) == SQLITE_OK);
  expect(examined(f.source), "wal", verdict::ok, "-wal has 11 MB");
  for (int i = 0; i < 2; ++i) writer->execute(add, {}, boot_clock::now() + 60s);
  CHECK_FALSE(looked_at(examined(f.source), "wal"));
  sqlite3_close(reader);
}

TEST_CASE("file: durability: what is flushed, by default and as the URL asks") {
  sqlite_fixture f;
  auto const path = path_of(f);
  expect(examined(sqlite::source(path)), "durability", verdict::ok,
         "what can outlive its process is flushed");
  expect(examined(sqlite::source(path, sqlite::synchronous::full)), "durability", verdict::ok,
         "each take and renewal is flushed");
  f.sql("PRAGMA journal_mode = DELETE");  // then it is obeyed as full
  expect(examined(sqlite::source(path)), "durability", verdict::warning, "synchronous = 2: durable",
         "journal_mode = WAL");
}

TEST_CASE("file: writable: opened for reading only; kept by somebody else") {
  sqlite_fixture f;
  auto const path = path_of(f);
  expect(examined_with(path, "", SQLITE_OPEN_READONLY), "writable", verdict::error, "readonly",
         "writable for this user");
  auto const other = f.source.implementation()->connect(boot_clock::now() + 60s);
  other->script("BEGIN IMMEDIATE", boot_clock::now() + 60s);
  auto const all = examined(f.source);
  expect(all, "writable", verdict::unknown, "was kept waiting", "Look again later");
  expect(all, "schema", verdict::ok, "version 2");
}

TEST_CASE("file: waiting: the file for it is somebody else's") {
  sqlite_fixture f;
  auto const path = path_of(f);
  expect(examined(f.source), "waiting", verdict::ok, "stands in a line");
  auto const beside = path + "-rowlock";
  std::filesystem::remove(beside);
  std::ofstream(beside) << "not rowlock's";
  expect(examined(f.source), "waiting", verdict::warning, beside, "the folder that the file is in");
  std::filesystem::remove(beside);
}

TEST_CASE("file: index: names that are not unique, not bytes, not looked up") {
  sqlite_fixture f;
  auto const with_key = [&](std::string const& column, std::string const& more = "") {
    f.sql("DROP TABLE rowlock_locks; CREATE TABLE rowlock_locks (" + column +
          ", strategy TEXT, term TEXT, token INTEGER, expires_at INTEGER); " + more);
    return examined(f.source);
  };
  auto const validate = "rowlock migrate validate";
  expect(with_key("name TEXT"), "index", verdict::error, "no index makes sure", validate);
  expect(with_key("name TEXT PRIMARY KEY COLLATE NOCASE"), "index", verdict::error, "no index makes sure",
         validate);
  expect(with_key("name TEXT", "CREATE UNIQUE INDEX u ON rowlock_locks (name, strategy)"), "index",
         verdict::error, "no index makes sure", validate);
  expect(with_key("name TEXT", "CREATE UNIQUE INDEX u ON rowlock_locks (name) WHERE name > 'm'"), "index",
         verdict::error, "no index makes sure", validate);
  expect(with_key("name TEXT COLLATE NOCASE", "CREATE UNIQUE INDEX u ON rowlock_locks (name COLLATE BINARY)"),
         "index", verdict::error, "looked for in the whole table", validate);
  expect(with_key("name TEXT PRIMARY KEY"), "index", verdict::ok, "primary key");
  f.sql("DROP TABLE rowlock_tokens; CREATE TABLE rowlock_tokens (name TEXT, token INTEGER)");
  expect(examined(f.source), "index", verdict::error, "rowlock_tokens only once", validate);
}

TEST_CASE(
    "file: damage: a page that is overwritten, or a file that is cut off, is an error that names the file") {
  sqlite_fixture f;
  auto const path = path_of(f);
  f.sql("PRAGMA journal_mode = DELETE");  // all of it is in the file
  f.sql("INSERT INTO rowlock_locks (name, strategy, token, expires_at) VALUES ('n', 'lease', 1, 0)");
  auto const number_in = [&](std::string const& sql) {
    return backend::as_int(f.source.implementation()
                               ->connect(boot_clock::now() + 60s)
                               ->execute({"number", sql}, {}, boot_clock::now() + 60s)
                               .rows.at(0)
                               .at(0));
  };
  auto const page_size = number_in("SELECT page_size FROM pragma_page_size");
  expect(examined(f.source), "damage", verdict::ok, "can be read whole");
  auto const overwrite_page_of = [&](char const* table) {
    auto const page = number_in(fmt::format("SELECT rootpage FROM sqlite_schema WHERE name = '{}'", table));
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp((page - 1) * page_size);
    file << std::string(static_cast<std::size_t>(page_size), 'x');
  };
  SUBCASE("which no other check reads") {
    overwrite_page_of("rowlock_locks");
    auto const all = examined(f.source);
    expect(all, "damage", verdict::error, path, "Restore it");
    expect(all, "damage", verdict::error, "in table rowlock_locks", "rowlock migrate up");
  }
  SUBCASE("which the version is read from") {
    overwrite_page_of("rowlock_meta");
    expect(examined(f.source), "damage", verdict::error, path, "Restore it");
  }
  SUBCASE("cut off") {
    std::filesystem::resize_file(path, static_cast<std::uintmax_t>(2 * page_size));
    expect(examined(f.source), "connection", verdict::error, path);
    expect(examined(f.source), "connection", verdict::error, "the file is damaged: restore it");
  }
}

TEST_CASE("file: schema: none, older, newer") {
  sqlite_fixture f;
  f.sql("UPDATE rowlock_meta SET schema_version = 1");
  expect(examined(f.source), "schema", verdict::error, "the tables have version 1, this program needs 2",
         "rowlock migrate up");
  f.sql("UPDATE rowlock_meta SET schema_version = 9, oldest_reader = 9");
  expect(examined(f.source), "schema", verdict::error, "serve programs made for version 9", "newer rowlock");
  expect(examined(f.source, {.table_prefix = "nobody_"}), "schema", verdict::error, "has no rowlock tables",
         "rowlock migrate up");
}

TEST_CASE(
    "file: file_system: a real one on FUSE, where locks of files mean what somebody's program makes of "
    "them") {
  sqlite_fixture f;
  scratch_folder const there;
  // In a mount namespace of this program's, which ends the mount with it.
  auto const mounted = there.path().string();
  auto const script = fmt::format(
      "bindfs --no-allow-other '{}' '{}' && '{}' --db 'sqlite:{}/locks.db' doctor --json; status=$?; "
      "fusermount -u "
      "'{}'; exit $status",
      std::filesystem::path(path_of(f)).parent_path().string(), mounted, ROWLOCK_PROGRAM, mounted, mounted);
  std::vector<std::string> command{"/usr/bin/env", "unshare", "--mount"};
  if (::geteuid() != 0) command.insert(command.end(), {"--user", "--map-root-user"});
  command.insert(command.end(), {"sh", "-c", script});
  child_process child(command);
  CHECK(child.finish() == 1);
  CAPTURE(child.output());
  CHECK(child.output().find("the file is on FUSE: in WAL mode") != std::string::npos);
  CHECK(child.output().find("Put the file on a disk of this machine's") != std::string::npos);
}

TEST_CASE("C1: file: a file that is mounted by itself, as containers do it, is refused; its folder may be") {
  sqlite_fixture f;
  scratch_folder const there;
  auto const folder = std::filesystem::path(path_of(f)).parent_path().string();
  auto const script = fmt::format(
      "touch '{1}/one.db' && mkdir '{1}/all' && mount --bind '{0}/locks.db' '{1}/one.db' && "
      "mount --bind '{0}' '{1}/all' || exit 9; "
      "'{2}' --db 'sqlite:{1}/one.db' doctor; echo \"doctor: $?\"; "
      "'{2}' --db 'sqlite:{1}/one.db' run --no-wait x -- true 2>&1; echo \"run: $?\"; "
      "'{2}' --db 'sqlite:{1}/all/locks.db' run --no-wait x -- true; echo \"folder: $?\"; "
      "umount '{1}/one.db' '{1}/all'",
      folder, there.path().string(), ROWLOCK_PROGRAM);
  std::vector<std::string> command{"/usr/bin/env", "unshare", "--mount"};
  if (::geteuid() != 0) command.insert(command.end(), {"--user", "--map-root-user"});
  command.insert(command.end(), {"sh", "-c", script});
  child_process child(command);
  CHECK(child.finish() == 0);
  CAPTURE(child.output());
  for (auto const* part :
       {"is mounted by itself", "Mount the folder", "doctor: 1\n", "run: 78\n", "folder: 0\n"})
    CHECK(child.output().find(part) != std::string::npos);
}

TEST_CASE("C1: file: the doctor names a file that has two names") {
  sqlite_fixture f;
  std::filesystem::create_hard_link(path_of(f), path_of(f) + ".second");
  expect(examined(f.source), "connection", verdict::error, "has 2 names (hard links)");
}

TEST_CASE("C27: file: a full disk, or no permission: said at once, with what a file needs") {
  scratch_folder const there;
  auto const script = fmt::format(
      "mount -t tmpfs -o size=400k small '{1}' || exit 9; cd '{1}'; umask 022; "
      "try() {{ echo \"$1:\"; shift; \"$@\" 2>&1; echo \"status: $?\"; }}; "
      "all() {{ try doctor $2 '{0}' --db sqlite:l.db doctor; "
      "try run $2 '{0}' --db sqlite:l.db run --wait 60s x -- true; "
      "try migrate $2 '{0}' --db sqlite:l.db migrate down --to 0; }}; "
      "'{0}' --db sqlite:l.db migrate up; dd if=/dev/zero of=fill bs=1k; echo FULL; all; rm fill; "
      "chmod 444 l.db; chmod 555 .; echo READ; all : 'setpriv --bounding-set=-all --inh-caps=-all'; "
      "chmod 000 l.db; echo NONE; all : 'setpriv --bounding-set=-all --inh-caps=-all'; echo END; "
      "cd /; umount '{1}'",
      ROWLOCK_PROGRAM, there.path().string());
  std::vector<std::string> command{"/usr/bin/env", "unshare", "--mount"};
  if (::geteuid() != 0) command.insert(command.end(), {"--user", "--map-root-user"});
  command.insert(command.end(), {"sh", "-c", script});
  auto const start = std::chrono::steady_clock::now();
  child_process child(command);
  CHECK(child.finish() == 0);
  CHECK(std::chrono::steady_clock::now() - start < 60s);  // one that waits would take that
  auto const& said = child.output();
  CAPTURE(said);
  auto const between = [&](char const* from, char const* to) {
    auto const a = said.find(from);
    auto const b = said.find(to);
    return a == said.npos || b == said.npos ? std::string() : said.substr(a, b - a);
  };
  auto const count = [](std::string const& text, std::string const& part) {
    int n = 0;
    for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
    return n;
  };
  auto const full = between("FULL", "READ");
  CHECK(count(full, "make room on its file system") == 3);
  CHECK(count(full, "status: 78") == 2);
  auto const read = between("READ", "NONE");
  CHECK(count(read, "must be writable for this user") == 4);  // the doctor of two checks
  CHECK(count(read, "status: 78") == 2);
  auto const none = between("NONE", "END");
  CHECK(count(none, "must be readable and writable for this user") == 3);
  CHECK(count(none, "status: 77") == 2);
  for (auto const* of_a_server : {"server running", "firewall", "log in", "password", "right user"})
    CHECK(said.find(of_a_server) == std::string::npos);
}

// Of the others none can be mounted without a server; the decision is fed their numbers.
TEST_CASE("file: D7: file_system: what is decided for each kind") {
  using backend::sqlite::judge_file_system;
  for (std::uint64_t const shared : {std::uint64_t{NFS_SUPER_MAGIC}, std::uint64_t{CIFS_SUPER_MAGIC},
                                     std::uint64_t{SMB2_SUPER_MAGIC}, std::uint64_t{V9FS_MAGIC}}) {
    CHECK(judge_file_system(shared, true).result == verdict::error);
    CHECK(judge_file_system(shared, false).result == verdict::warning);
    CHECK_FALSE(judge_file_system(shared, false).remedy.empty());
  }
  for (std::uint64_t const local : {std::uint64_t{EXT4_SUPER_MAGIC}, std::uint64_t{TMPFS_MAGIC},
                                    std::uint64_t{BTRFS_SUPER_MAGIC}, std::uint64_t{OVERLAYFS_SUPER_MAGIC}})
    CHECK(judge_file_system(local, true).result == verdict::ok);
}

TEST_SUITE_END();
