#include <fmt/format.h>

#include <rowlock/error.hpp>
#include <rowlock/postgresql.hpp>

#include "backend/backend.hpp"
#include "backend/postgresql/connect.hpp"
#include "backend/postgresql/dialect.hpp"
#include "backend/postgresql/errors.hpp"
#include "backend/postgresql/session.hpp"

namespace rowlock::backend::postgresql {
namespace {

class conninfo_source final : public source {
 public:
  explicit conninfo_source(std::string conninfo)
      : conninfo_(std::move(conninfo)),
        words_(take_own_words(conninfo_)),
        description_(describe_conninfo(conninfo_)) {
    initialize_driver();
  }

  std::unique_ptr<connection> connect(boot_time_point deadline) override {
    return std::make_unique<session>(postgresql::connect(conninfo_, description_, deadline), description_,
                                     deadline, words_);
  }
  dialect const& sql() const noexcept override { return postgresql_dialect(); }
  int best_connections() const noexcept override { return 4; }
  std::string describe() const override { return description_; }

 private:
  std::string conninfo_;
  own_words words_;
  std::string description_;
};

class function_source final : public source {
 public:
  explicit function_source(std::function<PGconn*()> open) : open_(std::move(open)) {
    if (!open_)
      throw error(errc::invalid_argument, "the function that opens PostgreSQL connections is empty");
    initialize_driver();
  }

  std::unique_ptr<connection> connect(boot_time_point deadline) override {
    auto c = open();
    auto where = fmt::format("postgresql host={} port={} dbname={} user={}", text(PQhost(c.get())),
                             text(PQport(c.get())), text(PQdb(c.get())), text(PQuser(c.get())));
    if (PQstatus(c.get()) != CONNECTION_OK) throw connect_error(c.get(), where);
    if (PQtransactionStatus(c.get()) != PQTRANS_IDLE)
      throw error(errc::invalid_argument,
                  where + ": the connection that was handed over is inside a transaction");
    return std::make_unique<session>(std::move(c), std::move(where), deadline);
  }
  dialect const& sql() const noexcept override { return postgresql_dialect(); }
  int best_connections() const noexcept override { return 4; }
  std::string describe() const override { return "postgresql, connections opened by the program"; }
  bool uses_the_programs() const noexcept override { return true; }

 private:
  static char const* text(char const* t) { return t == nullptr ? "" : t; }

  native_connection open() const {
    try {
      if (native_connection c{open_()}) return c;
    } catch (std::exception const& e) {
      throw error(errc::unreachable,
                  fmt::format("the function that opens PostgreSQL connections threw: {}", e.what()));
    } catch (...) {
      throw error(errc::unreachable, "the function that opens PostgreSQL connections threw");
    }
    throw error(errc::unreachable, "the function that opens PostgreSQL connections returned null");
  }

  std::function<PGconn*()> open_;
};

}  // namespace
}  // namespace rowlock::backend::postgresql

namespace rowlock::postgresql {

source::source(std::string conninfo)
    : connection_source(std::make_shared<backend::postgresql::conninfo_source>(std::move(conninfo))) {}

source::source(std::function<PGconn*()> open)
    : connection_source(std::make_shared<backend::postgresql::function_source>(std::move(open))) {}

}  // namespace rowlock::postgresql
