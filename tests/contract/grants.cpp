// The roles of schema/*-grants.sql: with them everything works that they are for, and without any one of
// their rights something does not.
#include <fmt/format.h>

#include <array>
#include <fstream>
#include <functional>
#include <regex>
#include <rowlock/mysql.hpp>
#include <rowlock/postgresql.hpp>
#include <rowlock/quarantine.hpp>
#include <sstream>

#include "contract/fixture.hpp"
#include "support/source_path.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// What the file grants, each on its own: "GRANT SELECT ON rowlock_meta TO rowlock_locking".
struct grant {
  std::string right, table, role;
};

std::vector<grant> granted_by(std::string const& file) {
  std::ifstream in(source_path("schema/" + file));
  std::stringstream text;
  text << in.rdbuf();
  auto const sql = std::regex_replace(text.str(), std::regex("--[^\n]*"), "");
  std::vector<grant> all;
  std::regex const statement("GRANT ([^;]*) ON ((?:PROCEDURE )?\\w+) TO (\\w+);");
  for (std::sregex_iterator at(sql.begin(), sql.end(), statement), end; at != end; ++at) {
    std::istringstream rights(at->str(1));
    for (std::string one; std::getline(rights, one, ',');) all.push_back({one, at->str(2), at->str(3)});
  }
  return all;
}

constexpr std::array roles{"rowlock_locking", "rowlock_reaping"};

/// Two logins, named after the roles and the database, so that cases can run side by side.
class postgresql_logins : public postgresql_fixture {
 public:
  static constexpr char const* file = "postgresql-grants.sql";
  static constexpr int rights = 41;
  /// As migrated: so the first lease has to raise the reach.
  static constexpr char const* first_pulse =
      "DELETE FROM rowlock_reach; DELETE FROM rowlock_pulse; INSERT INTO rowlock_pulse (safe_from, reach, "
      "until, begun, base) VALUES (clock_timestamp(), 0, clock_timestamp(), clock_timestamp(), 0)";
  postgresql_logins() {
    make_functions();
    for (auto const* role : roles)
      sql("CREATE ROLE " + name_of(role) + " LOGIN; GRANT USAGE ON SCHEMA " + options.schema + " TO " +
          name_of(role));
  }
  ~postgresql_logins() override {
    for (auto const* role : roles) sql("DROP OWNED BY " + name_of(role) + "; DROP ROLE " + name_of(role));
  }
  std::string name_of(std::string const& role) const { return role + "_" + options.schema; }
  connection_source as(std::string const& role) const {
    return postgresql::source(url() + " user=" + name_of(role));
  }
};

template <class Database>
class mysql_like_logins : public Database {
 public:
  static constexpr char const* file = "mysql-grants.sql";
  static constexpr int rights = 49;
  static constexpr char const* first_pulse = "UPDATE rowlock_pulse SET reach = 0";
  mysql_like_logins() {
    this->make_functions();
    for (auto const* role : roles) this->sql("CREATE USER " + name_of(role) + " IDENTIFIED BY 'secret'");
  }
  ~mysql_like_logins() override {
    for (auto const* role : roles) this->sql("DROP USER " + name_of(role));
  }
  std::string name_of(std::string const& role) const { return role + "_" + suffix_; }
  connection_source as(std::string const& role) const {
    return mysql::source(
        std::regex_replace(this->url(), std::regex("//[^@]*@"), "//" + name_of(role) + ":secret@"));
  }

 private:
  std::string suffix_ = unique_identifier();
};

using mariadb_logins = mysql_like_logins<mariadb_fixture>;
using mysql_logins = mysql_like_logins<mysql_fixture>;

/// Those logins with the roles' rights.
template <class Logins>
class granted : public Logins {
 public:
  granted() {
    for (auto const& g : granted_by(Logins::file)) change("GRANT", "TO", g);
  }
  void change(std::string const& verb, std::string const& preposition, grant const& g) {
    this->sql(fmt::format("{} {} ON {} {} {}", verb, g.right, g.table, preposition, this->name_of(g.role)));
  }
  void forget_all() {
    this->sql("DELETE FROM rowlock_locks; DELETE FROM rowlock_tokens; DELETE FROM rowlock_permits");
    this->sql(Logins::first_pulse);
  }
};

reaper_options where(manager_options const& tables) {
  reaper_options o;
  o.schema = tables.schema;
  return o;
}

/// Those of versions 4 and 7, for names that have no row.
void call_functions(connection_source const& as_locker, manager_options const& o) {
  auto const& sql = as_locker.implementation()->sql();
  auto const text =
      sql.name == "mysql"
          ? "CALL rowlock_try_acquire('f', 60000, '', @t, @k); CALL rowlock_renew('f', @t, @ok); "
            "CALL rowlock_require('f', @t); CALL rowlock_release('f', @t, @ok); CALL rowlock_renew('f', @t, "
            "@ok); "
            "CALL rowlock_try_acquire_shared('p', 60000, '', @t, @k); CALL rowlock_renew_permit('p', @t, "
            "@ok); "
            "CALL rowlock_require_permit('p', @t); CALL rowlock_release_permit('p', @t, @ok); "
            "CALL rowlock_try_acquire_exclusive('p', 60000, '', @t, @k); CALL rowlock_require_permit('p', "
            "@t); "
            "CALL rowlock_release_permit('p', @t, @ok); "
            "CALL rowlock_try_acquire_permit('q', 1, 1, 60000, '', @t, @k); "
            "CALL rowlock_release_permit('q', @t, @ok); "
            "CALL rowlock_try_acquire_once('o', 60000, '', @t, @k, @d, @r); CALL rowlock_release_once('o', "
            "@t, @ok); "
            "CALL rowlock_try_acquire_once('o', 60000, '', @t, @k, @d, @r); CALL rowlock_done('o', @t, "
            "60000, '')"
          : "DO $$ DECLARE t text; BEGIN SELECT term INTO t FROM rowlock_try_acquire('f', '1 min'); "
            "PERFORM rowlock_renew('f', t), rowlock_require('f', t), rowlock_release('f', t); "
            "SELECT term INTO t FROM rowlock_try_acquire_exclusive('p', '1 min'); "
            "PERFORM rowlock_renew_permit('p', t), rowlock_require_permit('p', t), "
            "rowlock_release_permit('p', t); "
            "SELECT term INTO t FROM rowlock_try_acquire_once('o', '1 min'); "
            "PERFORM rowlock_done('o', t, '1 min'); END $$";
  auto const names = backend::table_names::of(sql, o.schema, o.table_prefix);
  auto const deadline = boot_clock::now() + 30s;
  as_locker.implementation()->connect(deadline)->script(names.render(text), deadline);
}

void take_permits(connection_source const& as_locker, manager_options const& o) {
  lock_manager m(as_locker, o);
  m.make_semaphore("counted", 2).set_limit(2);
  auto lock = m.make_semaphore("counted", 2).acquire();
  if (!lock->extend(60s)) throw error(errc::lock_lost, "extend");
  if (lock->release() != release_result::released) throw error(errc::lock_lost, "release");
}

/// All that the role is for. @throws error if a right is missing
void lock(connection_source const& as_locker, manager_options o) {
  for (auto const how : {strategy::lease, strategy::unique_insert, strategy::row_lock}) {
    o.strategy = how;
    lock_manager m(as_locker, o);
    auto const name = std::string(to_string(how));
    auto x = m.make_mutex(name);
    auto lock = x.acquire();
    for (auto const& listed : m.list({.idle = true}))
      if (listed.held && !listed.waiting && how != strategy::row_lock)
        throw error(errc::access_denied, "who waits is not told");
    if (how != strategy::row_lock) {
      if (!lock->extend(60s)) throw error(errc::lock_lost, "extend");
      (void)m.revoke(name, revoke_mode::at_renewal);
    }
    if (lock->release() != release_result::released) throw error(errc::lock_lost, "release");
    if (how == strategy::row_lock) continue;
    auto again = m.make_mutex(name, {.ttl = 30s, .at_least = 100ms}).try_acquire_for(10s);
    if (again->release() != release_result::released) throw error(errc::lock_lost, "release, at least");
  }
  (void)reaper(as_locker, where(o)).last();
  call_functions(as_locker, o);
  take_permits(as_locker, o);
}

/// What lock() leaves, and more: some of each kind is idle for two days, and reaped.
void reap(fixture& f, connection_source const& as_reaper) {
  auto const idle = in_ms(f, -std::int64_t{2} * 24 * 3'600'000);
  auto const* insert_new = dialect_of(f) == dialect::mysql ? "INSERT IGNORE" : "INSERT";
  auto const* if_new = dialect_of(f) == dialect::mysql ? "" : "ON CONFLICT DO NOTHING";
  f.sql(fmt::format(
      "UPDATE rowlock_locks SET token = 1, expires_at = {0} WHERE term IS NULL; UPDATE rowlock_tokens SET "
      "token = 1; {1} INTO rowlock_tokens (name, token) VALUES ('t', 1) {2}; UPDATE rowlock_meta SET "
      "token_floor = 0; "
      "DELETE FROM rowlock_locks WHERE name IN ('rowlock.reaper', 'idle'); INSERT INTO rowlock_locks (name, "
      "strategy, token, expires_at) VALUES ('idle', 'lease', 1, {0}); INSERT INTO rowlock_permits (name, "
      "strategy, term, token, expires_at, units, told) VALUES ('idle', 'semaphore', 't', 1, {0}, 1, 1)",
      idle, insert_new, if_new));
  reaper r(as_reaper, where(f.options));
  auto const done = r.run();
  if (done.deleted.lease == 0 || done.deleted.tokens == 0 || done.deleted.permits == 0)
    throw error(errc::failed, "nothing was deleted");
  if (!r.last()) throw error(errc::failed, "nothing was written down");
}

template <class Logins>
bool works(granted<Logins>& f, std::string const& role) {
  try {
    role == "rowlock_locking" ? lock(f.as(role), f.options) : reap(f, f.as(role));
    return true;
  } catch (error const&) {
    return false;
  }
}

}  // namespace

TYPE_TO_STRING_AS("postgresql", postgresql_logins);
TYPE_TO_STRING_AS("mariadb", mariadb_logins);
TYPE_TO_STRING_AS("mysql", mysql_logins);

#define GRANTS_CASE(text) TEST_CASE_TEMPLATE(text, logins, postgresql_logins, mariadb_logins, mysql_logins)

GRANTS_CASE("grants: with the documented rights locking works, and reaping works") {
  granted<logins> f;
  CHECK_NOTHROW(lock(f.as("rowlock_locking"), f.options));
  CHECK_NOTHROW(reap(f, f.as("rowlock_reaping")));
}

GRANTS_CASE("grants: none of the documented rights is too many") {
  granted<logins> f;
  auto const all = granted_by(logins::file);
  CHECK(all.size() == logins::rights);
  for (auto const& g : all) {
    CAPTURE(g.right);
    CAPTURE(g.table);
    CAPTURE(g.role);
    f.forget_all();
    REQUIRE(works(f, g.role));
    f.forget_all();
    f.change("REVOKE", "FROM", g);
    CHECK_FALSE(works(f, g.role));
    f.change("GRANT", "TO", g);
  }
}

GRANTS_CASE("grants: a role that locks can't reap, migrate or lower the floor, one that reaps can't either") {
  granted<logins> f;
  for (auto const* role : roles) {
    CAPTURE(std::string(role));
    auto const session = f.as(role).implementation()->connect(boot_clock::now() + 30s);
    for (std::string const statement :
         {"UPDATE rowlock_meta SET schema_version = 99", "UPDATE rowlock_meta SET oldest_reader = 99",
          "UPDATE rowlock_meta SET database_id = 'x'", "DELETE FROM rowlock_meta", "DROP TABLE rowlock_locks",
          "TRUNCATE TABLE rowlock_tokens", "DELETE FROM rowlock_migrations"}) {
      CAPTURE(statement);
      try {
        session->script(f.tables().render(statement), boot_clock::now() + 30s);
        FAIL("it may");
      } catch (error const& e) {
        CHECK(e.reason() == errc::access_denied);
      }
    }
  }
  try {
    (void)reaper(f.as("rowlock_locking"), where(f.options)).run();
    FAIL("it reaps");
  } catch (error const& e) {
    CHECK(e.reason() == errc::access_denied);
  }
}

GRANTS_CASE("grants: neither role can freeze the database, thaw it, or turn the quarantine off") {
  granted<logins> f;
  quarantine_options o;
  o.schema = f.options.schema;
  freeze_options more;
  more.schema = f.options.schema;
  for (std::string const role : roles) {
    CAPTURE(role);
    for (auto const& what :
         std::vector<std::function<void()>>{[&] { freeze(f.as(role), more); }, [&] { thaw(f.as(role), o); },
                                            [&] { enable_quarantine(f.as(role), false, o); }})
      try {
        what();
        FAIL("done");
      } catch (error const& e) {
        CHECK(e.reason() == errc::access_denied);
      }
  }
}
