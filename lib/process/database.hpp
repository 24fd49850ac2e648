#pragma once
// The manager's way to its database: checked sessions, and the few of them that are kept.

#include <chrono>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <rowlock/options.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "backend/backend.hpp"

namespace rowlock::process {

/// The schema version that this program was made for, and needs: the newest of migrations/<dialect>/NNN_...
/// (a test compares them). Its statements write what the newest one added; for an older one there would have
/// to be a second set of them.
inline constexpr int needed_schema_version = 5;

/// Opens sessions and sees to it that each finds the tables that this program needs, and always the same
/// ones. Thread-safe.
class database {
 public:
  database(std::shared_ptr<backend::source>, manager_options const&);

  /// @throws error what backend::source::connect throws; schema_missing, schema_old, schema_new; closed;
  /// unreachable if other tables than at first are found (another database, or a copy, answers)
  std::unique_ptr<backend::connection> open(boot_time_point deadline);

  /// What open() does with a session that it has opened. @return the version that the tables have
  int check_schema(backend::connection&, boot_time_point deadline);

  /// Opens no more, and lets go of the source.
  void close() noexcept;

  /// What rowlock_meta says of these tables; known after the first open().
  std::string id() const;

  /// Tells these tables on this server from every other; known after the first open().
  std::string identity() const;

  /// A number for the server, or file, that a session talks to: holds are many, servers few.
  std::size_t server_of(backend::connection const&);

  /// Whether that server's database is certainly not where this leads to any more (an SQLite file that was
  /// removed, replaced, or got another name): what is held in it is held no more.
  bool gone(std::size_t server) const;

  backend::statement_book const& statements() const noexcept { return book_; }
  /// Where the tables are; the schema is known after the first open(), if the options name none.
  backend::table_names tables() const { return book_.tables(); }
  std::string const& describe() const noexcept { return description_; }
  backend::dialect const& sql() const noexcept { return sql_; }

 private:
  void expect_same(backend::connection&, std::string const& id, boot_time_point deadline);

  void find_tables(backend::connection&, boot_time_point deadline);

  backend::dialect const& sql_;
  std::string const description_;
  bool const named_;  ///< the options name the schema
  backend::statement_book book_;
  mutable std::mutex mutex_;
  std::shared_ptr<backend::source> source_;  ///< null: closed
  std::string database_id_;
  std::string server_;   ///< of the first session
  std::string lineage_;  ///< the same; lib/doc/identity.md
  std::string identity_;
  std::vector<std::string> servers_;
};

/// At most `limit` sessions, opened when first needed. Whoever waits for one stands in line. Thread-safe.
class connection_pool {
  struct turn {
    boot_time_point began;
    std::stop_source give_way;
  };

 public:
  /// How long a session that only waits for a row is left to its borrower while others stand in line.
  static constexpr std::chrono::milliseconds longest_turn{1000};

  /// `option`: of manager_options, which says how many; for messages.
  connection_pool(database&, int limit, char const* option);

  /// A session for one caller, given back when destroyed, or dropped if it broke.
  class loan {
   public:
    loan(connection_pool& p, std::unique_ptr<backend::connection> c) noexcept
        : pool_(&p), connection_(std::move(c)) {}
    loan(loan&&) noexcept = default;
    loan& operator=(loan&&) = delete;
    ~loan() {
      if (pool_ != nullptr) pool_->give_back(std::move(connection_));
    }
    backend::connection& operator*() const noexcept { return *connection_; }
    backend::connection* operator->() const noexcept { return connection_.get(); }
    explicit operator bool() const noexcept { return connection_ != nullptr; }  ///< not moved from

   private:
    struct no_owner {
      void operator()(connection_pool*) const noexcept {}
    };
    std::unique_ptr<connection_pool, no_owner> pool_;
    std::unique_ptr<backend::connection> connection_;
  };

  /// `place_by`: until when it stands in line at most; the rest of `deadline` is for connecting.
  /// @throws error what database::open throws; too_many_connections if none became free in time, or until
  /// `stop` was triggered
  loan borrow(boot_time_point deadline, std::stop_token const& stop = {},
              boot_time_point place_by = boot_time_point::max());

  /// Ends the idle sessions, and from now on each that comes back.
  void close() noexcept;

  /// While it lives, its borrower only waits: `give_way` is triggered when others stand in line for a session
  /// and the turn is over. Then the borrower should give its session back, and line up again.
  class waiting {
   public:
    waiting(connection_pool&, std::stop_source give_way);
    ~waiting();
    waiting(waiting const&) = delete;
    waiting& operator=(waiting const&) = delete;

   private:
    connection_pool& pool_;
    std::list<turn>::iterator place_;
  };

 private:
  struct waiter {
    bool has_place = false;
    std::condition_variable_any wake;
  };
  void line_up(boot_time_point until, std::stop_token const&);
  boot_time_point ask_for_one();
  void next_in_line() noexcept;
  void give_back(std::unique_ptr<backend::connection>) noexcept;
  void drop_idle() noexcept;

  database& database_;
  int const limit_;
  char const* const option_;
  std::mutex mutex_;
  std::list<waiter*> line_;
  std::list<turn> turns_;  ///< the oldest first
  std::vector<std::unique_ptr<backend::connection>> idle_;
  int lent_ = 0;
  bool closed_ = false;
};

}  // namespace rowlock::process
