#include <soci/postgresql/soci-postgresql.h>
#include <soci/session.h>

#include <rowlock/error.hpp>
#include <rowlock/postgresql.hpp>
#include <utility>

#include "backend/postgresql/connect.hpp"
#include "backend/soci/seat.hpp"

namespace rowlock::backend::soci {
namespace {

namespace pg = backend::postgresql;

class postgresql_seat final : public seat {
 public:
  // Not dynamic_cast: the type's information is not exported.
  explicit postgresql_seat(::soci::session& s)
      : session_(static_cast<::soci::postgresql_session_backend&>(*s.get_backend())),
        conninfo_(session_.connectionParameters_.get_connect_string()),
        native_(rowlock::postgresql::source(conninfo_).implementation()) {}

  source& native() noexcept override { return *native_; }

  // Without a connection SOCI's calls fail as with a broken one.
  void vacate() noexcept override { PQfinish(std::exchange(session_.conn_, nullptr)); }

  // As SOCI connects, but with a deadline.
  void restore(boot_time_point deadline) noexcept override {
    try {
      auto c = pg::connect(conninfo_, "", deadline, pg::manner::as_given);
      if (pg::run(c.get(), "SET extra_float_digits = 3", deadline)) session_.conn_ = c.release();
    } catch (std::exception const&) {
      // The program's next use of the session fails.
    }
  }

 private:
  ::soci::postgresql_session_backend& session_;
  std::string conninfo_;
  std::shared_ptr<source> native_;
};

}  // namespace

std::unique_ptr<seat> make_postgresql_seat(::soci::session& s) {
  return std::make_unique<postgresql_seat>(s);
}

}  // namespace rowlock::backend::soci
