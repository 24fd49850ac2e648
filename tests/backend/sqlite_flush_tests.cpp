// SQLite: what is flushed to the disk, and what a power cut would leave.

#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <rowlock/lock_manager.hpp>
#include <rowlock/migrator.hpp>
#include <rowlock/sqlite.hpp>

#include "backend/database.hpp"

namespace {

std::atomic<int> flushes{0};
std::function<void()> after_flush;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

// In the place of the C library's, which SQLite calls.
extern "C" int fdatasync(int fd) {
  auto const done = static_cast<int>(::syscall(SYS_fdatasync, fd));
  ++flushes;
  if (after_flush) after_flush();
  return done;
}

namespace rowlock::test {
namespace {

namespace fs = std::filesystem;
using backend::as_text;
using backend::is_null;

/// A migrated file, and what a power cut would leave of it: its content at the last flush.
struct power_cut {
  scratch_folder folder;
  std::string path = folder.file("locks.db");
  std::string left = folder.file("left.db");

  power_cut() {
    sqlite::source(path).implementation()->create_if_missing();
    migrator(sqlite::source(path)).up();
    auto const c = sqlite::source(path).implementation()->connect(in(20'000));
    c->script("PRAGMA wal_checkpoint(TRUNCATE)", in(20'000));
    keep();
    after_flush = [this] { keep(); };
  }
  ~power_cut() { after_flush = nullptr; }
  power_cut(power_cut const&) = delete;
  power_cut& operator=(power_cut const&) = delete;

  // (Closing the copy drops this process's locks on the file; nobody else has it open.)
  void keep() const {
    fs::copy_file(path, left, fs::copy_options::overwrite_existing);
    if (fs::exists(path + "-wal"))
      fs::copy_file(path + "-wal", left + "-wal", fs::copy_options::overwrite_existing);
  }
  /// Whether the name would be held.
  bool leaves(std::string const& name) const {
    auto const here = folder.file("after.db");
    for (auto const* end : {"", "-wal"})
      if (fs::exists(left + end)) fs::copy_file(left + end, here + end, fs::copy_options::overwrite_existing);
    fs::remove(here + "-shm");
    auto const hook = std::exchange(after_flush, nullptr);
    auto const found = lock_manager(sqlite::source(here)).find(name);
    after_flush = hook;
    return found && found->held;
  }
};

int flushes_of(std::function<void()> const& what) {
  int const before = flushes;
  what();
  return flushes - before;
}

}  // namespace

TEST_CASE("sqlite: a take is flushed and its release is not, until somebody's next take") {
  power_cut cut;
  lock_manager m(sqlite::source{cut.path});
  lock_manager other(sqlite::source{cut.path});
  for (auto const how : {strategy::lease, strategy::unique_insert}) {
    auto const name = std::string(to_string(how));
    auto x = m.make_mutex(name, {.strategy = how});
    { auto const makes_row = x.acquire(); }
    auto lock = x.try_acquire();
    REQUIRE(lock);
    CHECK(cut.leaves(name));
    CHECK(flushes_of([&] { CHECK(lock->release() == release_result::released); }) == 0);
    CHECK(cut.leaves(name));  // until its expiry
    CHECK_FALSE(m.find(name)->held);
    auto next = other.make_mutex(name + " of another").try_acquire();
    REQUIRE(next);
    CHECK_FALSE(cut.leaves(name));
    CHECK(cut.leaves(name + " of another"));
    CHECK(next->release() == release_result::released);
    CHECK(flushes_of([&] {
            auto again = x.try_acquire();
            REQUIRE(again);
          }) == 1);
  }
}

TEST_CASE("sqlite: renewals, extensions, revocations and what keeps a name for longer are flushed") {
  power_cut cut;
  lock_manager m(sqlite::source{cut.path});
  auto lock = m.make_mutex("x", {.renew = false, .at_least = std::chrono::hours(1)}).try_acquire();
  REQUIRE(lock);
  CHECK(flushes_of([&] { CHECK(lock->extend(std::chrono::hours(2))); }) == 1);
  CHECK(flushes_of([&] { CHECK(m.revoke("x", revoke_mode::at_renewal)); }) == 1);
  CHECK(flushes_of([&] { CHECK(lock->release() == release_result::released); }) == 1);
  CHECK(cut.leaves("x"));
}

TEST_CASE("sqlite: synchronous=normal flushes no take, and nothing is lost by the end of the process") {
  power_cut cut;
  {
    lock_manager m(sqlite::source(cut.path, sqlite::synchronous::normal));
    auto x = m.make_mutex("x");
    { auto const makes_row = x.acquire(); }
    CHECK(flushes_of([&] {
            for (int i = 0; i < 10; ++i) REQUIRE(x.try_acquire());
          }) == 0);
    auto lock = x.try_acquire();
    REQUIRE(lock);
    auto const term = lock->term();
    CHECK_FALSE(cut.leaves("x"));
    auto const elsewhere = sqlite::source(cut.path).implementation()->connect(in(20'000));
    CHECK(as_text(
              elsewhere->execute({"look", "SELECT term FROM rowlock_locks WHERE name = 'x'"}, {}, in(20'000))
                  .rows.at(0)
                  .at(0)) == term.value);
  }
}

TEST_CASE("sqlite: without a WAL everything is flushed, whatever was asked for") {
  power_cut cut;
  sqlite::source(cut.path)
      .implementation()
      ->connect(in(20'000))
      ->script("PRAGMA journal_mode = DELETE", in(20'000));
  lock_manager m(sqlite::source(cut.path, sqlite::synchronous::normal));
  auto x = m.make_mutex("x");
  { auto const makes_row = x.acquire(); }
  auto lock = x.try_acquire();
  REQUIRE(lock);
  CHECK(cut.leaves("x"));
  CHECK(flushes_of([&] { CHECK(lock->release() == release_result::released); }) >= 2);
}

}  // namespace rowlock::test
