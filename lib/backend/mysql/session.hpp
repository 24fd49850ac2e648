#pragma once
// A session of the library's own on a MySQL or MariaDB server.

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

namespace rowlock::backend::mysql {

class session final : public connection {
 public:
  /// Takes over a connection and sets it up in one round trip, or two on some servers. `socket`: its own, if
  /// known, or null. `where` is for messages.
  session(std::unique_ptr<channel>, std::shared_ptr<own_socket> socket, std::string where,
          boot_time_point deadline);
  ~session() override;
  session(session const&) = delete;
  session& operator=(session const&) = delete;

  /// If the socket is not known, waits for a reply as many seconds as the connection was opened with, also
  /// beyond `deadline`: the driver can't be told anything else.
  result execute(statement const&, std::span<value const> parameters, boot_time_point deadline) override;
  /// As text: nothing is prepared. How many rows a step met is not told (not every driver knows).
  std::vector<result> execute_at_once(std::span<step const>, boot_time_point deadline) override;
  void script(std::string_view sql, boot_time_point deadline) override;

  /// Each wait in the server is a second at most, and then begun again; so `stop` is heard within two
  /// seconds. What is left of the time when less than a second is, is bounded by the server's limit for
  /// statements.
  result wait_for_row(statement const&, std::span<value const> parameters, boot_time_point deadline,
                      std::chrono::nanoseconds reply_timeout, std::stop_token stop) override;
  void expect_row_locks() const override;
  /// Galera keeps user locks within one node, and Group Replication within one member.
  bool has_queues() const noexcept override { return !galera_ && !several_primaries_; }
  queue_entry enter_queue(table_names const&, std::string const& name, std::string const& who,
                          boot_time_point deadline, std::chrono::nanoseconds reply_timeout,
                          std::stop_token stop) override;
  bool leave_queue(boot_time_point deadline) override;
  /// The release of a lease leaves the wait queue itself: see lock_release. For any other, two round trips.
  left_queue execute_and_leave_queue(statement const&, std::span<value const> parameters,
                                     boot_time_point deadline) override;
  bool usable() const noexcept override { return native_ != nullptr && !forked(); }
  /// If the socket is not known, this is a round trip once the session was not used for a second: nothing
  /// else shows its end.
  bool alive() override;
  std::string const& server_identity() const noexcept override { return identity_; }
  session_facts facts() const override;
  void close() noexcept override;

  /// False on a server that is set to take none.
  bool takes_writes() const noexcept { return !read_only_; }
  /// Cipher of the connection; empty if it is not encrypted.
  std::string cipher(boot_time_point deadline);

 private:
  struct prepared {
    std::string sql;
    marked_text text;
    bool as_text = false;  ///< of a kind that can't be prepared
    std::unique_ptr<prepared_statement> native;
  };

  bool forked() const noexcept;
  void abandon() noexcept;
  void set_up(boot_time_point deadline);
  std::vector<result> execute_one_by_one(std::span<step const>, boot_time_point deadline);
  void read_facts(row_list const& variables, row_list const& database);
  void begin(std::string const& what, boot_time_point deadline);
  /// While it lives, the connection ends at the deadline.
  std::optional<wire_watch::scope> until(boot_time_point deadline,
                                         std::uint64_t most_bytes = most_reply_bytes);
  prepared& prepare(statement const&);
  void bind_to(prepared&, statement const&, std::span<value const> parameters);
  result run(statement const&, std::span<value const> parameters, boot_time_point deadline);
  void roll_back(boot_time_point deadline) noexcept;
  std::string why_ended() const;  ///< of a session that is over
  /// Asks a node of Galera. Empty: it belongs to a cluster, or is none.
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
  pid_t process_;
  boot_time_point last_used_{};
  boot_time_point deadline_ = boot_time_point::max();  ///< of what was begun last
  bool may_not_be_silent_ = false;                     ///< wait_timeout is that of a transaction
  bool mariadb_ = false;
  bool read_only_ = false;
  bool galera_ = false;
  bool several_primaries_ = false;  ///< of Group Replication
  std::string queue_;               ///< the last one's name, an expression in SQL
};

}  // namespace rowlock::backend::mysql
