// Tables that are missing, too old or too new, and servers that take no writes.
#include "contract/fixture.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

template <class F>
errc reason_of(F const& f) {
  try {
    f();
  } catch (error const& e) {
    return e.reason();
  }
  return errc{};
}

}  // namespace

CONTRACT_CASE("missing, old and new tables are told apart, with the command that mends it") {
  f.sql("UPDATE rowlock_meta SET schema_version = 0");
  CHECK(reason_of([&] { f.manager()->connect(); }) == errc::schema_old);
  f.sql("UPDATE rowlock_meta SET schema_version = 99, oldest_reader = 98");
  CHECK(reason_of([&] { f.manager()->connect(); }) == errc::schema_new);
  f.sql("UPDATE rowlock_meta SET schema_version = 99, oldest_reader = 1");
  CHECK(reason_of([&] { f.manager()->connect(); }) == errc{});  // old and new programs side by side
  f.sql("DROP TABLE rowlock_meta");
  try {
    (void)f.manager()->make_mutex("x").acquire();  // without a deadline: no use in waiting for tables
    FAIL("no tables, no lock");
  } catch (error const& e) {
    CHECK(e.reason() == errc::schema_missing);
    CHECK(std::string(e.what()).find("migrate up") != std::string::npos);
  }
}

CONTRACT_CASE("another database that answers under the same address is refused") {
  std::atomic<bool> cut{true};
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto lock = x.acquire();
  f.sql("UPDATE rowlock_meta SET database_id = 'a copy'");
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_take" && cut.exchange(false)) throw error(errc::unreachable, "cut off by the test");
  };
  auto y = m->make_mutex("y");
  CHECK(reason_of([&] { (void)y.try_acquire(); }) == errc::unreachable);
  CHECK(reason_of([&] { (void)y.try_acquire(); }) == errc::unreachable);
}

CONTRACT_CASE("prefixes that are no identifiers are refused") {
  for (std::string const bad : {"", "a b", "x\"; --", "1st", "\xc3\xa4"}) {
    CAPTURE(bad);
    auto o = f.options;
    o.table_prefix = bad;
    CHECK(reason_of([&] { f.manager(o); }) == errc::invalid_argument);
  }
}

TEST_CASE("T15: a read-only server is not busy: lease on postgresql") {
  postgresql_fixture f;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  { auto const lock = x.acquire(); }
  auto const conninfo = postgresql_conninfo() + " options='-c default_transaction_read_only=on'";
  lock_manager reader(conninfo, f.options);
  CHECK(reason_of([&] { (void)reader.make_mutex("x").acquire(); }) == errc::read_only);
  CHECK(reason_of([&] { (void)reader.make_mutex("x").try_acquire(); }) == errc::read_only);
}
