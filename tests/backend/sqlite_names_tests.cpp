// An SQLite file that has two names, or another one than when it was opened.

#include <doctest/doctest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <rowlock/migrator.hpp>
#include <rowlock/sqlite.hpp>

#include "backend/database.hpp"
#include "backend/sqlite/file_identity.hpp"

namespace rowlock::test {
namespace {

namespace fs = std::filesystem;

struct named_file {
  scratch_folder folder;
  std::string path = folder.file("locks.db");

  named_file() { migrator(sqlite::source(path)).up(); }
  std::string also(std::string const& name) const { return folder.file(name); }
};

backend::statement const add{"add", "UPDATE rowlock_meta SET token_floor = token_floor + 1"};
backend::statement const floor_now{"floor", "SELECT token_floor FROM rowlock_meta"};

std::unique_ptr<backend::connection> open_at(std::string const& path) {
  return sqlite::source(path).implementation()->connect(in(20'000));
}

}  // namespace

TEST_CASE("C1: a file with two names (a hard link) is refused by both, with what to do about it") {
  named_file const file;
  fs::create_hard_link(file.path, file.also("second.db"));
  for (auto const& path : {file.path, file.also("second.db")}) {
    auto const e = thrown_by([&] { open_at(path); });
    CHECK(e.reason() == errc::unsupported);
    CHECK(says(e, "has 2 names (hard links)"));
    CHECK(says(e, "Remove the other one"));
    CHECK(says(e, "mount the folder"));
  }
  auto const by_program = sqlite::source([&] {
    sqlite3* db = nullptr;
    sqlite3_open_v2(file.path.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr);
    return db;
  });
  CHECK(thrown_by([&] { by_program.implementation()->connect(in(20'000)); }).reason() == errc::unsupported);
  fs::remove(file.also("second.db"));
  CHECK_NOTHROW(open_at(file.path));
}

TEST_CASE("C1: symbolic links, to the file or its folder, lead to the same WAL and are fine") {
  named_file const file;
  fs::create_symlink(file.path, file.also("link.db"));
  fs::create_directory_symlink(file.folder.path(), file.also("folder"));
  auto const direct = open_at(file.path);
  auto const by_link = open_at(file.also("link.db"));
  auto const by_folder = open_at(file.also("folder") + "/locks.db");
  CHECK(by_link->server_identity() == direct->server_identity());
  CHECK(by_folder->server_identity() == direct->server_identity());
  for (auto const* one : {&direct, &by_link, &by_folder}) (*one)->execute(add, {}, in(20'000));
  CHECK(backend::as_int(direct->execute(floor_now, {}, in(20'000)).rows.at(0).at(0)) == 3);
}

TEST_CASE("C1: a hard link that is made while the file is open is noticed by the next statement") {
  named_file const file;
  auto const c = open_at(file.path);
  c->execute(add, {}, in(20'000));
  fs::create_hard_link(file.path, file.also("second.db"));
  auto const e = thrown_by([&] { c->execute(floor_now, {}, in(20'000)); });
  CHECK(e.reason() == errc::unreachable);
  CHECK(says(e, "got another name (a hard link)"));
  CHECK(!c->usable());
  CHECK(sqlite::source(file.path).implementation()->gone(c->server_identity()));
}

TEST_CASE("C1: a hard link that is made during a statement leaves it in doubt") {
  named_file const file;
  auto const open = [&] {
    sqlite3* db = nullptr;
    sqlite3_open_v2(file.path.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr);
    auto const link = [](sqlite3_context* context, int, sqlite3_value** arguments) {
      std::string const path = reinterpret_cast<char const*>(sqlite3_value_text(arguments[0]));
      sqlite3_result_int(context, ::link(path.c_str(), (path + ".second").c_str()));
    };
    sqlite3_create_function(db, "link_file", 1, SQLITE_UTF8, nullptr, link, nullptr, nullptr);
    return db;
  };
  auto const c = sqlite::source(open).implementation()->connect(in(20'000));
  backend::statement const s{"s", "UPDATE rowlock_meta SET token_floor = link_file(?1)"};
  CHECK(thrown_by([&] { c->execute(s, with(file.path), in(20'000)); }).reason() == errc::in_doubt);
  CHECK(!c->usable());
}

// Two looks for each statement: printed, and bounded generously, for a machine that does other things as
// well.
TEST_CASE("C1: a look at the file costs little") {
  named_file const file;
  auto const id = *backend::sqlite::identify(file.path);
  constexpr int looks = 10'000;
  auto const start = std::clock();  // the processor's time: others want the processor, too
  for (int i = 0; i < looks; ++i) REQUIRE(backend::sqlite::change_since(id, file.path) == nullptr);
  auto const each =
      std::chrono::nanoseconds{std::chrono::seconds{std::clock() - start}} / CLOCKS_PER_SEC / looks;
  MESSAGE("a look takes " << each.count() << " ns");
  CHECK(each < std::chrono::microseconds(50));
}

}  // namespace rowlock::test
