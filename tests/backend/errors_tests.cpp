// What all back ends report alike.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>

#include "backend/database.hpp"

namespace rowlock::test {
namespace {

using backend::value;
using namespace std::chrono_literals;

// A lock row "job", and a second session whose open transaction has written it.
struct locked_row {
  std::unique_ptr<database> db;
  std::unique_ptr<backend::connection> holder;
  std::unique_ptr<backend::connection> waiter;

  explicit locked_row(kind k) : db(make_database(k)), holder(db->connect()), waiter(db->connect()) {
    holder->execute(db->book().at("lock_insert_free"), with("job", "lease"), in(20'000));
    holder->script(begin_of(k), in(20'000));
    holder->script(db->tables().render("UPDATE rowlock_locks SET note = 'guarded' WHERE name = 'job'"),
                   in(20'000));
  }
  error take(int deadline_ms) {
    return thrown_by(
        [&] { waiter->execute(db->book().at("lock_take"), take_parameters("job", "t1"), in(deadline_ms)); });
  }
};

}  // namespace

TEST_CASE_TEMPLATE("errors: a missing table is schema_missing, with the way out", On, ROWLOCK_BACKENDS) {
  auto const db = make_empty_database(On::kind);
  auto const c = db->connect();
  auto const e = thrown_by([&] { c->execute(db->book().at("meta_read"), {}, in(20'000)); });
  CHECK(e.reason() == errc::schema_missing);
  CHECK(e.statement() == "meta_read");
  CHECK(says(e, "meta"));
  CHECK(says(e, "rowlock migrate validate"));
  CHECK(c->usable());
}

TEST_CASE_TEMPLATE("errors: a missing column is schema_missing", On, ROWLOCK_BACKENDS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  auto const e =
      thrown_by([&] { c->execute(adhoc(*db, "x", "SELECT nosuch FROM rowlock_meta"), {}, in(20'000)); });
  CHECK(e.reason() == errc::schema_missing);
  CHECK(says(e, "nosuch"));
}

TEST_CASE_TEMPLATE("errors: a table that goes away while its statement is prepared", On, ROWLOCK_BACKENDS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  auto const book = db->book();
  auto const& read = book.at("meta_read");
  c->execute(read, {}, in(20'000));
  db->connect()->script(db->tables().render("DROP TABLE rowlock_meta"), in(20'000));
  CHECK(thrown_by([&] { c->execute(read, {}, in(20'000)); }).reason() == errc::schema_missing);
  CHECK(c->usable());
}

TEST_CASE_TEMPLATE("errors: nonsense is failed, and the session goes on", On, ROWLOCK_BACKENDS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  CHECK(thrown_by([&] { c->execute(adhoc(*db, "x", "SELEKT 1"), {}, in(20'000)); }).reason() == errc::failed);
  CHECK(thrown_by([&] { c->execute(adhoc(*db, "x", ""), {}, in(20'000)); }).reason() == errc::failed);
  CHECK(thrown_by([&] { c->script("SELEKT 1", in(20'000)); }).reason() == errc::failed);
  auto const twice = adhoc(*db, "twice", "INSERT INTO rowlock_meta SELECT * FROM rowlock_meta");
  CHECK(thrown_by([&] { c->execute(twice, {}, in(20'000)); }).reason() == errc::failed);
  CHECK(c->usable());
  CHECK(c->execute(db->book().at("meta_read"), {}, in(20'000)).rows.size() == 1);
}

TEST_CASE_TEMPLATE("errors: B25: a row in another's transaction is row_locked after about a second", On,
                   ROWLOCK_BACKENDS) {
  locked_row scene(On::kind);
  auto const start = boot_clock::now();
  auto const e = scene.take(8000);
  auto const took = boot_clock::now() - start;
  CHECK(e.reason() == errc::row_locked);
  CHECK(e.retryable());
  CHECK(took > 800ms);
  CHECK(took < 20s);
  REQUIRE(scene.waiter->usable());
  scene.holder->script("ROLLBACK", in(20'000));
  auto const r =
      scene.waiter->execute(scene.db->book().at("lock_take"), take_parameters("job", "t1"), in(20'000));
  CHECK(r.affected == 1);
}

// As one that was stopped, or whose host is gone, would be: its connection stays as it is.
TEST_CASE_TEMPLATE(
    "C5: a client that is silent within a transaction has a row locked for half a minute at most", On,
    on_postgresql, ROWLOCK_MYSQLS) {
  locked_row scene(On::kind);
  CHECK(scene.take(8000).reason() == errc::row_locked);
  auto const free = [&] {
    try {
      return scene.waiter->execute(scene.db->book().at("lock_take"), take_parameters("job", "t1"), in(20'000))
                 .affected == 1;
    } catch (error const& e) {
      CHECK(e.reason() == errc::row_locked);
      return false;
    }
  };
  bool had = false;
  for (auto const until = in(90'000); !had && boot_clock::now() < until;) had = free();
  CHECK(had);
  CHECK_THROWS_AS(scene.holder->script("COMMIT", in(20'000)), error);
}

TEST_CASE_TEMPLATE("C5: between transactions a client may be silent for longer", On, ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  auto const limit = [&] {
    return backend::as_int(
        c->execute(adhoc(*db, "limit", "SELECT @@SESSION.wait_timeout"), {}, in(20'000)).rows.at(0).at(0));
  };
  auto const before = limit();
  REQUIRE(before > 30);
  for (std::string const end : {"COMMIT", "ROLLBACK"}) {
    c->script(begin_of(On::kind), in(20'000));
    CHECK(limit() == 30);
    c->script(end, in(20'000));
    CHECK(limit() == before);
  }
}

TEST_CASE_TEMPLATE("errors: a deadline before that ends the wait", On, ROWLOCK_BACKENDS) {
  locked_row scene(On::kind);
  auto const start = boot_clock::now();
  auto const e = scene.take(600);
  auto const took = boot_clock::now() - start;
  // SQLite's wait is our own; what a server is doing with the statement can't be known.
  CHECK(e.reason() == (is_sqlite(On::kind) ? errc::row_locked : errc::in_doubt));
  CHECK(scene.waiter->usable() == (is_sqlite(On::kind)));
  CHECK(took > 500ms);
  CHECK(took < 20s);
}

TEST_CASE_TEMPLATE("errors: a deadline that has passed already sends nothing", On, ROWLOCK_BACKENDS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  auto const row = with("job", "lease");
  auto const e = thrown_by([&] { c->execute(db->book().at("lock_insert_free"), row, in(-1)); });
  CHECK(e.reason() == errc::unreachable);
  CHECK(db->connect()->execute(db->book().at("lock_list"), list_parameters(), in(20'000)).rows.empty());
}

TEST_CASE_TEMPLATE("script: BEGIN, a failure, ROLLBACK leave nothing behind", On, ROWLOCK_BACKENDS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  auto const text = [&](char const* sql) { return db->tables().render(sql); };
  c->script(is_mysql(On::kind) ? "START TRANSACTION" : "BEGIN", in(20'000));
  c->script(text("UPDATE rowlock_meta SET token_floor = 5; UPDATE rowlock_meta SET token_floor = 6"),
            in(20'000));
  auto const broken = text("UPDATE rowlock_meta SET token_floor = 7; UPDATE rowlock_meta SET id = 2");
  CHECK(thrown_by([&] { c->script(broken, in(20'000)); }).reason() == errc::failed);
  c->script("ROLLBACK", in(20'000));
  auto const floor = adhoc(*db, "floor", "SELECT token_floor FROM rowlock_meta");
  CHECK(backend::as_int(c->execute(floor, {}, in(20'000)).rows.at(0).at(0)) == 0);
  c->script(text("BEGIN; UPDATE rowlock_meta SET token_floor = 8; COMMIT"), in(20'000));
  CHECK(backend::as_int(c->execute(floor, {}, in(20'000)).rows.at(0).at(0)) == 8);
}

TEST_CASE_TEMPLATE("identity: one for all sessions of a database, another for another", On,
                   ROWLOCK_BACKENDS) {
  auto const one = make_empty_database(On::kind);
  CHECK(one->connect()->server_identity() == one->connect()->server_identity());
  CHECK(!one->connect()->server_identity().empty());
  if (is_sqlite(On::kind) || is_mysql(On::kind))
    CHECK(make_empty_database(On::kind)->connect()->server_identity() != one->connect()->server_identity());
}

}  // namespace rowlock::test
