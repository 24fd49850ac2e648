// Old programs that INSERT into and DELETE from a hand-made table, and new ones, exclude each other while
// both run.
#include <fmt/format.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "cli/place.hpp"
#include "support/source_path.hpp"

using namespace rowlock::test;

namespace {

/// What the articles recommend, and a lock that is held when the triggers come.
void make_old_table(place const& p) {
  p.sql(p.old_lock_table());
  p.sql("INSERT INTO methodLock (method_name) VALUES ('held before')");
  p.sql(read_file(source_path(fmt::format("schema/{}-method-lock.sql", p.dialect()))));
}

bool old_take(place const& p, std::string const& name) try {
  p.sql("INSERT INTO methodLock (method_name) VALUES ('" + name + "')");
  return true;
} catch (std::exception const&) {
  return false;
}

void old_give_back(place const& p, std::string const& name) {
  p.sql("DELETE FROM methodLock WHERE method_name = '" + name + "'");
}

finished new_take(place const& p, std::string const& name, words more = {}) {
  words all{"run", "--no-wait", "--strategy", "unique_insert"};
  all.insert(all.end(), more.begin(), more.end());
  all.insert(all.end(), {name, "--", "true"});
  return p.rowlock(all);
}

/// Why a session could not run this; empty if it could.
std::string refusal(place const& p, std::string const& sql) try {
  p.sql(sql);
  return {};
} catch (std::exception const& e) {
  return e.what();
}

bool has_part(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

/// A role of PostgreSQL's that may only INSERT into methodLock. Whatever runs as somebody else says so.
class intruder {
 public:
  explicit intruder(on_postgresql const& p) : place_(p) {
    p.sql(
        fmt::format("CREATE ROLE {0}; GRANT USAGE ON SCHEMA {1} TO {0}; GRANT INSERT ON methodLock TO {0}; "
                    "GRANT USAGE ON SEQUENCE methodlock_id_seq TO {0}",
                    name_, p.options().back()));
  }
  ~intruder() { place_.sql(fmt::format("DROP OWNED BY {0}; DROP ROLE {0}", name_)); }
  intruder(intruder const&) = delete;
  intruder& operator=(intruder const&) = delete;

  std::string refusal(std::string const& sql) const {
    return ::refusal(place_, fmt::format("SET SESSION AUTHORIZATION {}; {}", name_, sql));
  }
  std::string with_tables_of_its_own(std::string const& sql) const {
    return refusal(
        "CREATE TEMP TABLE rowlock_locks (name text, strategy text, term text, token bigint, owner_host "
        "text, "
        "owner_process text, ttl bigint, takeover text, acquired_at timestamptz, expires_at timestamptz, "
        "note "
        "text); CREATE FUNCTION pg_temp.mine() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION "
        "'ran as %', current_user; END $$; CREATE TRIGGER mine BEFORE INSERT OR DELETE ON "
        "pg_temp.rowlock_locks "
        "FOR EACH STATEMENT EXECUTE FUNCTION pg_temp.mine(); " +
        sql);
  }

 private:
  on_postgresql const& place_;
  std::string name_ = unique_identifier();
};

}  // namespace

TEST_CASE("C11: postgresql: a role that may only INSERT into methodLock runs nothing as us, and locks") {
  on_postgresql const p;
  make_old_table(p);
  intruder const role(p);
  CHECK(role.with_tables_of_its_own("INSERT INTO methodLock (method_name) VALUES ('free')") == "");
  CHECK(new_take(p, "free").status == 75);
  program held(
      p.command({"run", "--strategy", "unique_insert", "n", "--", "sh", "-c", "echo ready; exec sleep 100"}),
      p.variables());
  REQUIRE(held.prints("ready"));
  auto const refused = role.with_tables_of_its_own("INSERT INTO methodLock (method_name) VALUES ('n')");
  CAPTURE(refused);
  CHECK(has_part(refused, "duplicate key"));
  CHECK_FALSE(has_part(refused, "ran as"));
}

TEST_CASE("C11: postgresql: nobody puts methodLock's functions on a table of his own") {
  on_postgresql const p;
  make_old_table(p);
  intruder const role(p);
  std::string const table = "CREATE TEMP TABLE mine (method_name text); ";
  auto const fire = [](std::string const& when, std::string const& function) {
    return fmt::format("CREATE TRIGGER t {} ON pg_temp.mine FOR EACH ROW EXECUTE FUNCTION {}(); ", when,
                       function);
  };
  CHECK(has_part(role.refusal(table + "INSERT INTO pg_temp.mine VALUES ('held before'); " +
                              fire("AFTER DELETE", "method_lock_give_back") + "DELETE FROM pg_temp.mine"),
                 "permission denied"));
  CHECK(has_part(role.refusal(table + fire("BEFORE INSERT", "method_lock_take") +
                              "INSERT INTO pg_temp.mine VALUES ('x')"),
                 "permission denied"));
  CHECK(new_take(p, "held before").status == 75);
  CHECK(new_take(p, "x").status == 0);
}

TEST_CASE("C11: postgresql: methodLock's file may be applied again, over what is held") {
  on_postgresql const p;
  make_old_table(p);
  p.sql(read_file(source_path("schema/postgresql-method-lock.sql")));
  CHECK(new_take(p, "held before").status == 75);
  CHECK_FALSE(old_take(p, "held before"));
  old_give_back(p, "held before");
  CHECK(new_take(p, "held before").status == 0);
}

TEST_CASE_TEMPLATE("C11: an old program that has set its session's clock forward takes no lock that lives",
                   Place, on_mariadb, on_mysql) {
  Place const p;
  make_old_table(p);
  program held(
      p.command({"run", "--strategy", "unique_insert", "n", "--", "sh", "-c", "echo ready; exec sleep 100"}),
      p.variables());
  REQUIRE(held.prints("ready"));
  CHECK(
      refusal(
          p, "SET timestamp = unix_timestamp() + 86400; INSERT INTO methodLock (method_name) VALUES ('n')") !=
      "");
  CHECK(new_take(p, "n").status == 75);
}

TEST_CASE_TEMPLATE(
    "C11: in the hour that comes twice a session's clock that was set forward takes no lock that lives",
    Place, on_mariadb, on_mysql) {
  Place const p;
  make_old_table(p);
  // A time zone that is set back in ten minutes.
  auto const zone = unique_identifier();
  p.sql(
      fmt::format("INSERT INTO mysql.time_zone (Use_leap_seconds) VALUES ('N'); SET @zone = LAST_INSERT_ID();"
                  "INSERT INTO mysql.time_zone_name (Name, Time_zone_id) VALUES ('{}', @zone);"
                  "INSERT INTO mysql.time_zone_transition_type (Time_zone_id, Transition_type_id, `Offset`, "
                  "Is_DST, Abbreviation)"
                  " VALUES (@zone, 0, 7200, 1, 'S'), (@zone, 1, 3600, 0, 'W');"
                  "INSERT INTO mysql.time_zone_transition (Time_zone_id, Transition_time, Transition_type_id)"
                  " VALUES (@zone, 1000000000, 0), (@zone, unix_timestamp() + 600, 1)",
                  zone));
  program held(
      p.command({"run", "--strategy", "unique_insert", "n", "--", "sh", "-c", "echo ready; exec sleep 100"}),
      p.variables());
  REQUIRE(held.prints("ready"));
  auto const take_at = [&](int seconds_ahead) {
    return refusal(p, fmt::format("SET time_zone = '{}', timestamp = unix_timestamp() + {}; "
                                  "INSERT INTO methodLock (method_name) VALUES ('n')",
                                  zone, seconds_ahead));
  };
  for (int const ahead : {0, 300, 900, 1800, 3600, 4500}) {
    CAPTURE(ahead);
    CHECK(has_part(take_at(ahead), "uplicate"));
  }
  CHECK(new_take(p, "n").status == 75);
}

SERVER_CASE("methodLock: a name that an old program holds is busy for new ones, and the other way round") {
  Place const p;
  make_old_table(p);
  auto const busy = new_take(p, "held before");
  CHECK(busy.status == 75);
  CHECK(busy.says("methodLock"));
  old_give_back(p, "held before");
  CHECK(new_take(p, "held before").status == 0);

  REQUIRE(old_take(p, "n"));
  CHECK_FALSE(old_take(p, "n"));
  CHECK(new_take(p, "n").status == 75);
  old_give_back(p, "n");
  program held(
      p.command({"run", "--strategy", "unique_insert", "n", "--", "sh", "-c", "echo ready; exec sleep 100"}),
      p.variables());
  REQUIRE(held.prints("ready"));
  CHECK_FALSE(old_take(p, "n"));
  held.signal(SIGTERM);
  CHECK(held.wait() == 128 + SIGTERM);
  CHECK(old_take(p, "n"));
}

SERVER_CASE("methodLock: what a new program left behind can be had by old ones when it has expired") {
  Place const p;
  make_old_table(p);
  program held(p.command({"run", "--ttl", "6s", "--strategy", "unique_insert", "n", "--", "sh", "-c",
                          "echo ready; exec sleep 100"}),
               p.variables());
  REQUIRE(held.prints("ready"));
  held.signal(SIGKILL);
  CHECK_FALSE(old_take(p, "n"));
  CHECK(within(60s, [&] { return old_take(p, "n"); }));
}

SERVER_CASE("methodLock: old and new programs that add to a number lose no update") {
  constexpr int each = 12;
  Place const p;
  make_old_table(p);
  scratch_folder folder;
  auto const file = folder.file("f");
  std::ofstream(file) << "0\n";
  auto const add = fmt::format("v=$(cat {0}); sleep 0.01; echo $((v+1)) >{0}", file);
  std::vector<std::unique_ptr<program>> all;
  {
    std::vector<std::jthread> old;
    for (int i = 0; i < 2; ++i)
      old.emplace_back([&] {
        for (int done = 0; done < each; ++done) {
          while (!old_take(p, "n")) std::this_thread::sleep_for(5ms);  // as they do
          (void)run({"/bin/sh", "-c", add}, {});
          old_give_back(p, "n");
        }
      });
    for (int i = 0; i < 2 * each; ++i)
      all.push_back(std::make_unique<program>(
          p.command({"run", "--strategy", "unique_insert", "n", "--", "sh", "-c", add}), p.variables()));
    for (auto& one : all) CHECK(one->wait() == 0);
  }
  CHECK(std::strtoll(read_file(file).c_str(), nullptr, 10) == 4 * each);
}
