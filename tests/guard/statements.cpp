// What the server sees on the program's connection: our named statements and savepoints of ours, on success
// and on each error, and nothing else; COMMIT and ROLLBACK by execute_commit() alone.

#include <sqlite3.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "backend/mysql/parameters.hpp"
#include "guard/handles.hpp"
#include "support/database_server.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// The allowed ones, with the values out: blanks and quotes are the server's own affair.
class allowed {
 public:
  explicit allowed(fixture const& f) {
    backend::statement_book const book(f.source.implementation()->sql(), f.tables());
    for (auto const* name : {"guard_require", "guard_record", "guard_look", "guard_wait", "guard_try",
                             "guard_insert", "meta_read", "unique_set_token"})
      texts_.insert(bare(book.at(name).sql));
    auto const& sql = f.source.implementation()->sql();
    if (sql.plain_reads_may_be_stale)
      for (auto const* name : {"guard_lock", "token_read"}) texts_.insert(bare(book.at(name).sql));
    if (sql.writes_lock_database)
      for (auto const* name : {"token_draw", "token_insert", "unique_clear", "file_boot"})
        // The function is one of rowlock's own sessions.
        texts_.insert(bare(std::regex_replace(book.at(name).sql, std::regex("rowlock_drawn"), "")));
    for (std::string const savepoint : {"rowlock_statement", "rowlock_transaction"})
      for (std::string const verb :
           {"SAVEPOINT ", "RELEASE SAVEPOINT ", "RELEASE ", "ROLLBACK TO SAVEPOINT ", "ROLLBACK TO "})
        texts_.insert(bare(verb + savepoint));
    if (!sql.plain_reads_may_be_stale && !sql.writes_lock_database)
      for (std::string const s : {"rowlock_statement", "rowlock_transaction"})
        texts_.insert(bare("ROLLBACK TO SAVEPOINT " + s + "; RELEASE SAVEPOINT " + s));
    // Questions: is it a transaction; did a wait that was over end it?
    for (auto const* question :
         {"SELECT @@in_transaction OR @@autocommit = 0", "DO 0", "SELECT @@innodb_rollback_on_timeout"})
      texts_.insert(bare(question));
    for (std::string const end : {"COMMIT", "ROLLBACK"}) ends_.insert(bare(end));
    if (!sql.plain_reads_may_be_stale && !sql.writes_lock_database)
      ends_.insert(bare(book.at("at_once_guard").sql));
    if (sql.plain_reads_may_be_stale) ends_.insert(bare(compound(book)));
  }

  bool contains(std::string const& statement) const { return texts_.contains(bare(statement)); }
  bool ends(std::string const& statement) const { return ends_.contains(bare(statement)); }

 private:
  /// MariaDB's, for one lock.
  static std::string compound(backend::statement_book const& book) {
    auto const into =
        std::regex_replace(book.at("guard_lock").sql, std::regex("(FROM \\S+ AS l )"), "INTO seen $1");
    std::string const refuse = " THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30001; END IF; ";
    return "BEGIN NOT ATOMIC DECLARE seen VARBINARY(255); IF @@in_transaction = 0 AND @@autocommit <> 0" +
           refuse + "SET seen = NULL; " + into + "; IF NOT (seen <=> $2)" + refuse +
           book.at("guard_require").sql + "; COMMIT; END";
  }
  static std::string bare(std::string text) {
    // For MariaDB alone, and for one statement (C35).
    static std::string const isolation = "/*M!100618 SET STATEMENT innodb_snapshot_isolation = OFF FOR */ ";
    if (text.starts_with(isolation)) text.erase(0, isolation.size());
    text = std::regex_replace(text, std::regex("--[^\n]*"), "");
    text = std::regex_replace(text, std::regex("\\$[0-9]+|\\?[0-9]+|X'[0-9a-f]*'|\\b[0-9]+\\b|NULL|'[^']*'"),
                              "?");
    return std::regex_replace(text, std::regex("[\\s;]+"), "");
  }
  std::set<std::string> texts_;
  std::set<std::string> ends_;  ///< execute_commit's
};

/// Everything that a view can do and everything that can go wrong, between marks that the recordings are cut
/// at: the program's own statements are not in between.
template <class On>
void do_everything(On& f, program& p) {
  auto options = f.options;
  options.reply_timeout = 3s;
  auto const m = f.manager(options);
  auto const tx = p.view(*m);
  auto const q = f.open();
  auto const other = q->view(*m);
  auto held = *m->make_mutex("a").acquire();
  auto lost = *m->make_mutex("lost").acquire();
  auto work = *m->make_mutex("work", {.strategy = strategy::once}).acquire();
  REQUIRE(m->revoke("lost", revoke_mode::at_renewal));
  auto const in_transaction = [&](std::string const& level, auto const& call) {
    begin(f, p, level);
    p.run("SELECT 'rowlock_begins'");
    auto const reason = reason_of(call);
    p.run("SELECT 'rowlock_ends'");
    p.run("ROLLBACK");
    return reason;
  };
  auto const to_commit = [&](held_lock const& lock) {
    begin(f, p);
    p.run("SELECT 'rowlock_commits'");
    auto const reason = reason_of([&] { tx->execute_commit(lock); });
    p.run("SELECT 'rowlock_ends'");
    return reason;
  };
  auto const none = std::optional<errc>();
  auto gone = *m->make_mutex("gone").acquire();
  REQUIRE(m->revoke("gone", revoke_mode::at_renewal));
  CHECK(to_commit(held) == none);
  CHECK(to_commit(gone) == errc::lock_lost);
  CHECK(in_transaction("", [&] { tx->require(held); }) == none);
  CHECK(in_transaction("", [&] { tx->require(lost); }) == errc::lock_lost);
  CHECK(in_transaction("", [&] { tx->done(work, 1h, "result"); }) == none);
  CHECK(in_transaction("", [&] { tx->done(held, 1h); }) == errc::unsupported);
  CHECK(in_transaction("", [&] { tx->lock({"r", "s"}); }) == none);
  CHECK(in_transaction("", [&] { CHECK(tx->try_lock("r")); }) == none);
  CHECK(in_transaction("", [&] { CHECK(tx->insert("i", 30s)); }) == none);
  CHECK(in_transaction("", [&] { CHECK(tx->insert("i", 30s)); }) == none);
  if constexpr (On::sqlite) {
    q->run("BEGIN IMMEDIATE");
    p.run("BEGIN");
    p.run("SELECT 'rowlock_begins'");
    CHECK(reason_of([&] { tx->require(held); }) == errc::row_locked);
    p.run("SELECT 'rowlock_ends'");
    p.run("ROLLBACK");
    q->run("ROLLBACK");
  } else {
    CHECK(in_transaction("", [&] { tx->lock("a"); }) == errc::strategy_mismatch);
    begin(f, *q);
    other->require(held);
    CHECK(in_transaction("", [&] { tx->require(held); }) == errc::row_locked);
    CHECK(to_commit(held) == errc::row_locked);
    q->run("ROLLBACK");
    begin(f, *q);
    other->lock("r");
    p.run(On::postgresql ? "SET lock_timeout = '50ms'" : "SET innodb_lock_wait_timeout = 1");
    CHECK(in_transaction("", [&] { tx->lock("r"); }) == errc::row_locked);
    CHECK(in_transaction("", [&] { CHECK(!tx->try_lock_for("r", 20ms)); }) == none);
    q->run("ROLLBACK");
    begin(f, *q);
    REQUIRE(other->insert("i", 30s));
    CHECK(in_transaction("", [&] { (void)tx->insert("i", 30s); }) == errc::row_locked);
    q->run("COMMIT");
    CHECK(in_transaction("", [&] { CHECK(!tx->insert("i", 30s)); }) == none);
    begin(f, p, "REPEATABLE READ");
    p.run("SELECT * FROM " + f.table("counter"));
    auto young = *m->make_mutex("young").acquire();
    p.run("SELECT 'rowlock_begins'");
    CHECK(reason_of([&] { tx->require(young); }) == errc::snapshot_too_old);
    CHECK(reason_of([&] { tx->lock("x"); }) == (On::postgresql ? errc::unsupported : errc::snapshot_too_old));
    CHECK(reason_of([&] { (void)tx->insert("y", 30s); }) ==
          (On::postgresql ? errc::unsupported : errc::snapshot_too_old));
    p.run("SELECT 'rowlock_ends'");
    p.run("ROLLBACK");
    p.run("START TRANSACTION READ ONLY");
    p.run("SELECT 'rowlock_begins'");
    CHECK(reason_of([&] { tx->require(held); }) == errc::read_only);
    p.run("SELECT 'rowlock_ends'");
    p.run("ROLLBACK");
  }
  p.run("SELECT 'rowlock_begins'");
  CHECK(reason_of([&] { tx->require(held); }) == errc::not_in_transaction);
  p.run("SELECT 'rowlock_ends'");
}

/// What was recorded between the marks is allowed, and there is enough of it.
void check(std::vector<std::string> const& recorded, fixture const& f) {
  allowed const expected(f);
  bool inside = false;
  bool commits = false;
  int seen = 0;
  for (auto const& one : recorded) {
    auto const marks = [&](char const* mark) { return one.find(mark) != one.npos; };
    if (marks("rowlock_begins") || marks("rowlock_commits") || marks("rowlock_ends")) {
      commits = marks("rowlock_commits");
      inside = commits || marks("rowlock_begins");
      continue;
    }
    if (!inside) continue;
    ++seen;
    INFO(one);
    bool const is_allowed = expected.contains(one) || (commits && expected.ends(one));
    CHECK(is_allowed);
  }
  CHECK(seen >= 12);
}

/// A server that records.
template <class Database, driver Driver>
struct recording;

template <driver Driver>
struct recording<postgresql_fixture, Driver> {
  database_server server{server_kind::postgresql,
                         {.settings = {"log_statement = all", "log_line_prefix = '%p '"}}};
  instead_of const shared{"ROWLOCK_TEST_POSTGRESQL", server.address()};

  std::vector<std::string> statements_of(program& p) const {
    auto const mine = *p.value("SELECT pg_backend_pid()") + " LOG:  ";
    std::vector<std::string> out;
    std::istringstream lines(server.log());
    bool wanted = false;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("\t;")) {  // the next one of a text
        if (wanted && line.size() > 2) out.push_back(line.substr(2));
        continue;
      }
      if (!line.empty() && line[0] == '\t') {  // goes on
        if (wanted) out.back() += "\n" + line;
        continue;
      }
      wanted = line.starts_with(mine);
      if (!wanted) continue;
      auto const text = line.substr(mine.size());
      auto const colon = text.find(": ");
      wanted = text.starts_with("statement: ") || text.starts_with("execute ");
      if (wanted) out.push_back(text.substr(colon + 2));
    }
    return out;
  }
};

struct mysql_recording {
  database_server server;
  instead_of const shared;
  mysql_recording(server_kind kind, char const* variable)
      : server(kind, {.settings = {"general_log = 1", "log_output = TABLE"}}),
        shared(variable, server.address()) {}
  std::vector<std::string> statements_of(program& p) const {
    auto const id = *p.value("SELECT connection_id()");
    std::vector<std::string> out;
    auto const n = std::stoi(*p.value("SELECT count(*) FROM mysql.general_log"));
    for (int i = 0; i < n; ++i)
      if (auto const one =
              p.value("SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log WHERE command_type IN "
                      "('Query', 'Execute', 'Prepare') AND thread_id = " +
                      id + " ORDER BY event_time LIMIT " + std::to_string(i) + ", 1"))
        out.push_back(*one);
      else
        break;
    return out;
  }
};
template <driver Driver>
struct recording<mariadb_fixture, Driver> : mysql_recording {
  recording() : mysql_recording(server_kind::mariadb, "ROWLOCK_TEST_MARIADB") {}
};
template <driver Driver>
struct recording<mysql_fixture, Driver> : mysql_recording {
  recording() : mysql_recording(server_kind::mysql, "ROWLOCK_TEST_MYSQL") {}
};

template <class On>
struct recorded_database;
template <class Database, driver Driver>
struct recorded_database<handle<Database, Driver>> {
  using type = recording<Database, Driver>;
};

}  // namespace

TEST_CASE_TEMPLATE("statements: nothing but ours on the program's connection", On, ROWLOCK_SERVER_HANDLES) {
  typename recorded_database<On>::type const server;
  On f;
  f.make_counter();
  auto const p = f.open();
  do_everything(f, *p);
  check(server.statements_of(*p), f);
}

TEST_CASE("statements: nothing but ours on the program's connection<sqlite3 on sqlite>") {
  sqlite3_on_sqlite f;
  f.make_counter();
  auto const p = f.open();
  std::vector<std::string> recorded;
  sqlite3_trace_v2(
      static_cast<sqlite3*>(p->native()), SQLITE_TRACE_STMT,
      [](unsigned, void* out, void*, void* text) {
        static_cast<std::vector<std::string>*>(out)->emplace_back(static_cast<char const*>(text));
        return 0;
      },
      &recorded);
  do_everything(f, *p);
  check(recorded, f);
}
