#pragma once
// A session of rowlock's own. Behind a pooler in transaction mode each statement is a transaction on any of
// the server's sessions: BEGIN, the settings as SET LOCAL, the statement and COMMIT, in one round trip.
// Nothing is set, prepared or kept outside of it.

#include <rowlock/error.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/backend.hpp"
#include "backend/fresh_look.hpp"
#include "backend/postgresql/native.hpp"
#include "backend/postgresql/own_words.hpp"

namespace rowlock::backend::postgresql {

class text_parameters;

inline constexpr char const* only_local_text =
    "the wait for the synchronous standby was cancelled: the commit may be lost at a failover";

inline constexpr char const* no_answer_text = "what answers there does not speak PostgreSQL's protocol";

class session final : public connection {
 public:
  /// Takes over a connection and sets it up. `where` is for messages.
  session(native_connection, std::string where, boot_time_point deadline, own_words = {});

  result execute(statement const&, std::span<value const> parameters, boot_time_point deadline) override;
  std::vector<result> execute_at_once(std::span<step const>, boot_time_point deadline) override;
  void execute_each(std::span<step const>, boot_time_point deadline) override;
  void script(std::string_view sql, boot_time_point deadline) override;
  /// One round trip: BEGIN, the wait's limit, the statement. A cancelled wait ends the session, because a
  /// cancel request can arrive late and hit the next statement. Refused behind a pooler: the open transaction
  /// would keep one of its few sessions.
  result wait_for_row(statement const&, std::span<value const> parameters, boot_time_point deadline,
                      std::chrono::nanoseconds reply_timeout, std::stop_token stop) override;
  bool has_queues() const noexcept override { return pooling_ != pooling::transaction; }
  queue_entry enter_queue(table_names const&, std::string const& name, std::string const& who,
                          boot_time_point until, std::chrono::nanoseconds reply_timeout,
                          std::stop_token stop) override;
  bool leave_queue(boot_time_point deadline) override;
  left_queue execute_and_leave_queue(statement const&, std::span<value const> parameters,
                                     boot_time_point deadline) override;
  bool usable() const noexcept override;
  bool alive() override;
  std::string const& server_identity() const noexcept override { return identity_; }
  std::optional<std::string> find_schema(std::string const& table, bool or_new,
                                         boot_time_point deadline) override;
  session_facts facts() const override;
  void close() noexcept override { channel_.close(); }

 private:
  struct prepared {
    std::string sql;
    std::string server_name;
  };
  /// What a lost reply puts in doubt: nothing before a statement was sent.
  enum class stake { nothing, statement };

  void set_up(boot_time_point deadline);
  void meet(PGresult const* who);
  std::vector<std::string> usual_path(boot_time_point deadline);
  void begin(std::string const& what, boot_time_point deadline);
  /// Whether the commit of what begins with `sql` is flushed.
  bool is_flushed(std::string_view sql) const noexcept;
  /// Before a transaction. Another round trip if it is not as before.
  void set_flushed(bool wanted, boot_time_point deadline);
  prepared const& prepare(statement const&, boot_time_point deadline);
  /// The server's names for BEGIN and the wait's limit, and the statement.
  struct prepared_wait {
    std::string begin;
    std::string limit;
    prepared what;
  };
  static statement const& begin_statement();
  prepared_wait prepare_wait(statement const&, boot_time_point deadline);
  std::optional<bool> has_left_queue(boot_time_point deadline);
  result wait_once(prepared_wait const&, std::string const& what, std::span<value const> parameters,
                   boot_time_point deadline, std::chrono::nanoseconds reply_timeout, base::stop_event const&);
  std::string prepared_enter(table_names const&, boot_time_point deadline);
  [[noreturn]] void end_wait(errc, std::string const& what, std::string const& why);
  void roll_back() noexcept;
  native_result run_prepared(statement const&, std::span<value const> parameters, boot_time_point deadline);
  native_result run_pooled(statement const&, std::span<value const> parameters, boot_time_point deadline);
  std::vector<native_result> run_transaction(std::span<step const>, boot_time_point deadline);
  std::vector<std::string> names_of(std::span<step const>, boot_time_point deadline);
  bool send_transaction(std::span<step const>, std::span<text_parameters const>,
                        std::span<std::string const> names);
  std::vector<native_result> finish(bool sent, std::string const& what, stake, boot_time_point deadline);
  [[noreturn]] void refuse(PGresult const*, std::string const& what, stake);
  [[noreturn]] void give_up(stake, std::string const& what, std::string const& why);

  channel channel_;
  fresh_look look_;
  std::string where_;
  pooling pooling_;
  bool flushes_all_;
  bool flushes_now_ = true;
  std::string flushed_level_;  ///< of synchronous_commit
  std::string identity_;
  std::string local_settings_;     ///< behind a pooler: for each transaction
  std::string local_unflushed_;    ///< the same, of one that need not be flushed
  std::vector<std::string> path_;  ///< the schemas of the user's own search path
  std::unordered_map<std::string, prepared> prepared_;
  unsigned prepared_count_ = 0;
  std::vector<value> queue_;  ///< name and table of the last queue
};

}  // namespace rowlock::backend::postgresql
