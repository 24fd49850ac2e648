// The roles of schema/postgresql-grants.sql: with them everything works that they are for, and without any
// one of their rights something does not.
#include <fstream>
#include <functional>
#include <regex>
#include <rowlock/postgresql.hpp>
#include <sstream>

#include "contract/fixture.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// What the file grants, each on its own: "GRANT SELECT ON rowlock_meta TO rowlock_locking".
struct grant {
  std::string right, table, role;
};

std::vector<grant> granted_by_file() {
  std::ifstream in(ROWLOCK_SOURCE_DIR "/schema/postgresql-grants.sql");
  std::stringstream text;
  text << in.rdbuf();
  auto const sql = std::regex_replace(text.str(), std::regex("--[^\n]*"), "");
  std::vector<grant> all;
  std::regex const statement("GRANT ([^;]*) ON (\\w+) TO (\\w+);");
  for (std::sregex_iterator at(sql.begin(), sql.end(), statement), end; at != end; ++at) {
    std::istringstream rights(at->str(1));
    for (std::string one; std::getline(rights, one, ',');) all.push_back({one, at->str(2), at->str(3)});
  }
  return all;
}

/// Tables of their own, and logins with the roles' rights.
class granted_fixture : public postgresql_fixture {
 public:
  granted_fixture() {
    for (auto const* role : {"rowlock_locking", "rowlock_reaping"})
      sql("CREATE ROLE " + name_of(role) + " LOGIN; GRANT USAGE ON SCHEMA " + options.schema + " TO " +
          name_of(role));
    for (auto const& g : granted_by_file()) change("GRANT", "TO", g);
  }
  ~granted_fixture() override {
    for (auto const* role : {"rowlock_locking", "rowlock_reaping"})
      sql("DROP OWNED BY " + name_of(role) + "; DROP ROLE " + name_of(role));
  }
  void change(std::string const& verb, std::string const& preposition, grant const& g) {
    sql(verb + " " + g.right + " ON " + g.table + " " + preposition + " " + name_of(g.role));
  }
  connection_source as(std::string const& role) const {
    return postgresql::source(postgresql_conninfo() + " user=" + name_of(role));
  }

 private:
  std::string name_of(std::string const& role) const { return role + "_" + options.schema; }
};

/// All that a role is for. @throws error if a right is missing
void lock(granted_fixture& f) {
  for (auto const how : {strategy::lease, strategy::unique_insert}) {
    auto o = f.options;
    o.how = how;
    lock_manager m(f.as("rowlock_locking"), o);
    auto const name = std::string(to_string(how));
    auto x = m.make_mutex(name, {.ttl = 30s});
    auto lock = x.acquire();
    if (!lock->extend(60s)) throw error(errc::lock_lost, "extend");
    (void)m.list(true);
    (void)m.revoke(name, revoke_mode::at_renewal);
    if (lock->release() != release_result::released) throw error(errc::lock_lost, "release");
    auto again = m.make_mutex(name, {.ttl = 30s, .at_least = 100ms}).try_acquire_for(10s);
    if (again->release() != release_result::released) throw error(errc::lock_lost, "release, at least");
  }
  // What row_lock does: anchor, touch, lock.
  auto const session = f.as("rowlock_locking").implementation()->connect(boot_clock::now() + 10s);
  session->script(
      backend::table_names{f.options.schema, f.options.table_prefix}.render(
          "INSERT INTO rowlock_locks (name, strategy, token, expires_at) VALUES ('anchor', 'row_lock', 0, "
          "clock_timestamp()) ON CONFLICT DO NOTHING; UPDATE rowlock_locks SET expires_at = "
          "clock_timestamp() WHERE name = 'anchor'; BEGIN; SELECT 1 FROM rowlock_locks WHERE name = 'anchor' "
          "FOR UPDATE; COMMIT"),
      boot_clock::now() + 10s);
}

/// The rows that lock() leaves, all of each kind.
void reap(granted_fixture& f) {
  f.sql(
      "UPDATE rowlock_locks SET token = 1, expires_at = clock_timestamp() - interval '2 days' WHERE term IS "
      "NULL; UPDATE "
      "rowlock_tokens SET token = 1; INSERT INTO rowlock_tokens VALUES ('t', 1) ON CONFLICT DO NOTHING; "
      "UPDATE "
      "rowlock_meta SET token_floor = 0; DELETE FROM rowlock_locks WHERE name IN ('rowlock.reaper', 'idle'); "
      "INSERT INTO "
      "rowlock_locks (name, strategy, token, expires_at) VALUES ('idle', 'lease', 1, clock_timestamp() - "
      "interval '2 "
      "days')");
  reaper_options o;
  o.schema = f.options.schema;
  reaper r(f.as("rowlock_reaping"), o);
  auto const done = r.run();
  if (done.deleted.lease == 0 || done.deleted.tokens == 0) throw error(errc::failed, "nothing was deleted");
  if (!r.last()) throw error(errc::failed, "nothing was written down");
}

bool works(granted_fixture& f, std::string const& role) {
  try {
    role == "rowlock_locking" ? lock(f) : reap(f);
    return true;
  } catch (error const&) {
    return false;
  }
}

}  // namespace

TEST_CASE("grants: with the documented rights locking works, and reaping works: on postgresql") {
  granted_fixture f;
  CHECK_NOTHROW(lock(f));
  CHECK_NOTHROW(reap(f));
}

TEST_CASE("grants: none of the documented rights is too many: on postgresql") {
  granted_fixture f;
  auto const all = granted_by_file();
  CHECK(all.size() == 19);
  for (auto const& g : all) {
    CAPTURE(g.right);
    CAPTURE(g.table);
    CAPTURE(g.role);
    f.sql("DELETE FROM rowlock_locks; DELETE FROM rowlock_tokens");
    REQUIRE(works(f, g.role));
    f.sql("DELETE FROM rowlock_locks; DELETE FROM rowlock_tokens");
    f.change("REVOKE", "FROM", g);
    CHECK_FALSE(works(f, g.role));
    f.change("GRANT", "TO", g);
  }
}

TEST_CASE(
    "grants: a role that locks can't reap, migrate or lower the floor, one that reaps can't either: on "
    "postgresql") {
  granted_fixture f;
  for (auto const* role : {"rowlock_locking", "rowlock_reaping"}) {
    CAPTURE(std::string(role));
    auto const session = f.as(role).implementation()->connect(boot_clock::now() + 10s);
    for (std::string const statement :
         {"UPDATE rowlock_meta SET schema_version = 99", "UPDATE rowlock_meta SET oldest_reader = 99",
          "UPDATE rowlock_meta SET database_id = 'x'", "DELETE FROM rowlock_meta", "DROP TABLE rowlock_locks",
          "TRUNCATE rowlock_tokens", "DELETE FROM rowlock_migrations"}) {
      CAPTURE(statement);
      try {
        session->script(backend::table_names{f.options.schema, f.options.table_prefix}.render(statement),
                        boot_clock::now() + 10s);
        FAIL("it may");
      } catch (error const& e) {
        CHECK(e.reason() == errc::access_denied);
      }
    }
  }
  reaper_options o;
  o.schema = f.options.schema;
  try {
    (void)reaper(f.as("rowlock_locking"), o).run();
    FAIL("it reaps");
  } catch (error const& e) {
    CHECK(e.reason() == errc::access_denied);
  }
}
