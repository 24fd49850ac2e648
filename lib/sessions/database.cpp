#include "sessions/database.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <rowlock/error.hpp>

#include "base/per_process.hpp"
#include "base/process_end.hpp"

namespace rowlock::sessions {
namespace {

class numbers {
 public:
  std::size_t of(std::string const& identity) {
    std::lock_guard const guard(mutex_);
    return known_.try_emplace(identity, known_.size() + 1).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::size_t> known_;
};

error no_tables(std::string const& where, error const* cause = nullptr) {
  return {errc::schema_missing,
          fmt::format("{} has no rowlock tables: `rowlock migrate up` makes them", where),
          cause == nullptr ? "meta_read" : cause->statement(), cause == nullptr ? "" : cause->sqlstate(),
          cause == nullptr ? 0 : cause->native_code()};
}

// A text that stays the same on each server that continues this server's data; empty: not told.
std::string lineage_of(backend::connection& c, backend::statement const& s, boot_time_point deadline) {
  try {
    auto const found = c.execute(s, {}, deadline);
    if (found.rows.empty() || backend::is_null(found.rows[0].back())) return {};
    return backend::as_text(found.rows[0].back());
  } catch (error const&) {
    if (!c.usable()) throw;
    return {};  // on some servers a role may not read it
  }
}

}  // namespace

database::database(std::shared_ptr<backend::source> source, manager_options const& options)
    : sql_(source->sql()),
      description_(source->describe()),
      connections_(options.connections == 0 ? source->best_connections() : options.connections),
      named_(!options.schema.empty()),
      book_(sql_, backend::table_names::of(sql_, options.schema, options.table_prefix)),
      source_(std::move(source)) {}

std::unique_ptr<backend::connection> database::open(boot_time_point deadline) {
  auto const source = [this] {
    std::lock_guard const guard(mutex_);
    return source_;
  }();
  if (!source) throw error(errc::closed, "the lock_manager has ended");
  base::stay_out_of_ended_drivers();
  auto connection = source->connect(deadline);
  check_schema(*connection, deadline);
  learn_incarnation(*connection, deadline);
  return connection;
}

// A role that does not lock may have no right to ask. One that locks is told when it is granted nothing.
void database::learn_incarnation(backend::connection& c, boot_time_point deadline) try {
  if (book_.remembers_pulse()) c.execute(book_.at("pulse_here"), {}, deadline);
} catch (error const&) {
  if (!c.usable()) throw;
}

void database::close() noexcept {
  std::shared_ptr<backend::source> last;  // dropped after the mutex is free
  std::lock_guard const guard(mutex_);
  last.swap(source_);
}

// Statements name each table's schema, whatever the search path. So a foreign table, view or temporary table
// of that name is never used. [C12]
void database::find_tables(backend::connection& c, boot_time_point deadline) {
  if (named_) return;
  auto const known = book_.tables();
  auto const found = c.find_schema(known.prefix + "meta", false, deadline);
  if (!found) throw no_tables(describe());
  if (!book_.settle(*found))
    throw error(errc::unreachable,
                fmt::format("{}: the search path leads to the tables in schema {} now, and led to {} at "
                            "first: what is held there means nothing here",
                            describe(), *found, known.schema));
}

// Reading a view runs its owner's functions with this role's rights. Checked once for each server: only a
// table's owner can replace it. [C12]
void database::refuse_views(backend::connection& c, boot_time_point deadline) {
  {
    std::lock_guard const guard(mutex_);
    if (!server_.empty() && server_ == c.server_identity()) return;
  }
  auto const tables = book_.tables();
  std::vector<backend::value> const names{tables.schema, tables.prefix};
  auto const views = c.execute(book_.at("meta_views"), names, deadline).rows;
  if (views.empty()) return;
  throw error(
      errc::schema_missing,
      fmt::format("{}: {} is not an ordinary table, and so is not read, because that may run functions "
                  "with this role's rights: drop it, or name another schema or table prefix",
                  describe(), backend::as_text(views.front().at(0))));
}

int database::check_schema(backend::connection& c, boot_time_point deadline) {
  find_tables(c, deadline);
  refuse_views(c, deadline);
  backend::result found;
  try {
    found = c.execute(book_.at("meta_read"), {}, deadline);
  } catch (error const& e) {
    if (e.reason() != errc::schema_missing) throw;
    throw no_tables(describe(), &e);
  }
  if (found.rows.empty())
    throw error(errc::schema_missing,
                fmt::format("{}: table rowlock_meta has no row: `rowlock migrate validate` tells "
                            "what is wrong with the tables",
                            describe()));
  auto const& id = backend::as_text(found.rows[0].at(0));
  auto const version = backend::as_int(found.rows[0].at(1));
  auto const oldest_reader = backend::as_int(found.rows[0].at(2));
  if (version < needed_schema_version)
    throw error(errc::schema_old, fmt::format("{}: the tables have version {}, this program needs {}: "
                                              "`rowlock migrate up` brings them there",
                                              describe(), version, needed_schema_version));
  if (oldest_reader > latest_schema_version)
    throw error(errc::schema_new,
                fmt::format("{}: the tables have version {} and serve programs made for version {} or "
                            "later; this one was made for {}: use a newer rowlock",
                            describe(), version, oldest_reader, latest_schema_version));
  expect_same(c, id, deadline);
  return static_cast<int>(version);
}

void database::expect_same(backend::connection& c, std::string const& id, boot_time_point deadline) {
  auto const& server = c.server_identity();
  bool const known = [&] {
    std::lock_guard const guard(mutex_);
    return database_id_ == id && server_ == server;
  }();
  if (known) return;
  auto const lineage = lineage_of(c, book_.at("meta_lineage"), deadline);
  std::lock_guard const guard(mutex_);
  if (database_id_.empty()) {
    database_id_ = id;
    server_ = server;
    lineage_ = lineage;
    // Two schemas of one server can hold copies of one rowlock_meta.
    number_ = base::per_process<numbers>().of(id + '@' + server + '/' + book_.tables().table("locks"));
  }
  if (database_id_ != id)
    throw error(errc::unreachable,
                fmt::format("{}: another database answers than the one that was there at first: "
                            "what is held here means nothing to it",
                            describe()));
  if (!lineage.empty() && !lineage_.empty() && lineage != lineage_)
    throw error(
        errc::unreachable,
        fmt::format("{}: a copy of the database answers, not the one that was there at first: what is "
                    "held here means nothing to it; if the copy is what is meant from now on, start the "
                    "program again",
                    describe()));
}

std::string database::id() const {
  std::lock_guard const guard(mutex_);
  return database_id_;
}

std::string database::server() const {
  std::lock_guard const guard(mutex_);
  return server_;
}

std::size_t database::server_of(backend::connection const& c) {
  auto const& identity = c.server_identity();
  std::lock_guard const guard(mutex_);
  auto const found = std::find(servers_.begin(), servers_.end(), identity);
  if (found != servers_.end()) return static_cast<std::size_t>(found - servers_.begin());
  servers_.push_back(identity);
  return servers_.size() - 1;
}

bool database::gone(std::size_t server) const noexcept try {
  std::string const* identity = nullptr;
  std::shared_ptr<backend::source> source;
  {
    std::lock_guard const guard(mutex_);
    if (server >= servers_.size() || !source_) return false;
    identity = &servers_[server];
    source = source_;
  }
  return source->gone(*identity);
} catch (std::exception const&) {  // nothing is certain
  return false;
}

}  // namespace rowlock::sessions
