// As it should be: every check says ok, and the database is as it was.
#include <fmt/format.h>

#include "doctor/scene.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

std::vector<std::string> checks_of(server_kind k) {
  if (k == server_kind::postgresql)
    return {"connection", "schema",    "grants",   "writable",   "isolation", "timeouts",  "durability",
            "replicas",   "snapshots", "creators", "pooler",     "clock",     "keepalive", "waiting",
            "limits",     "tls",       "index",    "quarantine", "takes",     "tables"};
  return {"connection", "schema",   "grants",     "writable",  "isolation", "timeouts",
          "durability", "replicas", "clock",      "keepalive", "waiting",   "limits",
          "tls",        "index",    "quarantine", "takes",     "tables"};
}

/// Changes when anybody writes. (The locks that the doctor tries are rolled back.)
std::string writes(server_scene const& s) {
  if (s.kind == server_kind::postgresql)
    return s.value(
        "SELECT (SELECT string_agg(l::text, ' ' ORDER BY name) FROM rowlock_locks AS l) || (SELECT "
        "string_agg(t::text, ' ' ORDER BY name) FROM rowlock_tokens AS t)");
  return s.value(
      "SELECT concat_ws(' ', (SELECT group_concat(name, renewals, token ORDER BY name) FROM rowlock_locks), "
      "(SELECT group_concat(name, token ORDER BY name) FROM rowlock_tokens))");
}

}  // namespace

TEST_CASE_TEMPLATE(
    "healthy: a role with the documented rights on a durable server: all is ok, nothing is written", Server,
    on_postgresql, on_mariadb, on_mysql) {
  server_scene const s(Server::kind, {.durable = true});
  expect_healthy(s.examine(), checks_of(s.kind));

  // Also while locks are held, of every strategy, none of which minds.
  lock_manager m(s.as_app());
  std::vector<acquisition> held;
  for (auto const how : {strategy::lease, strategy::unique_insert, strategy::row_lock}) {
    held.push_back(m.make_mutex(to_string(how), {.strategy = how, .ttl = 60s, .renew = true}).acquire());
    REQUIRE(held.back());
  }
  // A server that knows how small the table is would read the whole of it.
  if (s.kind == server_kind::postgresql) s.sql("ANALYZE rowlock_locks");
  auto const before = writes(s);
  expect_healthy(s.examine(), checks_of(s.kind));
  CHECK(writes(s) == before);
  for (auto& one : held) CHECK(one->valid());

  // Programs that don't agree on a limit.
  auto const other = m.make_semaphore("permits", 5).acquire(2);
  auto const same = m.make_semaphore("permits", 5).acquire();
  expect_healthy(s.examine(), checks_of(s.kind));
  auto const few = m.make_semaphore("permits", 4).acquire();
  expect(s.examine(), "limits", verdict::warning, "'permits' (4 to 5)", "the same limit");
}

TEST_CASE("healthy: an SQLite file: all is ok, nothing is written") {
  sqlite_fixture f;
  migrator(f.source).up();  // records what the fixture has applied
  auto const c = f.source.implementation()->connect(boot_clock::now() + 60s);
  auto const version = [&] {
    return backend::as_int(
        c->execute({"v", "SELECT data_version FROM pragma_data_version"}, {}, boot_clock::now() + 60s)
            .rows.at(0)
            .at(0));
  };
  auto const before = version();
  expect_healthy(examined(f.source), {"connection", "schema", "damage", "writable", "durability", "index",
                                      "file_system", "waiting", "limits", "takes", "tables"});
  CHECK(version() == before);
}
