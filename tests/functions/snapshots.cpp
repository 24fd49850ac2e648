// PostgreSQL: a lock that is taken, and what it protects read, in one statement: the statement's snapshot may
// be older than the lock.

#include <fmt/format.h>

#include "functions/place.hpp"
#include "support/eventually.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// A number that the lock "n" protects.
class counted : public postgresql_place {
 public:
  explicit counted(bool own_schema = false, std::string function = "try_acquire")
      : postgresql_place(own_schema), function_(std::move(function)) {
    change("CREATE TABLE counted (n int)");
    change("INSERT INTO counted VALUES (0)");
  }
  std::string number() const { return "(SELECT n FROM " + place_of("counted") + ")"; }
  void set(int n) const { change(fmt::format("UPDATE counted SET n = {}", n)); }
  bool expired() const {
    return ask(fmt::format("SELECT expires_at < clock_timestamp() FROM {} WHERE name = 'n';",
                           table("locks"))) == "t";
  }
  /// Takes and reads.
  std::string section(std::string const& before = "", std::string const& name = "'n'") const {
    return fmt::format("SELECT {} FROM {}{}({}, '1 min') AS t;", number(), before, table(function_), name);
  }

 private:
  std::string function_;
  std::string place_of(std::string const& what) const { return schema.empty() ? what : schema + "." + what; }
  void change(std::string sql) const {
    auto const at = sql.find("counted");
    CHECK(ask(sql.replace(at, 7, place_of("counted")) + ";").empty());
  }
};

/// Such a statement, which stands still when its snapshot has been made and it has not taken yet.
class standing_still {
 public:
  struct later {};
  standing_still(counted const& p, later) : place_(p), taker_(p.session()), queue_(p.session()) {
    key_ = taker_->run("SELECT pg_backend_pid();");
    CHECK(queue_->run(fmt::format("SELECT pg_advisory_lock({}) IS NULL;", key_)) == "f");
  }
  explicit standing_still(counted const& p) : standing_still(p, later{}) { begin(); }
  void begin() {
    taker_->send(
        fmt::format("WITH queue AS MATERIALIZED (SELECT pg_advisory_lock_shared({})::text AS open) {}", key_,
                    place_.section("queue, LATERAL ", "'n' || left(queue.open, 0)")));
    REQUIRE(eventually([&] {
      return queue_->run(fmt::format("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = {} "
                                     "AND NOT granted;",
                                     key_)) == "1";
    }));
  }
  /// What it has read; empty: it has no lock.
  std::string goes_on() {
    CHECK(queue_->run(fmt::format("SELECT pg_advisory_unlock({});", key_)) == "t");
    return taker_->reply(60s).value_or("no reply");
  }

 private:
  counted const& place_;
  std::unique_ptr<client> taker_;
  std::unique_ptr<client> queue_;
  std::string key_;
};

}  // namespace

TEST_CASE(
    "C4: postgresql: a lock that was given back after the statement began is busy for it, not for the next") {
  for (bool const own_schema : {false, true}) {
    counted const p(own_schema);
    auto const other = p.session();
    auto const held = p.take(*other, "n");
    REQUIRE(held);
    standing_still late(p);
    p.set(1);
    CHECK(p.release(*other, "n", held->term) == "1");
    CHECK(late.goes_on().empty());
    CHECK(other->run(p.section()) == "1");
  }
}

TEST_CASE(
    "C4: postgresql: a name that was not there, and was used since the statement began, is busy for it") {
  counted const p;
  standing_still late(p);
  auto const other = p.session();
  auto const held = p.take(*other, "n");
  REQUIRE(held);
  p.set(1);
  CHECK(p.release(*other, "n", held->term) == "1");
  SUBCASE("its row is there") {}
  SUBCASE("its row was reaped") {
    CHECK(p.ask(fmt::format("UPDATE {} SET token_floor = {};", p.table("meta"), held->token)).empty());
    CHECK(p.ask(fmt::format("DELETE FROM {};", p.table("locks"))).empty());
  }
  SUBCASE("it was used so often that only the row is there which keeps its name [C92]") {
    for (int i = 0; i < 127; ++i) {
      auto const once_more = p.take(*other, "n");
      REQUIRE(once_more);
      REQUIRE(p.release(*other, "n", once_more->term) == "1");
    }
    CHECK(p.ask(fmt::format("SELECT term FROM {};", p.table("locks"))) == "name");
  }
  CHECK(late.goes_on().empty());
  CHECK(other->run(p.section()) == "1");
}

TEST_CASE("C4: postgresql: a lock that expired after the statement began is busy for it, not for the next") {
  counted const p;
  auto const other = p.session();
  standing_still late(p, standing_still::later{});
  REQUIRE(p.take(*other, "n", 10'000));
  late.begin();
  REQUIRE_FALSE(p.expired());
  p.set(1);
  REQUIRE(eventually([&] { return p.expired(); }, 60s));
  CHECK(late.goes_on().empty());
  CHECK(other->run(p.section()) == "1");
}

TEST_CASE(
    "C4: postgresql: a guarded write of the former holder's, after the statement began, is not missed") {
  counted const p;
  auto const other = p.session();
  auto const held = p.take(*other, "n");
  REQUIRE(held);
  p.expire("n");
  standing_still late(p);
  CHECK(p.require(*other, "n", held->term).empty());
  p.set(1);
  p.expire("n");
  CHECK(late.goes_on().empty());
  CHECK(other->run(p.section()) == "1");
}

TEST_CASE(
    "C4: postgresql: what is free and stays free is taken by a statement that stood still, whatever others "
    "do") {
  counted const p;
  auto const other = p.session();
  auto const busy = p.session();
  CHECK(busy->run("BEGIN;").empty());
  REQUIRE(p.take(*busy, "somebody else's, not committed"));
  auto const held = p.take(*other, "n");
  REQUIRE(held);
  p.set(7);
  CHECK(p.release(*other, "n", held->term) == "1");
  standing_still late(p);
  REQUIRE(p.take(*other, "another name"));
  CHECK(late.goes_on() == "7");
  CHECK(busy->run("COMMIT;").empty());
}

TEST_CASE("C4: postgresql: who waits in one transaction for a lock to expire gets it") {
  counted const p;
  auto const other = p.session();
  auto const sql = p.session();
  CHECK(sql->run("BEGIN; SELECT now() IS NULL;") == "f");
  REQUIRE(p.take(*other, "n", 100));
  REQUIRE(eventually([&] { return p.expired(); }, 60s));
  CHECK_FALSE(p.take(*sql, "n"));
  auto const got = p.take(*sql, "n");
  REQUIRE(got);
  CHECK(p.renew(*sql, "n", got->term) == "1");
  CHECK(sql->run("COMMIT;").empty());
}

TEST_CASE(
    "C4: postgresql: one's own changes are no others': take, give back and take again in one transaction") {
  counted const p;
  auto const sql = p.session();
  CHECK(sql->run("BEGIN;").empty());
  for (int i = 0; i < 3; ++i) {
    auto const got = p.take(*sql, "n");
    REQUIRE(got);
    CHECK(sql->run("SAVEPOINT s;").empty());
    CHECK(p.release(*sql, "n", got->term) == "1");
    REQUIRE(p.take(*sql, "n"));
    CHECK(sql->run("ROLLBACK TO s;").empty());
    CHECK(p.release(*sql, "n", got->term) == "1");
  }
  CHECK(sql->run("COMMIT;").empty());
  CHECK(p.take(*sql, "n"));
}

TEST_CASE(
    "C4: postgresql: permits: who wrote after the statement began keeps it from writing, not the next") {
  for (bool const own_schema : {false, true}) {
    counted const p(own_schema, "try_acquire_exclusive");
    auto const other = p.session();
    auto const held = p.write(*other, "n");
    REQUIRE(held);
    standing_still late(p);
    p.set(1);
    CHECK(other->run(p.call("release_permit", "n", held->term)) == "1");
    CHECK(late.goes_on().empty());
    CHECK(other->run(p.section()) == "1");
  }
}

TEST_CASE("C4: postgresql: permits: a writer who came and went after the statement began is not missed") {
  for (std::string const function : {"try_acquire_exclusive", "try_acquire_shared"}) {
    counted const p(false, function);
    auto const other = p.session();
    int uses = 0;
    SUBCASE("of a name that nobody had used") {}
    SUBCASE("of a name that is free") { uses = 1; }
    SUBCASE("of a name whose anchor moves on by it [C92]") { uses = 127; }
    SUBCASE("of a name whose anchor has moved on [C92]") { uses = 200; }
    for (int i = 0; i < uses; ++i)
      REQUIRE(other->run(p.call("release_permit", "n", p.read(*other, "n")->term)) == "1");
    standing_still late(p);
    auto const held = p.write(*other, "n");
    REQUIRE(held);
    p.set(1);
    CHECK(other->run(p.call("release_permit", "n", held->term)) == "1");
    CHECK(late.goes_on().empty());
    CHECK(other->run(p.section()) == "1");
  }
}

TEST_CASE("C4: postgresql: permits: a reader beside one who reads all the time gets it, whoever came since") {
  counted const p(false, "try_acquire_shared");
  auto const other = p.session();
  auto const all_the_time = p.read(*other, "n");
  REQUIRE(all_the_time);
  standing_still late(p);
  auto const since = p.read(*other, "n");
  REQUIRE(since);
  CHECK(other->run(p.call("release_permit", "n", since->term)) == "1");
  CHECK(late.goes_on() == "0");
}

TEST_CASE("C4: postgresql: permits: a late holder's guarded write after the statement began is not missed") {
  counted const p(false, "try_acquire_exclusive");
  auto const other = p.session();
  auto const held = p.write(*other, "n");
  REQUIRE(held);
  p.expire_permits("n");
  standing_still late(p);
  CHECK(other->run(p.call("require_permit", "n", held->term)).empty());
  p.set(1);
  SUBCASE("its permit has expired again") { p.expire_permits("n"); }
  SUBCASE("its permit was given back") {
    CHECK(other->run(p.call("release_permit", "n", held->term)) == "1");
  }
  CHECK(late.goes_on().empty());
  CHECK(other->run(p.section()) == "1");
}
