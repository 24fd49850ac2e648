// What is SOCI's own: a pool tells where its database is, and its sessions stay the program's.

#include <doctest/doctest.h>
#include <soci/soci.h>

#include <atomic>
#include <chrono>
#include <rowlock/lock_manager.hpp>
#include <rowlock/soci.hpp>
#include <rowlock/sqlite.hpp>
#include <string>
#include <thread>
#include <vector>

#include "backend/child.hpp"
#include "backend/database.hpp"
#include "backend/soci/connect_string.hpp"
#include "support/eventually.hpp"
#include "support/soci_pool.hpp"

namespace rowlock::test {
namespace {

using namespace std::chrono_literals;

/// A session of the pool's, for this program.
struct lease {
  explicit lease(::soci::connection_pool& p) : pool(p) { REQUIRE(pool.try_lease(position, 0)); }
  ~lease() { pool.give_back(position); }
  lease(lease const&) = delete;
  lease& operator=(lease const&) = delete;
  ::soci::session& operator*() const { return pool.at(position); }
  ::soci::connection_pool& pool;
  std::size_t position = 0;
};

int one(::soci::session& s) {
  int n = 0;
  s << "SELECT 1", ::soci::into(n);
  return n;
}

/// A pool on a migrated database.
struct scene {
  explicit scene(kind k, int sessions) : db(make_database(k)), pool(make_soci_pool(db->url(), sessions)) {
    options.schema = db->tables().schema;
  }
  std::unique_ptr<lock_manager> manager() {
    return std::make_unique<lock_manager>(soci::source(*pool), options);
  }
  std::unique_ptr<database> db;
  std::shared_ptr<::soci::connection_pool> pool;
  manager_options options;
};

bool contains(std::string const& text, std::string_view part) { return text.find(part) != text.npos; }

void wait_for_renewal(held_lock const& lock) {
  auto const trust = *lock.trusted_until();
  REQUIRE(eventually([&] { return *lock.trusted_until() > trust; }));
}

}  // namespace

TEST_CASE("soci: what a connect string for mysql says") {
  auto const read = [](char const* text) { return backend::soci::mysql_settings_in(text); };
  auto const usual = read("user=u password=p host=h port=3307 db=app");
  CHECK(usual.user == "u");
  CHECK(usual.url_password == "p");
  REQUIRE(usual.endpoints.size() == 1);
  CHECK(usual.endpoints[0].host == "h");
  CHECK(usual.endpoints[0].port == 3307);
  CHECK(usual.encryption == backend::mysql::tls::off);
  CHECK(usual.database == "app");
  CHECK(read("host=h dbname = app\tuser=u").database == "app");
  CHECK(read("pass='x db=no' service='it\\'s mine' user=u").database == "it's mine");
  CHECK(read("password=a\\ db=no db=yes host=h").database == "yes");
  CHECK(read("db='' host=h").database.empty());
  CHECK_FALSE(read("host=h").url_password);
  CHECK_FALSE(read("host=h").user.empty());
  auto const by_socket = read("unix_socket=/tmp/s user=u");
  CHECK(by_socket.socket == "/tmp/s");
  CHECK(by_socket.endpoints.empty());
  CHECK(read("host=h sslca=/ca").encryption == backend::mysql::tls::required);
  for (char const* port : {"0", "x", "70000", "1x"})
    CHECK(thrown_by([&] { read((std::string("host=h port=") + port).c_str()); }).reason() ==
          errc::invalid_argument);
}

TEST_CASE("soci: what a connect string for postgresql says to libpq") {
  auto const read = [](char const* text) { return backend::soci::conninfo_in(text); };
  CHECK(read("host=h dbname='my app'") == "host=h dbname='my app'");
  CHECK(read("host=h singlerow=true dbname='my \\'app'") == "host='h' dbname='my \\'app'");
  CHECK(read("singlerows = yes host=h") == "host='h'");
}

TEST_CASE_TEMPLATE("soci: T16: a pool with one session is enough for a lock and its renewals", On,
                   ROWLOCK_BACKENDS) {
  scene s(On::kind, 1);
  s.options.reply_timeout = 3s;
  auto const m = s.manager();
  auto held = m->make_mutex("x", {.ttl = 6s}).try_acquire();
  REQUIRE(held);
  auto const first = *held->trusted_until();
  CHECK(eventually([&] { return *held->trusted_until() > first + 2 * 6s; }));
  CHECK(held->valid());
  CHECK(held->release() == release_result::released);
}

TEST_CASE_TEMPLATE("soci: the program has all of the pool's sessions while locks are held and waited for", On,
                   ROWLOCK_BACKENDS) {
  scene s(On::kind, 1);
  auto const m = s.manager();
  auto const other = s.manager();
  lease const program(*s.pool);
  mutex_options o;
  o.ttl = 6s;
  o.owner = each_acquire{};
  auto held = m->make_mutex("x", o).acquire();
  REQUIRE(held);
  CHECK_FALSE(other->make_mutex("x", o).try_acquire());
  wait_for_renewal(*held);
  CHECK(one(*program) == 1);
  CHECK(held->release() == release_result::released);
  if (is_sqlite(On::kind)) return;
  std::vector<acquisition> rows;
  for (int i = 0; i < 4; ++i) {
    rows.push_back(m->make_mutex("r" + std::to_string(i), {.strategy = strategy::row_lock}).try_acquire());
    CHECK(rows.back());
  }
}

TEST_CASE("soci: pools that can't be used are refused with a reason, and have all of their sessions") {
  ::soci::connection_pool closed(2);
  auto const e = thrown_by([&] { soci::source const s(closed); });
  CHECK(e.reason() == errc::invalid_argument);
  CHECK(contains(e.what(), "not open"));
  CHECK(has_all_sessions(closed, 2));
  auto const memory = make_soci_pool("sqlite::memory:", 1);
  CHECK(thrown_by([&] { soci::source const s(*memory); }).reason() == errc::unsupported);
  auto const db = make_database(kind::sqlite);
  auto const busy = make_soci_pool(db->url(), 1);
  lease const program(*busy);
  CHECK(thrown_by([&] { soci::source const s(*busy); }).reason() == errc::too_many_connections);
}

TEST_CASE("soci: a forked child of a process with such a pool on SQLite is refused a plain source, too") {
  scene s(kind::sqlite, 2);
  sqlite::source const plain(s.db->url().substr(std::string("sqlite:").size()));
  soci::source const ours(*s.pool);
  auto const refused = [](auto&& call) {
    auto const e = thrown_by(call);
    return e.reason() == errc::forked && contains(e.what(), "SOCI pool on SQLite");
  };
  child inner([&](child&) {
    return refused([&] { plain.implementation()->connect(in(20'000)); }) &&
                   refused([&] { soci::source const again(*s.pool); })
               ? 0
               : 1;
  });
  CHECK(inner.join() == 0);
  CHECK_NOTHROW(plain.implementation()->connect(in(20'000)));
}

TEST_CASE_TEMPLATE("D6: MySQL sessions of SOCI's that end do not break ours, nor ours theirs", On,
                   ROWLOCK_MYSQLS) {
  scene s(On::kind, 4);
  std::atomic<bool> stop{false};
  std::atomic<int> ended{0};
  // The destructor of SOCI's session is said to end the client library for all.
  std::jthread const ender([&] {
    while (!stop) {
      make_soci_pool(s.db->url(), 1);
      ++ended;
    }
  });
  {
    auto const m = s.manager();
    auto const held = m->make_mutex("held", {.ttl = 15s}).try_acquire();
    REQUIRE(held);
    for (int i = 0; i < 30; ++i) {
      // New connections, and what happens to be there.
      auto const other = s.manager();
      auto lock = other->make_mutex("x").try_acquire();
      REQUIRE(lock);
      CHECK(lock->release() == release_result::released);
      CHECK(s.db->connect()->usable());
    }
    wait_for_renewal(*held);
  }
  CHECK(eventually([&] { return ended > 0; }));
  stop = true;
  lease const l(*s.pool);
  CHECK(one(*l) == 1);
}

}  // namespace rowlock::test
