// See lib/doc/sqlite.md and lib/doc/identity.md.
// - Replaced files: SQLite goes on writing to a file that has lost its name, and reports no error: two files,
//   two owners of one lock. A second name (a hard link), or a removed WAL, has the same effect. So begin()
//   and end() look at the paths (six system calls). After a change that begin() sees, nothing was sent. After
//   one that end() sees, the statement is in doubt.
// - Flushing: every holder is a process of this machine, and ends with it. So a crash may undo what ends with
//   its process. An undone take must not repeat its token: token_ceiling. An undone release: the lock ends by
//   its expiry.
// - A busy file: SQLite has no wait queue for it. Its own handler looks ten times a second in the end, and
//   found no gap in a minute between an owner's transactions a millisecond apart (C10). So look_again() looks
//   a thousand times a second, at random, for 2 % of a processor.

#include "backend/sqlite/session.hpp"

#include <fmt/format.h>
#include <sys/vfs.h>

#include <algorithm>
#include <random>
#include <thread>

#include "backend/sqlite/process.hpp"
#include "backend/sqlite/values.hpp"
#include "backend/sqlite/wal_readers.hpp"
#include "base/never_destroyed.hpp"
#include "base/text.hpp"

namespace rowlock::backend::sqlite {

using namespace std::chrono_literals;

namespace {

// Marks a statement whose commit is never flushed.
constexpr std::string_view unflushed_mark = "/* unflushed */";

// SQLite's steps between two looks at the clock: a few milliseconds.
constexpr int steps_between_looks = 100'000;

// For readers, before the WAL is emptied. No session can write meanwhile.
constexpr auto wait_for_readers = 50ms;

constexpr char const* another_wal_here =
    "the file -wal or -shm beside it was replaced, and this process has the old one open";

bool uses_wal(sqlite3* db) {
  prepared_statement const ask = [db] {
    sqlite3_stmt* s = nullptr;
    sqlite3_prepare_v2(db, "PRAGMA journal_mode", -1, &s, nullptr);
    return prepared_statement(s);
  }();
  if (!ask || sqlite3_step(ask.get()) != SQLITE_ROW) return false;
  auto const* mode = sqlite3_column_text(ask.get(), 0);
  return mode != nullptr && std::string_view(reinterpret_cast<char const*>(mode)) == "wal";
}

int read_something(sqlite3* db) {
  return sqlite3_exec(db, "SELECT count(*) FROM sqlite_schema", nullptr, nullptr, nullptr);
}

// FNV-1a (G. Fowler, L. C. Noll, P. Vo): the same key in all programs.
std::uint64_t queue_key(table_names const& tables, std::string const& name) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (char const c : tables.table("locks") + '\0' + name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

session::session(database db, std::string path, std::optional<file_identity> file, boot_time_point deadline,
                 flushing which)
    : database_(std::move(db)),
      path_(std::move(path)),
      where_("sqlite:" + path_),
      file_(file),
      wait_queues_(path_),
      tokens_(database_.get()),
      identity_(file ? to_string(*file) : path_) {
  inside const sqlite;
  bool const has_read = set_up(deadline);
  // It stays: only a connection that is alone with the file can leave WAL mode. If a WAL comes later, flushes
  // were needless.
  wal_ = has_read && file_ && uses_wal(database_.get());
  // Without a WAL, NORMAL saves little, and on some file systems a power cut could spoil the file.
  if (wal_ && which == flushing::lasting) usual_ = synchronous::normal;
  if (wal_ && !look_for_wal()) {
    leave_wal_at_close(database_.get());
    throw error(errc::unreachable, fmt::format("{}: {}", where_, another_wal_here));
  }
  remember(database_.get(), *this);
}

session::~session() { close(); }

bool session::forked() const noexcept { return epoch_ != base::fork_epoch(); }

// Before use_ is locked: fork() can copy a mutex locked.
void session::expect_own(std::string const& what) const {
  if (forked())
    throw error(errc::forked, fmt::format("{}: opened before the process was forked", where_), what, "", 0);
}

bool session::usable() const noexcept {
  if (forked()) return database_ != nullptr;
  std::lock_guard const use(use_);
  return database_ != nullptr;
}

char const* session::change() noexcept {
  if (!file_) return nullptr;
  if (auto const* why = change_since(*file_, path_)) return why;
  return beside_ ? beside_->change() : nullptr;
}

// Reads first: then SQLite has both files open (a script that sets the mode opens the WAL alone). A read-only
// connection can't make them.
bool session::look_for_wal() {
  if (sqlite3_db_readonly(database_.get(), "main") != 0) return true;
  (void)read_something(database_.get());
  wal_files const now(database_.get(), "main");
  if (!now.open_here()) return false;
  beside_ = now;
  return true;
}

bool session::set_up(boot_time_point deadline) {
  static auto const& what = base::never_destroyed<std::string>("session set-up");
  sqlite3_extended_result_codes(database_.get(), 1);
  sqlite3_busy_handler(database_.get(), &session::look_again, this);
  sqlite3_progress_handler(database_.get(), steps_between_looks, &session::is_over, this);
  deadline_ = deadline;
  limit_wait(deadline);
  // A lock of another session is no reason to refuse the file: the statements will meet it.
  int const code = read_something(database_.get());
  if ((code & 0xff) == SQLITE_NOTADB)
    throw error(
        errc::unsupported,
        fmt::format("{} is not an SQLite database: name another file, and `rowlock migrate up` makes it "
                    "where there is none",
                    where_),
        "", "", code);
  if (code != SQLITE_OK && classify(code, "") != errc::row_locked) {
    // The connection might use the index of a removed WAL.
    leave_wal_at_close(database_.get());
    throw opening_error(database_.get(), what, where_);
  }
  bool const has_read = code == SQLITE_OK;
  // Half a megabyte instead of two: our rows are few, and each session has a cache.
  sqlite3_exec(database_.get(), "PRAGMA cache_size = -500", nullptr, nullptr, nullptr);
  return has_read;
}

void session::abandon() noexcept {
  // close_inherited() closes these.
  for (auto& [name, one] : prepared_) (void)one.native.release();
  prepared_.clear();
  (void)database_.release();
}

void session::close() noexcept {
  if (forked()) return abandon();
  inside const sqlite;
  std::lock_guard const use(use_);
  shut();
}

void session::shut() noexcept {
  wait_queues_.close();
  if (!database_) return;
  forget(database_.get());
  // Other processes have another WAL now: ours must not overwrite their commits.
  if (change() != nullptr) leave_wal_at_close(database_.get());
  prepared_.clear();
  database_.reset();
}

bool session::close_if_replaced() noexcept {
  std::unique_lock const use(use_, std::try_to_lock);
  if (!use || !database_ || change() == nullptr) return false;
  leave_wal_at_close(database_.get());
  prepared_.clear();
  database_.reset();
  return true;
}

session_facts session::facts() const {
  session_facts out;
  out.flushes_less = usual_ == synchronous::normal;
  struct statfs found {};
  if (::statfs(path_.c_str(), &found) == 0) out.file_system = static_cast<std::uint32_t>(found.f_type);
  return out;
}

void session::give_up(errc code, std::string const& what, std::string const& why) {
  int const native = database_ ? sqlite3_extended_errcode(database_.get()) : 0;
  shut();
  throw error(code, fmt::format("{}: {}: {}", where_, what, why), what, "", native);
}

// A hostile file's views, triggers and constraints run within our statements, and can be endless. [C14]
int session::is_over(void* self) noexcept {
  return boot_clock::now() >= static_cast<session*>(self)->deadline_ ? 1 : 0;
}

// SQLite calls is_over() once more after the commit: the outcome of a write is unknown.
error session::problem_of(std::string const& what, bool only_reads) const {
  if (sqlite3_errcode(database_.get()) != SQLITE_INTERRUPT || boot_clock::now() < deadline_)
    return statement_error(database_.get(), what, where_);
  return error(only_reads ? errc::unreachable : errc::in_doubt,
               fmt::format("{}: {}: it was not done in time", where_, what), what, "", SQLITE_INTERRUPT);
}

void session::refuse(std::string const& what) { refuse(problem_of(what, false)); }

void session::refuse(error const& problem) {
  if (problem.reason() == errc::unreachable || problem.reason() == errc::in_doubt) shut();
  throw problem;
}

// A locked file is busy after a second, like a row of another database.
void session::limit_wait(boot_time_point deadline) {
  wait_until_ = std::min(deadline, boot_clock::now() + 1s);
}

int session::look_again(void* self, int /*tries*/) noexcept {
  auto const left = static_cast<session*>(self)->wait_until_ - boot_clock::now();
  if (left <= 0s) return 0;
  thread_local std::minstd_rand generator(static_cast<unsigned>(left.count()));
  std::uniform_int_distribution<int> pause(500, 1500);
  std::this_thread::sleep_for(
      std::min<std::chrono::nanoseconds>(left, std::chrono::microseconds(pause(generator))));
  return 1;
}

void session::begin(std::string const& what, boot_time_point deadline) {
  if (!database_)
    throw error(errc::unreachable, fmt::format("{}: the connection was given up", where_), what, "", 0);
  if (auto const* why = change()) give_up(errc::unreachable, what, why);
  wal_size_ = beside_ ? beside_->size() : 0;
  if (boot_clock::now() >= deadline) give_up(errc::unreachable, what, "no time was left to begin it");
  deadline_ = deadline;
  limit_wait(deadline);
  if (synchronous_ == synchronous::unknown) set_synchronous(synchronous::full, what);
}

session::synchronous session::level_of(std::string_view sql) const noexcept {
  if (wal_ && sql.starts_with(unflushed_mark)) return synchronous::normal;
  return sql.starts_with(volatile_mark) ? usual_ : synchronous::full;
}

// SQLite accepts the change only between transactions, in a few microseconds.
void session::set_synchronous(synchronous wanted, std::string const& what) {
  if (synchronous_ == wanted || in_transaction()) return;
  synchronous_ = synchronous::unknown;
  auto const* text =
      wanted == synchronous::full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL";
  if (sqlite3_exec(database_.get(), text, nullptr, nullptr, nullptr) != SQLITE_OK) refuse(what);
  synchronous_ = wanted;
}

void session::reserve_tokens(std::string_view table, std::string const& what) {
  if (!file_ || !tokens_.is_due()) return;
  if (tokens_.look(database_.get(), table) != SQLITE_OK) refuse(what);
  if (!tokens_.is_due()) return;
  set_synchronous(synchronous::full, what);
  if (tokens_.raise(database_.get(), table) == SQLITE_OK) return;
  auto problem = problem_of(what, false);
  if (!make_room(problem)) refuse(problem);
  if (tokens_.raise(database_.get(), table) != SQLITE_OK) refuse(what);
}

// Works also where readers overlap, and SQLite would never restart the WAL.
bool session::empty_wal() noexcept {
  return sqlite3_wal_checkpoint_v2(database_.get(), "main", SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr) ==
         SQLITE_OK;
}

// A WAL can fill a small disk although its content fits into the database. [C64]
// @return whether the WAL was emptied: a retry can succeed. If not, `why` names its readers.
bool session::make_room(error& why) {
  if (why.reason() != errc::storage_full || !beside_ || wal_size_ == 0 || in_transaction()) return false;
  wait_until_ = boot_clock::now() + wait_for_readers;
  if (empty_wal()) return true;
  auto const readers = to_string(wal_readers(sqlite3_db_filename(database_.get(), "main")));
  if (!readers.empty())
    why = error(errc::storage_full,
                fmt::format("{}; the WAL beside it can't be emptied while {} reads it: end that transaction",
                            base::plain_message(why), readers),
                why.statement(), "", why.native_code());
  return false;
}

void session::end(std::string const& what, bool wrote) {
  // The file got a WAL after set_up(), or was busy then.
  if (file_ && !beside_ && uses_wal(database_.get()) && !look_for_wal()) {
    leave_wal_at_close(database_.get());
    give_up(errc::in_doubt, what, another_wal_here);
  }
  auto const* why = change();
  // A script has left WAL mode, alone with the file.
  if (why != nullptr && beside_ && !uses_wal(database_.get())) {
    beside_.reset();
    why = change();
  }
  if (why != nullptr) give_up(errc::in_doubt, what, why);
  if (wrote && beside_ && !in_transaction()) bound_wal();
}

// An unchanged size means that SQLite has restarted the WAL, and nothing reads the rest. A growing WAL is
// tried only at multiples of large_wal: endless readers would cost each commit the wait.
void session::bound_wal() noexcept {
  auto const size = beside_->size();
  bool const began_anew = size == wal_size_;
  bool const passes = size / large_wal > wal_size_ / large_wal;
  bool const is_long = size > large_wal && (began_anew || passes);
  if (!is_long && !beside_->outgrows_disk()) return;
  wait_until_ = boot_clock::now() + (is_long ? wait_for_readers : 0ms);
  (void)empty_wal();
}

session::prepared const& session::prepare(statement const& s) {
  auto& known = prepared_[s.name];
  if (known.native && known.sql == s.sql) return known;
  known = {};
  sqlite3_stmt* fresh = nullptr;
  int const code = sqlite3_prepare_v3(database_.get(), s.sql.c_str(), static_cast<int>(s.sql.size() + 1),
                                      SQLITE_PREPARE_PERSISTENT, &fresh, nullptr);
  prepared_statement owned(fresh);
  if (code != SQLITE_OK) refuse(s.name);
  if (!owned)
    throw error(errc::failed, fmt::format("{}: {} holds no statement", where_, s.name), s.name, "", 0);
  bool const writes = sqlite3_stmt_readonly(owned.get()) == 0;
  known = {s.sql, std::move(owned), writes, level_of(s.sql), std::string(token_ceiling::table_of(s.sql))};
  return known;
}

result session::execute(statement const& s, std::span<value const> parameters, boot_time_point deadline) {
  expect_own(s.name);
  inside const sqlite;
  std::lock_guard const use(use_);
  begin(s.name, deadline);
  auto const& ready = prepare(s);
  auto* const native = ready.native.get();
  bool const alone = !in_transaction();
  if (alone && ready.writes) {
    if (!ready.draws_by.empty()) reserve_tokens(ready.draws_by, s.name);
    set_synchronous(ready.level, s.name);
    tokens_.flushed(!file_ || ready.level == synchronous::full);
  }
  struct rewind {
    sqlite3_stmt* s;
    ~rewind() {
      if (s == nullptr) return;
      sqlite3_reset(s);
      sqlite3_clear_bindings(s);
    }
  } at_end{native};
  if (!bind(native, parameters, s.name)) refuse(s.name);
  result out;
  auto problem = run(s, native, out);
  if (problem && make_room(*problem)) problem = run(s, native, out);
  bool const above = !ready.draws_by.empty() && tokens_.was_reached();
  if (problem && above && problem->native_code() == SQLITE_ERROR) {
    if (alone) {
      set_synchronous(synchronous::full, s.name);
      tokens_.flushed(true);
      problem = run(s, native, out);
    } else {  // the next transaction is flushed
      problem.emplace(errc::conflict, base::plain_message(*problem), s.name, "", problem->native_code());
    }
  }
  if (problem) {
    at_end.s = nullptr;
    sqlite3_clear_bindings(native);
    refuse(*problem);
  }
  if (ready.writes) out.affected = sqlite3_changes64(database_.get());
  sqlite3_clear_bindings(native);
  at_end.s = nullptr;
  end(s.name, out.affected > 0);
  return out;
}

// @return the failure, after which the statement can run again
std::optional<error> session::run(statement const& s, sqlite3_stmt* native, result& out) {
  out.rows.clear();
  int code = SQLITE_ROW;
  // RETURNING gives its rows early, but the last step commits.
  while ((code = sqlite3_step(native)) == SQLITE_ROW) out.rows.push_back(current_row(native));
  if (code == SQLITE_DONE && sqlite3_reset(native) == SQLITE_OK) return std::nullopt;
  auto problem = problem_of(s.name, sqlite3_stmt_readonly(native) != 0);
  sqlite3_reset(native);
  return problem;
}

void session::script(std::string_view sql, boot_time_point deadline) {
  static auto const& what = base::never_destroyed<std::string>("script");
  expect_own(what);
  inside const sqlite;
  std::lock_guard const use(use_);
  begin(what, deadline);
  bool const within = in_transaction();
  if (sql == "ROLLBACK" && !within) return;  // a full disk has ended it
  if (!within) {
    auto const table = token_ceiling::table_of(sql);
    if (!table.empty()) reserve_tokens(table, what);
    auto const level = tokens_.was_reached() ? synchronous::full : level_of(sql);
    set_synchronous(level, what);
    tokens_.flushed(!file_ || level == synchronous::full);
  }
  std::string const text(sql);
  if (sqlite3_exec(database_.get(), text.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    auto problem = problem_of(what, false);
    if (make_room(problem) && within)
      throw error(errc::conflict, base::plain_message(problem) + "; there is room again: begin anew", what,
                  "", problem.native_code());
    refuse(problem);
  }
  end(what, sql == "COMMIT");
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature of the base
queue_entry session::enter_queue(table_names const& tables, std::string const& name,
                                 std::string const& /*who*/, boot_time_point until,
                                 std::chrono::nanoseconds reply_timeout, std::stop_token stop) {
  static auto const& what = base::never_destroyed<std::string>("queue");
  expect_own(what);
  {
    inside const sqlite;
    std::lock_guard const use(use_);
    begin(what, boot_clock::now() + reply_timeout);
  }
  // Not `inside`: a child forked during this wait can use SQLite.
  return wait_queues_.enter(queue_key(tables, name), until, stop);
}

bool session::leave_queue(boot_time_point /*deadline*/) { return wait_queues_.leave(); }

bool session::is_waited_for(table_names const& tables, std::string const& name) noexcept try {
  return file_ && !forked() && wait_queues_.is_waited_for(queue_key(tables, name));
} catch (std::bad_alloc const&) {
  return false;
}

}  // namespace rowlock::backend::sqlite
