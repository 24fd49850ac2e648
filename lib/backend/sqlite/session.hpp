#pragma once
// rowlock's own session on an SQLite file.

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "backend/backend.hpp"
#include "backend/sqlite/file_identity.hpp"
#include "backend/sqlite/native.hpp"
#include "backend/sqlite/process.hpp"
#include "backend/sqlite/queue_file.hpp"
#include "backend/sqlite/token_ceiling.hpp"
#include "backend/sqlite/wal_files.hpp"
#include "base/fork_epoch.hpp"

namespace rowlock::backend::sqlite {

/// The commits that are flushed in WAL mode. Without a WAL all are.
enum class flushing {
  takes,    ///< all but a release's
  lasting,  ///< what can outlive its process
};

/// A connection to an SQLite file, or to a database in memory. Other threads call only close_if_replaced().
class session final : public connection, private connection_owner {
 public:
  /// `path`: of the open database, or the name of one in memory. `file`: its identity when it was opened;
  /// none in memory.
  session(database, std::string path, std::optional<file_identity> file, boot_time_point deadline,
          flushing = flushing::lasting);
  ~session() override;

  result execute(statement const&, std::span<value const> parameters, boot_time_point deadline) override;
  void script(std::string_view sql, boot_time_point deadline) override;
  bool has_queues() const noexcept override { return file_.has_value(); }
  queue_entry enter_queue(table_names const&, std::string const& name, std::string const& /*who*/,
                          boot_time_point until, std::chrono::nanoseconds reply_timeout,
                          std::stop_token stop) override;
  bool leave_queue(boot_time_point deadline) override;
  bool is_waited_for(table_names const&, std::string const& name) noexcept override;
  bool usable() const noexcept override;
  std::string const& server_identity() const noexcept override { return identity_; }
  session_facts facts() const override;
  void close() noexcept override;

 private:
  bool close_if_replaced() noexcept override;
  bool forked() const noexcept;
  void expect_own(std::string const& what) const;
  char const* change() noexcept;
  /// @return false if the files at the path are not the open ones
  bool look_for_wal();
  void shut() noexcept;
  enum class synchronous { unknown, normal, full };
  struct prepared {
    std::string sql;
    prepared_statement native;
    bool writes = false;
    synchronous level = synchronous::full;
    std::string draws_by{};  ///< the table of token_ceiling, quoted
  };

  /// @return false if another session has locked the file
  bool set_up(boot_time_point deadline);
  void limit_wait(boot_time_point deadline);
  static int look_again(void* self, int tries) noexcept;
  static int is_over(void* self) noexcept;
  error problem_of(std::string const& what, bool only_reads) const;
  void begin(std::string const& what, boot_time_point deadline);
  void end(std::string const& what, bool wrote);
  std::optional<error> run(statement const&, sqlite3_stmt*, result&);
  bool empty_wal() noexcept;
  void bound_wal() noexcept;
  bool make_room(error& why);
  synchronous level_of(std::string_view sql) const noexcept;
  void set_synchronous(synchronous, std::string const& what);
  bool in_transaction() const noexcept { return sqlite3_get_autocommit(database_.get()) == 0; }
  /// Before the transaction of a statement that draws tokens.
  void reserve_tokens(std::string_view table, std::string const& what);
  prepared const& prepare(statement const&);
  [[noreturn]] void refuse(std::string const& what);
  [[noreturn]] void refuse(error const&);
  [[noreturn]] void give_up(errc, std::string const& what, std::string const& why);
  void abandon() noexcept;

  /// Guards SQLite's objects against close_if_replaced().
  mutable std::mutex use_;
  database database_;
  std::string path_;
  std::string where_;
  std::optional<file_identity> file_;
  std::optional<wal_files> beside_;  ///< none: no WAL, or read-only
  queue_file wait_queues_;
  unsigned epoch_ = base::fork_epoch();
  synchronous synchronous_ = synchronous::unknown;
  synchronous usual_ = synchronous::full;  ///< for what ends with its process
  token_ceiling tokens_;
  bool wal_ = false;
  std::uint64_t wal_size_ = 0;  ///< in bytes, when the statement began
  boot_time_point wait_until_;
  boot_time_point deadline_;
  std::string identity_;
  std::unordered_map<std::string, prepared> prepared_;
};

}  // namespace rowlock::backend::sqlite
