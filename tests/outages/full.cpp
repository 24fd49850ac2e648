// A database on a file system of its own that is full, in a mount namespace, because a mount is a process's:
//   unshare --mount --propagation unchanged rowlock_full sqlite|postgresql|mariadb|mysql
// Prints a line for each role; exit status 0 if all was as it should be.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <iostream>
#include <rowlock/rowlock.hpp>
#include <system_error>
#include <thread>

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

}  // namespace

int main(int argc, char** argv) try {
  std::string const kind = argc == 2 ? argv[1] : "";
  bool const is_server = kind == "postgresql" || kind == "mariadb" || kind == "mysql";
  if (kind != "sqlite" && !is_server) {
    std::cerr
        << "usage: unshare --mount --propagation unchanged rowlock_full sqlite|postgresql|mariadb|mysql\n";
    return 64;
  }
  if (is_server) {
    small_disk const disk(400);
    database_server const server(kind == "postgresql" ? server_kind::postgresql
                                 : kind == "mariadb"  ? server_kind::mariadb
                                                      : server_kind::mysql);
    play(server.address(), true, disk);
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
