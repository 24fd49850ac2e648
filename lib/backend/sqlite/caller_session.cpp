#include "backend/sqlite/caller_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <rowlock/error.hpp>
#include <rowlock/sqlite_transaction.hpp>

#include "backend/sqlite/dialect.hpp"
#include "backend/sqlite/file_identity.hpp"
#include "backend/sqlite/native.hpp"
#include "backend/sqlite/process.hpp"
#include "backend/sqlite/token_ceiling.hpp"
#include "backend/sqlite/values.hpp"
#include "backend/sqlite/wal_files.hpp"

namespace rowlock::backend::sqlite {
namespace {

class caller_session final : public caller_connection {
 public:
  explicit caller_session(sqlite3* db) : native_(db) {
    if (db == nullptr) throw error(errc::invalid_argument, "the sqlite3 of a transaction is null");
  }

  dialect const& sql() const noexcept override { return sqlite_dialect(); }
  std::string describe() const override { return "sqlite, the program's own connection"; }

  void expect_transaction() override {
    if (sqlite3_get_autocommit(native_) != 0)
      throw error(errc::not_in_transaction,
                  fmt::format("{}: it is in no transaction: BEGIN IMMEDIATE before", describe()));
  }

  void expect_writer() override {
    expect_transaction();
    if (sqlite3_txn_state(native_, nullptr) != SQLITE_TXN_WRITE)
      throw error(errc::not_in_transaction,
                  fmt::format("{}: on SQLite the write transaction is the lock, and this one may only read "
                              "yet: begin it by BEGIN IMMEDIATE",
                              describe()));
  }

  // SQLite undoes a failed statement.
  result execute(statement const& s, std::span<value const> parameters) override {
    inside const sqlite;
    expect_files(s.name);
    auto const tokens = token_ceiling::table_of(s.sql);
    if (!tokens.empty() && token_ceiling::look_at_boot(native_, tokens) != SQLITE_OK) refuse(s.name);
    auto const text = tokens.empty() ? s.sql : token_ceiling::without_function(s.sql);
    sqlite3_stmt* fresh = nullptr;
    int const prepared =
        sqlite3_prepare_v2(native_, text.c_str(), static_cast<int>(text.size() + 1), &fresh, nullptr);
    prepared_statement const native(fresh);
    if (prepared != SQLITE_OK || !bind(fresh, parameters, s.name)) refuse(s.name);
    result out;
    int code = SQLITE_ROW;
    while ((code = sqlite3_step(fresh)) == SQLITE_ROW) out.rows.push_back(current_row(fresh));
    if (code != SQLITE_DONE) refuse(s.name);
    if (sqlite3_stmt_readonly(fresh) == 0) out.affected = sqlite3_changes64(native_);
    expect_files(s.name);
    return out;
  }

  void set_savepoint() override { run(fmt::format("SAVEPOINT {}", savepoint)); }
  void release_savepoint() override { run(fmt::format("RELEASE {}", savepoint)); }
  void undo_to_savepoint() override { run(fmt::format("ROLLBACK TO {0}; RELEASE {0}", savepoint)); }

  void commit() override {
    expect_transaction();
    inside const sqlite;
    expect_files("commit");
    if (sqlite3_exec(native_, "COMMIT", nullptr, nullptr, nullptr) != SQLITE_OK) refuse("commit", true);
    try {
      expect_files("commit");
    } catch (error const& e) {
      throw error(errc::in_doubt, e.what(), "commit", "", 0);
    }
    if (std::any_of(beside_.begin(), beside_.end(),
                    [](auto const& one) { return one.second.outgrows_disk(); }))
      write_wal();
  }

  void rollback() noexcept override {
    if (sqlite3_get_autocommit(native_) != 0) return;
    inside const sqlite;
    (void)sqlite3_exec(native_, "ROLLBACK", nullptr, nullptr, nullptr);
  }

 private:
  // Each file, attached ones too, must be the one at its path, and have no other name: other programs do not
  // see commits in another file. Its identity when the program opened it is unknown, but SQLite compares the
  // inode of its open file.
  void expect_files(std::string const& what) {
    for (int i = 0; char const* name = sqlite3_db_name(native_, i); ++i) {
      char const* path = sqlite3_db_filename(native_, name);
      if (path == nullptr || *path == '\0') continue;  // in memory, or temporary
      int moved = 0;
      if (sqlite3_file_control(native_, name, SQLITE_FCNTL_HAS_MOVED, &moved) != SQLITE_OK)
        continue;  // no file
      auto const look = look_at(path);
      if (!look || moved != 0)
        throw error(errc::unreachable,
                    fmt::format("{}: {}: the file '{}' was removed or replaced while it was open", describe(),
                                what, path),
                    what, "", 0);
      if (auto const why = other_name(*look, path); !why.empty())
        throw error(errc::unsupported, fmt::format("{}: {}: {}", describe(), what, why), what, "", 0);
      expect_wal(what, name, path);
    }
  }

  // The files beside it at that time are unknown: open_here() decides. A deferred transaction that has not
  // read has none open.
  void expect_wal(std::string const& what, char const* name, char const* path) {
    if (auto const known = beside_.find(path); known != beside_.end()) {
      if (known->second.change() == nullptr) return;
    } else {
      if (sqlite3_txn_state(native_, name) == SQLITE_TXN_NONE || sqlite3_db_readonly(native_, name) != 0 ||
          !has_wal(native_, name))
        return;
      if (wal_files const now(native_, name); now.open_here()) {
        beside_.emplace(path, now);
        return;
      }
    }
    throw error(errc::unreachable,
                fmt::format("{}: {}: the file -wal or -shm beside '{}' was removed or replaced while it was "
                            "open",
                            describe(), what, path),
                what, "", 0);
  }

  void run(std::string const& text) {
    inside const sqlite;
    if (sqlite3_exec(native_, text.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) refuse(text);
  }

  // As SQLite does at 4 MB: without a wait.
  void write_wal() noexcept {
    sqlite3_wal_checkpoint_v2(native_, nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  }

  [[noreturn]] void refuse(std::string const& what, bool committing = false) {
    int const code = sqlite3_extended_errcode(native_);
    auto const problem = statement_error(native_, what, describe());
    auto const as = [&](errc reason, std::string_view hint) {
      return error(reason, fmt::format("{}{}", problem.what(), hint), what, "", code);
    };
    // A full disk or an I/O error can end the whole transaction. After a failed write of a commit, the result
    // of a recovery is unknown.
    bool const in_doubt = problem.reason() == errc::in_doubt;
    // Makes room for the next transaction. [C64]
    if (problem.reason() == errc::storage_full && sqlite3_get_autocommit(native_) != 0) write_wal();
    if (committing && in_doubt) throw problem;
    if (in_doubt || sqlite3_get_autocommit(native_) != 0)
      throw as(errc::transaction_ended, "; roll the transaction back, if SQLite has not done it");
    if (code == SQLITE_BUSY_SNAPSHOT)
      throw as(errc::snapshot_too_old,
               "; the transaction read before another connection wrote: begin it again, by BEGIN IMMEDIATE");
    throw problem;
  }

  sqlite3* native_;
  std::map<std::string, wal_files> beside_;  ///< by the database's path
};

}  // namespace

std::unique_ptr<caller_connection> borrow(sqlite3* db) { return std::make_unique<caller_session>(db); }

}  // namespace rowlock::backend::sqlite

namespace rowlock::sqlite::inline ROWLOCK_ABI_NAMESPACE {

transaction::transaction(lock_manager& manager, sqlite3* connection)
    : basic_transaction(manager, backend::sqlite::borrow(connection)) {}

void execute_commit(sqlite3* connection) { backend::sqlite::borrow(connection)->commit(); }

}  // namespace rowlock::sqlite::inline ROWLOCK_ABI_NAMESPACE
