#include "backend/sqlite/process.hpp"

#include <pthread.h>
#include <sqlite3.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <rowlock/error.hpp>
#include <vector>

#include "backend/sqlite/native.hpp"

namespace rowlock::backend::sqlite {
namespace {

struct owned_connection {
  sqlite3* native;
  connection_owner* owner;
};

struct process_state {
  std::atomic<int> inside{0};
  std::atomic<int> programs{0};            // programs_connection
  std::atomic<bool> with_programs{false};  // forked while there was one
  std::atomic<bool> forked{false};         // the connections are the parent's
  std::atomic<bool> poisoned{false};       // forked while a thread was inside
  std::mutex mutex;                        // locked only inside. Free in a child that is not poisoned
  std::vector<owned_connection> connections;
  std::array<std::atomic<int>, 256> wait_queues{};  // descriptor + 1; 0: none
};

// Never destroyed: sessions can end later than static objects.
process_state& state() {
  static auto* const instance = [] {
    auto* made = new process_state;
    // Only stores and close(2): little else is allowed here in a process with threads.
    ::pthread_atfork(nullptr, nullptr, [] {
      auto& s = state();
      if (s.inside.exchange(0) != 0) s.poisoned = true;
      if (s.programs != 0) s.with_programs = true;
      s.forked = true;
      for (auto& one : s.wait_queues)
        if (int const fd = one.exchange(0) - 1; fd >= 0) ::close(fd);
    });
    return made;
  }();
  return *instance;
}

void close_without_checkpoint(sqlite3* db) {
  sqlite3_busy_handler(db, nullptr, nullptr);  // its session might be gone
  sqlite3_progress_handler(db, 0, nullptr, nullptr);
  while (auto* statement = sqlite3_next_stmt(db, nullptr)) sqlite3_finalize(statement);
  leave_wal_at_close(db);
  sqlite3_close_v2(db);
}

}  // namespace

inside::inside() noexcept { ++state().inside; }
inside::~inside() { --state().inside; }

void remember(sqlite3* db, connection_owner& owner) {
  auto& s = state();
  std::lock_guard const lock(s.mutex);
  s.connections.push_back({db, &owner});
}

void forget(sqlite3* db) noexcept {
  auto& s = state();
  std::lock_guard const lock(s.mutex);
  std::erase_if(s.connections, [db](auto const& one) { return one.native == db; });
}

// An owner ends after forget(), which waits for the mutex: those in the list are alive.
void close_replaced() noexcept {
  auto& s = state();
  std::lock_guard const lock(s.mutex);
  std::erase_if(s.connections, [](auto const& one) { return one.owner->close_if_replaced(); });
}

programs_connection::programs_connection() noexcept { ++state().programs; }
programs_connection::~programs_connection() { --state().programs; }

void remember_queue(int fd) noexcept {
  for (auto& one : state().wait_queues)
    if (int none = 0; one.compare_exchange_strong(none, fd + 1)) return;
}

void forget_queue(int fd) noexcept {
  for (auto& one : state().wait_queues)
    if (int mine = fd + 1; one.compare_exchange_strong(mine, 0)) return;
}

void close_inherited() {
  auto& s = state();
  if (s.poisoned)
    throw error(errc::forked,
                "this process was forked while its parent was using SQLite, and SQLite can't be used here: "
                "let the child "
                "run another program (exec), or fork before the parent takes locks");
  if (s.with_programs)
    throw error(errc::forked,
                "this process was forked while its parent had a lock_manager beside a SOCI pool on SQLite, "
                "and SQLite "
                "can't be used here: let the child run another program (exec), or fork before");
  if (!s.forked) return;
  inside const here;
  std::lock_guard const lock(s.mutex);
  if (!s.forked) return;
  for (auto const& one : s.connections) close_without_checkpoint(one.native);
  s.connections.clear();
  s.forked = false;
}

}  // namespace rowlock::backend::sqlite
