// Permits, two sessions, step by step: what each sees of what the other has not committed, or has just
// committed.

#include <fmt/format.h>

#include "functions/place.hpp"
#include "support/eventually.hpp"
#include "support/innodb.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// A session that can be seen to wait for a row.
class waiter {
 public:
  explicit waiter(place const& p)
      : place_(p),
        session_(p.session()),
        asking_(p.session()),
        watch_(p.source().implementation()->connect(boot_clock::now() + 60s)) {
    id_ = session_->run(p.is_mysql() ? "SELECT connection_id();" : "SELECT pg_backend_pid();");
  }
  /// False: not seen to. It waits for a second at most, which may be over on a slow machine.
  bool comes_to_wait(std::string const& sql) {
    session_->send(sql);
    if (place_.is_mysql()) return test::comes_to_wait(*watch_, std::stoll(id_));
    auto const waits =
        "SELECT count(*) FROM pg_stat_activity WHERE pid = " + id_ + " AND wait_event_type = 'Lock';";
    return eventually([&] { return asking_->run(waits) == "1"; }, 900ms);
  }
  std::optional<taken> goes_on() { return place::taken_in(session_->reply(60s).value_or("no reply")); }

 private:
  place const& place_;
  std::unique_ptr<client> session_;
  std::unique_ptr<client> asking_;
  std::unique_ptr<backend::connection> watch_;
  std::string id_;
};

/// A take as the library's, in its three steps, by hand.
class by_hand {
 public:
  explicit by_hand(place const& p) : place_(p), session_(p.session()) {
    auto const anchor = fmt::format("SELECT 1 FROM {} WHERE name = 'n' FOR UPDATE;", p.table("locks"));
    CHECK(session_->run("BEGIN; " + anchor) == "1");
  }
  /// `more` goes into the anchor's UPDATE.
  void takes(std::int64_t units, std::string const& more = "") {
    CHECK(session_
              ->run(fmt::format(
                  "INSERT INTO {} (name, strategy, term, token, expires_at, units, told) VALUES ('n', "
                  "'shared', "
                  "'other', 1, {}, {}, 2147483647); UPDATE {} SET token = token + 1{} WHERE name = 'n'; "
                  "COMMIT;",
                  place_.table("permits"), place_.in_seconds(60), units, place_.table("locks"), more))
              .empty());
  }

 private:
  place const& place_;
  std::unique_ptr<client> session_;
};

/// The name's anchor is there.
void used_before(place const& p) {
  auto const c = p.session();
  auto const t = p.read(*c, "n");
  REQUIRE(t);
  REQUIRE(c->run(p.call("release_permit", "n", t->term)) == "1");
}

constexpr std::int64_t all_units = 2147483647;

}  // namespace

FUNCTIONS_CASE("C43: permits: of two takers in one moment the second counts the first one's permit") {
  Place const p;
  used_before(p);
  for (auto const& [units, take] :
       {std::pair{std::int64_t{1}, p.write_text("n")}, std::pair{all_units, p.write_text("n")},
        std::pair{all_units, p.read_text("n")}}) {
    bool waited = false;
    for (int tries = 0; tries < 60 && !waited; ++tries) {
      waiter second(p);
      by_hand first(p);
      waited = second.comes_to_wait(take);
      first.takes(units);
      CHECK_FALSE(second.goes_on());
      CHECK(p.permits_of("n") == 1);
      CHECK(p.ask(fmt::format("DELETE FROM {};", p.table("permits"))).empty());
    }
    CHECK(waited);
  }
}

FUNCTIONS_CASE(
    "permits: of two readers in one moment both get it, beside a third one who had it all the time") {
  Place const p;
  auto const c = p.session();
  REQUIRE(p.read(*c, "n"));
  bool both = false;
  for (int tries = 0; tries < 60 && !both; ++tries) {
    waiter second(p);
    by_hand first(p);
    bool const waited = second.comes_to_wait(p.read_text("n"));
    first.takes(1);
    both = second.goes_on() && waited;
    if (!both) CHECK(p.ask(fmt::format("DELETE FROM {} WHERE term = 'other';", p.table("permits"))).empty());
  }
  CHECK(both);
}

TEST_CASE("C92: permits: of two readers in one moment both get it, also if the anchor moves on<postgresql>") {
  postgresql_place const p;
  auto const c = p.session();
  REQUIRE(p.read(*c, "n"));
  bool both = false;
  for (int tries = 0; tries < 60 && !both; ++tries) {
    waiter second(p);
    by_hand first(p);
    bool const waited = second.comes_to_wait(p.read_text("n"));
    first.takes(1, ", generation = generation + 1");
    both = second.goes_on() && waited;
    if (!both) CHECK(p.ask(fmt::format("DELETE FROM {} WHERE term = 'other';", p.table("permits"))).empty());
  }
  CHECK(both);
}

TEST_CASE(
    "functions: permits: while a transaction that took one goes on, nobody else takes the name<postgresql>") {
  postgresql_place const p;
  auto const a = p.session();
  auto const b = p.session();
  auto const m = p.manager();
  bool there = true;
  SUBCASE("a name that was used before") {}
  SUBCASE("a name that it has just made") { there = false; }
  std::optional<taken> reader;
  if (there) reader = p.read(*b, "n");
  for (std::string const end : {"ROLLBACK;", "COMMIT;"}) {
    CAPTURE(end);
    CHECK(a->run("BEGIN;").empty());
    auto const mine = p.read(*a, "n");
    REQUIRE(mine);
    CHECK(a->run(p.call("renew_permit", "n", mine->term)) == "1");
    CHECK(b->run("BEGIN;").empty());
    CHECK(timed([&] { CHECK_FALSE(p.read(*b, "n")); }) < 20s);
    CHECK(timed([&] { CHECK_FALSE(m->make_shared_mutex("n").try_acquire_shared()); }) < 20s);
    CHECK(p.write(*b, "another"));  // no other name is held up, and b's transaction goes on
    CHECK(b->run("ROLLBACK;").empty());
    if (reader) {  // nor is who has a permit already
      CHECK(at_once([&] {
        CHECK(b->run(p.call("renew_permit", "n", reader->term)) == "1");
        CHECK(b->run(p.call("require_permit", "n", reader->term)).empty());
      }));
      CHECK(b->run(p.call("release_permit", "n", reader->term)) == "1");
    }
    reader.reset();
    CHECK(a->run(end).empty());
    auto const writes = p.write(*b, "n");
    CHECK(writes.has_value() == (end == "ROLLBACK;"));
    if (writes) CHECK(b->run(p.call("release_permit", "n", writes->term)) == "1");
    CHECK(a->run(p.call("renew_permit", "n", mine->term)) == (end == "COMMIT;" ? "1" : "0"));
  }
}

TEST_CASE(
    "functions: permits: take, give back and take again in one transaction, with savepoints<postgresql>") {
  postgresql_place const p;
  auto const c = p.session();
  CHECK(c->run("BEGIN;").empty());
  for (int i = 0; i < 3; ++i) {
    auto const t = p.write(*c, "n");
    REQUIRE(t);
    CHECK_FALSE(p.read(*c, "n"));
    CHECK(c->run("SAVEPOINT s;").empty());
    CHECK(c->run(p.call("release_permit", "n", t->term)) == "1");
    REQUIRE(p.write(*c, "n"));
    CHECK(c->run("ROLLBACK TO s;").empty());
    CHECK(c->run(p.call("release_permit", "n", t->term)) == "1");
  }
  CHECK(c->run("COMMIT;").empty());
  CHECK(p.write(*c, "n"));
}

TEST_CASE("functions: permits: who is refused in a transaction keeps nobody else from the name<postgresql>") {
  postgresql_place const p;
  auto const a = p.session();
  auto const b = p.session();
  auto const t = p.read(*a, "n");
  REQUIRE(t);
  CHECK(b->run("BEGIN;").empty());
  CHECK_FALSE(p.write(*b, "n"));
  // Refused with the anchor locked: an intent is seen only there. It counts for 2 s at most: told anew until
  // the take has met it.
  CHECK(b->run("SAVEPOINT s;").empty());
  bool refused = false;
  for (int i = 0; i < 20 && !refused; ++i) {
    CHECK(p.ask("UPDATE rowlock_locks SET intent_units = 2147483647, intent_term = 'x', intent_until = "
                "clock_timestamp() + interval '1.9 s';")
              .empty());
    refused = !p.read(*b, "n");
    if (!refused) CHECK(b->run("ROLLBACK TO s;").empty());
  }
  CHECK(refused);
  CHECK(p.ask("UPDATE rowlock_locks SET intent_until = NULL;").empty());
  CHECK(at_once([&] { CHECK(p.read(*a, "n")); }));
  CHECK(a->run(p.call("renew_permit", "n", t->term)) == "1");
  CHECK(b->run("COMMIT;").empty());
}

MYSQL_FUNCTIONS_CASE("permits: none is taken in a transaction of the caller's, which goes on") {
  Place const p;
  auto const c = p.session();
  used_before(p);
  CHECK(p.ask("CREATE TABLE work (id int);").empty());
  for (std::string const begin :
       {"START TRANSACTION;", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN;",
        "SET autocommit = 0; SELECT id FROM work WHERE id < 0;"}) {
    CAPTURE(begin);
    CHECK(c->run(begin + " INSERT INTO work VALUES (1);").empty());
    for (auto const& take : {p.read_text("n"), p.write_text("n"), p.permit_text("m", 1, 2)})
      CHECK(c->run(take).find("ERROR 30006 (45000)") != std::string::npos);
    CHECK(p.permits_of("n") == 0);
    CHECK(c->run("INSERT INTO work VALUES (2); COMMIT; SET autocommit = 1;").empty());
  }
  CHECK(p.ask("SELECT count(*) FROM work;") == "6");
  // Without one, a take is in force when it returns, also where autocommit is off.
  CHECK(c->run("SET autocommit = 0;").empty());
  auto const t = p.write(*c, "n");
  REQUIRE(t);
  CHECK_FALSE(p.read(*p.session(), "n"));
  CHECK(c->run("ROLLBACK;").empty());
  CHECK(c->run(p.call("renew_permit", "n", t->term)) == "1");
  CHECK(c->run("COMMIT;").empty());
}

FUNCTIONS_CASE("C42: permits: who is late, and guards, is not waited for, and is counted until COMMIT") {
  Place const p;
  auto const holder = p.session();
  auto const other = p.session();
  auto const t = p.read(*holder, "n", 3000);
  REQUIRE(t);
  REQUIRE(p.read(*other, "n", 3000));  // and another one, which is just late
  CHECK(holder->run("BEGIN;").empty());
  CHECK(holder->run(p.call("require_permit", "n", t->term)).empty());
  auto const living =
      fmt::format("SELECT count(*) FROM {} WHERE expires_at > {};", p.table("permits"), p.in_seconds(0));
  REQUIRE(eventually([&] { return p.ask(living) == "0"; }));
  CHECK(at_once([&] { CHECK_FALSE(p.write(*other, "n")); }));
  CHECK(p.permits_of("n") == 1);
  CHECK_FALSE(p.manager()->make_shared_mutex("n").try_acquire());
  std::optional<taken> reads;
  CHECK(at_once([&] {
    if (reads) CHECK(other->run(p.call("release_permit", "n", reads->term)) == "1");
    reads = p.read(*other, "n");
  }));
  REQUIRE(reads);
  CHECK(other->run(p.call("release_permit", "n", reads->term)) == "1");
  CHECK(holder->run("COMMIT;").empty());
  CHECK(p.write(*other, "n"));
}

FUNCTIONS_CASE("permits: require fails once the permit is gone, and the transaction can only roll back") {
  Place const p;
  auto const holder = p.session();
  CHECK(p.ask("CREATE TABLE work (id int);").empty());
  auto const t = p.read(*holder, "n");
  REQUIRE(t);
  p.expire_permits("n");
  auto const m = p.manager();
  auto x = m->make_shared_mutex("n");
  auto const theirs = x.try_acquire();
  REQUIRE(theirs);
  CHECK(holder->run("BEGIN;").empty());
  CHECK(holder->run("INSERT INTO work VALUES (1);").empty());
  CHECK(holder->run(p.call("require_permit", "n", t->term)).find(p.lost()) != std::string::npos);
  CHECK(holder->run("ROLLBACK;").empty());
  CHECK(p.ask("SELECT count(*) FROM work;") == "0");
  CHECK(holder->run(p.call("require_permit", "n", theirs->term().value)).empty());
}

FUNCTIONS_CASE("permits: one that was given back counts until COMMIT, and is held after ROLLBACK") {
  Place const p;
  auto const a = p.session();
  auto const b = p.session();
  auto const t = p.write(*a, "n");
  REQUIRE(t);
  for (std::string const end : {"ROLLBACK;", "COMMIT;"}) {
    CHECK(a->run("BEGIN;").empty());
    CHECK(a->run(p.call("release_permit", "n", t->term)) == "1");
    CHECK(at_once([&] { CHECK_FALSE(p.read(*b, "n")); }));
    CHECK(a->run(end).empty());
    CHECK(p.read(*b, "n").has_value() == (end == "COMMIT;"));
  }
}

FUNCTIONS_CASE("permits: a renewal and a release that meet a locked row say neither yes nor no") {
  Place const p;
  auto const a = p.session();
  auto const b = p.session();
  auto const t = p.read(*a, "n");
  REQUIRE(t);
  CHECK(a->run("BEGIN;").empty());
  CHECK(a->run(p.call("require_permit", "n", t->term)).empty());
  CHECK(b->run("BEGIN;").empty());
  CHECK(timed([&] {
          CHECK(b->run(p.call("renew_permit", "n", t->term)).empty());
          CHECK(b->run(p.call("release_permit", "n", t->term)).empty());
        }) < 40s);
  CHECK(b->run(p.call("require_permit", "n", t->term)).find("ERROR") != std::string::npos);
  CHECK(b->run("ROLLBACK;").empty());
  CHECK(a->run("COMMIT;").empty());
  CHECK(b->run(p.call("renew_permit", "n", t->term)) == "1");
}

FUNCTIONS_CASE("permits: of many who ask at the same time one writes") {
  Place const p;
  std::vector<std::unique_ptr<client>> all;
  for (int i = 0; i < 4; ++i) all.push_back(p.session());
  int done = 0;
  for (int round = 0; round < 20; ++round) {
    for (auto const& c : all) c->send(p.write_text("n"));
    std::optional<taken> held;
    for (auto const& c : all) {
      auto const got = place::taken_in(c->reply(60s).value_or("no reply"));
      if (!got) continue;
      CHECK_FALSE(held);
      held = got;
    }
    if (!held) continue;
    ++done;
    CHECK(p.permits_of("n") == 1);
    CHECK(all[0]->run(p.call("release_permit", "n", held->term)) == "1");
  }
  CHECK(done > 10);
}
