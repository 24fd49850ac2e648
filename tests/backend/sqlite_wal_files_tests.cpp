// The files -wal and -shm beside an SQLite database are removed or replaced while it is open.

#include <doctest/doctest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <rowlock/migrator.hpp>
#include <rowlock/sqlite.hpp>

#include "backend/child.hpp"
#include "backend/database.hpp"
#include "backend/sqlite/caller_session.hpp"
#include "backend/sqlite/native.hpp"

namespace rowlock::test {
namespace {

namespace fs = std::filesystem;

backend::statement const add{"add", "UPDATE rowlock_meta SET token_floor = token_floor + 1"};
backend::statement const floor_now{"floor", "SELECT token_floor FROM rowlock_meta"};

/// Migrated, and all of it is in the file itself.
struct open_file {
  scratch_folder folder;
  std::string path = folder.file("locks.db");
  sqlite::source source{path};

  open_file() { migrator(source).up(); }
  std::unique_ptr<backend::connection> connect() const {
    return source.implementation()->connect(in(20'000));
  }
  void remove_both() const {
    for (auto const* end : {"-wal", "-shm"}) REQUIRE(fs::remove(path + end));
  }
};

/// Another process, which has inherited nothing that was opened later, adds so often when it is told to.
class adder {
 public:
  adder(open_file const& file, int times)
      : child_([&file, times](child& parent) {
          parent.hear();
          auto const c = file.connect();
          for (int i = 0; i < times; ++i) c->execute(add, {}, in(20'000));
          return 0;
        }) {}
  void go() {
    child_.tell();
    REQUIRE(child_.join() == 0);
  }

 private:
  child child_;
};

std::int64_t floor_of(backend::connection& c) {
  return backend::as_int(c.execute(floor_now, {}, in(20'000)).rows.at(0).at(0));
}

void copy_over(std::string const& path) {
  fs::copy_file(path, path + ".copy");
  fs::rename(path + ".copy", path);
}

backend::sqlite::database program_opens(std::string const& path, char const* vfs = nullptr) {
  sqlite3* db = nullptr;
  sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE, vfs);
  return backend::sqlite::database(db);
}

void program_runs(backend::sqlite::database const& db, std::string const& sql) {
  REQUIRE(sqlite3_exec(db.get(), sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
}

}  // namespace

TEST_CASE(
    "sqlite: a WAL, or its index, that is removed or replaced while open is noticed by the next statement") {
  for (std::vector<std::string> const& which : {std::vector<std::string>{"-wal"}, {"-shm"}, {"-wal", "-shm"}})
    for (bool const removed : {true, false}) {
      CAPTURE(which.front());
      CAPTURE(which.size());
      CAPTURE(removed);
      open_file const file;
      auto const c = file.connect();
      c->execute(add, {}, in(20'000));
      for (auto const& end : which) removed ? (void)fs::remove(file.path + end) : copy_over(file.path + end);
      auto const e = thrown_by([&] { c->execute(add, {}, in(20'000)); });
      CHECK(e.reason() == errc::unreachable);
      CHECK(says(e, "-wal or -shm beside it was removed or replaced"));
      CHECK_FALSE(c->usable());
      auto const again = file.connect();
      again->execute(add, {}, in(20'000));
      CHECK(floor_of(*again) == (removed && which.front() == "-wal" ? 1 : 2));
    }
}

TEST_CASE("sqlite: a WAL that is removed during a statement leaves it in doubt") {
  open_file const file;
  auto const open = [&] {
    auto db = program_opens(file.path);
    auto const remove = [](sqlite3_context* context, int, sqlite3_value** arguments) {
      ::unlink(reinterpret_cast<char const*>(sqlite3_value_text(arguments[0])));
      sqlite3_result_int(context, 1);
    };
    sqlite3_create_function(db.get(), "remove_file", 1, SQLITE_UTF8, nullptr, remove, nullptr, nullptr);
    return db.release();
  };
  auto const c = sqlite::source(open).implementation()->connect(in(20'000));
  backend::statement const s{"s", "UPDATE rowlock_meta SET token_floor = remove_file(?1)"};
  CHECK(thrown_by([&] { c->execute(s, with(file.path + "-wal"), in(20'000)); }).reason() == errc::in_doubt);
  CHECK_FALSE(c->usable());
}

TEST_CASE("sqlite: what is in a removed WAL is not written over what others have committed since") {
  for (bool const notices : {true, false}) {
    CAPTURE(notices);
    open_file const file;
    adder elsewhere(file, 3);
    auto c = file.connect();
    c->execute(add, {}, in(20'000));
    file.remove_both();
    elsewhere.go();
    if (notices) CHECK(thrown_by([&] { (void)floor_of(*c); }).reason() == errc::unreachable);
    c.reset();
    CHECK(floor_of(*file.connect()) == 3);
  }
}

TEST_CASE("sqlite: a new session closes those of its process whose WAL was removed, and uses the new one") {
  open_file const file;
  adder elsewhere(file, 3);
  adder later(file, 1);
  auto const c = file.connect();
  auto const idle = file.connect();
  idle->execute(add, {}, in(20'000));
  file.remove_both();
  elsewhere.go();
  CHECK(thrown_by([&] { c->execute(add, {}, in(20'000)); }).reason() == errc::unreachable);
  auto const fresh = file.connect();
  CHECK_FALSE(idle->usable());
  CHECK(thrown_by([&] { idle->execute(add, {}, in(20'000)); }).reason() == errc::unreachable);
  CHECK(floor_of(*fresh) == 3);
  later.go();
  CHECK(floor_of(*fresh) == 4);
}

// A new session makes a new WAL, and would write it by the old index, which has no name any more: what it
// commits is behind what the next process finds there, or lies where none finds it.
TEST_CASE("sqlite: while a connection of the program's has the old index open, a new session is refused") {
  for (auto const* const theirs_did : {"SELECT * FROM rowlock_meta", add.sql.c_str()})
    for (bool const others_came_first : {true, false}) {
      CAPTURE(theirs_did);
      CAPTURE(others_came_first);
      open_file const file;
      adder elsewhere(file, 3);
      auto theirs = program_opens(file.path);
      program_runs(theirs, theirs_did);
      file.remove_both();
      if (others_came_first) elsewhere.go();
      for (int i = 0; i < 2; ++i) {
        CAPTURE(i);
        CHECK(thrown_by([&] { file.connect()->execute(add, {}, in(20'000)); }).reason() == errc::unreachable);
      }
      if (!others_came_first) elsewhere.go();
      backend::sqlite::leave_wal_at_close(theirs.get());
      theirs.reset();
      CHECK(floor_of(*file.connect()) == 3);
    }
}

TEST_CASE(
    "sqlite: while a connection of the program's has the old index open, another of its is refused, too") {
  open_file const file;
  auto const old = program_opens(file.path);
  program_runs(old, "SELECT * FROM rowlock_meta");
  file.remove_both();
  auto const theirs = program_opens(file.path);
  program_runs(theirs, "BEGIN IMMEDIATE");
  auto const c = backend::sqlite::borrow(theirs.get());
  for (int i = 0; i < 2; ++i) {
    CAPTURE(i);
    CHECK(thrown_by([&] { c->execute(add, {}); }).reason() == errc::unreachable);
  }
  CHECK(thrown_by([&] { c->commit(); }).reason() == errc::unreachable);
  c->rollback();
  for (auto const* one : {&old, &theirs}) backend::sqlite::leave_wal_at_close(one->get());
}

TEST_CASE("sqlite: in the program's own transaction a WAL that was removed is noticed") {
  open_file const file;
  adder elsewhere(file, 1);
  auto const theirs = program_opens(file.path);
  auto const begin = [&] {
    REQUIRE(sqlite3_exec(theirs.get(), "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) == SQLITE_OK);
  };
  begin();
  auto const first = backend::sqlite::borrow(theirs.get());
  first->execute(add, {});
  first->commit();
  begin();
  file.remove_both();
  CHECK(thrown_by([&] { first->execute(add, {}); }).reason() == errc::unreachable);
  CHECK(thrown_by([&] { first->commit(); }).reason() == errc::unreachable);
  first->rollback();
  elsewhere.go();
  begin();
  auto const second = backend::sqlite::borrow(theirs.get());
  // Each time: what it is told once it must not forget.
  for (int i = 0; i < 2; ++i) {
    CAPTURE(i);
    CHECK(thrown_by([&] { second->execute(add, {}); }).reason() == errc::unreachable);
  }
  CHECK(thrown_by([&] { second->commit(); }).reason() == errc::unreachable);
  backend::sqlite::leave_wal_at_close(theirs.get());
}

TEST_CASE("sqlite: a file that gets a WAL while it is open is used as before, and its WAL is watched") {
  open_file const file;
  file.connect()->script("PRAGMA journal_mode = DELETE", in(20'000));
  auto const c = file.connect();
  c->execute(add, {}, in(20'000));
  REQUIRE_FALSE(fs::exists(file.path + "-wal"));
  file.connect()->script("PRAGMA journal_mode = WAL", in(20'000));
  c->execute(add, {}, in(20'000));
  c->execute(add, {}, in(20'000));
  CHECK(floor_of(*c) == 3);
  REQUIRE(fs::remove(file.path + "-wal"));
  CHECK(thrown_by([&] { (void)floor_of(*c); }).reason() == errc::unreachable);
}

TEST_CASE(
    "sqlite: in the program's own transaction files that were removed before the first look are noticed") {
  open_file const file;
  auto const theirs = program_opens(file.path);
  program_runs(theirs, "BEGIN IMMEDIATE");
  file.remove_both();
  auto const c = backend::sqlite::borrow(theirs.get());
  CHECK(thrown_by([&] { c->execute(add, {}); }).reason() == errc::unreachable);
  CHECK(thrown_by([&] { c->commit(); }).reason() == errc::unreachable);
  backend::sqlite::leave_wal_at_close(theirs.get());
}

TEST_CASE("sqlite: a WAL that others made before a deferred transaction of the program's reads is fine") {
  open_file const file;
  child elsewhere([&](child& parent) {
    parent.hear();
    auto const c = file.connect();
    c->execute(add, {}, in(20'000));
    parent.tell();
    parent.hear();
    return 0;
  });
  auto const theirs = program_opens(file.path);
  program_runs(theirs, "BEGIN");
  elsewhere.tell();
  elsewhere.hear();
  auto const c = backend::sqlite::borrow(theirs.get());
  CHECK(backend::as_int(c->execute(floor_now, {}).rows.at(0).at(0)) == 1);
  c->execute(add, {});
  CHECK_NOTHROW(c->commit());
  program_runs(theirs, "BEGIN");
  CHECK_NOTHROW(backend::sqlite::borrow(theirs.get())->commit());
  elsewhere.tell();
  CHECK(elsewhere.join() == 0);
}

TEST_CASE("sqlite: behind a symbolic link, too, a WAL that comes later is watched") {
  open_file const file;
  auto const link = file.folder.file("link.db");
  fs::create_symlink(file.path, link);
  std::unique_ptr<backend::connection> c;
  SUBCASE("the file had none when the session began") {
    file.connect()->script("PRAGMA journal_mode = DELETE", in(20'000));
    c = sqlite::source(link).implementation()->connect(in(20'000));
    c->execute(add, {}, in(20'000));
    file.connect()->script("PRAGMA journal_mode = WAL", in(20'000));
  }
  SUBCASE("the file was busy when the session began") {
    auto const theirs = program_opens(file.path);
    program_runs(theirs, "PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; " + add.sql + "; COMMIT");
    c = sqlite::source(link).implementation()->connect(in(20'000));
  }
  c->execute(add, {}, in(20'000));
  CHECK(floor_of(*c) == (fs::exists(file.path + "-wal") ? 2 : 0));
  file.remove_both();
  CHECK(thrown_by([&] { (void)floor_of(*c); }).reason() == errc::unreachable);
}

TEST_CASE("sqlite: who is alone with a file has no index beside it, and can use it") {
  open_file const file;
  auto const open_alone = [&](char const* vfs) {
    auto db = program_opens(file.path, vfs);
    if (vfs == nullptr) program_runs(db, "PRAGMA locking_mode = EXCLUSIVE");
    return db;
  };
  for (auto const* const vfs : std::vector<char const*>{nullptr, "unix-excl"}) {
    CAPTURE((vfs != nullptr));
    auto const before = floor_of(*file.connect());
    {
      auto const c =
          sqlite::source([&] { return open_alone(vfs).release(); }).implementation()->connect(in(20'000));
      c->execute(add, {}, in(20'000));
      CHECK(fs::exists(file.path + "-wal"));
      CHECK_FALSE(fs::exists(file.path + "-shm"));
      CHECK(floor_of(*c) == before + 1);
    }
    auto const theirs = open_alone(vfs);
    program_runs(theirs, "BEGIN IMMEDIATE");
    auto const c = backend::sqlite::borrow(theirs.get());
    c->execute(add, {});
    CHECK_NOTHROW(c->commit());
  }
  CHECK(floor_of(*file.connect()) == 4);
}

}  // namespace rowlock::test
