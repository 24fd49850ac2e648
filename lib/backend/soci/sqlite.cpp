#include <rowlock/sqlite.hpp>

#include "backend/soci/seat.hpp"
#include "backend/soci/sqlite_path.hpp"

namespace rowlock::backend::soci {
namespace {

// Connections to a file cost the file nothing, so ours is opened beside the session's, which stays as it is.
class sqlite_seat final : public seat {
 public:
  explicit sqlite_seat(::soci::session& s)
      : native_(rowlock::sqlite::source(sqlite_path(s)).implementation()) {}
  source& native() noexcept override { return *native_; }
  void vacate() noexcept override {}
  void restore(boot_time_point) noexcept override {}

 private:
  std::shared_ptr<source> native_;
};

}  // namespace

std::unique_ptr<seat> make_sqlite_seat(::soci::session& s) { return std::make_unique<sqlite_seat>(s); }

}  // namespace rowlock::backend::soci
