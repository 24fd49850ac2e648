// Wait queues, on sessions of their own: who has one, who comes next, and what is left behind.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "backend/database.hpp"
#include "support/eventually.hpp"

namespace rowlock::test {
namespace {

using backend::queue_entry;
using namespace std::chrono_literals;

#define ROWLOCK_WITH_QUEUES ::rowlock::test::on_sqlite, ROWLOCK_MYSQLS, ::rowlock::test::on_postgresql

struct scene {
  explicit scene(kind k) : d(make_database(k)) {}
  queue_entry enter(backend::connection& c, int ms, std::string const& name = "x",
                    std::stop_token stop = {}) const {
    return c.enter_queue(d->tables(), name, "who", in(ms), 5s, std::move(stop));
  }
  /// Another thread stands there.
  std::future<queue_entry> stand(backend::connection& c, std::stop_token stop = {}) const {
    return std::async(std::launch::async, [this, &c, stop] { return enter(c, 20'000, "x", stop); });
  }
  std::unique_ptr<database> d;
};

/// A session's place in the line of "x", as the server tells it; in SQLite's file, where one session is to
/// come, as the one that has the wait queue sees it.
class place_in_line {
 public:
  place_in_line(scene const& s, kind k, backend::connection& of) : scene_(s), watch_(s.d->connect()) {
    auto const ask = [&](char const* sql) {
      return backend::as_int(of.execute({"id", sql}, {}, in(20'000)).rows.at(0).at(0));
    };
    if (is_mysql(k))
      look_ = fmt::format(
          "SELECT count(*) FROM information_schema.processlist WHERE id = {} AND state = 'User lock'",
          ask("SELECT connection_id()"));
    else if (!is_sqlite(k))
      look_ = fmt::format(
          "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = {}",
          ask("SELECT pg_backend_pid()"));
  }
  bool is_taken(backend::connection& holder) const {
    return eventually([&] {
      if (look_.empty()) return holder.is_waited_for(scene_.d->tables(), "x");
      return backend::as_int(watch_->execute({"look", look_}, {}, in(20'000)).rows.at(0).at(0)) > 0;
    });
  }

 private:
  scene const& scene_;
  std::unique_ptr<backend::connection> watch_;
  std::string look_;
};

}  // namespace

TEST_CASE_TEMPLATE("wait queues: a free one is had at once, by one session, and is free when that has left",
                   On, ROWLOCK_WITH_QUEUES) {
  scene const s(On::kind);
  auto const a = s.d->connect();
  auto const b = s.d->connect();
  REQUIRE(a->has_queues());
  CHECK(s.enter(*a, 20'000) == queue_entry::was_free);
  CHECK(s.enter(*b, 50) == queue_entry::not_mine);
  a->leave_queue(in(20'000));
  CHECK(s.enter(*b, 20'000) == queue_entry::was_free);
}

TEST_CASE_TEMPLATE("wait queues: names differ by their letters' case, and by their tables", On,
                   ROWLOCK_WITH_QUEUES) {
  scene const s(On::kind);
  scene const t(On::kind);
  std::vector<std::unique_ptr<backend::connection>> all;
  for (auto const* name : {"x", "X", "x ", "it's $queue$ \\", "\xc3\xbc"}) {
    all.push_back(s.d->connect());
    CHECK(s.enter(*all.back(), 20'000, name) == queue_entry::was_free);
    auto const other = s.d->connect();
    CHECK(s.enter(*other, 20, name) == queue_entry::not_mine);
  }
  auto const elsewhere = t.d->connect();
  CHECK(t.enter(*elsewhere, 20'000) == queue_entry::was_free);
}

TEST_CASE_TEMPLATE("wait queues: C51, T9: who comes too late has nothing, also in the moment of its time-out",
                   On, ROWLOCK_WITH_QUEUES) {
  scene const s(On::kind);
  auto const holder = s.d->connect();
  auto const late = s.d->connect();
  auto const next = s.d->connect();
  int had = 0;
  for (int round = 0; round < 60; ++round) {
    REQUIRE(s.enter(*holder, 20'000) != queue_entry::not_mine);
    auto waits = std::async(std::launch::async, [&] { return s.enter(*late, 20); });
    std::this_thread::sleep_for(std::chrono::microseconds(15'000 + 200 * round));  // about the time-out
    holder->leave_queue(in(20'000));
    if (waits.get() != queue_entry::not_mine) {
      ++had;
      late->leave_queue(in(20'000));
    }
    REQUIRE(s.enter(*next, 20'000) == queue_entry::was_free);
    next->leave_queue(in(20'000));
  }
  MESSAGE("had it in " << had << " of 60 rounds");
}

// GET_LOCK() rounds its seconds: a wait of 0.4 s would be none, again and again.
TEST_CASE_TEMPLATE("wait queues: C53: a wait of less than a second lasts as long, in few statements", On,
                   ROWLOCK_MYSQLS) {
  scene const s(On::kind);
  auto const holder = s.d->connect();
  auto const late = s.d->connect();
  auto const questions = [&] {
    auto const r = late->execute({"questions", "SHOW SESSION STATUS LIKE 'Questions'"}, {}, in(20'000));
    return std::stoi(backend::as_text(r.rows.at(0).at(1)));
  };
  REQUIRE(s.enter(*holder, 20'000) == queue_entry::was_free);
  auto const asked = questions();
  auto const began = boot_clock::now();
  CHECK(s.enter(*late, 400) == queue_entry::not_mine);
  CHECK(boot_clock::now() - began >= 350ms);
  CHECK(questions() - asked < 20);
}

TEST_CASE_TEMPLATE("wait queues: who leaves hears whether others are there", On, ROWLOCK_WITH_QUEUES) {
  scene const s(On::kind);
  auto const holder = s.d->connect();
  auto const next = s.d->connect();
  REQUIRE(s.enter(*holder, 20'000) == queue_entry::was_free);
  CHECK_FALSE(holder->leave_queue(in(20'000)));
  REQUIRE(s.enter(*holder, 20'000) == queue_entry::was_free);
  place_in_line const place(s, On::kind, *next);
  auto waits = s.stand(*next);
  REQUIRE(place.is_taken(*holder));
  CHECK(holder->leave_queue(in(20'000)));
  CHECK(waits.get() == queue_entry::in_its_turn);
  CHECK_FALSE(next->leave_queue(in(20'000)));
}

TEST_CASE_TEMPLATE("wait queues: a holder whose session is killed lets the next one in", On,
                   ROWLOCK_WITH_QUEUES) {
  scene const s(On::kind);
  auto holder = s.d->connect();
  auto const next = s.d->connect();
  REQUIRE(s.enter(*holder, 20'000) == queue_entry::was_free);
  place_in_line const place(s, On::kind, *next);
  auto waits = s.stand(*next);
  REQUIRE(place.is_taken(*holder));
  holder->close();
  CHECK(waits.get() == queue_entry::in_its_turn);
}

TEST_CASE_TEMPLATE("wait queues: two names crosswise end by their bound, at least one of them", On,
                   ROWLOCK_WITH_QUEUES) {
  scene const s(On::kind);
  auto const a = s.d->connect();
  auto const b = s.d->connect();
  CHECK(s.enter(*a, 20'000, "one") == queue_entry::was_free);
  CHECK(s.enter(*b, 20'000, "two") == queue_entry::was_free);
  auto waits = std::async(std::launch::async, [&] { return s.enter(*a, 900, "two"); });
  auto const second = s.enter(*b, 900, "one");
  auto const first = waits.get();
  CHECK((first == queue_entry::not_mine || second == queue_entry::not_mine));
  CHECK(a->usable());
  CHECK(b->usable());
}

namespace {

/// The session has the wait queue of "x", and its row.
struct holder {
  explicit holder(scene const& s) : d(*s.d), book(s.d->book()), session(s.d->connect()) {
    session->execute(book.at("lock_insert_free"), with(std::string("x"), std::string("lease")), in(20'000));
    REQUIRE(s.enter(*session, 20'000) == queue_entry::was_free);
    REQUIRE(take(*session, "first"));
  }
  bool take(backend::connection& c, std::string const& term) const {
    return c.execute(book.at("lock_take"), take_parameters("x", term), in(20'000)).affected == 1;
  }
  backend::left_queue release(std::string const& term = "first") const {
    return session->execute_and_leave_queue(book.at("lock_release"), with(std::string("x"), term),
                                            in(20'000));
  }
  database& d;
  backend::statement_book book;
  std::unique_ptr<backend::connection> session;
};

}  // namespace

TEST_CASE_TEMPLATE("wait queues: whoever has one that was left with its lock finds the lock free", On,
                   ROWLOCK_WITH_QUEUES) {
  scene const s(On::kind);
  holder const first(s);
  auto const next = s.d->connect();
  // A commit that takes its time, where one can be made: only then the wait queue may be left.
  auto const slow = fmt::format("public.slow_{}()", ::getpid());
  if (On::kind == kind::postgresql)
    next->script(
        s.d->tables().render(fmt::format(
            "CREATE FUNCTION {0} RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END$$;"
            "CREATE CONSTRAINT TRIGGER slow AFTER UPDATE ON rowlock_locks DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW WHEN (NEW.term IS NULL) EXECUTE FUNCTION {0}",
            slow)),
        in(20'000));
  place_in_line const place(s, On::kind, *next);
  auto comes = std::async(std::launch::async, [&] {
    auto const how = s.enter(*next, 20'000);
    return std::pair(how, first.take(*next, "second"));
  });
  REQUIRE(place.is_taken(*first.session));
  auto const left = first.release();
  CHECK(left.done.affected == 1);
  if (is_mysql(On::kind)) CHECK(left.done.number == 4);  // left by the statement itself, for somebody
  auto const [how, taken] = comes.get();
  CHECK(how == queue_entry::in_its_turn);
  CHECK(taken);
  if (On::kind == kind::postgresql) next->script(fmt::format("DROP FUNCTION {} CASCADE", slow), in(20'000));
}

TEST_CASE_TEMPLATE(
    "wait queues: one that is left with a lock that is not there any more is left all the same", On,
    ROWLOCK_WITH_QUEUES) {
  scene const s(On::kind);
  holder const first(s);
  auto const next = s.d->connect();
  CHECK(first.release("another term").done.affected == 0);
  CHECK(s.enter(*next, 20'000) == queue_entry::was_free);
}

TEST_CASE_TEMPLATE("wait queues: a lock that is given back on another session leaves no wait queue", On,
                   ROWLOCK_MYSQLS) {
  scene const s(On::kind);
  holder const first(s);
  auto const other = s.d->connect();
  auto const next = s.d->connect();
  auto const done =
      other->execute(first.book.at("lock_release"), with(std::string("x"), std::string("first")), in(20'000));
  CHECK(done.number == 2);
  CHECK(s.enter(*next, 50) == queue_entry::not_mine);
}

}  // namespace rowlock::test
