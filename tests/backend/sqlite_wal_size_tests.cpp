// How long the WAL beside an SQLite database gets.

#include <doctest/doctest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <rowlock/migrator.hpp>
#include <rowlock/sqlite.hpp>
#include <thread>

#include "backend/child.hpp"
#include "backend/database.hpp"
#include "backend/sqlite/native.hpp"
#include "backend/sqlite/wal_files.hpp"
#include "backend/sqlite/wal_readers.hpp"

namespace rowlock::test {
namespace {

using backend::sqlite::large_wal;
namespace fs = std::filesystem;
using namespace std::chrono_literals;

backend::statement const add{"add", "UPDATE rowlock_meta SET token_floor = token_floor + 1"};
backend::statement const floor_now{"floor", "SELECT token_floor FROM rowlock_meta"};

struct migrated_file {
  scratch_folder folder;
  std::string path = folder.file("locks.db");
  sqlite::source source{path};

  migrated_file() { migrator(source).up(); }
  std::unique_ptr<backend::connection> connect() const {
    return source.implementation()->connect(in(60'000));
  }
  std::uint64_t wal() const { return fs::file_size(path + "-wal"); }
  /// @return whether it got so large
  bool grow(backend::connection& c, std::uint64_t size) const {
    for (int i = 0; i < 5000 && wal() <= size; ++i) c.execute(add, {}, in(60'000));
    return wal() > size;
  }
};

/// A connection of the program's own, which reads from reads() to ends().
class reader {
 public:
  explicit reader(std::string const& path) {
    sqlite3* db = nullptr;
    sqlite3_open(path.c_str(), &db);
    db_.reset(db);
  }
  void reads() const { run("BEGIN; SELECT count(*) FROM rowlock_meta"); }
  void ends() const { run("COMMIT"); }

 private:
  void run(char const* sql) const {
    if (sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) throw std::runtime_error(sql);
  }
  backend::sqlite::database db_;
};

}  // namespace

TEST_CASE("C64: sqlite: a WAL that got large while something read is emptied once nothing does") {
  migrated_file const file;
  auto const c = file.connect();
  reader const r(file.path);
  r.reads();
  REQUIRE(file.grow(*c, large_wal));
  c->execute(add, {}, in(60'000));
  CHECK(file.wal() > large_wal);
  r.ends();
  c->execute(floor_now, {}, in(60'000));
  CHECK(file.wal() > large_wal);  // who only reads has no part in it
  for (int i = 0; i < 2; ++i) c->execute(add, {}, in(60'000));
  CHECK(file.wal() == 0);
}

TEST_CASE("C64: sqlite: a WAL that is always being read, by one after the other, is emptied all the same") {
  migrated_file const file;
  auto const c = file.connect();
  std::atomic<bool> done{false};
  std::jthread const readers([&] {
    reader const one(file.path);
    reader const other(file.path);
    one.reads();
    while (!done) {
      other.reads();
      one.ends();
      std::this_thread::sleep_for(1ms);
      one.reads();
      other.ends();
      std::this_thread::sleep_for(1ms);
    }
  });
  bool got_large = false;
  bool was_emptied = false;
  for (int i = 0; i < 20'000 && !was_emptied; ++i) {
    c->execute(add, {}, in(60'000));
    auto const now = file.wal();
    got_large = got_large || now > large_wal / 2;
    was_emptied = got_large && now < large_wal / 2;
  }
  done = true;
  CHECK(got_large);
  CHECK(was_emptied);
}

TEST_CASE("C64: sqlite: the processes that read are known by their numbers and programs") {
  migrated_file const file;
  auto const c = file.connect();
  CHECK(backend::sqlite::wal_readers(file.path).empty());
  child other([&](child& parent) {
    reader const r(file.path);
    r.reads();
    parent.tell();
    parent.hear();
    return 0;
  });
  other.hear();
  auto const found = backend::sqlite::wal_readers(file.path);
  REQUIRE(found.size() == 1);
  CHECK(found[0].process == other.pid());
  auto const said = to_string(found);
  CAPTURE(said);
  CHECK(said.rfind("process " + std::to_string(other.pid()) + " (", 0) == 0);
  reader const mine(file.path);
  mine.reads();
  CHECK(to_string(backend::sqlite::wal_readers(file.path)).find("this process") != std::string::npos);
  other.tell();
  CHECK(other.join() == 0);
  CHECK(to_string(backend::sqlite::wal_readers(file.path)) == "this process");
}

}  // namespace rowlock::test
