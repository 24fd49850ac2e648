#include "backend/mysql/caller_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <rowlock/error.hpp>
#include <set>
#include <utility>

#include "backend/mysql/dialect.hpp"
#include "backend/mysql/errors.hpp"
#include "backend/mysql/parameters.hpp"
#include "base/random_id.hpp"

namespace rowlock::backend::mysql {
namespace {

constexpr int deadlock = 1213;            // or a failed certification in Galera
constexpr int changed_since_read = 1020;  // MariaDB's innodb_snapshot_isolation
constexpr int unknown_variable = 1193;
constexpr int out_of_sync = 2014;
constexpr int syntax_error = 1064;  // from a supposed MariaDB without compound statements
constexpr int unknown_prepared = 1243;
// ER_UNSUPPORTED_PS, ER_MAX_PREPARED_STMT_COUNT_REACHED, ER_NOT_SUPPORTED_YET.
constexpr std::array can_not_be_prepared{1295, 1461, 1235, syntax_error};
constexpr int guard_refused = 30001;  // ours, by SIGNAL

// MariaDB's innodb_snapshot_isolation (default since 11.6) ends the transaction with 1020 if a locking read
// or a change meets a row newer than the transaction's or the statement's snapshot. A row that was only
// renewed is newer, too, and so is one that our other session wrote for this transaction. Our statements find
// an old snapshot themselves (lib/doc/guard.md). SET STATEMENT holds for this statement alone, whatever its
// outcome. MariaDB alone reads "/*M!", from the version that follows.
constexpr std::string_view without_snapshot_isolation =
    "/*M!100618 SET STATEMENT innodb_snapshot_isolation = OFF FOR */ ";

class caller_session final : public caller_connection {
 public:
  caller_session(std::unique_ptr<borrowed_channel> c, bool keep_prepared)
      : native_(std::move(c)), keep_prepared_(keep_prepared) {}

  dialect const& sql() const noexcept override { return mysql_dialect(); }
  std::string describe() const override { return "mysql, the program's own connection"; }

  void expect_transaction() override {
    bool const open = attempt("in a transaction?", [&] { return native_->in_transaction(); });
    if (!open)
      throw error(errc::not_in_transaction,
                  fmt::format("{}: it is in no transaction: START TRANSACTION before", describe()));
  }

  // InnoDB undoes a failed statement.
  result execute(statement const& s, std::span<value const> parameters) override {
    check_parameters(mark_parameters(s.sql), parameters, s.name);
    auto const text = with_literals(s.sql, parameters);
    return attempt(s.name, [&] { return run_on_newest(text); });
  }

  void set_savepoint() override { run(fmt::format("SAVEPOINT {}", savepoint)); }
  void release_savepoint() override { run(fmt::format("RELEASE SAVEPOINT {}", savepoint)); }
  void undo_to_savepoint() override {
    run(fmt::format("ROLLBACK TO SAVEPOINT {}", savepoint));
    release_savepoint();
  }

  void commit() override {
    try {
      native_->run("COMMIT");
    } catch (refusal const& e) {
      throw statement_error(e, stake::commit, "commit", describe());
    }
  }

  // MariaDB runs a compound statement without a procedure, and ends it with its first failure. So COMMIT runs
  // only if each guard has found its row.
  bool commit_if(statement_book const& book, std::span<std::vector<value> const> locks) override {
    if (!knows_compound_) knows_compound_ = attempt("version", [&] { return native_->is_mariadb(); });
    if (!*knows_compound_) return false;
    try {
      run_guarded_commit(book, locks);
      return true;
    } catch (refusal const& e) {
      if (e.native() == syntax_error) knows_compound_ = false;
      if (is_before_commit(e)) return false;
      // The guard was refused, or COMMIT, which then rolls back. Nothing was committed. The next statement
      // can be in another transaction.
      if (classify(e.native(), e.what(), stake::nothing) == errc::read_only) refuse(e, "commit");
      throw statement_error(e, stake::commit, "commit", describe());
    }
  }

  void rollback() noexcept override {
    try {
      native_->run("ROLLBACK");
    } catch (std::exception const&) {
      // The transaction is lost with the connection.
    }
  }

 private:
  /// Only COMMIT follows the last guard. In autocommit each statement would commit by itself, so the text
  /// checks that first. (As a sub-select of IF, guard_lock does not skip locked rows.) `fill` puts parameters
  /// into a text.
  template <class Fill>
  static std::string guarded_commit(statement_book const& book, std::span<std::vector<value> const> locks,
                                    Fill const& fill) {
    auto const refuse = fmt::format("SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {}; END IF; ", guard_refused);
    auto text =
        "BEGIN NOT ATOMIC DECLARE seen VARBINARY(255); IF @@in_transaction = 0 AND @@autocommit <> 0 THEN " +
        refuse;
    auto lock = book.at("guard_lock").sql;
    lock.insert(lock.find("FROM", lock.find(')')), "INTO seen ");
    auto const& require = book.at("guard_require").sql;
    for (auto const& which : locks)
      for (auto const& piece :
           {std::string("SET seen = NULL; "), lock, std::string("; IF NOT (seen <=> $2) THEN ") + refuse,
            require, std::string("; ")})
        text += fill(piece, which);
    return text + "COMMIT; END";
  }

  void run_guarded_commit(statement_book const& book, std::span<std::vector<value> const> locks) {
    if (keep_prepared_ && run_prepared_commit(book, locks)) return;
    run_on_newest(guarded_commit(book, locks, with_literals));
  }

  /// The server parses the text once. @return false if it can't be prepared: nothing was done
  bool run_prepared_commit(statement_book const& book, std::span<std::vector<value> const> locks) {
    std::string values;
    auto const text =
        guarded_commit(book, locks, [&](std::string const& piece, std::vector<value> const& which) {
          auto marked = mark_parameters(piece);
          for (auto const at : marked.order)
            values += (values.empty() ? " USING " : ", ") + with_literals("$1", std::span(&which[at], 1));
          return std::move(marked.sql);
        });
    on_newest(text, [&](std::string const& whole) {
      run_prepared(whole, values);
      return result{};
    });
    return keep_prepared_;
  }

  /// Clears keep_prepared_ if the text can't be prepared. A prepared one can be gone (the program's
  /// DEALLOCATE, a new session): EXECUTE reports this before it does anything.
  void run_prepared(std::string const& text, std::string const& values) {
    auto const name = name_of(text);
    auto const execute = fmt::format("EXECUTE {}{}", name, values);
    if (prepared_.contains(name)) try {
        native_->run(execute);
        return;
      } catch (refusal const& e) {
        if (e.native() != unknown_prepared) throw;
      }
    prepare(name, text);
    if (keep_prepared_) native_->run(execute);
  }

  /// Clears keep_prepared_ if the text can't be prepared, which harms no transaction. Any other error can
  /// have ended the transaction (a failed certification in Galera, a deadlock). With autocommit off, a text
  /// sent after it would begin another one, find its guard there, and commit that. The text has no backslash,
  /// whose meaning depends on the program's sql_mode.
  void prepare(std::string const& name, std::string text) {
    for (auto at = text.find('\''); at != text.npos; at = text.find('\'', at + 2)) text.insert(at, 1, '\'');
    try {
      native_->run(fmt::format("PREPARE {} FROM '{}'", name, text));
      prepared_.insert(name);
    } catch (refusal const& e) {
      if (e.native() == unknown_variable) throw;  // see on_newest()
      if (std::find(can_not_be_prepared.begin(), can_not_be_prepared.end(), e.native()) ==
          can_not_be_prepared.end())
        refuse(e, "prepare");
      keep_prepared_ = false;
    }
  }

  /// One name for each text in this process, unknown to other programs.
  static std::string name_of(std::string const& text) {
    static auto const mine = std::hash<std::string>()(base::random_id());
    return fmt::format("rowlock_{:x}_{:x}", mine, std::hash<std::string>()(text));
  }

  /// Errors that neither COMMIT nor a later statement reports, and that leave the transaction open. Any other
  /// one (KILL QUERY) can have come before COMMIT or after.
  static bool is_before_commit(refusal const& e) {
    if (e.native() == guard_refused || e.native() == syntax_error) return true;
    auto const what = classify(e.native(), e.what(), stake::nothing);
    return what == errc::access_denied || what == errc::schema_missing;
  }

  void run(std::string const& text) {
    attempt(text, [&] { return native_->run(text); });
  }

  result run_on_newest(std::string const& text) {
    return on_newest(text, [&](std::string const& whole) { return native_->run(whole); });
  }

  /// Without innodb_snapshot_isolation, where the server has it.
  template <class Call>
  result on_newest(std::string const& text, Call const& call) {
    if (has_snapshot_isolation_) {
      try {
        return call(std::string(without_snapshot_isolation) + text);
      } catch (refusal const& e) {
        if (e.native() != unknown_variable) throw;
        has_snapshot_isolation_ = false;  // nothing was done
      }
    }
    return call(text);
  }

  template <class Call>
  auto attempt(std::string const& what, Call const& call) -> decltype(call()) {
    try {
      return call();
    } catch (refusal const& e) {
      refuse(e, what);
    }
  }

  /// Decides whether the error ended the statement or the transaction.
  [[noreturn]] void refuse(refusal const& e, std::string const& what) {
    auto const problem = statement_error(e, stake::nothing, what, describe());
    auto const as = [&](errc reason, std::string_view hint) {
      return error(reason, fmt::format("{}{}", problem.what(), hint), what, e.sqlstate(), e.native());
    };
    if (e.native() == out_of_sync)
      throw as(errc::failed, "; the replies of an earlier statement have not been read to their end");
    if (problem.reason() == errc::unreachable)
      throw as(errc::unreachable, "; the transaction is gone with it");
    if (e.native() == deadlock || e.native() == changed_since_read || ended_by(e))
      throw as(errc::transaction_ended, "; the server has rolled the whole transaction back: begin it again");
    throw problem;
  }

  /// A lock wait's time-out ends the statement, or the transaction (innodb_rollback_on_timeout).
  bool ended_by(refusal const& e) noexcept {
    if (classify(e.native(), e.what(), stake::nothing) != errc::row_locked) return false;
    try {
      return as_int(native_->run("SELECT @@innodb_rollback_on_timeout").rows.at(0).at(0)) != 0;
    } catch (std::exception const&) {
      return true;  // no answer: assumed
    }
  }

  std::unique_ptr<borrowed_channel> native_;
  bool keep_prepared_;
  std::set<std::string> prepared_;
  bool has_snapshot_isolation_ = true;
  std::optional<bool> knows_compound_;  ///< empty: unknown
};

}  // namespace

std::unique_ptr<caller_connection> borrow(std::unique_ptr<borrowed_channel> c, bool keep_prepared) {
  return std::make_unique<caller_session>(std::move(c), keep_prepared);
}

}  // namespace rowlock::backend::mysql
