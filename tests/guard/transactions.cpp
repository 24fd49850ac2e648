// The program's transaction is the program's: what may happen to it, at each isolation level, with autocommit
// on and off, and what is left behind.

#include <functional>
#include <vector>

#include "guard/handles.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

enum class ending { commit, rollback, rollback_to_savepoint, error_in_the_middle };

/// All settings of the session, and what else could have been left behind.
template <class On>
std::string state_of(program& p) {
  if constexpr (On::postgresql)
    return *p.value(
               "SELECT string_agg(name || '=' || coalesce(setting, ''), ';' ORDER BY name) FROM "
               "pg_settings") +
           *p.value("SELECT 'prepared=' || count(*) FROM pg_prepared_statements") +
           *p.value(
               "SELECT 'locks=' || count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = "
               "pg_backend_pid()");
  if constexpr (On::innodb) {
    // Time and what each statement moves is left out.
    std::string const moving =
        "('TIMESTAMP', 'RAND_SEED1', 'RAND_SEED2', 'ERROR_COUNT', 'WARNING_COUNT', 'PSEUDO_THREAD_ID', "
        "'LAST_GTID', 'GTID_NEXT', 'INSERT_ID', 'IDENTITY', 'IN_TRANSACTION', 'STATEMENT_ID')";
    bool const mariadb = p.value("SELECT version()")->find("MariaDB") != std::string::npos;
    p.run("SET SESSION group_concat_max_len = 1000000");
    return *p.value("SELECT group_concat(variable_name, '=', variable_value ORDER BY variable_name) FROM " +
                    std::string(mariadb ? "information_schema" : "performance_schema") +
                    ".session_variables WHERE upper(variable_name) NOT IN " + moving);
  }
  std::string out;
  for (std::string const pragma :
       {"busy_timeout", "synchronous", "foreign_keys", "cache_size", "journal_mode", "locking_mode",
        "temp_store", "read_uncommitted", "query_only"})
    out += pragma + "=" + p.value("PRAGMA " + pragma).value_or("") + ";";
  return out;
}

template <class On>
void end(On& f, program& p, ending how) {
  switch (how) {
    case ending::commit:
      return p.commit();
    case ending::rollback:
      return p.run("ROLLBACK");
    case ending::rollback_to_savepoint:
      p.run("ROLLBACK TO SAVEPOINT mine");
      return p.commit();
    case ending::error_in_the_middle:
      CHECK_THROWS_AS(p.run("INSERT INTO " + f.table("counter") + " VALUES (1, 1)"), refused_statement);
      return p.run("ROLLBACK");
  }
}

/// One operation of the view in a transaction that writes 1 to the counter and ends in that way; and what
/// must be so afterwards.
template <class On>
void in_each_transaction(
    std::vector<std::string> const& levels,
    std::function<void(On&, lock_manager&, held_lock&, basic_transaction&)> const& operation) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  std::vector<bool> autocommits{true};
  if (On::innodb) autocommits.push_back(false);
  for (bool const autocommit : autocommits)
    for (auto const& level : levels)
      for (auto const how :
           {ending::commit, ending::rollback, ending::rollback_to_savepoint, ending::error_in_the_middle}) {
        CAPTURE(autocommit);
        CAPTURE(level);
        CAPTURE(static_cast<int>(how));
        if (On::innodb) p->run(autocommit ? "SET autocommit = 1" : "SET autocommit = 0");
        f.sql("UPDATE " + f.table("counter") + " SET n = 0");
        auto const before = state_of<On>(*p);
        auto held = *m->make_mutex("required").acquire();
        if (!autocommit) p->run("COMMIT");  // so that the next one begins with our own
        if (autocommit)
          begin(f, *p, level);
        else if (!level.empty())
          p->run("SET TRANSACTION ISOLATION LEVEL " + level);
        if (On::sqlite || how == ending::rollback_to_savepoint) p->run("SAVEPOINT mine");
        auto const inside = state_of<On>(*p);
        operation(f, *m, held, *tx);
        CHECK(state_of<On>(*p) == inside);  // also what would end with the transaction [B21]
        p->run(f.set_counter(1));
        // None of ours is open.
        if (!On::postgresql) {
          CHECK_THROWS_AS(p->run("RELEASE SAVEPOINT rowlock_transaction"), refused_statement);
          CHECK_THROWS_AS(p->run("RELEASE SAVEPOINT rowlock_statement"), refused_statement);
        }
        end(f, *p, how);
        CHECK(p->value(f.read_counter()) == (how == ending::commit ? "1" : "0"));
        if (!autocommit) p->run("COMMIT");
        CHECK(state_of<On>(*p) == before);
        CHECK(held.release() == release_result::released);
        f.sql("DELETE FROM rowlock_locks WHERE name = 'inserted'");
      }
}

template <class On>
std::vector<std::string> levels_of_lock() {
  if constexpr (On::postgresql) return {"READ COMMITTED"};
  return levels_of<On>();
}

}  // namespace

TEST_CASE_TEMPLATE("transactions: require in each", On, ROWLOCK_HANDLES) {
  in_each_transaction<On>(levels_of<On>(), [](On& f, lock_manager&, held_lock& held, basic_transaction& tx) {
    tx.require(held);
    CHECK(!stranger(f).take_over("required"));
  });
}

TEST_CASE_TEMPLATE("transactions: lock in each", On, ROWLOCK_HANDLES) {
  in_each_transaction<On>(levels_of_lock<On>(),
                          [](On& f, lock_manager& m, held_lock&, basic_transaction& tx) {
                            tx.lock({"b", "a"});
                            if (On::sqlite) return;
                            auto const q = f.open();
                            begin(f, *q);
                            CHECK(!q->view(m)->try_lock("a"));
                            q->run("ROLLBACK");
                          });
}

TEST_CASE_TEMPLATE("transactions: insert in each", On, ROWLOCK_HANDLES) {
  in_each_transaction<On>(levels_of_lock<On>(), [](On&, lock_manager&, held_lock&, basic_transaction& tx) {
    CHECK(tx.insert("inserted", 30s));
  });
}
