// MariaDB's innodb_snapshot_isolation, its default since 11.6: a locking read or a change that meets a row
// which is newer than the snapshot is error 1020, and the server has rolled the whole transaction back (T13).

#include <rowlock/mysql_transaction.hpp>
#include <thread>
#include <vector>

#include "backend/mysql/caller_session.hpp"
#include "guard/handles.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

std::vector<std::string> const every_level{"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ",
                                           "SERIALIZABLE"};

/// The program has it on, whatever the server's default is.
std::unique_ptr<program> open_isolated(auto const& f) {
  auto p = f.open();
  p->run("SET SESSION innodb_snapshot_isolation = ON");
  return p;
}

std::string isolation_of(program& p) { return *p.value("SELECT @@innodb_snapshot_isolation"); }

/// What the server would do with the program's own statement: the row is newer than the snapshot.
template <class On>
bool is_isolated(On& f, program& p) {
  begin(f, p, "REPEATABLE READ");
  (void)p.value("SELECT n FROM counter WHERE id = 2");
  f.sql("UPDATE counter SET n = n + 1 WHERE id = 1");
  try {
    p.run("UPDATE counter SET n = n + 1 WHERE id = 1");
  } catch (refused_statement const&) {
    p.run("ROLLBACK");
    return true;
  }
  p.run("ROLLBACK");
  return false;
}

}  // namespace

#define ROWLOCK_MARIADB_HANDLES rowlock::test::connector_on_mariadb, rowlock::test::soci_on_mariadb

TEST_CASE_TEMPLATE("C35: with innodb_snapshot_isolation, require, lock and insert as the first statement", On,
                   ROWLOCK_MARIADB_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = open_isolated(f);
  auto const tx = p->view(*m);
  auto held = *m->make_mutex("held").acquire();
  stranger other(f);
  int n = 0;
  auto const in_transaction = [&](std::string const& level, auto const& call) {
    begin(f, *p, level);
    REQUIRE(other.renew("held", held.term()));
    call();
    p->run(f.set_counter(++n));
    p->commit();
    CHECK(p->value(f.read_counter()) == std::to_string(n));
  };
  for (auto const& level : every_level) {
    CAPTURE(level);
    in_transaction(level, [&] { tx->require(held); });
    in_transaction(level, [&] { tx->lock({"a", "b"}); });
    in_transaction(level, [&] { CHECK(tx->try_lock("a")); });
    in_transaction(level, [&] { CHECK(tx->insert("inserted " + level, 30s)); });
    in_transaction(level, [&] { CHECK(!tx->insert("inserted " + level, 30s)); });
    in_transaction(level, [&] {
      tx->require(held);
      tx->require(held);
    });
  }
  CHECK(held.release() == release_result::released);
}

TEST_CASE_TEMPLATE(
    "C35: with innodb_snapshot_isolation, a lock that was waited for, and what the former owner wrote", On,
    ROWLOCK_MARIADB_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const q = open_isolated(f);
  auto const mine = p->view(*m);
  auto const theirs = q->view(*m);
  auto const waits =
      "SELECT count(*) FROM information_schema.processlist WHERE info LIKE '%FOR UPDATE' AND id = " +
      *q->value("SELECT connection_id()");
  int n = 40;
  for (auto const& level : every_level) {
    CAPTURE(level);
    begin(f, *p);
    mine->lock("a");
    p->run(f.set_counter(++n));
    std::optional<std::string> seen;
    std::jthread other([&] {
      begin(f, *q, level);
      theirs->lock("a");
      seen = q->value(f.read_counter());
      q->run(f.set_counter(++n));
      q->commit();
    });
    auto const watching = f.open();
    CHECK(eventually([&] { return watching->value(waits) == "1"; }));
    p->commit();
    other.join();
    CHECK(seen == std::to_string(n - 1));
    CHECK(p->value(f.read_counter()) == std::to_string(n));
  }
}

TEST_CASE_TEMPLATE("C35: with innodb_snapshot_isolation, a renewal after the snapshot costs nothing", On,
                   ROWLOCK_MARIADB_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = open_isolated(f);
  auto const tx = p->view(*m);
  auto held = *m->make_mutex("a").acquire();
  stranger other(f);
  int n = 0;
  for (auto const& level : every_level) {
    CAPTURE(level);
    begin(f, *p, level);
    CHECK(p->value(f.read_counter()) == std::to_string(n));
    p->run(f.set_counter(++n));
    REQUIRE(other.renew("a", held.term()));
    tx->require(held);
    CHECK(!other.take_over("a"));
    p->commit();
    CHECK(p->value(f.read_counter()) == std::to_string(n));
  }
}

TEST_CASE_TEMPLATE("C35: with innodb_snapshot_isolation, require while the lock is renewed all the time", On,
                   ROWLOCK_MARIADB_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = open_isolated(f);
  auto const tx = p->view(*m);
  auto held = *m->make_mutex("a").acquire();
  std::jthread const renewing([&](std::stop_token const& stop) {
    stranger other(f);
    while (!stop.stop_requested()) (void)other.renew("a", held.term());
  });
  int n = 0;
  for (int round = 0; round < 50; ++round)
    for (auto const& level : every_level) {
      CAPTURE(level);
      begin(f, *p, level);
      REQUIRE(reason_of([&] { tx->require(held); }) == std::nullopt);
      p->run(f.set_counter(++n));
      p->commit();
    }
  CHECK(p->value(f.read_counter()) == std::to_string(n));
  CHECK(held.valid());
}

TEST_CASE_TEMPLATE(
    "C35: with innodb_snapshot_isolation, a snapshot older than the lock is told, and a retry helps", On,
    ROWLOCK_MARIADB_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = open_isolated(f);
  auto const tx = p->view(*m);
  auto const twice = [&](auto const& call) {
    begin(f, *p, "REPEATABLE READ");
    CHECK(p->value(f.read_counter()) == "0");
    p->run("INSERT INTO counter VALUES (7, 7)");
    auto held = *m->make_mutex("a").acquire();
    try {
      call(held);
      FAIL("the snapshot is older than the lock");
    } catch (error const& e) {
      CHECK(e.reason() == errc::snapshot_too_old);
      CHECK(e.transaction_retryable());
    }
    CHECK(p->value("SELECT n FROM counter WHERE id = 7") == "7");  // still the program's
    p->run("ROLLBACK");
    begin(f, *p, "REPEATABLE READ");
    call(held);
    p->commit();
    CHECK(p->value("SELECT n FROM counter WHERE id = 7") == std::nullopt);
  };
  twice([&](held_lock& held) { tx->require(held); });
  twice([&](held_lock&) { tx->lock("b"); });
  // Not within CHECK, which would keep what is thrown.
  twice([&](held_lock&) {
    bool const inserted = tx->insert("c", 30s).has_value();
    CHECK(inserted);
  });
}

TEST_CASE_TEMPLATE("C35: innodb_snapshot_isolation is the program's again, whatever became of our statement",
                   On, ROWLOCK_MARIADB_HANDLES) {
  On f;
  f.make_counter();
  auto options = f.options;
  options.reply_timeout = 3s;
  auto const m = f.manager(options);
  auto const p = open_isolated(f);
  auto const q = f.open();
  auto const tx = p->view(*m);
  auto const other = q->view(*m);
  auto held = *m->make_mutex("a").acquire();
  auto lost = *m->make_mutex("lost").acquire();
  REQUIRE(m->revoke("lost", revoke_mode::at_renewal));
  p->run("SET SESSION innodb_lock_wait_timeout = 1");
  auto const after = [&](auto const& call) {
    begin(f, *p);
    auto const reason = reason_of(call);
    CHECK(isolation_of(*p) == "1");
    p->run("ROLLBACK");
    CHECK(isolation_of(*p) == "1");
    CHECK(is_isolated(f, *p));
    return reason;
  };
  CHECK(after([&] { tx->require(held); }) == std::nullopt);
  CHECK(after([&] { tx->require(lost); }) == errc::lock_lost);
  CHECK(after([&] { tx->lock({"r", "s"}); }) == std::nullopt);
  CHECK(after([&] { CHECK(tx->insert("i", 30s)); }) == std::nullopt);
  begin(f, *q);
  other->require(held);
  CHECK(after([&] { tx->require(held); }) == errc::row_locked);
  q->run("ROLLBACK");
  begin(f, *q);
  other->lock("r");
  CHECK(after([&] { tx->lock("r"); }) == errc::row_locked);
  q->run("ROLLBACK");
  p->run("SET SESSION innodb_snapshot_isolation = OFF");
  begin(f, *p);
  tx->require(held);
  CHECK(isolation_of(*p) == "0");
  p->run("ROLLBACK");
  CHECK(!is_isolated(f, *p));
}

namespace {

/// What a server has seen, and what it says.
class recording_channel final : public backend::mysql::borrowed_channel {
 public:
  recording_channel(std::vector<std::string>& seen, int refused_with) : seen_(seen), number_(refused_with) {}
  bool in_transaction() override { return true; }
  bool is_mariadb() override { return true; }
  backend::result run(std::string const& sql) override {
    seen_.push_back(sql);
    if (sql.find("innodb_snapshot_isolation") != sql.npos && number_ != 0)
      throw backend::mysql::refusal(number_, "HY000", "refused");
    return {};
  }

 private:
  std::vector<std::string>& seen_;
  int number_;
};

}  // namespace

TEST_CASE("C35: a MariaDB that has no innodb_snapshot_isolation is asked once <mariadb>") {
  std::vector<std::string> seen;
  auto const c = backend::mysql::borrow(std::make_unique<recording_channel>(seen, 1193));
  (void)c->execute({"one", "SELECT 1"}, {});
  (void)c->execute({"two", "SELECT 2"}, {});
  REQUIRE(seen.size() == 3);
  CHECK(seen[0].ends_with(" SELECT 1"));
  CHECK(seen[1] == "SELECT 1");
  CHECK(seen[2] == "SELECT 2");
}

TEST_CASE("C35: error 1020 says that the transaction is gone, and to be begun again <mariadb>") {
  std::vector<std::string> seen;
  auto const c = backend::mysql::borrow(std::make_unique<recording_channel>(seen, 1020));
  try {
    (void)c->execute({"one", "SELECT 1"}, {});
    FAIL("it was refused");
  } catch (error const& e) {
    CHECK(e.reason() == errc::transaction_ended);
    CHECK(e.transaction_retryable());
    CHECK(std::string(e.what()).find("rolled the whole transaction back: begin it again") !=
          std::string::npos);
  }
  CHECK(seen.size() == 1);
}
