#pragma once
// rowlock's own session on a MySQL or MariaDB server.

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/backend.hpp"
#include "backend/fresh_look.hpp"
#include "backend/mysql/channel.hpp"
#include "backend/mysql/errors.hpp"
#include "backend/mysql/own_socket.hpp"
#include "backend/mysql/parameters.hpp"
#include "base/fork_epoch.hpp"

namespace rowlock::backend::mysql {

class session final : public connection {
 public:
  /// Sets the connection up, in one round trip, or three on Galera. `socket`: the connection's; null if
  /// unknown. `where`: for messages.
  session(std::unique_ptr<channel>, std::shared_ptr<own_socket> socket, std::string where,
          boot_time_point deadline);
  ~session() override;
  session(session const&) = delete;
  session& operator=(session const&) = delete;

  /// Without a socket, waits as long as the connection's own timeout, also beyond `deadline`: the driver
  /// can't change it.
  result execute(statement const&, std::span<value const> parameters, boot_time_point deadline) override;
  /// Sent as text, nothing is prepared. Does not tell the affected rows (not every driver knows them).
  std::vector<result> execute_at_once(std::span<step const>, boot_time_point deadline) override;
  void script(std::string_view sql, boot_time_point deadline) override;

  /// Each wait in the server lasts a second at most, and begins again: `stop` takes effect within two
  /// seconds. The server's limit for statements bounds a rest below a second.
  result wait_for_row(statement const&, std::span<value const> parameters, boot_time_point deadline,
                      std::chrono::nanoseconds reply_timeout, std::stop_token stop) override;
  void expect_row_locks() const override;
  /// Galera keeps user locks within a node, Group Replication within a member.
  bool has_queues() const noexcept override { return !galera_ && !several_primaries_; }
  queue_entry enter_queue(table_names const&, std::string const& name, std::string const& who,
                          boot_time_point deadline, std::chrono::nanoseconds reply_timeout,
                          std::stop_token stop) override;
  bool leave_queue(boot_time_point deadline) override;
  /// One round trip for a lease, whose lock_release leaves the wait queue. Otherwise two.
  left_queue execute_and_leave_queue(statement const&, std::span<value const> parameters,
                                     boot_time_point deadline) override;
  bool usable() const noexcept override { return native_ != nullptr && !forked(); }
  /// Without a socket, a round trip if the session was idle for a second.
  bool alive() override;
  std::string const& server_identity() const noexcept override { return identity_; }
  session_facts facts() const override;
  void close() noexcept override;

  /// False on a read-only server, or a Galera node without its cluster.
  bool takes_writes() const noexcept { return !read_only_; }
  /// Empty if the connection is not encrypted.
  std::string cipher(boot_time_point deadline);

 private:
  struct prepared {
    std::string sql;
    marked_text text;
    bool as_text = false;  ///< it can't be prepared
    std::unique_ptr<prepared_statement> native;
  };

  bool forked() const noexcept;
  void abandon() noexcept;
  void set_up(boot_time_point deadline);
  std::vector<result> execute_one_by_one(std::span<step const>, boot_time_point deadline);
  void read_facts(row_list const& variables, row_list const& database);
  void begin(std::string const& what, boot_time_point deadline);
  /// While the scope lives, the connection ends at the deadline, or after `most_bytes`.
  std::optional<wire_watch::scope> until(boot_time_point deadline,
                                         std::uint64_t most_bytes = most_reply_bytes);
  prepared& prepare(statement const&);
  void bind_to(prepared&, statement const&, std::span<value const> parameters);
  result run(statement const&, std::span<value const> parameters, boot_time_point deadline);
  void roll_back(boot_time_point deadline) noexcept;
  std::string why_ended() const;
  /// Empty unless the server is a Galera node without a cluster.
  std::string why_cut_off();
  [[noreturn]] void refuse(refusal const&, stake, std::string const& what);
  [[noreturn]] void give_up(std::string const& what, std::string const& why);
  result wait_once(statement const&, std::span<value const> parameters, boot_time_point deadline,
                   std::chrono::nanoseconds reply_timeout);

  std::unique_ptr<channel> native_;
  std::shared_ptr<own_socket> socket_;
  fresh_look look_;
  std::unordered_map<std::string, prepared> prepared_;
  std::string where_;
  std::string identity_;
  unsigned epoch_ = base::fork_epoch();
  boot_time_point last_used_{};
  boot_time_point deadline_ = boot_time_point::max();
  bool may_not_be_silent_ = false;  ///< wait_timeout is longest_silence
  bool mariadb_ = false;
  bool read_only_ = false;
  bool galera_ = false;
  bool several_primaries_ = false;
  std::string queue_;  ///< the last wait queue, an SQL expression
};

}  // namespace rowlock::backend::mysql
