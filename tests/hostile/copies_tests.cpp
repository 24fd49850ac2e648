// An address that leads to other servers in the course of time.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <rowlock/rowlock.hpp>

#include "backend/backend.hpp"
#include "cli/program.hpp"
#include "sessions/database.hpp"
#include "support/database_server.hpp"
#include "support/look_at_tables.hpp"
#include "support/pgbouncer.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

using source_ptr = std::shared_ptr<backend::source>;

boot_time_point soon() { return boot_clock::now() + 30s; }

class moving_source final : public backend::source {
 public:
  explicit moving_source(source_ptr first) : now_(std::move(first)) {}
  void lead_to(source_ptr other) { now_ = std::move(other); }

  std::unique_ptr<backend::connection> connect(boot_time_point deadline) override {
    return now_->connect(deadline);
  }
  backend::dialect const& sql() const noexcept override { return now_->sql(); }
  std::string describe() const override { return now_->describe(); }

 private:
  source_ptr now_;
};

/// With rowlock's tables, whose id is `id` as if they had been copied.
source_ptr migrated(std::string const& url, std::string const& id) {
  auto const done = run({rowlock_program, "migrate", "up"}, {{"ROWLOCK_DB", url}});
  REQUIRE_MESSAGE(done.status == 0, done.err);
  auto out = source_from_url(url).implementation();
  auto const c = out->connect(soon());
  look_at_tables(*c);
  c->script("UPDATE rowlock_meta SET database_id = '" + id + "'", soon());
  return out;
}

std::string fresh_database(std::string const& url, std::string const& name) {
  source_from_url(url).implementation()->connect(soon())->script("CREATE DATABASE " + name, soon());
  return name;
}

std::string postgresql_url(std::string const& conninfo, std::string const& database) {
  return conninfo.find("://") == std::string::npos ? conninfo + " dbname=" + database
                                                   : with_database(conninfo, database);
}

}  // namespace

TEST_CASE(
    "C8: postgresql: a copy of the database on another server is refused, and the first one still good") {
  auto const name = unique_identifier();
  database_server const other(server_kind::postgresql);
  auto const first =
      migrated(postgresql_url(postgresql_conninfo(), fresh_database(postgresql_conninfo(), name)), "same");
  auto const copy = migrated(postgresql_url(other.address(), fresh_database(other.address(), name)), "same");
  auto const moving = std::make_shared<moving_source>(first);
  sessions::database d(moving, {});
  d.open(soon());
  moving->lead_to(copy);
  CHECK_THROWS_WITH_AS(d.open(soon()), doctest::Contains("a copy of the database answers"), error);
  moving->lead_to(first);
  d.open(soon());
}

TEST_CASE("C8: postgresql: a copy within the server that got the first one's name is refused") {
  auto const name = unique_identifier();
  auto const server = source_from_url(postgresql_conninfo()).implementation();
  auto const url = postgresql_url(postgresql_conninfo(), fresh_database(postgresql_conninfo(), name));
  auto const first = migrated(url, "same");
  sessions::database d(first, {});
  d.open(soon());
  auto const admin = server->connect(soon());
  auto const done = [&](std::string const& text) {
    return within(60s, [&] {  // the sessions before are ending
      try {
        admin->script(fmt::format(fmt::runtime(text), name), soon());
        return true;
      } catch (error const&) {
        return false;
      }
    });
  };
  REQUIRE(done("CREATE DATABASE {0}c TEMPLATE {0}"));
  REQUIRE(done("ALTER DATABASE {0} RENAME TO {0}old"));
  REQUIRE(done("ALTER DATABASE {0}c RENAME TO {0}"));
  CHECK_THROWS_WITH_AS(d.open(soon()), doctest::Contains("a copy of the database answers"), error);
}

TEST_CASE(
    "C8: postgresql: a pooler that leads connected programs to a copy of the database is noticed by the next "
    "statement") {
  auto const name = unique_identifier();
  auto const server = source_from_url(postgresql_conninfo()).implementation();
  auto const url = postgresql_url(postgresql_conninfo(), fresh_database(postgresql_conninfo(), name));
  (void)migrated(url, "same");
  pgbouncer const between(url, "transaction");
  lock_manager m(source_from_url(between.address()));
  auto held = m.make_mutex("x", {.ttl = 10min}).try_acquire();
  REQUIRE(held);
  REQUIRE(held->extend(10min));
  auto const admin = server->connect(soon());
  auto const done = [&](std::string const& text) {
    return within(60s, [&] {  // the pooler connects to the server anew as long as it is asked
      try {
        admin->script(
            fmt::format("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'", name),
            soon());
        admin->script(fmt::format(fmt::runtime(text), name), soon());
        return true;
      } catch (error const&) {
        return false;
      }
    });
  };
  REQUIRE(done("CREATE DATABASE {0}c TEMPLATE {0}"));
  REQUIRE(done("ALTER DATABASE {0} RENAME TO {0}old"));
  REQUIRE(done("ALTER DATABASE {0}c RENAME TO {0}"));
  for (auto const* said : {"behind the pooler another server", "a copy of the database answers"}) {
    auto const noticed = [&]() -> std::string {
      try {
        return held->extend(10min) ? "extended in the copy" : "not extended";
      } catch (error const& e) {
        CHECK(e.reason() == errc::unreachable);
        return e.what();
      }
    };
    std::string heard;
    // A session of the pooler's that was ended under it may cost one statement more.
    CHECK(within(60s, [&] {
      heard = noticed();
      return heard.find(said) != heard.npos || heard.find("in the copy") != heard.npos;
    }));
    CHECK_MESSAGE(heard.find(said) != heard.npos, heard);
  }
  // Several statements in one transaction: BEGIN takes the settings, and the look, with it.
  auto const c = source_from_url(between.address()).implementation()->connect(soon());
  REQUIRE(done("ALTER DATABASE {0} RENAME TO {0}c"));
  REQUIRE(done("ALTER DATABASE {0}old RENAME TO {0}"));
  CHECK_THROWS_WITH_AS(c->script("BEGIN", soon()), doctest::Contains("behind the pooler another server"),
                       error);
  CHECK_FALSE(c->usable());
  CHECK(held->extend(10min));
}

TEST_CASE(
    "C8: postgresql: a server that was restarted behind a pooler is the same database, after a new log-in") {
  database_server server(server_kind::postgresql);
  auto const name = unique_identifier();
  auto const url = postgresql_url(server.address(), fresh_database(server.address(), name));
  (void)migrated(url, "same");
  pgbouncer const between(url, "transaction", "server_login_retry = 0");
  lock_manager m(source_from_url(between.address()));
  auto held = m.make_mutex("x", {.ttl = 10min}).try_acquire();
  REQUIRE(held);
  server.kill();
  server.restart();
  std::string why;
  CHECK(within(60s, [&] {
    try {
      return held->extend(10min);
    } catch (error const& e) {
      why = e.what();
      return false;
    }
  }));
  CHECK_MESSAGE(held->valid(), why);
  CHECK(m.make_mutex("y").try_acquire().status() == acquire_status::quarantined);
}

TEST_CASE("C8: postgresql: a standby that was promoted is the same database") {
  database_server primary(server_kind::postgresql,
                          {.settings = {"wal_level = replica", "max_wal_senders = 4"}});
  auto const name = unique_identifier();
  auto const first =
      migrated(postgresql_url(primary.address(), fresh_database(primary.address(), name)), "same");
  database_server const standby(server_kind::postgresql, {.standby_of = &primary});
  auto const moving = std::make_shared<moving_source>(first);
  sessions::database d(moving, {});
  d.open(soon());
  auto const promoted = source_from_url(postgresql_url(standby.address(), name)).implementation();
  primary.kill();
  promoted->connect(soon())->execute({"promote", "SELECT pg_promote()"}, {}, soon());
  moving->lead_to(promoted);
  CHECK_NOTHROW(d.open(soon()));
}

TEST_CASE(
    "C8: mysql: a replica that was promoted, which has its own server_uuid, is taken for the same database") {
  auto const name = unique_identifier();
  database_server const other(server_kind::mariadb);
  fresh_database(mariadb_url(), name);
  fresh_database(other.address(), name);
  auto const first = migrated(with_database(mariadb_url(), name), "same");
  auto const replica = migrated(with_database(other.address(), name), "same");
  auto const moving = std::make_shared<moving_source>(first);
  sessions::database d(moving, {});
  d.open(soon());
  moving->lead_to(replica);
  CHECK_NOTHROW(d.open(soon()));
}
