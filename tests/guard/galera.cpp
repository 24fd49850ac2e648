// What a cluster of Galera changes: each node locks for itself, and what two nodes have written is compared
// when it is committed.
#include <functional>
#include <future>
#include <rowlock/mysql.hpp>
#include <utility>

#include "guard/handles.hpp"
#include "support/database_server.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// What is committed on other nodes arrives on this one in order, and waits, as long as this lives: for a
/// table that is locked, which nobody may be thrown out of.
class stalled_node {
 public:
  explicit stalled_node(fixture& f) : session_(f.source.implementation()->connect(boot_clock::now() + 10s)) {
    session_->script("LOCK TABLES stall READ", boot_clock::now() + 10s);
  }
  ~stalled_node() { session_->script("UNLOCK TABLES", boot_clock::now() + 10s); }
  stalled_node(stalled_node const&) = delete;
  stalled_node& operator=(stalled_node const&) = delete;

 private:
  std::unique_ptr<backend::connection> session_;
};

/// As it is on that node now, not once it has applied what the others have committed.
std::int64_t number(connection_source const& source, std::string const& sql) {
  auto const session = source.implementation()->connect(boot_clock::now() + 10s);
  session->script("SET SESSION wsrep_sync_wait = 0", boot_clock::now() + 10s);
  return backend::as_int(session->execute({"number", sql}, {}, boot_clock::now() + 10s).rows.at(0).at(0));
}

/// How many transactions of that node have their place in the order of the cluster.
std::int64_t replicated(connection_source const& source) {
  return number(
      source,
      "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status WHERE variable_name = "
      "'WSREP_REPLICATED'");
}

}  // namespace

TEST_CASE("galera: it locks rows within one node only, and that is refused [D1] <mariadb>") {
  database_server const server(server_kind::mariadb, {.galera = true});
  instead_of const shared("ROWLOCK_TEST_MARIADB", server.address());
  connector_on_mariadb f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = *m->make_mutex("a").acquire();
  begin(f, *p);
  CHECK(reason_of([&] { tx->lock("r"); }) == errc::unsupported);
  CHECK(reason_of([&] { (void)tx->try_lock("r"); }) == errc::unsupported);
  tx->require(held);  // these are certified
  p->commit();
  begin(f, *p);
  CHECK(tx->insert("i", 30s));
  p->commit();
}

// The takeover is acknowledged on its own node before this one has applied it. What is certified then is the
// rows that both have changed: a guard that has only locked the lock's row, or written into it what was
// there, commits.
TEST_CASE(
    "galera: a guard does not commit after a takeover that another node has acknowledged [B7] <mariadb>") {
  database_server const here(server_kind::mariadb, {.galera = true, .settings = {"wsrep_slave_threads = 1"}});
  database_server const there(server_kind::mariadb, {.node_of = &here});
  instead_of const shared("ROWLOCK_TEST_MARIADB", here.address());
  connector_on_mariadb f;
  f.make_counter();
  f.sql("CREATE TABLE stall (i INT PRIMARY KEY)");
  auto const m = f.manager();
  auto held = *m->make_mutex("a", {.ttl = 1h}).acquire();
  auto const p = f.open();
  auto const tx = p->view(*m);

  auto const name = f.url().substr(f.url().rfind('/') + 1);
  auto address = there.address();
  mysql::source const source_there(address.replace(address.rfind('/') + 1, address.npos, name));
  auto const source_here = std::exchange(f.source, source_there);
  REQUIRE(eventually([&] {
    return number(source_there, "SELECT count(*) FROM rowlock_locks WHERE term IS NOT NULL") == 1;
  }));
  stranger other(f);
  f.source = source_here;

  std::future<void> commit;
  {
    std::optional<stalled_node> stalled(f);
    begin(f, *p);
    tx->require(held);
    p->run(f.set_counter(1));
    source_there.implementation()
        ->connect(boot_clock::now() + 10s)
        ->script("INSERT INTO stall VALUES (1)", boot_clock::now() + 10s);
    REQUIRE(other.take_over("a"));
    CHECK(number(source_here, "SELECT count(*) FROM stall") == 0);
    auto const sent = replicated(source_here);
    commit = std::async(std::launch::async, [&] { p->commit(); });
    // Sent, behind the takeover; that decides when it has its turn.
    REQUIRE(eventually([&] { return replicated(source_here) > sent; }));
  }
  CHECK(reason_of([&] { commit.get(); }) == errc::conflict);
  REQUIRE(eventually([&] { return number(source_here, "SELECT count(*) FROM stall") == 1; }));
  CHECK(number(source_here, "SELECT n FROM counter") == 0);
  CHECK(number(source_there, "SELECT n FROM counter") == 0);
  CHECK(reason_of([&] { tx->require(held); }).has_value());
}
