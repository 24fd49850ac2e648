#include <rowlock/sqlite.hpp>

#include "backend/soci/seat.hpp"
#include "backend/soci/sqlite_path.hpp"
#include "backend/sqlite/process.hpp"

namespace rowlock::backend::soci {
namespace {

// More connections cost the file nothing, so rowlock's stands beside the session's.
class sqlite_seat final : public seat {
 public:
  explicit sqlite_seat(::soci::session& s)
      : native_(rowlock::sqlite::source(sqlite_path(s)).implementation()) {}
  source& native() noexcept override { return *native_; }
  std::shared_ptr<source> witness() const noexcept override { return native_; }
  void vacate() noexcept override {}
  void restore(boot_time_point) noexcept override {}

 private:
  std::shared_ptr<source> native_;
  // A forked child can't close the session's connection, which makes two owners of one lock possible.
  sqlite::programs_connection const sessions_own_;
};

}  // namespace

std::unique_ptr<seat> make_sqlite_seat(::soci::session& s) {
  sqlite::close_inherited();
  return std::make_unique<sqlite_seat>(s);
}

}  // namespace rowlock::backend::soci
