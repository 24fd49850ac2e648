// execute_commit on MariaDB with keep_prepared: its statement is prepared once, and then only executed.
#include <functional>
#include <rowlock/transaction.hpp>
#include <thread>

#include "backend/mysql/caller_session.hpp"
#include "backend/mysql/connector.hpp"
#include "backend/mysql/dialect.hpp"
#include "backend/mysql/errors.hpp"
#include "guard/handles.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

#define ROWLOCK_MARIADB_HANDLES rowlock::test::connector_on_mariadb, rowlock::test::soci_on_mariadb

held_lock had(lock_manager& m, std::string const& name) { return *m.make_mutex(name).acquire(); }

/// How often this session did it; Questions counts this, too.
int count(program& p, std::string const& what) {
  return std::stoi(*p.value(
      "SELECT variable_value FROM information_schema.session_status WHERE variable_name = '" + what + "'"));
}

/// A server that says what it was told to.
class scripted_channel final : public backend::mysql::borrowed_channel {
 public:
  /// Called with each statement, and its number.
  using script = std::function<void(std::string const&, std::size_t)>;
  scripted_channel(std::vector<std::string>& seen, script s) : seen_(seen), script_(std::move(s)) {}
  bool in_transaction() override { return true; }
  bool is_mariadb() override { return true; }
  backend::result run(std::string const& sql) override {
    seen_.push_back(sql.substr(0, sql.find(' ')));
    script_(sql, seen_.size());
    return {};
  }

 private:
  std::vector<std::string>& seen_;
  script script_;
};

[[noreturn]] void refuse(int number, std::string const& message = "refused") {
  throw backend::mysql::refusal(number, "HY000", message);
}

constexpr auto read_only_text = "The server is running with the --read-only option";

/// The program's own connection, on which the server ends the transaction at PREPARE, as it does after a
/// deadlock or a failed certification.
class ended_at_prepare final : public backend::mysql::borrowed_channel {
 public:
  explicit ended_at_prepare(::sql::Connection& c) : real_(backend::mysql::borrowed_channel_over(c)) {}
  bool in_transaction() override { return real_->in_transaction(); }
  bool is_mariadb() override { return real_->is_mariadb(); }
  backend::result run(std::string const& sql) override {
    if (!sql.starts_with("PREPARE")) return real_->run(sql);
    real_->run("ROLLBACK");
    refuse(1213);
  }

 private:
  std::unique_ptr<backend::mysql::borrowed_channel> real_;
};

/// Commits that are asked for one after the other; what the server saw.
struct scripted {
  explicit scripted(scripted_channel::script s)
      : c(backend::mysql::borrow(std::make_unique<scripted_channel>(seen, std::move(s)), true)) {}
  bool commit(int locks = 1) {
    seen.clear();
    return c->commit_if(book, std::vector<std::vector<backend::value>>(static_cast<std::size_t>(locks),
                                                                       {std::string("n"), std::string("t")}));
  }
  std::vector<std::string> seen;
  backend::statement_book book{backend::mysql::mysql_dialect(),
                               backend::table_names::of(backend::mysql::mysql_dialect(), "", "rowlock_")};
  std::unique_ptr<backend::caller_connection> c;
};

using list = std::vector<std::string>;

}  // namespace

TEST_CASE_TEMPLATE("prepared commits: one question each, prepared once for each number of locks", On,
                   ROWLOCK_MARIADB_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m, {.keep_prepared = true});
  auto a = had(*m, "a");
  auto b = had(*m, "it's \"b\" \\ \xc3\xa4");
  int n = 0;
  auto const commit = [&](std::string const& level, auto&... held) {
    begin(f, *p, level);
    p->run(f.set_counter(++n));
    int const before = count(*p, "QUESTIONS");
    tx->execute_commit(held...);
    int const asked = count(*p, "QUESTIONS") - before - 1;
    CHECK(p->value(f.read_counter()) == std::to_string(n));
    return asked;
  };
  CHECK(commit("", a) == 2);  // PREPARE and EXECUTE
  for (auto const* level : {"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"})
    CHECK(commit(level, a) == 1);
  CHECK(commit("", b) == 1);
  CHECK(commit("", a, b) == 2);
  CHECK(commit("", a, b) == 1);
  p->run("SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'");
  CHECK(commit("", a, b) == 1);
  CHECK(count(*p, "COM_PREPARE_SQL") == 2);
  CHECK(a.valid());
  CHECK(b.valid());
}

TEST_CASE_TEMPLATE("prepared commits: what is refused commits nothing, and is ended", On,
                   ROWLOCK_MARIADB_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m, {.keep_prepared = true});
  auto held = had(*m, "a");
  begin(f, *p);
  tx->execute_commit(held);
  CHECK(reason_of([&] { tx->execute_commit(held); }) == errc::not_in_transaction);
  stranger other(f);
  {
    auto const q = f.open();
    begin(f, *q);
    q->run("SELECT 1 FROM " + f.table("rowlock_locks") + " WHERE name = 'a' FOR UPDATE");
    begin(f, *p);
    p->run(f.set_counter(7));
    std::jthread const ends([&] {
      std::this_thread::sleep_for(100ms);  // it waits for a second at most
      q->run("ROLLBACK");
    });
    tx->execute_commit(held);  // waits for the other's end
    CHECK(p->value(f.read_counter()) == "7");
  }
  REQUIRE(other.take_over("a"));
  begin(f, *p);
  p->run(f.set_counter(99));
  CHECK(reason_of([&] { tx->execute_commit(held); }) == errc::lock_lost);
  p->run("COMMIT");  // unguarded: what is there to be committed
  CHECK(p->value(f.read_counter()) == "7");
}

TEST_CASE_TEMPLATE(
    "prepared commits: with innodb_snapshot_isolation, a renewal after the snapshot costs nothing", On,
    ROWLOCK_MARIADB_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  p->run("SET SESSION innodb_snapshot_isolation = ON");
  auto const tx = p->view(*m, {.keep_prepared = true});
  auto held = had(*m, "a");
  stranger other(f);
  int n = 0;
  for (int round = 0; round < 2; ++round)
    for (auto const* level : {"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}) {
      CAPTURE(level);
      begin(f, *p, level);
      CHECK(p->value(f.read_counter()) == std::to_string(n));
      p->run(f.set_counter(++n));
      REQUIRE(other.renew("a", held.term()));
      tx->execute_commit(held);
      CHECK(p->value(f.read_counter()) == std::to_string(n));
    }
  CHECK(p->value("SELECT @@innodb_snapshot_isolation") == "1");
}

TEST_CASE("prepared commits: what was dropped is prepared again <mariadb>") {
  bool dropped = false;
  scripted s([&](std::string const& sql, std::size_t) {
    if (sql.starts_with("EXECUTE") && std::exchange(dropped, false)) refuse(1243);
  });
  CHECK(s.commit());
  CHECK(s.seen == list{"PREPARE", "EXECUTE"});
  dropped = true;
  CHECK(s.commit());
  CHECK(s.seen == list{"EXECUTE", "PREPARE", "EXECUTE"});
  CHECK(s.commit());
  CHECK(s.seen == list{"EXECUTE"});
}

TEST_CASE("prepared commits: what can't be prepared is sent as it is, from then on <mariadb>") {
  scripted s([](std::string const& sql, std::size_t) {
    if (sql.starts_with("PREPARE")) refuse(1461);  // max_prepared_stmt_count
  });
  CHECK(s.commit());
  CHECK(s.seen == list{"PREPARE", "/*M!100618"});
  CHECK(s.commit());
  CHECK(s.seen == list{"/*M!100618"});
}

TEST_CASE("prepared commits: a MariaDB without innodb_snapshot_isolation is asked once <mariadb>") {
  scripted s([](std::string const& sql, std::size_t) {
    if (sql.find("innodb_snapshot_isolation") != sql.npos) refuse(1193);
  });
  CHECK(s.commit());
  CHECK(s.seen == list{"PREPARE", "PREPARE", "EXECUTE"});
  CHECK(s.commit());
  CHECK(s.seen == list{"EXECUTE"});
}

TEST_CASE("prepared commits: a refusal of the guard, and an error of which nothing is known <mariadb>") {
  int number = 30001;
  scripted s([&](std::string const& sql, std::size_t) {
    if (sql.starts_with("EXECUTE")) refuse(number);
  });
  CHECK_FALSE(s.commit());
  CHECK(s.seen == list{"PREPARE", "EXECUTE"});
  number = 1317;  // KILL QUERY: before COMMIT, or after
  CHECK(reason_of([&] { s.commit(); }) == errc::in_doubt);
  CHECK(s.seen == list{"EXECUTE"});
}

TEST_CASE(
    "prepared commits: an error at PREPARE that may have ended the transaction: nothing is sent behind it "
    "<mariadb>") {
  int number = 1213;
  std::string message = "refused";
  scripted s([&](std::string const& sql, std::size_t) {
    if (sql.starts_with("PREPARE")) refuse(number, message);
  });
  auto const prepared_only = [&](errc reason) {
    CAPTURE(number);
    CHECK(reason_of([&] { s.commit(); }) == reason);
    CHECK(s.seen == list{"PREPARE"});
  };
  prepared_only(errc::transaction_ended);
  number = 1020;
  prepared_only(errc::transaction_ended);
  number = 2013;
  prepared_only(errc::unreachable);
  number = 1290;
  message = read_only_text;
  prepared_only(errc::read_only);
  number = 1105;  // unknown
  prepared_only(errc::failed);
}

// COMMIT, too, is refused on a server that takes no writes since, and rolls back.
TEST_CASE("prepared commits: a server that has become read-only: nothing is sent behind it <mariadb>") {
  scripted s([](std::string const& sql, std::size_t) {
    if (!sql.starts_with("PREPARE")) refuse(1290, read_only_text);
  });
  CHECK(reason_of([&] { s.commit(); }) == errc::read_only);
  CHECK(s.seen == list{"PREPARE", "EXECUTE"});
}

// With autocommit off the next statement begins another transaction, where the guard finds its row.
TEST_CASE("prepared commits: a transaction that ended at PREPARE is not replaced by an empty one <mariadb>") {
  connector_on_mariadb f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto held = had(*m, "a");
  p->run("SET autocommit = 0");
  p->run(f.set_counter(7));
  auto const view = backend::mysql::borrow(
      std::make_unique<ended_at_prepare>(*static_cast<::sql::Connection*>(p->native())), true);
  backend::statement_book const book(
      backend::mysql::mysql_dialect(),
      backend::table_names::of(backend::mysql::mysql_dialect(), f.options.schema, "rowlock_"));
  std::vector<std::vector<backend::value>> const which{{held.name(), held.term().value}};
  CHECK(reason_of([&] { (void)view->commit_if(book, which); }) == errc::transaction_ended);
  p->run("ROLLBACK");
  CHECK(p->value(f.read_counter()) == "0");
  CHECK(stranger(f).read("a")->renewals == 0);
}
