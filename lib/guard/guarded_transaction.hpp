#pragma once
// The statements of rowlock inside the program's own transaction, and their order. The manager's sessions ask
// other questions meanwhile. lib/doc/guard.md says which other transactions can come in between.

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/caller_connection.hpp"
#include "guard/required_lock.hpp"
#include "manager/manager.hpp"
#include "strategy/quarantine.hpp"
#include "strategy/row_lock.hpp"

namespace rowlock::guard {

/// Used by one thread at a time.
class guarded_transaction {
 public:
  /// How long lock() waits for a locked row.
  struct wait_policy {
    bool in_server = false;  ///< as long as the session's settings allow
    boot_time_point until;   ///< otherwise
  };

  guarded_transaction(std::shared_ptr<managing::manager>, std::unique_ptr<backend::caller_connection>);

  void require(std::vector<required_lock> locks);
  /// Records with the transaction's COMMIT that the work is done.
  void done(required_lock const&, std::chrono::milliseconds keep_for, std::string const& result);
  /// For a lock that other databases granted.
  void admit(std::string const& name, fencing_token);
  /// require() and COMMIT. If it throws, the transaction is rolled back.
  void execute_commit(std::vector<required_lock> locks);
  /// @return false if a row could not be locked in time
  [[nodiscard]] bool lock(std::span<std::string_view const> names, wait_policy const&);
  std::optional<detached_lock> insert(std::string const& name, std::chrono::milliseconds ttl,
                                      std::string const& note);

 private:
  enum class guarded { yes, row_is_locked_or_gone, old_snapshot };

  managing::engine& engine() const { return manager_->parts(); }
  backend::result run(std::string const& statement, std::vector<backend::value> const& parameters);
  boot_time_point reply_deadline() const { return engine().reply_deadline(); }

  void expect_this_database();
  static void sort(std::vector<required_lock>&);
  /// Checks without the transaction.
  void expect_requirable_here(required_lock const&);
  void require_one(required_lock const&);
  /// Repeats `statement` until it has changed the lock's row.
  void depend_on(required_lock const&, char const* statement, std::vector<backend::value> const& parameters);
  /// Whether this transaction sees the record of its own, or another's, done().
  bool sees_record(holding::hold&);
  backend::value time_of_manager();
  void commit_guarded(std::vector<required_lock> const&);
  guarded attempt(holding::grant_facts const&, char const* statement,
                  std::vector<backend::value> const& parameters);
  [[noreturn]] void too_old(std::string const& name);
  bool lock_one(std::string const& name, wait_policy const&);
  void refuse_own_insert(std::string const& name);
  bool only_looked_at(std::string const& name);
  bool lock_anchor(std::string const& name, wait_policy const&);
  void refuse_level(std::string const& name);
  fencing_token draw_token(backend::connection&, std::string const& name);
  fencing_token draw_token(std::string const& name);
  /// Empty: the database grants no leases of `ttl`.
  std::optional<fencing_token> draw_if_granting(std::string const& name, std::chrono::milliseconds ttl);
  /// The entry of the tokens' table for expect_fresh().
  std::string entry_to_draw(std::string const& name);
  void expect_fresh(std::string const& name, std::string const& entry, fencing_token drawn);
  bool is_free(std::string const& name);
  strategies::quarantine quarantine(std::chrono::milliseconds ttl);
  void undo_insert(std::string const& name);
  std::optional<detached_lock> insert_row(managing::lock_spec const&);

  std::shared_ptr<managing::manager> manager_;
  std::unique_ptr<backend::caller_connection> caller_;
  strategies::row_lock const anchors_;
  bool right_database_ = false;
};

}  // namespace rowlock::guard
