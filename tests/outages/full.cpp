// A database on a file system of its own that is full, in a mount namespace, because a mount is a process's:
//   unshare --mount --propagation unchanged rowlock_full sqlite|postgresql|mariadb|mysql|small
// (small: an SQLite file on a disk of 1 MB, which only its WAL fills.) Prints a line for each role; exit
// status 0 if all was as it should be.
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <iostream>
#include <rowlock/rowlock.hpp>
#include <rowlock/sqlite.hpp>
#include <rowlock/sqlite_transaction.hpp>
#include <system_error>
#include <thread>
#include <vector>

#include "support/database_server.hpp"

using namespace rowlock;
using namespace rowlock::test;
using namespace std::chrono_literals;

namespace {

bool all_good = true;

void report(char const* role, std::string const& came, bool good) {
  std::cout << (good ? "good " : "BAD ") << role << ": " << came << std::endl;
  all_good = all_good && good;
}

/// What is made in the folder for temporary files from now on is on this file system.
class small_disk {
 public:
  explicit small_disk(int megabytes) {
    auto const size = fmt::format("size={}m,mode=1777", megabytes);
    // Nobody else sees it. (EINVAL: "/" is a chroot's, and nothing that could be said of it.)
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 && errno != EINVAL)
      throw std::system_error(errno, std::generic_category(), "mount");
    if (::mount("small", path().c_str(), "tmpfs", 0, size.c_str()) != 0)
      throw std::system_error(errno, std::generic_category(), "mount");
    ::setenv("TMPDIR", path().c_str(), 1);  // nothing better is looked for
  }
  ~small_disk() { ::umount2(path().c_str(), MNT_DETACH); }
  small_disk(small_disk const&) = delete;
  small_disk& operator=(small_disk const&) = delete;
  void fill() const {
    int const fd = ::open(file().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    std::string block(1 << 20, 'x');
    while (!block.empty())
      if (::write(fd, block.data(), block.size()) <= 0) block.resize(block.size() / 2);
    ::close(fd);
  }
  void make_room() const { std::filesystem::remove(file()); }

 private:
  static std::string path() { return std::filesystem::temp_directory_path().string(); }
  static std::string file() { return path() + "/fill"; }
};

/// Takes one new name after the other until that fails.
errc take_until_refused(lock_manager& m, std::chrono::steady_clock::time_point& refused_at) {
  std::string const long_part(200, 'n');
  for (int i = 0; i < 1'000'000; ++i) {
    refused_at = std::chrono::steady_clock::now();
    try {
      (void)m.make_mutex(fmt::format("{} {}", i, long_part)).try_acquire_for(1s);
    } catch (error const& e) {
      return e.reason();
    }
  }
  throw std::runtime_error("the disk does not get full");
}

void play(std::string const& url, bool has_row_locks, small_disk const& disk) {
  migrator(source_from_url(url)).up();
  manager_options o;
  o.reply_timeout = 2s;
  lock_manager m(url, o);
  lock_manager others(url, o);
  (void)others.make_mutex("before").acquire();  // one that never had a lock would not wait for room
  auto held = m.make_mutex("held", {.ttl = 600s}).acquire();
  std::optional<acquisition> row;
  if (has_row_locks) row = m.make_mutex("row", {.strategy = strategy::row_lock, .ttl = 600s}).acquire();
  disk.fill();

  std::chrono::steady_clock::time_point since;
  auto const why = take_until_refused(others, since);
  auto const blocked = std::chrono::steady_clock::now() - since;
  report("a new name",
         fmt::format("{}, blocked for {} ms", make_error_code(why).message(),
                     std::chrono::duration_cast<std::chrono::milliseconds>(blocked).count()),
         (why == errc::storage_full || why == errc::in_doubt || why == errc::unreachable) && blocked < 30s);
  report("who holds a lease", held->valid() ? "holds it" : "lost it", held->valid());
  if (row) {
    auto const came = (*row)->release();
    report("who gives back a row lock", to_string(came), came == release_result::released);
  }
  auto patient =
      std::async(std::launch::async, [&] { return bool(others.make_mutex("patient").try_acquire_for(60s)); });
  std::this_thread::sleep_for(1s);  // what is to be lived through

  disk.make_room();
  report("with room again, a new name", "", patient.get());
  auto const end = std::chrono::steady_clock::now() + 60s;
  auto came = held->release();
  while (came == release_result::in_doubt && std::chrono::steady_clock::now() < end) {
    auto const again = others.make_mutex("held").try_acquire_for(5s);
    if (again) came = release_result::released;
  }
  report("with room again, giving back", to_string(came), came == release_result::released);
}

/// Takes and gives back, in a statement or a transaction each.
std::vector<std::function<bool()>> cycles(lock_manager& m) {
  std::vector<std::function<bool()>> all;
  for (auto const how : {strategy::lease, strategy::unique_insert})
    all.emplace_back([&m, how] {
      return bool(m.make_mutex(std::string(to_string(how)), {.strategy = how}).try_acquire());
    });
  all.emplace_back([&m] { return bool(m.try_acquire_all({"a", "b"})); });
  all.emplace_back([&m] { return bool(m.make_semaphore("permits", 3).try_acquire()); });
  all.emplace_back([&m] { return bool(m.make_shared_mutex("shared").try_acquire_shared()); });
  return all;
}

/// @return why it did not come to so many; empty if it did
std::string repeat(std::vector<std::function<bool()>> const& all, int times) try {
  for (int i = 0; i < times; ++i)
    for (auto const& one : all)
      if (!one()) return "busy";
  return {};
} catch (error const& e) {
  return e.what();
}

/// The program's own transactions. @return why one of them failed
std::string guard(lock_manager& m, sqlite3* db) try {
  auto const lock = m.make_mutex("guarded", {.ttl = 600s}).acquire();
  for (int i = 0; i < 1500; ++i) {
    sqlite3_exec(db, "BEGIN IMMEDIATE; UPDATE mine SET a = a + 1", nullptr, nullptr, nullptr);
    sqlite::transaction(m, db).execute_commit(*lock);
  }
  return {};
} catch (error const& e) {
  return e.what();
}

// Each commit makes the WAL 4 KB longer, and SQLite by itself begins it anew at 4 MB.
void play_small_disk(small_disk const& disk) {
  scratch_folder const folder;
  auto const path = folder.file("locks.db");
  migrator(sqlite::source(path)).up();
  lock_manager m{sqlite::source(path)};
  auto const all = cycles(m);
  auto came = repeat(all, 300);
  report("300 cycles of each kind", came, came.empty());

  sqlite3* db = nullptr;
  sqlite3_open(path.c_str(), &db);
  std::unique_ptr<sqlite3, decltype(&sqlite3_close)> const owned(db, &sqlite3_close);
  sqlite3_exec(db, "CREATE TABLE mine (a); INSERT INTO mine VALUES (0)", nullptr, nullptr, nullptr);
  came = guard(m, db);
  report("the program's own transactions", came, came.empty());

  came.clear();
  for (auto const& one : all) {
    for (int i = 0; i < 100 && std::filesystem::file_size(path + "-wal") < 100'000; ++i)
      came += repeat(all, 1);
    disk.fill();
    came += repeat({one}, 20);
    disk.make_room();
  }
  report("when others fill the disk", came, came.empty());

  sqlite3_exec(db, "BEGIN; SELECT * FROM mine", nullptr, nullptr, nullptr);
  came = repeat(all, 300);
  report("while something reads for ever", came,
         came.find("while this process reads it") != std::string::npos);
  sqlite3_exec(db, "COMMIT", nullptr, nullptr, nullptr);
  came = repeat(all, 1);
  report("after that", came, came.empty());
}

}  // namespace

int main(int argc, char** argv) try {
  std::string const kind = argc == 2 ? argv[1] : "";
  bool const is_server = kind == "postgresql" || kind == "mariadb" || kind == "mysql";
  if (kind != "sqlite" && kind != "small" && !is_server) {
    std::cerr << "usage: unshare --mount --propagation unchanged rowlock_full "
                 "sqlite|postgresql|mariadb|mysql|small\n";
    return 64;
  }
  if (is_server) {
    small_disk const disk(400);
    database_server const server(kind == "postgresql" ? server_kind::postgresql
                                 : kind == "mariadb"  ? server_kind::mariadb
                                                      : server_kind::mysql);
    play(server.address(), true, disk);
  } else if (kind == "small") {
    small_disk const disk(1);
    play_small_disk(disk);
  } else {
    small_disk const disk(4);
    scratch_folder const folder;
    play("sqlite:" + folder.file("locks.db"), false, disk);
  }
  return all_good ? 0 : 1;
} catch (std::exception const& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
