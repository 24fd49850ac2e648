// SQLite alone: files.

#include <doctest/doctest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <rowlock/sqlite.hpp>
#include <thread>

#include "backend/child.hpp"
#include "backend/database.hpp"

namespace rowlock::test {
namespace {

using backend::value;
namespace fs = std::filesystem;

// A migrated file, and the source that leads to it.
struct lock_file {
  scratch_folder folder;
  std::string path = folder.file("locks.db");
  sqlite::source source{path};

  lock_file() {
    source.implementation()->create_if_missing();
    auto const c = connect();
    for (auto const& m : source.implementation()->sql().migrations) c->script(m.up, in(20'000));
  }
  std::unique_ptr<backend::connection> connect() const {
    return source.implementation()->connect(in(20'000));
  }
  /// The file's path with everything in the main file.
  void checkpoint() const { connect()->script("PRAGMA wal_checkpoint(TRUNCATE)", in(20'000)); }
};

backend::statement const read_meta{"meta_read", "SELECT schema_version FROM rowlock_meta"};
backend::statement const write_meta{"meta_write", "UPDATE rowlock_meta SET token_floor = token_floor + 1"};
backend::statement const read_floor{"floor", "SELECT token_floor FROM rowlock_meta"};

error connect_error(std::string const& path) {
  return thrown_by([&] { sqlite::source(path).implementation()->connect(in(20'000)); });
}

std::int64_t floor_of(backend::connection& c) {
  return backend::as_int(c.execute(read_floor, {}, in(20'000)).rows.at(0).at(0));
}

}  // namespace

TEST_CASE("sqlite: a missing file is schema_missing, with the command that makes it") {
  scratch_folder const folder;
  auto const path = folder.file("none.db");
  auto const e = connect_error(path);
  CHECK(e.reason() == errc::schema_missing);
  CHECK(says(e, "rowlock --db sqlite:" + path + " migrate up"));
  CHECK(!fs::exists(path));
}

TEST_CASE("sqlite: databases in memory or without a name that belong to one connection are refused") {
  CHECK(thrown_by([&] { sqlite::source{""}; }).reason() == errc::unsupported);
  auto const in_memory = sqlite::source([] {
    sqlite3* db = nullptr;
    sqlite3_open(":memory:", &db);
    return db;
  });
  CHECK(thrown_by([&] { in_memory.implementation()->connect(in(20'000)); }).reason() == errc::unsupported);
}

TEST_CASE("sqlite: folders and other files are refused") {
  scratch_folder const folder;
  CHECK(connect_error(folder.path().string()).reason() == errc::invalid_argument);
  auto const path = folder.file("letter.txt");
  std::ofstream(path) << std::string(4096, 'x');
  auto const e = connect_error(path);
  CHECK(e.reason() == errc::unsupported);
  CHECK(says(e, "not an SQLite database"));
  CHECK(connect_error(path + "/below").reason() == errc::invalid_argument);
}

TEST_CASE("C27: sqlite: create_if_missing makes a file with the mode that the umask leaves, and with a WAL") {
  scratch_folder const folder;
  auto const path = folder.file("new.db");
  auto const former = ::umask(027);
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> crowd;
    for (int i = 0; i < 8; ++i)
      crowd.emplace_back([&] {
        sqlite::source const s(path);
        s.implementation()->create_if_missing();
        auto const c = s.implementation()->connect(in(20'000));
        auto const r = c->execute({"mode", "PRAGMA journal_mode"}, {}, in(20'000));
        if (backend::as_text(r.rows.at(0).at(0)) != "wal") ++wrong;
      });
  }
  ::umask(former);
  CHECK(wrong == 0);
  struct stat found {};
  REQUIRE(::stat(path.c_str(), &found) == 0);
  CHECK((found.st_mode & 0777) == 0640);
  {
    sqlite::source const s(path);
    auto const c = s.implementation()->connect(in(20'000));
    c->script("CREATE TABLE t (x)", in(20'000));
    for (auto const* beside : {"-wal", "-shm"}) {
      REQUIRE(::stat((path + beside).c_str(), &found) == 0);
      CHECK((found.st_mode & 0777) == 0640);
    }
  }
  int files = 0;
  for (auto const& f : fs::directory_iterator(folder.path()))
    if (f.path().filename().string().rfind("new.db", 0) == 0) ++files;
  CHECK(files <= 3);  // the file, perhaps its WAL and its index; no scratch files
  auto const e =
      thrown_by([&] { sqlite::source(folder.file("no/such/x.db")).implementation()->create_if_missing(); });
  CHECK(e.reason() == errc::invalid_argument);
}

TEST_CASE("sqlite: create_if_missing leaves a file that exists alone") {
  lock_file const file;
  auto const before = file.connect()->server_identity();
  file.source.implementation()->create_if_missing();
  CHECK(file.connect()->server_identity() == before);
  CHECK(file.connect()->execute(read_meta, {}, in(20'000)).rows.size() == 1);
}

TEST_CASE("sqlite: commits are flushed") {
  lock_file const file;
  auto const r = file.connect()->execute({"s", "PRAGMA synchronous"}, {}, in(20'000));
  CHECK(backend::as_int(r.rows.at(0).at(0)) == 2);
}

TEST_CASE("sqlite: chdir does not change which file a relative path means") {
  scratch_folder const folder;
  auto const home = fs::current_path();
  fs::current_path(folder.path());
  sqlite::source const s("relative.db");
  fs::current_path(home);
  s.implementation()->create_if_missing();
  CHECK(fs::exists(folder.file("relative.db")));
  CHECK_NOTHROW(s.implementation()->connect(in(20'000)));
}

TEST_CASE("sqlite: a file that was replaced while open is written no more") {
  lock_file const file;
  auto const c = file.connect();
  auto const before = c->server_identity();
  c->execute(write_meta, {}, in(20'000));
  file.checkpoint();
  fs::copy_file(file.path, file.path + ".copy");
  fs::rename(file.path + ".copy", file.path);
  auto const e = thrown_by([&] { c->execute(write_meta, {}, in(20'000)); });
  CHECK(e.reason() == errc::unreachable);
  CHECK(says(e, "removed or replaced"));
  CHECK(!c->usable());
  CHECK(thrown_by([&] { c->script("SELECT 1", in(20'000)); }).reason() == errc::unreachable);
  auto const again = file.connect();
  CHECK(again->server_identity() != before);
  CHECK(floor_of(*again) == 1);
}

TEST_CASE("sqlite: a file that was removed while open is written no more") {
  lock_file const file;
  auto const c = file.connect();
  fs::remove(file.path);
  CHECK(thrown_by([&] { c->script("UPDATE rowlock_meta SET token_floor = 9", in(20'000)); }).reason() ==
        errc::unreachable);
  CHECK(!c->usable());
}

TEST_CASE("sqlite: a file that is removed during a statement leaves it in doubt") {
  lock_file const file;
  // The statement itself removes the file, so that it happens just between the two looks at it.
  auto const open = [&] {
    sqlite3* db = nullptr;
    sqlite3_open_v2(file.path.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr);
    auto const remove = [](sqlite3_context* context, int, sqlite3_value** arguments) {
      ::unlink(reinterpret_cast<char const*>(sqlite3_value_text(arguments[0])));
      sqlite3_result_int(context, 1);
    };
    sqlite3_create_function(db, "remove_file", 1, SQLITE_UTF8, nullptr, remove, nullptr, nullptr);
    return db;
  };
  auto const c = sqlite::source(open).implementation()->connect(in(20'000));
  backend::statement const s{"s", "UPDATE rowlock_meta SET token_floor = remove_file(?1)"};
  CHECK(thrown_by([&] { c->execute(s, with(file.path), in(20'000)); }).reason() == errc::in_doubt);
  CHECK(!c->usable());
}

TEST_CASE("sqlite: a file opened for reading only is read_only") {
  lock_file const file;
  auto const open = [&] {
    sqlite3* db = nullptr;
    sqlite3_open_v2(file.path.c_str(), &db, SQLITE_OPEN_READONLY, nullptr);
    return db;
  };
  auto const c = sqlite::source(open).implementation()->connect(in(20'000));
  CHECK(c->execute(read_meta, {}, in(20'000)).rows.size() == 1);
  CHECK(thrown_by([&] { c->execute(write_meta, {}, in(20'000)); }).reason() == errc::read_only);
  CHECK(c->usable());
}

TEST_CASE(
    "C14: sqlite: what somebody has put into a file, and has no end, holds a call up until its deadline") {
  lock_file const file;
  file.connect()->script(
      "CREATE VIEW endless AS WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT i FROM "
      "r;"
      "CREATE TRIGGER whenever AFTER UPDATE ON rowlock_meta BEGIN"
      " INSERT INTO rowlock_tokens SELECT 'n' || i, 1 FROM endless WHERE i < 0; END",
      in(5000));
  backend::statement const read{"read", "SELECT count(*) FROM endless"};
  auto const begin = boot_clock::now();
  auto const expect = [&](errc reason, auto const& what) {
    auto const c = file.connect();
    auto const e = thrown_by([&] { what(*c); });
    CHECK(e.reason() == reason);
    CHECK(says(e, "not done in time"));
    CHECK(!c->usable());
  };
  expect(errc::unreachable, [&](auto& c) { c.execute(read, {}, in(200)); });
  expect(errc::in_doubt, [&](auto& c) { c.execute(write_meta, {}, in(200)); });
  expect(errc::in_doubt, [&](auto& c) {
    c.script("INSERT INTO rowlock_tokens SELECT 'n' || i, 1 FROM endless WHERE i < 0", in(200));
  });
  CHECK(boot_clock::now() - begin < std::chrono::seconds(10));
  auto const c = file.connect();
  CHECK(floor_of(*c) == 0);  // nothing of it is there, nor in the way
  c->script("DROP TRIGGER whenever", in(5000));
  c->execute(write_meta, {}, in(5000));
  CHECK(floor_of(*c) == 1);
}

TEST_CASE("sqlite: what a file says of itself may call only what has no effects") {
  lock_file const file;
  auto const r = file.connect()->execute({"s", "PRAGMA trusted_schema"}, {}, in(5000));
  CHECK(backend::as_int(r.rows.at(0).at(0)) == 0);
}

TEST_CASE("sqlite: a full file is storage_full") {
  lock_file const file;
  auto const c = file.connect();
  c->script("PRAGMA max_page_count = 1", in(20'000));  // SQLite takes the present size instead
  c->script("CREATE TABLE IF NOT EXISTS rowlock_meta (x)", in(20'000));
  backend::statement const s{"fill", "INSERT INTO rowlock_tokens SELECT 'n' || value, 1 FROM json_each(?1)"};
  std::string numbers = "[0";
  for (int i = 1; i < 5000; ++i) numbers += "," + std::to_string(i);
  auto const e = thrown_by([&] { c->execute(s, with(numbers + "]"), in(20'000)); });
  CHECK(e.reason() == errc::storage_full);
  CHECK(c->usable());
}

TEST_CASE("sqlite: a function that opens nothing, or throws, is unreachable") {
  auto const connect = [](sqlite3* (*open)()) {
    return thrown_by([&] { sqlite::source(open).implementation()->connect(in(20'000)); });
  };
  CHECK(connect([]() -> sqlite3* { return nullptr; }).reason() == errc::unreachable);
  auto const e = connect([]() -> sqlite3* { throw std::runtime_error("no money"); });
  CHECK(e.reason() == errc::unreachable);
  CHECK(says(e, "no money"));
}

TEST_CASE("sqlite: what a forked child commits on a connection of its own stays") {
  lock_file const file;
  auto c = file.connect();
  c->execute(write_meta, {}, in(20'000));
  child other([&](child& parent) {
    if (thrown_by([&] { c->execute(write_meta, {}, in(20'000)); }).reason() != errc::forked) return 1;
    c->close();
    auto const mine = file.connect();
    mine->execute(write_meta, {}, in(20'000));
    parent.tell();
    parent.hear();
    mine->execute(write_meta, {}, in(20'000));
    return floor_of(*mine) == 4 ? 0 : 2;
  });
  other.hear();
  c.reset();
  // Another process comes and goes: were the child's locks not there, it would remove the WAL as the last
  // user.
  child third([&](child&) {
    auto d = file.connect();
    d->execute(write_meta, {}, in(20'000));
    d.reset();
    return 0;
  });
  CHECK(third.join() == 0);
  other.tell();
  CHECK(other.join() == 0);
  CHECK(floor_of(*file.connect()) == 4);
}

TEST_CASE("sqlite: a child that was forked out of the middle of SQLite is refused") {
  lock_file const file;
  std::atomic<bool> in_the_middle{false};
  std::atomic<bool> go_on{false};
  std::jthread const busy([&] {
    auto const slow = sqlite::source([&] {
      in_the_middle = true;
      in_the_middle.notify_all();
      go_on.wait(false);
      return static_cast<sqlite3*>(nullptr);
    });
    thrown_by([&] { slow.implementation()->connect(in(20'000)); });
  });
  in_the_middle.wait(false);
  child other([&](child&) { return thrown_by([&] { file.connect(); }).reason() == errc::forked ? 0 : 1; });
  auto const status = other.join();
  go_on = true;
  go_on.notify_all();
  CHECK(status == 0);
  CHECK_NOTHROW(file.connect());
}

}  // namespace rowlock::test
