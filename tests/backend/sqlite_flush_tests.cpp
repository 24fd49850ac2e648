// SQLite: what is flushed to the disk, and what a power cut would leave.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <rowlock/lock_manager.hpp>
#include <rowlock/migrator.hpp>
#include <rowlock/once.hpp>
#include <rowlock/sqlite.hpp>
#include <rowlock/sqlite_transaction.hpp>

#include "backend/database.hpp"
#include "support/eventually.hpp"

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

  /// `from`: an image, or empty for a new file.
  explicit power_cut(std::string const& from = "") {
    for (auto const* end : {"", "-wal"})
      if (!from.empty() && fs::exists(from + end)) fs::copy_file(from + end, path + end);
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
  /// The file as it would be then.
  std::string after(std::string const& file = "after.db") const {
    auto const here = folder.file(file);
    for (auto const* end : {"", "-wal"})
      if (fs::exists(left + end)) fs::copy_file(left + end, here + end, fs::copy_options::overwrite_existing);
    fs::remove(here + "-shm");
    return here;
  }
  /// Whether the name would be held.
  bool leaves(std::string const& name) const {
    auto const hook = std::exchange(after_flush, nullptr);
    auto const found = lock_manager(sqlite::source(after())).find(name);
    after_flush = hook;
    return found && found->held;
  }
  /// The file after the crash, and after the kernel's next boot.
  std::string reboot(std::string const& file) const {
    auto const hook = std::exchange(after_flush, nullptr);
    auto const here = after(file);
    sqlite::source(here)
        .implementation()
        ->connect(in(20'000))
        ->script("UPDATE rowlock_meta SET boot_id = 'the one before'", in(20'000));
    after_flush = hook;
    return here;
  }
};

/// SQLite's clock, and so the database's.
struct clock_behind {
  static inline std::atomic<std::int64_t> by{0};  // in milliseconds
  static inline sqlite3_vfs usual{};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
  sqlite3_vfs moved{};

  clock_behind() {
    usual = *sqlite3_vfs_find(nullptr);
    moved = usual;
    moved.zName = "clock_behind";
    moved.xCurrentTimeInt64 = [](sqlite3_vfs* vfs, sqlite3_int64* now) {
      int const code = usual.xCurrentTimeInt64(vfs, now);
      *now -= by;
      return code;
    };
    sqlite3_vfs_register(&moved, 1);
  }
  ~clock_behind() {
    sqlite3_vfs_unregister(&moved);
    by = 0;
  }
  clock_behind(clock_behind const&) = delete;
  clock_behind& operator=(clock_behind const&) = delete;
};

int flushes_of(std::function<void()> const& what) {
  int const before = flushes;
  what();
  return flushes - before;
}

}  // namespace

TEST_CASE("sqlite: synchronous=full flushes a take, and its release with the next take of any process") {
  power_cut cut;
  lock_manager m(sqlite::source(cut.path, sqlite::synchronous::full));
  lock_manager other(sqlite::source(cut.path, sqlite::synchronous::full));
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

TEST_CASE("sqlite: what ends with its process is not flushed, and survives the end of the process") {
  power_cut cut;
  lock_manager m(sqlite::source{cut.path});
  auto const other = m.make_mutex("reserves tokens").acquire();
  for (auto const how : {strategy::lease, strategy::unique_insert}) {
    auto const name = std::string(to_string(how));
    CHECK(flushes_of([&] {
            auto x = m.make_mutex(name, {.strategy = how});
            for (int i = 0; i < 10; ++i) REQUIRE(x.try_acquire());
          }) == 0);
    auto const lock = m.make_mutex(name, {.strategy = how}).try_acquire();
    REQUIRE(lock);
    CHECK_FALSE(cut.leaves(name));
    auto const elsewhere = sqlite::source(cut.path).implementation()->connect(in(20'000));
    CHECK(as_text(elsewhere
                      ->execute({"look", "SELECT term FROM rowlock_locks WHERE name = ?1"},
                                std::vector<backend::value>{name}, in(20'000))
                      .rows.at(0)
                      .at(0)) == lock->term().value);
  }
  CHECK(flushes_of([&] {
          REQUIRE(m.make_semaphore("s", 2).try_acquire());
          REQUIRE(m.make_shared_mutex("r").try_acquire_shared());
          REQUIRE(m.try_acquire_all({"a", "b"}));
        }) == 0);
}

TEST_CASE("sqlite: what can outlive its process is flushed") {
  power_cut cut;
  lock_manager m(sqlite::source{cut.path});
  auto const other = m.make_mutex("reserves tokens").acquire();
  std::optional<acquisition> kept;
  auto const keeps = [&](std::string const& name, mutex_options const& o) {
    CAPTURE(name);
    { auto const makes_row = m.make_mutex(name).try_acquire(); }
    CHECK(flushes_of([&] { kept.emplace(m.make_mutex(name, o).try_acquire()); }) >= 1);
    REQUIRE(*kept);
    CHECK(cut.leaves(name));
  };
  keeps("fixed", {.renew = false});
  CHECK(flushes_of([&] { CHECK((*kept)->extend(std::chrono::hours(2))); }) == 1);
  CHECK(flushes_of([&] { CHECK(m.revoke("fixed", revoke_mode::at_renewal)); }) == 1);
  keeps("job", {.owner = takes_over("job-7")});
  keeps("told", {.ttl = std::chrono::milliseconds(600), .on_trust = [](boot_time_point) {}});
  auto const taken = (*kept)->trusted_until();
  int const before = flushes;
  CHECK(eventually([&] { return (*kept)->trusted_until() > taken; }));
  CHECK(flushes > before);
  keeps("at least", {.at_least = std::chrono::hours(1)});
  CHECK(flushes_of([&] { CHECK((*kept)->release() == release_result::released); }) == 1);
  CHECK(cut.leaves("at least"));
  for (auto const how : {strategy::lease, strategy::unique_insert}) {
    auto const name = "detached " + std::string(to_string(how));
    auto lock = m.make_mutex(name, {.strategy = how}).try_acquire();
    REQUIRE(lock);
    CHECK_FALSE(cut.leaves(name));
    auto const left = lock->detach();
    REQUIRE(left);
    CHECK(cut.leaves(name));
    CHECK(flushes_of([&] { CHECK(m.renew(*left)); }) == 1);
  }
  CHECK(run_once(m, "work", std::chrono::hours(24), [](once_run&) {}));
  auto const record = lock_manager(sqlite::source(cut.after())).find("work");
  REQUIRE(record);
  CHECK(record->holder.done);
}

// Without the floor that the first session after a boot sets, the second token is the first one again.
TEST_CASE("sqlite: a token that a power cut has undone is not drawn again, also if the clock is behind") {
  power_cut cut;
  clock_behind const clock;
  lock_manager m(sqlite::source{cut.path});
  fencing_token last;
  { last = m.make_mutex("x").acquire()->token(); }  // reserves
  CHECK(flushes_of([&] {
          for (int i = 0; i < 5; ++i) last = m.make_mutex("x").acquire()->token();
        }) == 0);
  clock_behind::by = std::chrono::milliseconds(std::chrono::hours(2)).count();
  SUBCASE("in programs that flush less") {
    lock_manager next(sqlite::source(cut.reboot("b.db")));
    CHECK(next.make_mutex("x").acquire()->token() > last);
    CHECK(next.make_mutex("new").acquire()->token() > last);
  }
  SUBCASE("in the program's own transaction, which has the file locked before any session looks") {
    auto const path = cut.reboot("b.db");
    sqlite3* db = nullptr;
    REQUIRE(sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr) == SQLITE_OK);
    REQUIRE(sqlite3_exec(db, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) == SQLITE_OK);
    lock_manager next(sqlite::source{path});
    auto const inserted = sqlite::transaction(next, db).insert("new", std::chrono::seconds(30));
    REQUIRE(inserted);
    CHECK(inserted->token > last);
    REQUIRE(sqlite3_exec(db, "COMMIT", nullptr, nullptr, nullptr) == SQLITE_OK);
    CHECK(next.make_mutex("x").acquire()->token() > last);
    sqlite3_close(db);
  }
  SUBCASE("in programs that flush each take") {
    lock_manager next(sqlite::source(cut.reboot("b.db"), sqlite::synchronous::full));
    CHECK(next.make_mutex("x", {.strategy = strategy::unique_insert}).acquire()->token() > last);
    CHECK(next.make_semaphore("new", 1).acquire()->token() > last);
  }
}

TEST_CASE("sqlite: a token far ahead of the clock is flushed, and moves no other name's") {
  power_cut cut;
  lock_manager m(sqlite::source{cut.path});
  { auto const makes_row = m.make_mutex("x").acquire(); }
  { auto const makes_anchor = m.make_semaphore("s", 1).acquire(); }
  sqlite::source(cut.path)
      .implementation()
      ->connect(in(20'000))
      ->script("UPDATE rowlock_locks SET token = 8000000000000000000", in(20'000));
  CHECK(flushes_of([&] { CHECK(m.make_mutex("x").acquire()->token().value == 8000000000000000001); }) == 1);
  CHECK(flushes_of(
            [&] { CHECK(m.make_semaphore("s", 1).acquire()->token().value == 8000000000000000001); }) == 1);
  lock_manager next(sqlite::source(cut.reboot("b.db")));
  CHECK(next.make_mutex("y").acquire()->token().value < 4'000'000'000'000'000);
}

// RETURNING gives the ceiling before the commit that can fail.
TEST_CASE("sqlite: a ceiling whose commit has failed is not drawn up to") {
  power_cut cut;
  lock_manager m(sqlite::source{cut.path});
  CHECK_FALSE(m.find("x"));  // has all files open
  // The header of a new WAL is flushed by any commit.
  sqlite::source(cut.path)
      .implementation()
      ->connect(in(20'000))
      ->script("UPDATE rowlock_reaper SET pid = 1", in(20'000));
  after_flush = nullptr;  // it could copy nothing, either
  rlimit usual{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &usual) == 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit const none{16, usual.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &none) == 0);
  auto refused = errc{};
  try {
    (void)m.make_mutex("x").try_acquire();
  } catch (error const& e) {
    refused = e.reason();
  }
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &usual) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK(refused == errc::storage_full);
  CHECK(flushes_of([&] { CHECK(m.make_mutex("x").try_acquire()); }) >= 1);
}

// A machine that crashes again and again: 50 times with a lock in somebody's hands that is forgotten.
TEST_CASE("sqlite: crashes of the machine bring back no token, and free nothing that outlives its process") {
  clock_behind const clock;
  std::map<std::string, std::int64_t> told;
  std::minstd_rand chance(7);
  auto const below = [&](int n) { return static_cast<int>(chance() % static_cast<unsigned>(n)); };
  std::string from;
  scratch_folder images;
  int forgot = 0;
  for (int round = 0; forgot < 50; ++round) {
    CAPTURE(round);
    power_cut cut(from);
    std::vector<acquisition> held;
    lock_manager m(
        sqlite::source(cut.path, below(4) == 0 ? sqlite::synchronous::full : sqlite::synchronous::normal));
    auto long_lock = m.make_mutex("long", {.ttl = std::chrono::hours(12), .renew = false}).try_acquire();
    CHECK(static_cast<bool>(long_lock) == (round == 0));
    if (long_lock) (void)long_lock->detach();
    for (int i = below(12); i >= 0; --i) {
      auto const name = std::string(1, static_cast<char>('a' + below(6)));
      auto got = [&]() -> acquisition {
        if (name >= "e") return m.make_semaphore(name, 3).try_acquire();
        return m
            .make_mutex(name, {.strategy = name >= "c" ? strategy::lease : strategy::unique_insert,
                               .ttl = std::chrono::seconds(1 + below(60)),
                               .owner = each_acquire{}})
            .try_acquire();
      }();
      if (!got) continue;
      CHECK(got->token().value > told[name]);
      told[name] = got->token().value;
      if (below(2) == 0) held.push_back(std::move(got));
    }
    auto const image = cut.reboot("next.db");
    forgot += std::any_of(held.begin(), held.end(), [&](auto const& h) { return !cut.leaves(h->name()); });
    from = images.file(std::to_string(round));
    for (auto const* end : {"", "-wal"})
      if (fs::exists(image + end)) fs::copy_file(image + end, from + end);
    // The terms of the dead end some time; the clock is another one with each boot.
    after_flush = nullptr;
    sqlite::source(from)
        .implementation()
        ->connect(in(20'000))
        ->script(
            "UPDATE rowlock_locks SET term = NULL WHERE strategy = 'lease' AND name <> 'long';"
            "DELETE FROM rowlock_locks WHERE strategy = 'unique_insert';"
            "DELETE FROM rowlock_permits",
            in(20'000));
    clock_behind::by = below(600'000);
  }
}

TEST_CASE("sqlite: without a WAL everything is flushed, also by default") {
  power_cut cut;
  sqlite::source(cut.path)
      .implementation()
      ->connect(in(20'000))
      ->script("PRAGMA journal_mode = DELETE", in(20'000));
  lock_manager m(sqlite::source{cut.path});
  auto x = m.make_mutex("x");
  { auto const makes_row = x.acquire(); }
  auto lock = x.try_acquire();
  REQUIRE(lock);
  CHECK(cut.leaves("x"));
  CHECK(flushes_of([&] { CHECK(lock->release() == release_result::released); }) >= 2);
}

}  // namespace rowlock::test
