// A pool tells where its database is. The sessions are rowlock's own, by the native back ends: SOCI's calls
// have no deadline, and a session of the program's can be in any state. [lib/doc/soci.md]
#include <fmt/format.h>
#include <soci/connection-pool.h>
#include <soci/session.h>

#include <chrono>
#include <memory>
#include <rowlock/error.hpp>
#include <rowlock/postgresql.hpp>
#include <rowlock/soci.hpp>
#include <rowlock/sqlite.hpp>
#include <string>
#include <utility>

#include "backend/mysql/source.hpp"
#include "backend/soci/connect_string.hpp"
#include "backend/soci/sqlite_path.hpp"
#include "backend/sqlite/process.hpp"

namespace rowlock::backend::soci {
namespace {

using namespace std::chrono_literals;

/// A session of the pool, for a look at its parameters.
class leased {
 public:
  explicit leased(::soci::connection_pool& pool) : pool_(pool) {
    constexpr auto longest_wait = 5'000ms;
    if (!pool_.try_lease(position_, static_cast<int>(longest_wait.count())))
      throw error(errc::too_many_connections,
                  "the soci::connection_pool has no free session: one is needed, for a moment, to see where "
                  "it leads");
  }
  ~leased() { pool_.give_back(position_); }
  leased(leased const&) = delete;
  leased& operator=(leased const&) = delete;
  ::soci::session& session() const { return pool_.at(position_); }

 private:
  ::soci::connection_pool& pool_;
  std::size_t position_ = 0;
};

/// A forked child can't close the pool's connections, which makes two owners of one lock possible.
struct sqlite_beside_pool {
  explicit sqlite_beside_pool(std::string path)
      : native(rowlock::sqlite::source(std::move(path)).implementation()) {}
  sqlite::programs_connection pools;
  std::shared_ptr<source> native;
};

std::shared_ptr<source> sqlite_source(std::string path) {
  sqlite::close_inherited();
  auto const both = std::make_shared<sqlite_beside_pool>(std::move(path));
  return {both, both->native.get()};
}

std::shared_ptr<source> native_source(::soci::session& s) {
  if (s.get_backend() == nullptr)
    throw error(errc::invalid_argument,
                "a session of the soci::connection_pool is not open: open all of them before");
  auto const name = s.get_backend_name();
  if (name == "postgresql")
    return rowlock::postgresql::source(conninfo_in(connect_string_of(s))).implementation();
  if (name == "mysql") return mysql::source_of(mysql_settings_in(connect_string_of(s)));
  if (name == "sqlite3") return sqlite_source(sqlite_path(s));
  throw error(errc::unsupported,
              fmt::format("SOCI's back end {} can't be used: use postgresql, mysql or sqlite3", name));
}

}  // namespace
}  // namespace rowlock::backend::soci

namespace rowlock::soci {

source::source(::soci::connection_pool& pool)
    : connection_source(backend::soci::native_source(backend::soci::leased(pool).session())) {}

}  // namespace rowlock::soci
