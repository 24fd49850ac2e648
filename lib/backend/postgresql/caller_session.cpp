#include "backend/postgresql/caller_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <rowlock/error.hpp>
#include <rowlock/postgresql_transaction.hpp>
#include <utility>

#include "backend/postgresql/dialect.hpp"
#include "backend/postgresql/errors.hpp"
#include "backend/postgresql/native.hpp"
#include "backend/postgresql/values.hpp"

namespace rowlock::backend::postgresql {
namespace {

bool is_ascii(value const& v) {
  auto const* text = std::get_if<std::string>(&v);
  return text == nullptr ||
         std::all_of(text->begin(), text->end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

class caller_session final : public caller_connection {
 public:
  explicit caller_session(PGconn* c) : native_(c) {
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

  // The statement between SAVEPOINT and RELEASE, in one round trip. libpq's unnamed prepared statement is
  // overwritten, as by any other statement; nothing with a name stays behind.
  result execute(statement const& s, std::span<value const> parameters) override {
    text_parameters const texts(parameters, s.name);
    if (!std::all_of(parameters.begin(), parameters.end(), is_ascii)) expect_utf8(s.name);
    bool const sent = PQenterPipelineMode(native_) == 1 && send("SAVEPOINT ", statement_savepoint) &&
                      PQsendQueryParams(native_, s.sql.c_str(), texts.count(), nullptr, texts.data(), nullptr,
                                        nullptr, 0) == 1 &&
                      send("RELEASE SAVEPOINT ", statement_savepoint) && PQpipelineSync(native_) == 1;
    auto r =
        sent ? collect_pipeline(native_, boot_time_point::max()) : reply{reply::outcome::lost, {}, false, ""};
    if (r.how != reply::outcome::complete || PQexitPipelineMode(native_) != 1) lost(s.name, r.message);
    PGresult const* rows = nullptr;
    for (auto const& one : r.results) {
      auto const status = PQresultStatus(one.get());
      if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
        if (&one == &r.results[1]) rows = one.get();
        continue;
      }
      auto const refused = statement_error(one.get(), s.name, describe());
      if (PQstatus(native_) != CONNECTION_OK) lost(s.name, one_line(PQresultErrorMessage(one.get())));
      // (If it was SAVEPOINT itself that failed, there is none, and this fails, too.)
      undo(statement_savepoint);
      // Above READ COMMITTED: the row was changed since the snapshot.
      if (refused.sqlstate() == "40001")
        throw error(errc::snapshot_too_old, refused.what(), s.name, refused.sqlstate(), 0);
      throw refused;
    }
    return decode(rows);
  }

  void set_savepoint() override { run(fmt::format("SAVEPOINT {}", savepoint)); }
  void release_savepoint() override { run(fmt::format("RELEASE SAVEPOINT {}", savepoint)); }
  void undo_to_savepoint() override { undo(savepoint); }

  void commit() override {
    if (PQtransactionStatus(native_) == PQTRANS_IDLE)
      refuse(errc::not_in_transaction, "COMMIT: the connection is in no transaction");
    bool const aborted = PQtransactionStatus(native_) == PQTRANS_INERROR;
    native_result const r(PQexec(native_, "COMMIT"));
    if (PQstatus(native_) != CONNECTION_OK || !r)
      throw error(errc::in_doubt,
                  fmt::format("{}: COMMIT: {}", describe(), one_line(PQerrorMessage(native_))), "commit", "",
                  0);
    if (PQresultStatus(r.get()) != PGRES_COMMAND_OK) throw statement_error(r.get(), "commit", describe());
    if (std::string_view(PQcmdStatus(r.get())) != "COMMIT")
      throw error(errc::transaction_ended,
                  fmt::format("{}: COMMIT has rolled back{}", describe(),
                              aborted ? ": an earlier error had aborted the transaction" : ""),
                  "commit", "25P02", 0);
  }

 private:
  bool send(std::string_view verb, std::string_view name) {
    auto const text = fmt::format("{}{}", verb, name);
    return PQsendQueryParams(native_, text.c_str(), 0, nullptr, nullptr, nullptr, nullptr, 0) == 1;
  }

  /// Names are compared byte for byte: the server must not take them for another encoding's.
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
};

}  // namespace

std::unique_ptr<caller_connection> borrow(PGconn* c) { return std::make_unique<caller_session>(c); }

}  // namespace rowlock::backend::postgresql

namespace rowlock::postgresql::inline ROWLOCK_ABI_NAMESPACE {

transaction::transaction(lock_manager& manager, PGconn* connection)
    : basic_transaction(manager, backend::postgresql::borrow(connection)) {}

void execute_commit(PGconn* connection) { backend::postgresql::borrow(connection)->commit(); }

}  // namespace rowlock::postgresql::inline ROWLOCK_ABI_NAMESPACE
