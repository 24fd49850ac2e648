// PostgreSQL: what another session commits after a guard's statement has its snapshot, and before that
// statement locks the row. No step reaches that moment from outside: a row-level policy makes the statement
// wait there.

#include <functional>
#include <thread>

#include "contract/open_transaction.hpp"
#include "contract/reaping.hpp"
#include "guard/handles.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// A role for which a statement that locks rows of rowlock_locks waits, while it looks at them, for `closed`.
class waiting_role {
 public:
  explicit waiting_role(postgresql_fixture& fixture) : f_(fixture), name_(unique_identifier()) {
    queue_ = std::to_string(static_cast<unsigned>(std::hash<std::string>()(name_)));
    auto const& schema = f_.options.schema;
    f_.sql("CREATE ROLE " + name_ + "; GRANT USAGE ON SCHEMA " + schema + " TO " + name_ +
           "; GRANT ALL ON ALL TABLES IN SCHEMA " + schema + " TO " + name_ + "; CREATE FUNCTION " + schema +
           ".at_queue() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$ BEGIN IF current_query() LIKE "
           "'%FOR UPDATE%' THEN PERFORM pg_advisory_lock_shared(" +
           queue_ + "); PERFORM pg_advisory_unlock_shared(" + queue_ +
           "); END IF; RETURN true; END $$; ALTER TABLE rowlock_locks ENABLE ROW LEVEL SECURITY; "
           "CREATE POLICY queue ON rowlock_locks USING (" +
           schema + ".at_queue()) WITH CHECK (true)");
  }
  ~waiting_role() {
    f_.sql(
        "ALTER TABLE rowlock_locks DISABLE ROW LEVEL SECURITY; DROP POLICY queue ON rowlock_locks; DROP "
        "OWNED BY " +
        name_ + "; DROP ROLE " + name_);
  }
  waiting_role(waiting_role const&) = delete;
  waiting_role& operator=(waiting_role const&) = delete;
  std::string const& name() const { return name_; }

  /// `call` makes its statement wait there; `meanwhile` is done before it goes on.
  void pause(std::function<void()> const& call, std::function<void()> const& meanwhile) {
    open_transaction closed(f_);
    closed.run("SELECT pg_advisory_xact_lock(" + queue_ + ")");
    std::jthread const calling(call);
    CHECK(eventually([&] {
      return test::number(
                 f_,
                 "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = " +
                     queue_) > 0;
    }));
    meanwhile();
    closed.run("COMMIT");
  }

 private:
  postgresql_fixture& f_;
  std::string name_;
  std::string queue_;
};

struct commit_between {
  char const* name;
  char const* sql;
  bool is_lost;
};

constexpr commit_between commits_between[] = {
    {"a renewal",
     "UPDATE rowlock_locks SET renewals = renewals + 1, expires_at = expires_at + interval '1 second'",
     false},
    {"a takeover", "UPDATE rowlock_locks SET term = 'other', renewals = 0", true},
    {"a takeover that moves the row",
     "UPDATE rowlock_locks SET term = 'other', renewals = 0, generation = generation + 1", true},
    {"a release", "UPDATE rowlock_locks SET term = NULL", true},
    {"a revocation", "UPDATE rowlock_locks SET revoked = true", true},
    {"another row",
     "DELETE FROM rowlock_locks; INSERT INTO rowlock_locks (name, strategy, term, token, expires_at) "
     "VALUES ('a', 'lease', 'other', 9, now() + interval '1 hour')",
     true},
};

}  // namespace

TEST_CASE_TEMPLATE(
    "require, execute_commit: what is committed between their snapshot and their lock counts [B6]", On,
    ROWLOCK_POSTGRESQL_HANDLES) {
  bool commits = false;
  SUBCASE("require") { commits = false; }
  SUBCASE("execute_commit") { commits = true; }
  On f;
  f.make_counter();
  waiting_role role(f);
  f.sql("GRANT ALL ON " + f.table("counter") + " TO " + role.name());
  auto const m = f.manager();
  for (auto const& level : levels_of<On>())
    for (auto const& change : commits_between) {
      CAPTURE(level);
      CAPTURE(std::string(change.name));
      f.sql("DELETE FROM rowlock_locks");
      f.sql(f.set_counter(0));
      auto held = *m->make_mutex("a").acquire();
      auto const p = f.open();
      auto const tx = p->view(*m);
      p->run("SET ROLE " + role.name());
      begin(f, *p, level);
      p->run(f.set_counter(7));
      std::optional<errc> reason;
      role.pause([&] { reason = reason_of([&] { commits ? tx->execute_commit(held) : tx->require(held); }); },
                 [&] { f.sql(change.sql); });
      if (change.is_lost)
        CHECK(reason == errc::lock_lost);
      else  // the newest version is the same lock's; above READ COMMITTED the section's values may be old
        CHECK(reason == (level == "READ COMMITTED" ? std::nullopt : std::optional(errc::snapshot_too_old)));
      if (!commits && !reason) {
        CHECK(!stranger(f).take_over("a"));
        p->commit();
      }
      if (reason) p->run("ROLLBACK");
      CHECK(test::number(f, f.read_counter()) == (reason ? 0 : 7));
    }
}

TEST_CASE("guard_statements: what is committed between their snapshot and their lock counts <postgresql>") {
  libpq_on_postgresql f;
  f.make_counter();
  waiting_role role(f);
  f.sql("GRANT ALL ON " + f.table("counter") + " TO " + role.name());
  auto const m = f.manager();
  for (auto const& level : levels_of<libpq_on_postgresql>())
    for (auto const& change : commits_between) {
      CAPTURE(level);
      CAPTURE(std::string(change.name));
      f.sql("DELETE FROM rowlock_locks");
      f.sql(f.set_counter(0));
      auto held = *m->make_mutex("a").acquire();
      auto const guards = held.guard_statements(placeholders::none);
      auto const p = f.open();
      p->run("SET ROLE " + role.name());
      begin(f, *p, level);
      p->run(f.set_counter(7));
      bool passed = false;
      auto const guard = [&] {
        try {
          p->run(guards.at(0).text);
          passed = true;
        } catch (refused_statement const&) {  // the transaction is aborted
        }
      };
      role.pause(guard, [&] { f.sql(change.sql); });
      CHECK(passed == (!change.is_lost && level == "READ COMMITTED"));
      p->run("COMMIT");
      CHECK(test::number(f, f.read_counter()) == (passed ? 7 : 0));
    }
}
