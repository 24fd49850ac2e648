#include "backend/sqlite/process.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <rowlock/error.hpp>
#include <vector>

namespace rowlock::backend::sqlite {
namespace {

struct process_state {
  std::atomic<int> inside{0};
  std::atomic<bool> forked{false};    // connections_ are the parent's
  std::atomic<bool> poisoned{false};  // forked while a thread was inside
  std::mutex mutex;                   // only locked inside: free in a child that is not poisoned
  std::vector<sqlite3*> connections;
  std::array<std::atomic<int>, 256> gates{};  // descriptors, each one more than it is; 0: none
};

// Never destroyed: sessions may end later than static objects.
process_state& state() {
  static auto* const instance = [] {
    auto* made = new process_state;
    // Only stores and close(2): little else is allowed between fork() and what the child does next.
    ::pthread_atfork(nullptr, nullptr, [] {
      auto& s = state();
      if (s.inside.exchange(0) != 0) s.poisoned = true;
      s.forked = true;
      for (auto& one : s.gates)
        if (int const fd = one.exchange(0) - 1; fd >= 0) ::close(fd);
    });
    return made;
  }();
  return *instance;
}

void close_without_checkpoint(sqlite3* db) {
  sqlite3_busy_handler(db, nullptr, nullptr);  // its session may be gone
  while (auto* statement = sqlite3_next_stmt(db, nullptr)) sqlite3_finalize(statement);
  sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_close_v2(db);
}

}  // namespace

inside::inside() noexcept { ++state().inside; }
inside::~inside() { --state().inside; }

void remember(sqlite3* db) {
  auto& s = state();
  std::lock_guard const lock(s.mutex);
  s.connections.push_back(db);
}

void forget(sqlite3* db) noexcept {
  auto& s = state();
  std::lock_guard const lock(s.mutex);
  s.connections.erase(std::remove(s.connections.begin(), s.connections.end(), db), s.connections.end());
}

void remember_gate(int fd) noexcept {
  for (auto& one : state().gates)
    if (int none = 0; one.compare_exchange_strong(none, fd + 1)) return;
}

void forget_gate(int fd) noexcept {
  for (auto& one : state().gates)
    if (int mine = fd + 1; one.compare_exchange_strong(mine, 0)) return;
}

void close_inherited() {
  auto& s = state();
  if (s.poisoned)
    throw error(errc::forked,
                "this process was forked while its parent was using SQLite, and SQLite can't be used here: "
                "let the child "
                "run another program (exec), or fork before the parent takes locks");
  if (!s.forked) return;
  inside const here;
  std::lock_guard const lock(s.mutex);
  if (!s.forked) return;
  for (auto* db : s.connections) close_without_checkpoint(db);
  s.connections.clear();
  s.forked = false;
}

}  // namespace rowlock::backend::sqlite
