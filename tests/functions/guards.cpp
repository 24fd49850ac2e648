// Two sessions, step by step: what a transaction has locked, what it saw before, and what it may commit.

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "functions/place.hpp"
#include "support/eventually.hpp"
#include "support/source_path.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

std::string source_text(std::string const& path) {
  std::stringstream out;
  out << std::ifstream(source_path(path)).rdbuf();
  return out.str();
}

bool failed(std::string const& reply) { return reply.find("ERROR") != std::string::npos; }

}  // namespace

FUNCTIONS_CASE("require keeps a takeover off until COMMIT, though the term has expired meanwhile") {
  Place const p;
  auto const holder = p.session();
  auto const t = p.take(*holder, "n", 100);
  REQUIRE(t);
  CHECK(holder->run("BEGIN;").empty());
  CHECK(p.require(*holder, "n", t->term).empty());
  std::this_thread::sleep_for(150ms);  // beyond the ttl, by any clock
  auto const other = p.session();
  std::optional<taken> got;
  CHECK(at_once([&] { got = p.take(*other, "n"); }));
  CHECK_FALSE(got);
  auto const m = p.manager();
  CHECK(m->make_mutex("n").try_acquire().status() == acquire_status::contended);
  CHECK(holder->run("COMMIT;").empty());
  CHECK(p.take(*other, "n"));
}

FUNCTIONS_CASE("require fails once the term was taken over, and the transaction can only roll back") {
  Place const p;
  auto const holder = p.session();
  auto const t = p.take(*holder, "n");
  CHECK(p.ask("CREATE TABLE work (id int);").empty());
  p.expire("n");
  auto const m = p.manager();
  auto x = m->make_mutex("n");
  auto const theirs = x.try_acquire();
  REQUIRE(theirs);
  CHECK(holder->run("BEGIN;").empty());
  CHECK(holder->run("INSERT INTO work VALUES (1);").empty());
  CHECK(p.require(*holder, "n", t->term).find(p.lost()) != std::string::npos);
  CHECK(holder->run("ROLLBACK;").empty());
  CHECK(p.ask("SELECT count(*) FROM work;") == "0");
}

FUNCTIONS_CASE(
    "a row that another transaction has locked is busy at once, and one's own transaction goes on") {
  Place const p;
  auto const a = p.session();
  auto const b = p.session();
  CHECK(p.ask("CREATE TABLE work (id int);").empty());
  auto const t = p.take(*a, "n");
  REQUIRE(p.release(*a, "n", t->term) == "1");
  // Free, but being taken by a transaction that is open.
  CHECK(a->run("BEGIN;").empty());
  auto const theirs = p.take(*a, "n");
  REQUIRE(theirs);
  CHECK(b->run("BEGIN; INSERT INTO work VALUES (1);").empty());
  std::optional<taken> got;
  CHECK(at_once([&] { got = p.take(*b, "n"); }));
  CHECK_FALSE(got);
  CHECK(b->run("INSERT INTO work VALUES (2); COMMIT;").empty());
  CHECK(p.ask("SELECT count(*) FROM work;") == "2");
  CHECK(a->run("ROLLBACK;").empty());
  CHECK(p.renew(*a, "n", theirs->term) == "0");
  auto const next = p.take(*b, "n");
  REQUIRE(next);
}

FUNCTIONS_CASE(
    "a name that another transaction has just made is busy after a second, and one's own goes on") {
  Place const p;
  auto const a = p.session();
  auto const b = p.session();
  CHECK(p.ask("CREATE TABLE work (id int);").empty());
  CHECK(a->run("BEGIN;").empty());
  auto const t = p.take(*a, "fresh");
  REQUIRE(t);
  CHECK(b->run("BEGIN; INSERT INTO work VALUES (1);").empty());
  std::optional<taken> got;
  CHECK(timed([&] { got = p.take(*b, "fresh"); }) < 20s);
  CHECK_FALSE(got);
  CHECK(p.take(*b, "another"));  // no other name is held up
  CHECK(b->run("COMMIT;").empty());
  CHECK(a->run("COMMIT;").empty());
  CHECK(p.ask("SELECT count(*) FROM work;") == "1");
  CHECK(p.renew(*a, "fresh", t->term) == "1");
}

FUNCTIONS_CASE("a renewal and a release that meet a locked row say neither yes nor no") {
  Place const p;
  auto const a = p.session();
  auto const b = p.session();
  auto const t = p.take(*a, "n");
  REQUIRE(t);
  CHECK(a->run("BEGIN;").empty());
  CHECK(p.require(*a, "n", t->term).empty());
  CHECK(b->run("BEGIN;").empty());
  CHECK(timed([&] {
          CHECK(p.renew(*b, "n", t->term).empty());
          CHECK(p.release(*b, "n", t->term).empty());
        }) < 40s);
  CHECK(failed(p.require(*b, "n", t->term)));
  CHECK(b->run("ROLLBACK;").empty());
  CHECK(a->run("COMMIT;").empty());
  CHECK(p.renew(*b, "n", t->term) == "1");
  CHECK(p.release(*b, "n", t->term) == "1");
}

FUNCTIONS_CASE("a busy lock that a long transaction tried to take can be renewed by its holder") {
  Place const p;
  auto const a = p.session();
  auto const b = p.session();
  auto const t = p.take(*a, "n");
  REQUIRE(t);
  CHECK(b->run("BEGIN;").empty());
  CHECK_FALSE(p.take(*b, "n"));
  CHECK(p.renew(*a, "n", t->term) == "1");
  CHECK(p.release(*a, "n", t->term) == "1");
  CHECK(b->run("COMMIT;").empty());
}

FUNCTIONS_CASE("a lock that was taken in a transaction is given back by ROLLBACK, and held after COMMIT") {
  Place const p;
  auto const a = p.session();
  for (std::string const end : {"ROLLBACK;", "COMMIT;"}) {
    CAPTURE(end);
    CHECK(a->run("BEGIN;").empty());
    auto const t = p.take(*a, "n");
    REQUIRE(t);
    CHECK(p.renew(*a, "n", t->term) == "1");
    CHECK(a->run(end).empty());
    CHECK(p.renew(*a, "n", t->term) == (end == "COMMIT;" ? "1" : "0"));
  }
}

FUNCTIONS_CASE("a takeover that waits for a guard finds what it left") {
  Place const p;
  auto const holder = p.session();
  auto const late = p.session();
  auto const t = p.take(*holder, "n");
  REQUIRE(t);
  CHECK(holder->run("BEGIN;").empty());
  CHECK(p.require(*holder, "n", t->term).empty());
  late->send(p.call("release", "n", t->term));
  CHECK_FALSE(late->reply(200ms));  // it waits for the guard
  CHECK(holder->run("COMMIT;").empty());
  CHECK(late->reply() == "1");
  CHECK(p.require(*holder, "n", t->term).find(p.lost()) != std::string::npos);
}

FUNCTIONS_CASE("the example's table refuses what is written with a stale token") {
  Place const p;
  std::string const file =
      p.is_mysql() ? "lib/examples/stale-token-mysql.sql" : "lib/examples/stale-token-postgresql.sql";
  CHECK(p.apply(file).empty());
  CHECK(source_text("lib/doc/guide.md").find("(.." + file.substr(3) + ")") != std::string::npos);
  auto const paused = p.session();
  auto const next = p.session();
  auto const old = p.take(*paused, "account 1");
  REQUIRE(old);
  CHECK(p.ask("INSERT INTO account (id, balance) VALUES (1, 100);").empty());
  auto const write = [&](client& c, std::int64_t token, int balance) {
    return c.run(
        fmt::format("UPDATE account SET balance = {}, lock_token = {} WHERE id = 1;", balance, token));
  };
  CHECK(write(*paused, old->token, 110).empty());
  CHECK(write(*paused, old->token, 120).empty());
  p.expire("account 1");
  auto const fresh = p.take(*next, "account 1");
  REQUIRE(fresh);
  CHECK(write(*paused, old->token, 130).empty());  // nobody has written since: no harm
  CHECK(write(*next, fresh->token, 200).empty());
  CHECK(write(*paused, old->token, 140).find(p.stale()) != std::string::npos);
  CHECK(write(*next, fresh->token, 210).empty());
  CHECK(p.ask("SELECT cast(balance AS decimal(10, 0)) FROM account;") == "210");
}

FUNCTIONS_CASE("a trigger may require the lock for whoever writes") {
  Place const p;
  auto const c = p.session();
  CHECK(c->run("CREATE TABLE work (id int, term varchar(32));").empty());
  CHECK(
      c->run(
           p.is_mysql()
               ? "CREATE TRIGGER guard BEFORE INSERT ON work FOR EACH ROW CALL rowlock_require('n', "
                 "NEW.term);"
               : "CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM "
                 "rowlock_require('n', NEW.term); RETURN NEW; END $$; CREATE TRIGGER guard BEFORE INSERT ON "
                 "work FOR EACH ROW EXECUTE FUNCTION guard();")
          .empty());
  auto const t = p.take(*c, "n");
  REQUIRE(t);
  CHECK(c->run(fmt::format("INSERT INTO work VALUES (1, '{}');", t->term)).empty());
  p.expire("n");
  REQUIRE(p.take(*p.session(), "n"));
  CHECK(c->run(fmt::format("INSERT INTO work VALUES (2, '{}');", t->term)).find(p.lost()) !=
        std::string::npos);
  CHECK(p.ask("SELECT id FROM work;") == "1");
}

TEST_CASE("functions: a lock is not taken above READ COMMITTED, with a hint<postgresql>") {
  postgresql_place const p;
  auto const c = p.session();
  for (std::string const level : {"REPEATABLE READ", "SERIALIZABLE"}) {
    c->run("BEGIN ISOLATION LEVEL " + level + ";");
    auto const reply = c->run(p.take_text("n", 1000));
    CHECK(reply.find("0A000") != std::string::npos);
    CHECK(reply.find("READ COMMITTED") != std::string::npos);
    c->run("ROLLBACK;");
  }
  CHECK(p.ask("SELECT count(*) FROM rowlock_locks;") == "0");
  // Renewals are all right there, unless the row is younger than what the transaction sees.
  auto const t = p.take(*c, "n");
  REQUIRE(t);
  auto const other = p.session();
  c->run("BEGIN ISOLATION LEVEL REPEATABLE READ;");
  CHECK(p.require(*c, "n", t->term).empty());
  c->run("COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1;");
  CHECK(p.renew(*other, "n", t->term) == "1");
  CHECK(p.require(*c, "n", t->term).find("40001") != std::string::npos);
  c->run("ROLLBACK;");
}

// A take that loses the race after it looked: here, because the row is locked between its look and its grip.
// What it has locked then must not stay locked.
TEST_CASE("functions: a renewal behind a takeover leaves the new owner's row alone<postgresql>") {
  postgresql_place const p;
  auto const old = p.session();
  auto const next = p.session();
  auto const t = p.take(*old, "n");
  p.expire("n");
  CHECK(next->run("BEGIN;").empty());
  auto const theirs = p.take(*next, "n");
  REQUIRE(theirs);
  CHECK(old->run("BEGIN;").empty());
  old->send(p.call("renew", "n", t->term));
  CHECK_FALSE(old->reply(200ms));  // it waits for the takeover
  CHECK(next->run("COMMIT;").empty());
  CHECK(old->reply() == "0");
  CHECK(p.renew(*next, "n", theirs->term) == "1");  // the loser's transaction is still open
  CHECK(old->run("COMMIT;").empty());
}

MYSQL_FUNCTIONS_CASE("REPEATABLE READ with an old snapshot: never a wrong yes, and the token is one's own") {
  Place const p;
  auto const old = p.session();
  auto const other = p.session();
  auto const first = p.take(*other, "held");
  auto const gone = p.take(*other, "gone");
  REQUIRE(first);
  p.expire("gone");
  CHECK(old->run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION; SELECT 0 FROM "
                 "rowlock_locks WHERE name = 'nobody';")
            .empty());
  SUBCASE("what looks expired has been taken over since") {
    auto const theirs = p.take(*other, "gone");
    REQUIRE(theirs);
    CHECK_FALSE(p.take(*old, "gone"));
    CHECK(p.renew(*old, "gone", gone->term) == "0");
    CHECK(old->run("ROLLBACK;").empty());
    CHECK(p.renew(*other, "gone", theirs->term) == "1");
  }
  SUBCASE("what looks held was given back since: busy, until a transaction sees it") {
    CHECK(p.release(*other, "held", first->term) == "1");
    CHECK_FALSE(p.take(*old, "held"));
    CHECK(old->run("ROLLBACK;").empty());
    CHECK(p.take(*old, "held"));
  }
  SUBCASE("what looks expired still is: taken, with the token that is in the row") {
    auto const mine = p.take(*old, "gone");
    REQUIRE(mine);
    CHECK(mine->token > gone->token);
    CHECK(p.renew(*old, "gone", mine->term) == "1");
    CHECK(old->run("COMMIT;").empty());
    CHECK(p.ask("SELECT token FROM rowlock_locks WHERE name = 'gone';") == std::to_string(mine->token));
  }
  SUBCASE("what is not there was made, and taken, since") {
    auto const theirs = p.take(*other, "fresh");
    REQUIRE(theirs);
    CHECK_FALSE(p.take(*old, "fresh"));
    CHECK(old->run("ROLLBACK;").empty());
    CHECK(p.renew(*other, "fresh", theirs->term) == "1");
  }
  SUBCASE("a term that was renewed since is still a guard") {
    CHECK(p.renew(*other, "held", first->term) == "1");
    CHECK(p.require(*old, "held", first->term).empty());
    CHECK(old->run("COMMIT;").empty());
  }
}

// C4: whoever had it since may have written what this transaction can't see.
void take_in_an_old_snapshot(place const& p, bool once) {
  auto const old = p.session();
  auto const other = p.session();
  auto const m = p.manager();
  CHECK(p.ask("CREATE TABLE work (n int); INSERT INTO work VALUES (0);").empty());
  auto const text = [&](std::string const& name) { return once ? p.once_text(name) : p.take_text(name); };
  auto const take_it = [&](std::string const& name) {
    auto const reply = other->run(text(name));
    REQUIRE(reply.size() > 32);
    return reply.substr(0, 32);
  };
  auto const release = [&](std::string const& name, std::string const& term) {
    REQUIRE(other->run(p.call(once ? "release_once" : "release", name, term)) == "1");
  };
  auto const begin = [&] {
    CHECK(old->run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION; SELECT n "
                   "FROM work;") == "0");
  };
  auto const refused = [&](std::string const& name) {
    CHECK(p.ask("UPDATE work SET n = 1;").empty());
    for (int i = 0; i < 2; ++i) CHECK(old->run(text(name)).empty());
    CHECK(old->run("SELECT n FROM work; ROLLBACK;") == "0");
    CHECK(old->run("START TRANSACTION; SELECT n FROM work;") == "1");
    CHECK(old->run(text(name)).size() > 32);
    CHECK(old->run("COMMIT;").empty());
  };
  auto const section = [&](std::string const& name) { release(name, take_it(name)); };
  std::string const n = once ? "once" : "lease";
  CHECK(p.ask("UPDATE work SET n = 0;").empty());
  SUBCASE("a free row was taken and given back") {
    section(n);
    begin();
    section(n);
    refused(n);
  }
  SUBCASE("a name without a row was taken and given back") {
    begin();
    section(n);
    refused(n);
  }
  SUBCASE("a name without a row was taken, given back and reaped") {
    begin();
    section(n);
    CHECK(p.ask("UPDATE rowlock_meta SET token_floor = (SELECT max(token) FROM rowlock_locks); "
                "DELETE FROM rowlock_locks;")
              .empty());
    refused(n);
  }
  SUBCASE("a name without a row was drawn from by another strategy") {
    begin();
    CHECK(p.ask(fmt::format("INSERT INTO rowlock_tokens (name, token) VALUES ('{}', 7);", n)).empty());
    refused(n);
  }
  SUBCASE("the same, and the first try could not find out about it in time") {
    begin();
    section(n);
    CHECK(p.ask("UPDATE rowlock_meta SET token_floor = (SELECT max(token) FROM rowlock_locks); "
                "DELETE FROM rowlock_locks;")
              .empty());
    CHECK(other->run("START TRANSACTION; SELECT 5 FROM rowlock_meta FOR UPDATE;") == "5");
    CHECK(old->run(text(n)).empty());
    CHECK(other->run("ROLLBACK;").empty());
    refused(n);
  }
  SUBCASE("what had expired was taken over, and that has expired, too") {
    take_it(n);
    p.expire(n);
    begin();
    take_it(n);
    p.expire(n);
    refused(n);
  }
  SUBCASE("what had expired was taken over and given back") {
    take_it(n);
    p.expire(n);
    begin();
    section(n);
    refused(n);
  }
  SUBCASE("what had expired was renewed by its late holder, and has expired again") {
    auto const term = take_it(n);
    p.expire(n);
    begin();
    CHECK(p.renew(*other, n, term) == "1");
    p.expire(n);
    refused(n);
  }
  SUBCASE("a free row was taken and given back without fencing") {
    if (once) return;
    auto lock = m->make_mutex(n, {.fencing = false});
    REQUIRE(lock.try_acquire()->release() == release_result::released);
    begin();
    REQUIRE(lock.try_acquire()->release() == release_result::released);
    refused(n);
  }
  SUBCASE("nobody had it since") {
    section(n);
    begin();
    CHECK(old->run(text(n)).size() > 32);
    CHECK(old->run("ROLLBACK;").empty());
  }
  SUBCASE("nobody had it ever, and others work on other names") {
    begin();
    section("another " + n);
    CHECK(old->run(text(n)).size() > 32);
    CHECK(old->run("ROLLBACK;").empty());
  }
  // The one that is left: what expired after the snapshot, and was touched by nobody (lib/doc/functions.md).
  SUBCASE("what expired since, and nobody touched") {
    take_it(n);
    CHECK(
        p.ask(fmt::format("UPDATE rowlock_locks SET expires_at = {} WHERE name = '{}';", p.in_seconds(2), n))
            .empty());
    begin();
    CHECK(eventually(
        [&] {
          return p.ask(fmt::format(
                     "SELECT expires_at < utc_timestamp(6) FROM rowlock_locks WHERE name = '{}';", n)) == "1";
        },
        60s));
    CHECK(old->run(text(n)).size() > 32);
    CHECK(old->run("ROLLBACK;").empty());
  }
}

MYSQL_FUNCTIONS_CASE(
    "C4: a snapshot that is older than somebody's whole section gets no lock, a new one does") {
  take_in_an_old_snapshot(Place(), false);
}

MYSQL_FUNCTIONS_CASE(
    "C4: once: a snapshot that is older than somebody's whole section does not run it, a new one does") {
  take_in_an_old_snapshot(Place(), true);
}

// There is no old snapshot there. A lock on the floor would be the reaper's to wait for, or for the reaper to
// wait.
MYSQL_FUNCTIONS_CASE("at READ COMMITTED a take reads the token floor without a lock") {
  Place const p;
  auto const c = p.session();
  auto const other = p.session();
  CHECK(other->run("START TRANSACTION; SELECT 5 FROM rowlock_meta FOR UPDATE;") == "5");
  CHECK(c->run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION;").empty());
  CHECK(p.take(*c, "n"));
  CHECK(p.once(*c, "once"));
  CHECK(other->run("UPDATE rowlock_meta SET token_floor = token_floor + 1; COMMIT;").empty());
  CHECK(c->run("COMMIT;").empty());
}

// On by default in MariaDB 11.8 (tools/test --mariadb 11.8).
MYSQL_FUNCTIONS_CASE("C35: a renewal after the snapshot costs nothing at any isolation level") {
  Place const p;
  auto const c = p.session();
  auto const other = p.session();
  CHECK(p.ask("CREATE TABLE work (id int);").empty());
  auto const t = p.take(*other, "held");
  REQUIRE(t);
  int n = 0;
  for (std::string const level : {"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}) {
    CAPTURE(level);
    CHECK(c->run("SET SESSION TRANSACTION ISOLATION LEVEL " + level + "; START TRANSACTION;").empty());
    CHECK(c->run("SELECT 0 FROM work WHERE id = -1;").empty());
    CHECK(p.renew(*other, "held", t->term) == "1");
    CHECK(p.require(*c, "held", t->term).empty());
    CHECK(p.renew(*c, "held", t->term) == "1");
    CHECK_FALSE(p.take(*c, "held"));
    CHECK(c->run(fmt::format("INSERT INTO work VALUES ({}); COMMIT;", ++n)).empty());
    CHECK(p.ask("SELECT count(*) FROM work;") == std::to_string(n));
  }
}

MYSQL_FUNCTIONS_CASE("the session's own lock wait is as it was, also after an error") {
  Place const p;
  auto const c = p.session();
  auto const other = p.session();
  CHECK(c->run("SET SESSION innodb_lock_wait_timeout = 33;").empty());
  auto const t = p.take(*c, "n");
  CHECK(p.renew(*c, "n", t->term) == "1");
  CHECK(p.require(*c, "n", t->term).empty());
  CHECK_FALSE(p.take(*c, "n"));
  CHECK(failed(p.require(*c, "n", "x")));
  CHECK(failed(c->run(p.take_text("", 1000))));
  CHECK(other->run("START TRANSACTION;").empty());
  CHECK(p.require(*other, "n", t->term).empty());
  CHECK(p.renew(*c, "n", t->term).empty());
  CHECK(p.release(*c, "n", t->term).empty());
  CHECK(failed(p.require(*c, "n", t->term)));
  CHECK(other->run("COMMIT;").empty());
  CHECK(p.release(*c, "n", t->term) == "1");
  CHECK(c->run("SELECT @@SESSION.innodb_lock_wait_timeout;") == "33");
}

// However small the table is: else a transaction of one lock would hold up the renewals of all.
MYSQL_FUNCTIONS_CASE("no other name's row is locked on the way") {
  Place const p;
  auto const a = p.session();
  auto const b = p.session();
  std::vector<taken> all;
  for (std::string const name : {"a", "b", "c"}) all.push_back(*p.take(*a, name));
  CHECK(a->run("START TRANSACTION;").empty());
  CHECK(p.require(*a, "b", all[1].term).empty());
  CHECK(p.renew(*b, "a", all[0].term) == "1");
  CHECK(p.renew(*b, "c", all[2].term) == "1");
  CHECK(p.take(*b, "bb"));
  CHECK(p.release(*a, "b", all[1].term) == "1");
  CHECK(p.take(*b, "ab"));
  CHECK(p.take(*a, "b"));
  CHECK(p.renew(*b, "a", all[0].term) == "1");
  CHECK(a->run("COMMIT;").empty());
}
