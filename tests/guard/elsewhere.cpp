// held_lock::guard_statements(): what a driver of the program's own runs before its COMMIT.

#include <libpq-fe.h>

#include <rowlock/quorum.hpp>
#include <thread>
#include <type_traits>
#include <vector>

#include "backend/postgresql/native.hpp"
#include "contract/open_transaction.hpp"
#include "contract/reaping.hpp"
#include "guard/handles.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

constexpr char const* odd_name = "o'dd \"`\\ $1 ?1 ?2 :x /* \xc3\xbc";

void run(program& p, std::vector<guard_statement> const& guards) {
  for (auto const& one : guards) {
    CHECK(one.values.empty());
    p.run(one.text);
  }
}

/// What the driver says; empty if all have succeeded.
std::string refusal(program& p, std::vector<guard_statement> const& guards) {
  try {
    run(p, guards);
  } catch (refused_statement const& e) {
    return e.what();
  }
  return {};
}

bool passes(program& p, std::vector<guard_statement> const& guards) { return refusal(p, guards).empty(); }

/// SQLite has then ended the transaction itself, and says so.
void roll_back(program& p) {
  try {
    p.run("ROLLBACK");
  } catch (refused_statement const&) {
  }
}

auto texts(held_lock const& held) { return held.guard_statements(placeholders::none); }

/// Waits until a session waits for a row of another one's.
template <class On>
void await_waiter(On& f) {
  auto const* const waiters =
      On::postgresql
          ? "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid' AND pid "
            "IN (SELECT pid FROM pg_stat_activity WHERE query LIKE '%AS held%')"
          : "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' AND "
            "trx_query LIKE '%AS held%'";
  CHECK(eventually([&] { return test::number(f, waiters) > 0; }));
}

template <class Lock>
concept guardable = requires(Lock const& lock) {
  lock.guard_statements();
};
static_assert(guardable<held_lock>);
static_assert(!guardable<quorum_lock>);

}  // namespace

TEST_CASE_TEMPLATE("guard_statements: commits at each isolation level, and the lock is held as before", On,
                   ROWLOCK_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  stranger other(f);
  int n = 0;
  for (auto const& level : levels_of<On>()) {
    CAPTURE(level);
    auto held = *m->make_mutex(odd_name, {.renew = false}).acquire();
    auto const trusted = held.trusted_until();
    auto const guards = texts(held);
    for (int again = 0; again < 2; ++again) {
      begin(f, *p, level);
      p->run(f.set_counter(++n));
      CHECK(refusal(*p, guards) == "");
      if (again == 0) CHECK(!other.take_over(odd_name));
      p->commit();
      CHECK(p->value(f.read_counter()) == std::to_string(n));
    }
    CHECK(held.trusted_until() == trusted);
    CHECK(held.release() == release_result::released);
  }
}

TEST_CASE_TEMPLATE("guard_statements: of permits, and of once", On, ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const in_transaction = [&](std::vector<guard_statement> const& guards) {
    begin(f, *p);
    auto const passed = passes(*p, guards);
    roll_back(*p);
    return passed;
  };
  auto one = *m->make_semaphore("s", 10).try_acquire(3);
  auto two = *m->make_semaphore("s", 10).try_acquire(3);
  auto writer = *m->make_shared_mutex("x").try_acquire();
  auto work = *m->make_mutex("w", {.strategy = strategy::once}).acquire();
  auto const lost = texts(one);
  auto const kept = texts(two);
  CHECK(in_transaction(lost));
  CHECK(in_transaction(texts(writer)));
  CHECK(in_transaction(texts(work)));
  CHECK(one.release() == release_result::released);
  CHECK(!in_transaction(lost));
  CHECK(in_transaction(kept));
}

TEST_CASE_TEMPLATE("guard_statements: lost before, at each level: ROLLBACK, and what COMMIT does instead", On,
                   ROWLOCK_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  struct loss {
    char const* name;
    char const* sql;
  };
  for (auto const& level : levels_of<On>())
    for (auto const& what :  // clang keeps structured bindings from doctest's lambda
         {loss{"taken over", "UPDATE rowlock_locks SET term = 'other', renewals = 0"},
          loss{"revoked", On::postgresql ? "UPDATE rowlock_locks SET revoked = true"
                                         : "UPDATE rowlock_locks SET revoked = 1"},
          loss{"released", "UPDATE rowlock_locks SET term = NULL"}, loss{"gone", "DELETE FROM rowlock_locks"},
          loss{"of another database", "UPDATE rowlock_meta SET database_id = 'another'"}}) {
      CAPTURE(level);
      CAPTURE(std::string(what.name));
      auto held = *m->make_mutex("a").acquire();
      auto const guards = texts(held);
      auto const id = f.open()->value("SELECT database_id FROM " + f.table("rowlock_meta"));
      f.sql(what.sql);
      p->run(f.set_counter(0));
      begin(f, *p, level);
      p->run(f.set_counter(7));
      auto const said = refusal(*p, guards);
      CHECK(said.find(On::postgresql ? "the lock is not held"
                      : On::innodb   ? "more than 1 row"
                                     : "NOT NULL constraint failed") != said.npos);
      roll_back(*p);
      CHECK(p->value(f.read_counter()) == "0");

      begin(f, *p, level);
      p->run(f.set_counter(8));
      CHECK(!passes(*p, guards));
      auto const reason = reason_of([&] { p->commit(); });
      // What is documented: there the error of the guard must be read.
      CHECK(reason == (On::postgresql ? std::optional(errc::transaction_ended)
                       : On::innodb   ? std::nullopt
                                      : std::optional(errc::not_in_transaction)));
      CHECK(p->value(f.read_counter()) == (On::innodb ? "8" : "0"));
      f.sql("UPDATE rowlock_meta SET database_id = '" + *id + "'");
      (void)held.release();
      f.sql("DELETE FROM rowlock_locks");
    }
}

TEST_CASE("guard_statements: PostgreSQL answers COMMIT with the tag ROLLBACK and no error") {
  libpq_on_postgresql f;
  auto const m = f.manager();
  auto const p = f.open();
  auto held = *m->make_mutex("a").acquire();
  auto const guards = texts(held);
  f.sql("DELETE FROM rowlock_locks");
  begin(f, *p);
  CHECK(!passes(*p, guards));
  backend::postgresql::native_result const r(PQexec(static_cast<PGconn*>(p->native()), "COMMIT"));
  CHECK(PQresultStatus(r.get()) == PGRES_COMMAND_OK);
  CHECK(std::string(PQcmdStatus(r.get())) == "ROLLBACK");
}

TEST_CASE_TEMPLATE("guard_statements: a revocation between them and COMMIT waits for COMMIT", On,
                   ROWLOCK_HANDLES) {
  On f;
  f.make_counter();
  auto options = f.options;
  options.reply_timeout = 300ms;
  auto const hurried = f.manager(options);
  auto const m = f.manager();
  auto const p = f.open();
  for (auto const mode : {revoke_mode::at_renewal, revoke_mode::now})
    for (auto const& level : levels_of<On>()) {
      CAPTURE(level);
      auto held = *m->make_mutex("a").acquire();
      auto const guards = texts(held);
      begin(f, *p, level);
      p->run(f.set_counter(7));
      CHECK(refusal(*p, guards) == "");
      auto const refused = reason_of([&] { (void)hurried->revoke("a", mode); });
      CHECK(refused.has_value());
      p->commit();
      CHECK(m->revoke("a", mode));
      begin(f, *p, level);
      CHECK(!passes(*p, guards));
      roll_back(*p);
      (void)held.release();
      f.sql("DELETE FROM rowlock_locks");
    }
}

TEST_CASE_TEMPLATE("guard_statements: they wait for another transaction, and see what it has committed", On,
                   ROWLOCK_SERVER_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const after = [&](std::string const& level, std::string const& change, std::string const& end) {
    auto held = *m->make_mutex("a", {.renew = false}).acquire();
    auto const guards = texts(held);
    open_transaction other(f);
    other.run(change);
    begin(f, *p, level);
    CHECK(p->value(f.read_counter()) == "0");
    bool passed = false;
    std::jthread guarding([&] { passed = passes(*p, guards); });
    await_waiter(f);
    other.run(end);
    guarding.join();
    p->run("ROLLBACK");
    f.sql("DELETE FROM rowlock_locks");
    return passed;
  };
  std::string const takeover = "UPDATE rowlock_locks SET term = 'other', renewals = 0";
  std::string const renewal = "UPDATE rowlock_locks SET renewals = renewals + 1";
  for (auto const& level : levels_of<On>()) {
    CAPTURE(level);
    CHECK(!after(level, takeover, "COMMIT"));
    CHECK(after(level, takeover, "ROLLBACK"));
    CHECK(after(level, renewal, "COMMIT") == (!On::postgresql || level == "READ COMMITTED"));
  }
}

TEST_CASE_TEMPLATE("guard_statements: a snapshot older than the take, or than a renewal", On,
                   ROWLOCK_SERVER_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  stranger other(f);
  auto const after_reading = [&](std::string const& level) {
    begin(f, *p, level);
    CHECK(p->value(f.read_counter()) == "0");
    auto held = *m->make_mutex("a").acquire();
    auto const said = refusal(*p, texts(held));
    p->run("ROLLBACK");
    (void)held.release();
    return said;
  };
  CHECK(after_reading("READ COMMITTED") == "");
  CHECK(after_reading("REPEATABLE READ") != "");
  CHECK((after_reading("SERIALIZABLE") == "") == On::innodb);  // plain reads are locking ones there
  f.sql("DELETE FROM rowlock_locks");                          // a row that the snapshot does not see at all
  CHECK(after_reading("REPEATABLE READ") != "");

  auto const after_renewal = [&](std::string const& level) {
    auto held = *m->make_mutex("a", {.renew = false}).acquire();
    begin(f, *p, level);
    CHECK(p->value(f.read_counter()) == "0");
    REQUIRE(other.renew("a", held.term()));
    auto const said = refusal(*p, texts(held));
    p->run("ROLLBACK");
    return said;
  };
  CHECK(after_renewal("READ COMMITTED") == "");
  auto const said = after_renewal("REPEATABLE READ");
  CHECK((said.find("could not serialize access due to concurrent update") != said.npos) == On::postgresql);
  CHECK((said == "") == On::innodb);
}

TEST_CASE_TEMPLATE("guard_statements: in autocommit, refused where that can be seen", On, ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto held = *m->make_mutex("a").acquire();
  auto const said = refusal(*p, texts(held));
  bool const mariadb = On::innodb && p->value("SELECT version()")->find("MariaDB") != std::string::npos;
  if (On::postgresql) CHECK(said.find("no transaction is open") != said.npos);
  CHECK((said != "") == (On::postgresql || mariadb));
  if (!On::innodb) return;
  p->run("SET autocommit = 0");  // there is always a transaction
  CHECK(refusal(*p, texts(held)) == "");
  p->run("ROLLBACK");
}

TEST_CASE_TEMPLATE("guard_statements: placeholders and values, as drivers have them", On, ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto held = *m->make_mutex(odd_name).acquire();
  auto const id = *f.open()->value("SELECT database_id FROM " + f.table("rowlock_meta"));
  auto const count = [](std::string const& text, std::string const& what) {
    std::size_t n = 0;
    for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
    return n;
  };
  for (auto const style : {placeholders::native, placeholders::question_mark, placeholders::none}) {
    auto const guards = held.guard_statements(style);
    CHECK(guards.size() == (On::innodb ? 2 : 1));
    for (auto const& one : guards) {
      CAPTURE(one.text);
      bool const dollars = On::postgresql && style == placeholders::native;
      CHECK(count(one.text, "$") == (dollars ? 4 : 0));
      CHECK(count(one.text, "?") == (dollars ? 0 : one.values.size()));
      if (dollars) CHECK(one.values == std::vector<std::string>{odd_name, held.term().value, id});
      if (!On::sqlite) CHECK(one.text.find(f.tables().table("locks")) != one.text.npos);
      if (style == placeholders::question_mark && On::postgresql)
        CHECK(one.values == std::vector<std::string>{odd_name, held.term().value, odd_name, id});
    }
  }
}

TEST_CASE("guard_statements: with values, over libpq <postgresql>") {
  libpq_on_postgresql f;
  auto const m = f.manager();
  auto const p = f.open();
  auto held = *m->make_mutex(odd_name).acquire();
  auto const guard = held.guard_statements().at(0);
  std::vector<char const*> values;
  for (auto const& one : guard.values) values.push_back(one.c_str());
  auto const state = [&] {
    begin(f, *p);
    backend::postgresql::native_result const r(PQexecParams(static_cast<PGconn*>(p->native()),
                                                            guard.text.c_str(), 3, nullptr, values.data(),
                                                            nullptr, nullptr, 0));
    p->run("ROLLBACK");
    return PQresultStatus(r.get());
  };
  CHECK(state() == PGRES_TUPLES_OK);
  f.sql("UPDATE rowlock_locks SET revoked = true");
  CHECK(state() == PGRES_FATAL_ERROR);
}

TEST_CASE_TEMPLATE("guard_statements: refused for what can't be depended on, and marks the lock", On,
                   ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  if (!On::sqlite) {
    auto row = *m->make_mutex("r", {.strategy = strategy::row_lock}).acquire();
    CHECK(reason_of([&] { (void)row.guard_statements(); }) == errc::unsupported);
  }
  auto ended = *m->make_mutex("a").acquire();
  (void)ended.release();
  CHECK(reason_of([&] { (void)ended.guard_statements(); }) == errc::lock_lost);
  auto short_lived = *m->make_mutex("b", {.ttl = 100ms, .renew = false}).acquire();
  CHECK(eventually([&] { return !short_lived.valid(); }));
  CHECK(reason_of([&] { (void)short_lived.guard_statements(); }) == errc::lock_lost);

  // While the transaction is open the release is handed over, as that of a lock that is required.
  auto held = *m->make_mutex("c").acquire();
  begin(f, *p);
  run(*p, texts(held));
  CHECK(held.release() == release_result::handed_over);
  p->commit();
  stranger other(f);
  CHECK(eventually([&] { return other.sees_free("c"); }));
}
