// By SOCI, so that there is one text for all databases.
#include "ledger_in_database.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <new>
#include <rowlock/soci_transaction.hpp>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "printable.hpp"
#include "sql_session.hpp"

namespace rowlock::torture {
namespace {

/// In memory that all clients share.
class shared_count {
 public:
  shared_count() {
    void* const at =
        ::mmap(nullptr, sizeof(count), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    count_ = new (at) count(0);
  }
  shared_count(shared_count const&) = delete;
  shared_count& operator=(shared_count const&) = delete;
  ~shared_count() { ::munmap(count_, sizeof(count)); }
  void add_one() noexcept { ++*count_; }
  std::int64_t get() const noexcept { return count_->load(); }

 private:
  using count = std::atomic<std::int64_t>;
  count* count_;
};

/// One turn in so many gives the lock back before it commits, and then takes its time: nobody else may have
/// the lock before the transaction has ended.
constexpr unsigned gives_back_early = 15;
constexpr std::chrono::milliseconds until_commit{5};

class adds final : public section {
 public:
  adds(std::string db, lock_manager& m, bool requires_it, shared_count& committed)
      : db_(std::move(db)), manager_(m), requires_(requires_it), committed_(committed) {}

  // A section that fails has added nothing, or what COMMIT did not tell: the table knows.
  void run(held_lock& lock, std::uint32_t name, std::function<void()> const& think,
           std::function<void()> const& briefly, std::function<void()> const& give_back) override try {
    if (!session_) session_ = connect(db_);
    // Every other time it thinks between the guard and the COMMIT; every other of these right before the
    // COMMIT.
    bool const first = requires_ && ++turns_ % 2 == 0;
    bool const last = turns_ % 4 == 0;
    if (first) think();
    long long total = 0;
    if (!first) {
      total = read(name);
      think();
    }
    *session_ << (is_sqlite(db_) ? "BEGIN IMMEDIATE" : "BEGIN");
    if (requires_) soci::transaction(manager_, *session_).require(lock);
    if (first) total = read(name);
    if (first && !last) briefly();
    add(name, total);
    if (first && last) briefly();
    // Not where a transaction has the whole file: a release would wait for it, and all others meanwhile.
    if (requires_ && !is_sqlite(db_) && turns_ % gives_back_early == 0) {
      give_back();
      std::this_thread::sleep_for(until_commit);
    }
    if (requires_) {
      soci::execute_commit(*session_);
      committed_.add_one();
    } else {
      *session_ << "COMMIT";
    }
  } catch (std::exception const&) {
    session_.reset();
  }

  void lock_and_run(std::string const& lock, std::uint32_t name, std::function<void()> const& got,
                    std::function<void()> const& think) override try {
    if (!session_) session_ = connect(db_);
    *session_ << (is_sqlite(db_) ? "BEGIN IMMEDIATE" : "BEGIN");
    soci::transaction(manager_, *session_).lock(lock);
    got();
    auto const total = read(name);
    think();
    add(name, total);
    *session_ << "COMMIT";
  } catch (::soci::soci_error const& e) {
    session_.reset();
    if (e.get_error_category() == ::soci::soci_error::connection_error)
      throw error(errc::unreachable, printable(e.what()));
    throw;
  } catch (std::exception const&) {
    session_.reset();
    throw;
  }

 private:
  long long read(std::uint32_t name) {
    auto const number = static_cast<int>(name);
    long long total = 0;
    *session_ << "SELECT total FROM torture_sums WHERE name = " << number, ::soci::into(total);
    return total;
  }
  void add(std::uint32_t name, long long total) {
    auto const number = static_cast<int>(name);
    *session_ << "UPDATE torture_sums SET total = " << total + 1
              << ", added = added + 1 WHERE name = " << number;
  }

  std::string db_;
  lock_manager& manager_;
  bool requires_;
  shared_count& committed_;
  unsigned turns_ = 0;
  std::unique_ptr<::soci::session> session_;
};

class ledger_in_database final : public ledger {
 public:
  explicit ledger_in_database(options const& o) : db_(o.db), requires_(keeps_what_is_written(o.what)) {
    auto const s = connect(db_);
    try {
      *s << "DROP TABLE torture_sums";  // of a run that was killed; IF EXISTS has PostgreSQL's client print a
                                        // notice
    } catch (::soci::soci_error const&) {  // as it should be
    }
    *s << "CREATE TABLE torture_sums (name INTEGER PRIMARY KEY, total BIGINT NOT NULL, added BIGINT NOT "
          "NULL)";
    for (int i = 0; i < o.names; ++i) *s << "INSERT INTO torture_sums VALUES (" << i << ", 0, 0)";
  }
  ledger_in_database(ledger_in_database const&) = delete;
  ledger_in_database& operator=(ledger_in_database const&) = delete;
  ~ledger_in_database() override {
    try {
      *connect(db_) << "DROP TABLE torture_sums";
    } catch (std::exception const& e) {
      on_stderr(fmt::format("the table torture_sums is still there: {}\n", printable(e.what())));
    }
  }

  std::unique_ptr<section> open(std::string const& db, lock_manager& m) override {
    return std::make_unique<adds>(db, m, requires_, committed_);
  }
  sums read() override {
    auto const s = connect(db_);
    long long added = 0;
    long long total = 0;
    // The numbers of a sum are decimal in some databases.
    *s << "SELECT CAST(sum(added) AS " << integer() << "), CAST(sum(total) AS " << integer()
       << ") FROM torture_sums",
        ::soci::into(added), ::soci::into(total);
    return {added, added - total, committed_.get()};
  }

 private:
  char const* integer() const { return is_mysql(db_) ? "SIGNED" : "BIGINT"; }

  std::string db_;
  bool requires_;
  shared_count committed_;
};

}  // namespace

std::unique_ptr<ledger> make_ledger_in_database(options const& o) {
  return std::make_unique<ledger_in_database>(o);
}

}  // namespace rowlock::torture
