// What a cluster of Galera changes: each node locks for itself, and what two nodes have written is compared
// when it is committed.
#include <atomic>
#include <functional>
#include <future>
#include <rowlock/mysql.hpp>
#include <utility>
#include <vector>

#include "guard/handles.hpp"
#include "support/database_server.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// What is committed on other nodes arrives on this one in order, and waits, as long as this lives: for a
/// table that is locked, which nobody may be thrown out of.
class stalled_node {
 public:
  explicit stalled_node(fixture& f) : session_(f.source.implementation()->connect(boot_clock::now() + 30s)) {
    session_->script("LOCK TABLES stall READ", boot_clock::now() + 30s);
  }
  ~stalled_node() { session_->script("UNLOCK TABLES", boot_clock::now() + 30s); }
  stalled_node(stalled_node const&) = delete;
  stalled_node& operator=(stalled_node const&) = delete;

 private:
  std::unique_ptr<backend::connection> session_;
};

/// As it is on that node now, not once it has applied what the others have committed.
std::int64_t number(connection_source const& source, std::string const& sql) {
  auto const session = source.implementation()->connect(boot_clock::now() + 30s);
  session->script("SET SESSION wsrep_sync_wait = 0", boot_clock::now() + 30s);
  return backend::as_int(session->execute({"number", sql}, {}, boot_clock::now() + 30s).rows.at(0).at(0));
}

/// How many transactions of that node have their place in the order of the cluster.
std::int64_t replicated(connection_source const& source) {
  return number(
      source,
      "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status WHERE variable_name = "
      "'WSREP_REPLICATED'");
}

/// Two nodes. The fixture is the one here, which applies what the other one has committed one after the
/// other.
struct two_nodes {
  two_nodes() {
    f.make_counter();
    f.sql("CREATE TABLE stall (i INT PRIMARY KEY)");
    auto const name = f.url().substr(f.url().rfind('/') + 1);
    url_there = there.address();
    url_there.replace(url_there.rfind('/') + 1, url_there.npos, name);
  }
  mysql::source source_there() const { return mysql::source(url_there); }
  bool arrives_there(std::string const& count, std::int64_t how_many) const {
    auto const source = source_there();
    return eventually([&] {
      try {
        return number(source, count) == how_many;
      } catch (error const&) {  // neither are the tables there yet
        return false;
      }
    });
  }
  /// What is committed there from now on is behind this.
  void stall_there() const {
    source_there()
        .implementation()
        ->connect(boot_clock::now() + 30s)
        ->script("INSERT INTO stall VALUES (1)", boot_clock::now() + 30s);
  }

  database_server here{server_kind::mariadb, {.galera = true, .settings = {"wsrep_slave_threads = 1"}}};
  database_server there{server_kind::mariadb, {.node_of = &here}};
  instead_of shared{"ROWLOCK_TEST_MARIADB", here.address()};
  connector_on_mariadb f;
  std::string url_there;
};

/// Commits here what was overtaken there, with its place in the cluster's order behind that.
void commit_behind(two_nodes const& all, std::optional<stalled_node>& stalled, program& p) {
  CHECK(number(all.f.source, "SELECT count(*) FROM stall") == 0);
  auto const sent = replicated(all.f.source);
  auto commit = std::async(std::launch::async, [&] { p.commit(); });
  // Sent, behind what came from there; that decides when it has its turn.
  bool const was_sent = eventually([&] { return replicated(all.f.source) > sent; });
  stalled.reset();
  CHECK(was_sent);
  CHECK(reason_of([&] { commit.get(); }) == errc::conflict);
  REQUIRE(eventually([&] { return number(all.f.source, "SELECT count(*) FROM stall") == 1; }));
  CHECK(number(all.f.source, "SELECT n FROM counter") == 0);
  CHECK(number(all.source_there(), "SELECT n FROM counter") == 0);
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
  two_nodes all;
  auto& f = all.f;
  auto const m = f.manager();
  auto held = *m->make_mutex("a", {.ttl = 1h}).acquire();
  auto const p = f.open();
  auto const tx = p->view(*m);
  REQUIRE(all.arrives_there("SELECT count(*) FROM rowlock_locks WHERE term IS NOT NULL", 1));
  auto const source_here = std::exchange(f.source, all.source_there());
  stranger other(f);
  f.source = source_here;

  std::optional<stalled_node> stalled(f);
  begin(f, *p);
  tx->require(held);
  p->run(f.set_counter(1));
  all.stall_there();
  REQUIRE(other.take_over("a"));
  commit_behind(all, stalled, *p);
  CHECK(reason_of([&] { tx->require(held); }).has_value());
}

TEST_CASE(
    "galera: a token does not commit after a higher one that another node has admitted [B7] <mariadb>") {
  two_nodes all;
  auto& f = all.f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  begin(f, *p);
  tx->admit("q", {5});
  p->commit();
  REQUIRE(all.arrives_there("SELECT count(*) FROM rowlock_admitted", 1));
  auto const q = connect_by(driver::connector, all.url_there);

  std::optional<stalled_node> stalled(f);
  begin(f, *p);
  tx->admit("q", {5});  // again: it is the highest one that is known here
  p->run(f.set_counter(1));
  all.stall_there();
  begin(f, *q);
  q->view(*m)->admit("q", {6});
  q->commit();
  commit_behind(all, stalled, *p);
  CHECK(eventually([&] { return number(f.source, "SELECT token FROM rowlock_admitted") == 6; }));
  begin(f, *p);
  CHECK(reason_of([&] { tx->admit("q", {5}); }) == errc::lock_lost);
}

// Of a COMMIT within a text of several statements the server may say that all went well, although another
// node was first: its holder had a lock that nobody knew, and could not give it back.
TEST_CASE("galera: what is taken in a transaction of several statements is there [D1] <mariadb>") {
  two_nodes all;
  REQUIRE(all.arrives_there("SELECT count(*) FROM stall", 0));
  std::atomic<int> inside{0};
  std::atomic<int> taken{0};
  std::atomic<int> wrong{0};
  auto const end = boot_clock::now() + 5s;
  auto const takes = [&](connection_source const& source) {
    lock_manager m(source);
    auto s = m.make_semaphore("s", 1, {.note = "a; b"});
    // 5 s, and on a busy machine for longer.
    while (boot_clock::now() < end || (taken <= 20 && boot_clock::now() < end + 60s)) try {
        auto held = s.try_acquire();
        if (!held) continue;
        ++taken;
        if (++inside > 1) ++wrong;
        --inside;
        if (held->release() == release_result::already_lost) ++wrong;
      } catch (error const& e) {
        if (e.reason() != errc::conflict) throw;
      }
  };
  std::vector<std::future<void>> both;
  both.push_back(std::async(std::launch::async, [&] { takes(mysql::source(all.f.url())); }));
  both.push_back(std::async(std::launch::async, [&] { takes(all.source_there()); }));
  for (auto& each : both) each.get();
  CHECK(taken > 20);
  CHECK(wrong == 0);
}

// A manager's sessions may be on several nodes: one was lost, and its node is back.
TEST_CASE(
    "galera: who renews or releases on a node that lags finds what was taken on another one [B28] "
    "<mariadb>") {
  two_nodes all;
  auto& f = all.f;
  REQUIRE(all.arrives_there("SELECT count(*) FROM stall", 0));
  auto const m = f.manager();
  lock_manager there(all.source_there());
  CHECK(there.make_mutex("x").try_acquire());  // so that there is a row
  REQUIRE(eventually([&] { return number(f.source, "SELECT count(*) FROM rowlock_locks") == 1; }));
  std::optional<stalled_node> stalled(std::in_place, f);
  all.stall_there();
  auto const held = there.make_mutex("x", {.ttl = 1h}).try_acquire();
  REQUIRE(held);
  CHECK(number(f.source, "SELECT count(*) FROM rowlock_locks WHERE term IS NOT NULL") == 0);
  auto here = std::async(std::launch::async, [&] {
    auto const session = f.source.implementation()->connect(boot_clock::now() + 30s);
    return session
        ->execute({"renewal", "UPDATE rowlock_locks SET renewals = renewals + 1 WHERE term IS NOT NULL"}, {},
                  boot_clock::now() + 30s)
        .affected;
  });
  CHECK(here.wait_for(300ms) == std::future_status::timeout);
  stalled.reset();
  CHECK(here.get() == 1);
}

// A guarded commit is one text with COMMIT in it.
TEST_CASE("galera: what execute_commit says is committed is committed [D1] <mariadb>") {
  two_nodes all;
  REQUIRE(all.arrives_there("SELECT count(*) FROM counter", 1));
  bool prepared = false;
  SUBCASE("each text by itself") {}
  SUBCASE("prepared") { prepared = true; }
  std::atomic<int> committed{0};
  std::atomic<int> refused{0};
  auto const end = boot_clock::now() + 4s;
  auto const adds = [&](connection_source const& source, std::string const& url, std::string const& name) {
    lock_manager m(source);
    auto held = *m.make_mutex(name, {.ttl = 1h}).acquire();
    auto const p = connect_by(driver::connector, url);
    auto const tx = p->view(m, {.keep_prepared = prepared});
    auto const enough = [&] { return committed > 20 && refused > 0; };
    while (boot_clock::now() < end || (!enough() && boot_clock::now() < end + 60s)) {
      try {
        p->run("START TRANSACTION");
        p->run("UPDATE counter SET n = n + 1");
        tx->execute_commit(held);
        ++committed;
      } catch (std::exception const&) {
        ++refused;
        p->run("ROLLBACK");
      }
    }
  };
  std::vector<std::future<void>> both;
  both.push_back(std::async(std::launch::async, [&] { adds(mysql::source(all.f.url()), all.f.url(), "a"); }));
  both.push_back(std::async(std::launch::async, [&] { adds(all.source_there(), all.url_there, "b"); }));
  for (auto& each : both) each.get();
  CAPTURE(refused.load());
  CHECK(committed > 20);
  CHECK(refused > 0);
  CHECK(number(all.f.source, all.f.read_counter()) == committed);
}

// The next statement of a transaction that lost to another node's hears of it: at PREPARE, here. With
// autocommit off, a guard that is sent behind that finds its lock in another transaction, which has nothing
// in it.
TEST_CASE("galera: execute_commit does not commit another transaction than the program's <mariadb>") {
  two_nodes all;
  auto& f = all.f;
  auto const m = f.manager();
  auto held = *m->make_mutex("a", {.ttl = 1h}).acquire();
  REQUIRE(all.arrives_there("SELECT count(*) FROM rowlock_locks WHERE term IS NOT NULL", 1));
  auto const p = f.open();
  auto const tx = p->view(*m, {.keep_prepared = true});
  p->run("SET autocommit = 0");
  p->run(f.set_counter(7));
  all.source_there()
      .implementation()
      ->connect(boot_clock::now() + 30s)
      ->script(f.set_counter(1), boot_clock::now() + 30s);
  REQUIRE(eventually([&] { return number(f.source, f.read_counter()) == 1; }));
  CHECK(reason_of([&] { tx->execute_commit(held); }) == errc::transaction_ended);
  CHECK(number(f.source, f.read_counter()) == 1);
  p->run(f.set_counter(8));
  tx->execute_commit(held);
  CHECK(number(f.source, f.read_counter()) == 8);
}
