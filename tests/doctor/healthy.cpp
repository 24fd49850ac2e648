// As it should be: every check says ok, and the database is as it was.
#include <fmt/format.h>

#include "doctor/scene.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

std::vector<std::string> checks_of(server_kind k) {
  if (k == server_kind::postgresql)
    return {"connection", "schema", "grants", "writable",  "isolation", "timeouts", "durability", "replicas",
            "creators",   "pooler", "clock",  "keepalive", "waiting",   "limits",   "tls",        "index"};
  return {"connection", "schema", "grants",    "writable", "isolation", "timeouts", "durability",
          "replicas",   "clock",  "keepalive", "waiting",  "limits",    "tls",      "index"};
}

/// Changes when anybody writes.
std::string writes(server_scene const& s) {
  if (s.kind == server_kind::postgresql)
    return s.value("SELECT pg_snapshot_xmax(pg_current_snapshot())::text");
  auto const* status = s.kind == server_kind::mysql ? "performance_schema" : "information_schema";
  return s.value(
      fmt::format("SELECT concat_ws(' ', (SELECT count(*) FROM rowlock_locks), (SELECT count(*) FROM "
                  "rowlock_tokens), (SELECT group_concat(variable_value) FROM {}.global_status WHERE "
                  "variable_name IN ('handler_update', 'handler_delete')))",
                  status));
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
  auto const c = f.source.implementation()->connect(boot_clock::now() + 60s);
  auto const version = [&] {
    return backend::as_int(
        c->execute({"v", "SELECT data_version FROM pragma_data_version"}, {}, boot_clock::now() + 60s)
            .rows.at(0)
            .at(0));
  };
  auto const before = version();
  expect_healthy(examined(f.source), {"connection", "schema", "damage", "writable", "durability", "index",
                                      "file_system", "waiting", "limits"});
  CHECK(version() == before);
}
