#include "backend/sqlite/memory.hpp"

#include <atomic>
#include <rowlock/error.hpp>

#include "backend/sqlite/process.hpp"
#include "backend/sqlite/session.hpp"

namespace rowlock::backend::sqlite {
namespace {

using namespace std::chrono_literals;

std::string fresh_name() {
  static std::atomic<unsigned> made = 0;
  return "rowlock-" + std::to_string(++made);
}

// Not mode=memory&cache=shared, whose connections get SQLITE_LOCKED at once. SQLite shares a name that begins
// with a slash within the process.
std::string uri_of(std::string const& name) { return "file:/" + name + "?vfs=memdb"; }

std::unique_ptr<connection> open(std::string const& name, boot_time_point deadline) {
  close_inherited();
  inside const whole;
  sqlite3* native = nullptr;
  int const code = sqlite3_open_v2(
      uri_of(name).c_str(), &native,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  database owned(native);
  if (code != SQLITE_OK)
    throw error(errc::unreachable, std::string("SQLite makes no database in memory: ") + sqlite3_errstr(code),
                "", "", code);
  return std::make_unique<session>(std::move(owned), ":memory:" + name, std::nullopt, deadline);
}

}  // namespace

memory_database::memory_database() : name_(fresh_name()), anchor_(open(name_, boot_clock::now() + 5s)) {}

std::unique_ptr<connection> memory_database::connect(boot_time_point deadline) const {
  if (epoch_ != base::fork_epoch())
    throw error(errc::forked,
                "sqlite::memory: belongs to the process that made it: a forked child has a copy");
  return open(name_, deadline);
}

std::string memory_database::uri() const { return uri_of(name_); }

}  // namespace rowlock::backend::sqlite
