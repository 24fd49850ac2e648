// Adds a line to a page. The worker can be stopped at any moment, for longer than its lock lasts (SIGSTOP, a
// laptop that sleeps, a virtual machine that is moved). It never overwrites a page that another process has
// changed meanwhile.
//
//   paused_worker FILE TTL_MS        the line is read from stdin, after the page was shown
//
//   CREATE TABLE pages (title text PRIMARY KEY, content text NOT NULL);  INSERT INTO pages VALUES ('news',
//   '');
#include <sqlite3.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <rowlock/error.hpp>
#include <rowlock/sqlite_transaction.hpp>
#include <stdexcept>
#include <string>

namespace {

/// Runs one statement with up to one value. @return the first column of its first row
std::string run(sqlite3* db, char const* sql, std::string const& value = {}) {
  sqlite3_stmt* prepared = nullptr;
  sqlite3_prepare_v2(db, sql, -1, &prepared, nullptr);
  std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> const s{prepared, &sqlite3_finalize};
  sqlite3_bind_text(prepared, 1, value.c_str(), -1, SQLITE_TRANSIENT);
  auto const status = sqlite3_step(prepared);
  if (status != SQLITE_ROW && status != SQLITE_DONE) throw std::runtime_error(sqlite3_errmsg(db));
  return status == SQLITE_ROW ? reinterpret_cast<char const*>(sqlite3_column_text(prepared, 0)) : "";
}

/// @throws rowlock::error(lock_lost) if the page is not ours any more. Nothing was written then.
void store(sqlite3* db, rowlock::sqlite::transaction tx, rowlock::held_lock const& lock,
           std::string const& page) {
  for (;;) {
    try {
      run(db, "BEGIN IMMEDIATE");
      tx.require(lock);  // from here to the end of the transaction nobody can take the lock over
      run(db, "UPDATE pages SET content = ? WHERE title = 'news'", page);
      rowlock::sqlite::execute_commit(db);
      return;
    } catch (rowlock::error const& e) {
      if (sqlite3_get_autocommit(db) == 0)
        sqlite3_exec(db, "ROLLBACK", nullptr, nullptr, nullptr);  // no throw
      // After a COMMIT in doubt the line may be stored: an operator has to look.
      if (!e.transaction_retryable()) throw;
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) return 64;
  sqlite3* opened = nullptr;
  auto const status = sqlite3_open(argv[1], &opened);
  std::unique_ptr<sqlite3, decltype(&sqlite3_close)> const db{opened, &sqlite3_close};
  if (status != SQLITE_OK) throw std::runtime_error(sqlite3_errmsg(opened));
  sqlite3_busy_timeout(opened, 5000);
  rowlock::lock_manager manager{rowlock::sqlite::source{argv[1]}};
  auto mutex = manager.make_mutex("page:news", {.ttl = std::chrono::milliseconds(std::stol(argv[2]))});

  auto const lock = mutex.acquire();
  auto page = run(opened, "SELECT content FROM pages WHERE title = 'news'");
  std::cout << "the page: " << page << std::endl;
  // The work, which takes its time. No transaction is open meanwhile, so no process has to wait for it.
  std::string line;
  std::getline(std::cin, line);
  store(opened, {manager, opened}, *lock, page + line + ";");
  std::cout << "stored" << std::endl;
  return 0;
} catch (rowlock::error const& e) {
  bool const in_doubt = e.reason() == rowlock::errc::in_doubt;
  std::cout << (in_doubt ? "it may be stored: " : "not stored: ") << e.what() << std::endl;
  return e.reason() == rowlock::errc::lock_lost ? 75 : 1;  // 75: begin again, from the page as it is now
} catch (std::exception const& e) {
  std::cout << "not stored: " << e.what() << std::endl;
  return 1;
}
