#include "backend/postgresql/caller_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <rowlock/error.hpp>
#include <rowlock/postgresql_transaction.hpp>
#include <set>
#include <utility>

#include "backend/postgresql/dialect.hpp"
#include "backend/postgresql/errors.hpp"
#include "backend/postgresql/native.hpp"
#include "backend/postgresql/values.hpp"
#include "base/random_id.hpp"

namespace rowlock::backend::postgresql {
namespace {

bool is_ascii(value const& v) {
  auto const* text = std::get_if<std::string>(&v);
  return text == nullptr ||
         std::all_of(text->begin(), text->end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

class caller_session final : public caller_connection {
 public:
  caller_session(PGconn* c, bool keep_prepared) : native_(c), keep_prepared_(keep_prepared) {
    if (c == nullptr) throw error(errc::invalid_argument, "the PGconn of a transaction is null");
  }

  dialect const& sql() const noexcept override { return postgresql_dialect(); }
  std::string describe() const override { return "postgresql, the program's own connection"; }

  void expect_transaction() override {
    if (PQstatus(native_) != CONNECTION_OK) refuse(errc::unreachable, "the connection is lost");
    if (PQpipelineStatus(native_) != PQ_PIPELINE_OFF)
      refuse(errc::unsupported, "the connection is in pipeline mode: leave it before (PQexitPipelineMode)");
    switch (PQtransactionStatus(native_)) {
      case PQTRANS_INTRANS:
        return;
      case PQTRANS_INERROR:
        refuse(errc::transaction_ended, "an earlier error has aborted the transaction: roll it back");
      case PQTRANS_ACTIVE:
        refuse(errc::failed, "the replies of an earlier statement have not been read (PQgetResult)");
      default:
        refuse(errc::not_in_transaction, "the connection is in no transaction: BEGIN before");
    }
  }

  // Sends SAVEPOINT, the statement and RELEASE in one round trip. Overwrites the unnamed prepared statement,
  // as any query does. Named ones stay only if allowed.
  result execute(statement const& s, std::span<value const> parameters) override {
    try {
      return execute(s, parameters, keep_prepared_);
    } catch (error const& e) {
      bool const changed = e.sqlstate() == "0A000";  // its columns' types changed
      if (!keep_prepared_ || !(changed || e.sqlstate() == "26000" || e.sqlstate() == "42P05")) throw;
      if (changed) keep_prepared_ = false;
      return execute(s, parameters, false);
    }
  }

  bool commit_if(statement_book const& book, std::span<std::vector<value> const> locks) override {
    expect_transaction();
    auto const& guard = book.at("at_once_guard");
    one_text sent(*this);
    sent.add("SAVEPOINT ", statement_savepoint);
    for (auto const& which : locks) sent.add(guard, which, keep_prepared_);
    sent.add("COMMIT");
    auto const answers = sent.send();
    // COMMIT might have run.
    if (!answers)
      throw error(errc::in_doubt, fmt::format("{}: COMMIT: {}", describe(), sent.why_lost()), "commit", "",
                  0);
    if (answers->size() < sent.size()) {  // COMMIT did not run
      undo(statement_savepoint);
      return false;
    }
    expect_committed(answers->back().get(), "");
    return true;
  }

  void rollback() noexcept override {
    if (PQstatus(native_) != CONNECTION_OK || PQpipelineStatus(native_) != PQ_PIPELINE_OFF) return;
    auto const now = PQtransactionStatus(native_);
    if (now == PQTRANS_INTRANS || now == PQTRANS_INERROR)
      native_result const dropped(PQexec(native_, "ROLLBACK"));
  }

  void set_savepoint() override { run(fmt::format("SAVEPOINT {}", savepoint)); }
  void release_savepoint() override { run(fmt::format("RELEASE SAVEPOINT {}", savepoint)); }
  void undo_to_savepoint() override { undo(savepoint); }

  void commit() override {
    if (PQstatus(native_) != CONNECTION_OK)
      refuse(errc::unreachable, "COMMIT: the connection was lost before, and the transaction with it");
    if (PQtransactionStatus(native_) == PQTRANS_IDLE)
      refuse(errc::not_in_transaction, "COMMIT: the connection is in no transaction");
    bool const aborted = PQtransactionStatus(native_) == PQTRANS_INERROR;
    native_result const r(PQexec(native_, "COMMIT"));
    if (PQstatus(native_) != CONNECTION_OK || !r)
      throw error(errc::in_doubt,
                  fmt::format("{}: COMMIT: {}", describe(), one_line(PQerrorMessage(native_))), "commit", "",
                  0);
    expect_committed(r.get(), aborted ? ": an earlier error had aborted the transaction" : "");
  }

 private:
  /// Statements sent as one text. The server skips everything after a failed one. (Not libpq's pipeline mode,
  /// which a connection lost in it never leaves.)
  class one_text {
   public:
    explicit one_text(caller_session& s) : of_(s) {}

    void add(std::string_view verb, std::string_view name = {}) {
      steps_.push_back({kind::text, fmt::format("{}{}", verb, name), ""});
    }
    /// @return the index of its result
    std::size_t add(statement const& s, std::span<value const> parameters, bool prepared) {
      if (!std::all_of(parameters.begin(), parameters.end(), is_ascii)) of_.expect_utf8(s.name);
      auto const values = literals(of_.native_, parameters, s.name);
      if (!prepared) {
        steps_.push_back({kind::text, with_literals(s.sql, values), ""});
      } else {
        auto const name = name_of(s);
        if (!of_.prepared_.contains(name) && !prepares(name))
          steps_.push_back({kind::prepare, fmt::format("PREPARE {} AS {}", name, s.sql), name});
        auto const list = values.empty() ? "" : fmt::format("({})", fmt::join(values, ", "));
        steps_.push_back({kind::execute, fmt::format("EXECUTE {}{}", name, list), name});
      }
      return steps_.size() - 1;
    }

    /// Throws nothing after sending. @return results up to the first failure, or nothing if the connection
    /// was lost
    std::optional<std::vector<native_result>> send() {
      auto* const c = of_.native_;
      std::string text;
      for (auto const& one : steps_) text += one.sql + "\n;";
      std::vector<native_result> results;
      if (PQsendQuery(c, text.c_str()) == 1)
        while (native_result next{PQgetResult(c)}) results.push_back(std::move(next));
      auto const refused =
          std::find_if(results.begin(), results.end(), [](auto const& one) { return failed(one.get()); });
      if (PQstatus(c) != CONNECTION_OK || (refused == results.end() && results.size() != size())) {
        // The server's last message says more than libpq's.
        why_ = refused != results.end() ? PQresultErrorMessage(refused->get()) : PQerrorMessage(c);
        return std::nullopt;
      }
      for (std::size_t i = 0; i < results.size(); ++i) note(steps_[i], results[i].get());
      return results;
    }
    std::size_t size() const noexcept { return steps_.size(); }
    std::string why_lost() const { return one_line(why_); }

   private:
    enum class kind { text, prepare, execute };
    struct step {
      kind what;
      std::string sql;
      std::string name;
    };

    bool prepares(std::string const& name) const {
      return std::any_of(steps_.begin(), steps_.end(), [&](auto const& one) { return one.name == name; });
    }
    /// Another view of the connection can have prepared the same (42P05). The program or a pooler can have
    /// dropped it (26000).
    void note(step const& s, PGresult const* r) {
      auto const state = sqlstate_of(r);
      if (s.what == kind::prepare && (!failed(r) || state == "42P05")) of_.prepared_.insert(s.name);
      if (s.what == kind::execute && state == "26000") of_.prepared_.erase(s.name);
    }

    caller_session& of_;
    std::vector<step> steps_;
    std::string why_;
  };

  static std::string_view sqlstate_of(PGresult const* r) {
    char const* const state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    return state == nullptr ? "" : state;
  }

  result execute(statement const& s, std::span<value const> parameters, bool prepared) {
    one_text sent(*this);
    sent.add("SAVEPOINT ", statement_savepoint);
    auto const place = sent.add(s, parameters, prepared);
    sent.add("RELEASE SAVEPOINT ", statement_savepoint);
    auto const results = sent.send();
    if (!results) lost(s.name, sent.why_lost());
    auto const* const last = results->back().get();
    if (!failed(last)) return decode(results->at(place).get());
    auto const refused = statement_error(last, s.name, describe());
    // Fails, too, if SAVEPOINT itself failed.
    undo(statement_savepoint);
    // Above READ COMMITTED: the row was changed after the snapshot.
    if (refused.sqlstate() == "40001")
      throw error(errc::snapshot_too_old, refused.what(), s.name, refused.sqlstate(), 0);
    throw refused;
  }

  /// One name for the same text in all views of this process, which no other process can know.
  static std::string name_of(statement const& s) {
    static auto const mine = std::hash<std::string>()(base::random_id());
    return fmt::format("rowlock_{:x}_{:x}", mine, std::hash<std::string>()(s.sql));
  }

  void expect_committed(PGresult const* r, std::string_view why_not) const {
    if (PQresultStatus(r) != PGRES_COMMAND_OK) throw statement_error(r, "commit", describe());
    // libpq takes no const result. NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
    if (std::string_view(PQcmdStatus(const_cast<PGresult*>(r))) != "COMMIT")
      throw error(errc::transaction_ended, fmt::format("{}: COMMIT has rolled back{}", describe(), why_not),
                  "commit", "25P02", 0);
  }

  /// Names are compared byte for byte, so the server must not convert them.
  void expect_utf8(std::string const& what) const {
    std::string_view const encoding = pg_encoding_to_char(PQclientEncoding(native_));
    if (encoding != "UTF8" && encoding != "SQL_ASCII")
      refuse(errc::unsupported,
             fmt::format("{}: client_encoding is {}, and the name is not ASCII: use UTF8", what, encoding));
  }

  void run(std::string const& text) {
    native_result const r(PQexec(native_, text.c_str()));
    if (PQstatus(native_) != CONNECTION_OK || !r) lost(text, PQerrorMessage(native_));
    if (PQresultStatus(r.get()) != PGRES_COMMAND_OK) throw statement_error(r.get(), text, describe());
  }

  void undo(std::string_view name) {
    native_result const r(
        PQexec(native_, fmt::format("ROLLBACK TO SAVEPOINT {0}; RELEASE SAVEPOINT {0}", name).c_str()));
    if (PQstatus(native_) != CONNECTION_OK || !r) lost(std::string(name), PQerrorMessage(native_));
    if (PQtransactionStatus(native_) != PQTRANS_INTRANS)
      refuse(errc::transaction_ended, "an error has aborted the transaction: roll it back");
  }

  [[noreturn]] void refuse(errc code, std::string const& why) const {
    throw error(code, fmt::format("{}: {}", describe(), why));
  }
  [[noreturn]] void lost(std::string const& what, std::string const& why) const {
    throw error(errc::unreachable,
                fmt::format("{}: {}: {}; the transaction is gone with the connection", describe(), what,
                            one_line(why.empty() ? PQerrorMessage(native_) : why)),
                what, "", 0);
  }

  PGconn* native_;
  bool keep_prepared_;
  std::set<std::string> prepared_;
};

}  // namespace

std::unique_ptr<caller_connection> borrow(PGconn* c, bool keep_prepared) {
  return std::make_unique<caller_session>(c, keep_prepared);
}

}  // namespace rowlock::backend::postgresql

namespace rowlock::postgresql::inline ROWLOCK_ABI_NAMESPACE {

transaction::transaction(lock_manager& manager, PGconn* connection, transaction_options options)
    : basic_transaction(manager, backend::postgresql::borrow(connection, options.keep_prepared)) {}

void execute_commit(PGconn* connection) { backend::postgresql::borrow(connection)->commit(); }

}  // namespace rowlock::postgresql::inline ROWLOCK_ABI_NAMESPACE
