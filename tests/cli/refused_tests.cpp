// PostgreSQL keeps a row from us for reasons that are nobody's lock.
#include <fmt/format.h>

#include "cli/place.hpp"

using namespace rowlock::test;

namespace {

/// A role that may do what schema/postgresql-grants.sql says.
class locker {
 public:
  explicit locker(on_postgresql const& p) : place_(p) {
    auto const schema = p.options().back();
    p.sql(
        fmt::format("CREATE ROLE {0} LOGIN; GRANT USAGE ON SCHEMA {1} TO {0}; "
                    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {1} TO {0}",
                    name_, schema));
  }
  ~locker() { place_.sql(fmt::format("DROP OWNED BY {0}; DROP ROLE {0}", name_)); }
  locker(locker const&) = delete;
  locker& operator=(locker const&) = delete;

  std::string const& name() const { return name_; }
  finished rowlock(words const& args) const {
    return place_.rowlock(args, {{"ROWLOCK_DB", place_.url() + " user=" + name_}});
  }
  finished take(std::string const& strategy, words more = {"--no-wait"}) const {
    words all{"run", "--strategy", strategy};
    all.insert(all.end(), more.begin(), more.end());
    all.insert(all.end(), {"n", "--", "true"});
    return rowlock(all);
  }

 private:
  on_postgresql const& place_;
  std::string name_ = unique_identifier();
};

}  // namespace

TEST_CASE("C34: postgresql: a row that row-level security hides is not busy, and doctor says so") {
  on_postgresql const p;
  locker const role(p);
  p.sql(
      "ALTER TABLE rowlock_locks ENABLE ROW LEVEL SECURITY; CREATE POLICY new_ones ON rowlock_locks FOR "
      "INSERT "
      "WITH CHECK (true)");
  auto const check = [&](finished const& f) {
    CHECK(f.status == 77);
    CHECK(f.says("row-level security"));
    CHECK_FALSE(f.says("in use"));
  };
  for (auto const& strategy : p.strategies()) {
    CAPTURE(strategy);
    p.sql(fmt::format(
        "DELETE FROM rowlock_locks; INSERT INTO rowlock_locks (name, strategy, token, expires_at) VALUES "
        "('n', '{}', 0, clock_timestamp())",
        strategy));
    check(role.take(strategy));
    check(role.take(strategy, {"--wait", "2s"}));
    // Seen, and not to be changed.
    p.sql("CREATE POLICY seen ON rowlock_locks FOR SELECT USING (true)");
    check(role.take(strategy));
    p.sql("DROP POLICY seen ON rowlock_locks");
  }
  auto const told = role.rowlock({"doctor"});
  CHECK(told.status == 1);
  CHECK(told.out.find("row_security") != std::string::npos);
  CHECK(told.out.find("CREATE POLICY") != std::string::npos);
}

TEST_CASE(
    "C34: postgresql: permits that row-level security hides are not taken for free, and doctor says so") {
  on_postgresql const p;
  locker const role(p);
  p.sql(
      "ALTER TABLE rowlock_permits ENABLE ROW LEVEL SECURITY; CREATE POLICY mine ON rowlock_permits USING "
      "(note = 'mine')");
  auto const take = [&](words const& how) {
    words all{"run", "--no-wait", "--note", "mine"};
    all.insert(all.end(), how.begin(), how.end());
    all.insert(all.end(), {"n", "--", "true"});
    return role.rowlock(all);
  };
  auto const refused = [&](finished const& f) {
    CAPTURE(f.err);
    CHECK(f.status == 77);
    CHECK(f.says("row-level security"));
  };
  {
    holder const held(p, {"--permits", "1", "n"});
    refused(take({"--permits", "1"}));
    auto const told = role.rowlock({"doctor"});
    CHECK(told.status == 1);
    CHECK(told.out.find("may hide rows of rowlock_permits from this role") != std::string::npos);
    // What a restrictive policy takes away, one that is for all does not give back.
    p.sql("CREATE POLICY all_rows ON rowlock_permits USING (true)");
    CHECK(take({"--permits", "1"}).status == 75);
    p.sql("CREATE POLICY less ON rowlock_permits AS RESTRICTIVE USING (note = 'mine')");
    refused(take({"--permits", "1"}));
    p.sql("DROP POLICY less ON rowlock_permits");
  }
  p.sql("DELETE FROM rowlock_permits");  // which the holder has left behind
  CHECK(take({"--permits", "1"}).status == 0);
}

TEST_CASE("C34: postgresql: with a policy that hides nothing locks work, and busy is busy") {
  on_postgresql const p;
  locker const role(p);
  p.sql(
      "ALTER TABLE rowlock_locks ENABLE ROW LEVEL SECURITY; CREATE POLICY all_rows ON rowlock_locks USING "
      "(true)");
  for (auto const& strategy : p.strategies()) {
    CAPTURE(strategy);
    p.sql("DELETE FROM rowlock_locks");
    CHECK(role.take(strategy).status == 0);
    holder const held(p, {"--strategy", strategy, "n"});
    CHECK(role.take(strategy).status == 75);
  }
  auto const told = role.rowlock({"doctor"});
  CHECK(told.out.find("hides nothing from this role") != std::string::npos);
}

TEST_CASE(
    "C34: postgresql: a role's statement_timeout of 1 ms ends none of our statements, and doctor says so") {
  on_postgresql const p;
  locker const role(p);
  p.sql(fmt::format("ALTER ROLE {} SET statement_timeout = 1", role.name()));
  for (int i = 0; i < 40; ++i) {
    auto const one = role.take("lease");
    CAPTURE(one.err);
    CHECK(one.status == 0);
  }
  auto const told = role.rowlock({"doctor"});
  CHECK(told.out.find("statement_timeout = 1 ") != std::string::npos);
}

TEST_CASE("C34: postgresql: a statement that was cancelled is not busy, and what cancels it is named") {
  on_postgresql const p;
  p.sql(
      "CREATE FUNCTION cancelled() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'canceling "
      "statement "
      "due to statement timeout' USING ERRCODE = 'query_canceled'; END $$; CREATE TRIGGER cancelled BEFORE "
      "INSERT OR "
      "UPDATE ON rowlock_locks FOR EACH ROW EXECUTE FUNCTION cancelled()");
  for (std::string const strategy : {"lease", "unique_insert"}) {
    CAPTURE(strategy);
    for (auto const& wait : {words{"--no-wait"}, words{"--wait", "1s"}}) {
      words args{"run", "--strategy", strategy};
      args.insert(args.end(), wait.begin(), wait.end());
      args.insert(args.end(), {"n", "--", "true"});
      auto const refused = p.rowlock(args);
      CHECK(refused.status == (wait.size() == 1 ? 69 : 75));  // 75: the time was over
      CHECK(refused.says("statement_timeout"));
    }
  }
}
