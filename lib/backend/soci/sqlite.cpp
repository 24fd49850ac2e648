#include <atomic>
#include <rowlock/error.hpp>
#include <rowlock/sqlite.hpp>

#include "backend/soci/seat.hpp"
#include "backend/soci/sqlite_path.hpp"
#include "base/fork_epoch.hpp"

namespace rowlock::backend::soci {
namespace {

// Seats of this process, or of the parent that it was forked from.
std::atomic<int> seats{0};
std::atomic<unsigned> epoch_of_seats{0};

// See backend/sqlite/process.hpp: our own inherited connections can be closed in a forked child, those of the
// parent's pool can't, and with them open two owners of one lock are possible.
void refuse_inherited() {
  if (seats > 0 && epoch_of_seats != base::fork_epoch())
    throw error(
        errc::forked,
        "this process was forked while its parent had a lock_manager over SOCI sessions on SQLite, and "
        "SQLite can't be used here: let the child run another program (exec), or fork before");
  epoch_of_seats = base::fork_epoch();
}

// Connections to a file cost the file nothing, so ours is opened beside the session's, which stays as it is.
class sqlite_seat final : public seat {
 public:
  explicit sqlite_seat(::soci::session& s)
      : native_(rowlock::sqlite::source(sqlite_path(s)).implementation()) {
    ++seats;
  }
  ~sqlite_seat() override { --seats; }
  sqlite_seat(sqlite_seat const&) = delete;
  sqlite_seat& operator=(sqlite_seat const&) = delete;
  source& native() noexcept override { return *native_; }
  std::shared_ptr<source> witness() const noexcept override { return native_; }
  void vacate() noexcept override {}
  void restore(boot_time_point) noexcept override {}

 private:
  std::shared_ptr<source> native_;
};

}  // namespace

std::unique_ptr<seat> make_sqlite_seat(::soci::session& s) {
  refuse_inherited();
  return std::make_unique<sqlite_seat>(s);
}

}  // namespace rowlock::backend::soci
