// list, release and migrate on real databases.

#include <fmt/format.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "cli/place.hpp"

using namespace rowlock::test;
using nlohmann::json;

namespace {

std::vector<std::string> names(finished const& r) {
  std::vector<std::string> all;
  for (auto const& lock : json::parse(r.out)) all.push_back(lock["name"]);
  return all;
}

}  // namespace

CLI_CASE("list: held ones, all with --all, only those that match a glob, and the state of each") {
  Place const p;
  CHECK(p.rowlock({"list"}).out == "NAME  STATE  OWNER  SINCE  EXPIRES-IN  TOKEN  NOTE\n");
  CHECK(p.rowlock({"list", "--json"}).out == "[]\n");
  REQUIRE(p.rowlock({"run", "idle-1", "--", "true"}).status == 0);
  holder const a(p, {"--ttl", "60s", "job-a"});
  holder const b(p, {"--ttl", "60s", "job-b"});
  holder const c(p, {"--ttl", "60s", "odd\nname"});
  using list = std::vector<std::string>;
  CHECK(names(p.rowlock({"list", "--json"})) == list{"job-a", "job-b", "odd\nname"});
  CHECK(names(p.rowlock({"list", "--json", "--all"})) == list{"idle-1", "job-a", "job-b", "odd\nname"});
  CHECK(names(p.rowlock({"list", "--json", "job-*"})) == list{"job-a", "job-b"});
  CHECK(names(p.rowlock({"list", "--json", "job-[b-z]"})) == list{"job-b"});
  auto const table = p.rowlock({"list", "--all"}).out;
  CHECK(table.find("odd\\x0aname") != std::string::npos);
  CHECK(table.find("idle-1") != std::string::npos);
  CHECK(table.find(fmt::format("pid {}", a.pid())) != std::string::npos);
  CHECK(table.find('\x1b') == std::string::npos);  // no terminal, no colours
}

CLI_CASE("list: a lock whose time is over is expired, one to be given back is revoked") {
  Place const p;
  holder const h(p, {"--ttl", "60s", "n"});
  h.signal(SIGSTOP);
  auto const state = [&] { return json::parse(p.rowlock({"list", "--json"}).out)[0]["state"]; };
  p.sql("UPDATE rowlock_locks SET revoked = (1 = 1)");
  CHECK(state() == "revoked");
  p.sql("UPDATE rowlock_locks SET expires_at = " + hours_ago(p, 1));
  CHECK(state() == "expired");
}

CLI_CASE("list: under a lock stands who waits for it, where the database tells") {
  Place const p;
  holder h(p, {"n"});
  auto const listed = [&] { return json::parse(p.rowlock({"list", "--json"}).out).at(0); };
  bool const tells = p.dialect() != "sqlite";
  CHECK(listed()["waiting"] == (tells ? json(0) : json()));
  CHECK(p.rowlock({"list"}).out.find("waiting") == std::string::npos);
  program waits(p.command({"run", "n", "--", "true"}), p.variables());
  if (tells) {
    CHECK(within(60s, [&] { return listed()["waiting"] == 1; }));
    CHECK(listed()["waiters"].at(0)["session"] > 0);
    auto const shows = [&] {
      auto const table = p.rowlock({"list"}).out;
      return table.find("\n  waiting: 1\n    database session ") != std::string::npos;
    };
    CHECK(within(60s, shows));
  }
  h.signal(SIGTERM);
  CHECK(waits.wait() == 0);
}

CLI_CASE("release: says whether somebody held it; --now frees it at once") {
  Place const p;
  auto const nobody = p.rowlock({"release", "--force", "n"});
  CHECK(nobody.status == 0);
  CHECK(nobody.out == "'n' has no holder.\n");
  holder h(p, {"--ttl", "15s", "n"});
  h.signal(SIGSTOP);  // so that it does not give it back itself
  auto const done = p.rowlock({"release", "--force", "n", "--now"});
  CHECK(done.status == 0);
  CHECK(done.out.find("former holder may still work") != std::string::npos);
  CHECK(p.rowlock({"run", "--no-wait", "n", "--", "true"}).status == 0);
  h.signal(SIGCONT);
  CHECK(h.wait() == 76);
}

CLI_CASE("release: as JSON") {
  Place const p;
  auto const nobody = json::parse(p.rowlock({"release", "--force", "n", "--json"}).out);
  CHECK(nobody["was_held"] == false);
  holder h(p, {"--ttl", "9s", "n"});
  auto const done = json::parse(p.rowlock({"--json", "release", "n", "--force"}).out);
  CHECK(done["was_held"] == true);
  CHECK(done["now"] == false);
  CHECK(done["holder"]["owner"]["pid"] == h.pid());
  CHECK(h.wait() == 76);
}

CLI_CASE("migrate: up, status, validate, down, repair, as text and as JSON") {
  Place const p(false);
  auto const up = p.rowlock({"migrate", "up", "--to", "1", "--json"});
  CHECK(json::parse(up.out)["applied"] == json::array({1}));
  auto const one = json::parse(p.rowlock({"migrate", "status", "--json"}).out);
  CHECK(one[0]["applied"] == true);
  CHECK(one[1]["applied"] == false);
  CHECK(up.err.empty());
  CHECK(json::parse(p.rowlock({"migrate", "up", "--json"}).out)["applied"] == json::array({2}));
  CHECK(p.rowlock({"migrate", "up"}).out == "Nothing to do.\n");
  CHECK(p.rowlock({"migrate", "validate"}).out == "All is well.\n");
  p.sql("DELETE FROM rowlock_migrations");
  auto const unrecorded = p.rowlock({"migrate", "validate", "--json"});
  CHECK(unrecorded.status == 78);
  CHECK(unrecorded.says("rowlock migrate up"));
  CHECK(p.rowlock({"migrate", "repair"}).status == 0);
  p.sql("UPDATE rowlock_migrations SET checksum = 'x'");
  auto const bad = p.rowlock({"migrate", "validate", "--json"});
  CHECK(bad.status == 78);
  CHECK_FALSE(json::parse(bad.out)["problems"].empty());
  CHECK(bad.says("rowlock migrate repair"));
  CHECK(p.rowlock({"migrate", "repair"}).status == 0);
  CHECK(p.rowlock({"migrate", "validate"}).status == 0);
  {
    holder const h(p, {"--ttl", "60s", "n"});
    auto const refused = p.rowlock({"migrate", "down", "--to", "0"});
    CHECK(refused.status == 75);
    CHECK(refused.says("--force"));
  }
  auto const forgets = p.rowlock({"migrate", "down", "--to", "0", "--force"});
  CHECK(forgets.status == 64);
  CHECK(forgets.says("--forget-tokens"));
  CHECK(p.rowlock({"migrate", "down", "--to", "0", "--force", "--forget-tokens"}).status == 0);
  CHECK(p.rowlock({"list"}).status == 78);
}

TEST_CASE(
    "C13: postgresql: a trigger that refuses a lock, and a function that is there already, are no bugs") {
  on_postgresql const p;
  p.sql(
      "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not here'; END $$");
  p.sql("CREATE TRIGGER no BEFORE INSERT ON rowlock_locks FOR EACH ROW EXECUTE FUNCTION no()");
  auto const refused = p.rowlock({"run", "n", "--", "true"});
  CHECK(refused.status == 78);
  CHECK(refused.says("not here"));
  CHECK(refused.says("that is not rowlock's is in the way"));
  CHECK_FALSE(refused.says("bug"));
  on_postgresql const q;
  REQUIRE(q.rowlock({"migrate", "down", "--to", "0"}).status == 0);
  q.sql("CREATE FUNCTION rowlock_renew(name text, term text) RETURNS boolean LANGUAGE sql AS 'SELECT true'");
  auto const twice = q.rowlock({"migrate", "up"});
  CHECK(twice.status == 78);
  CHECK_FALSE(twice.says("bug"));
}

CLI_CASE("migrate sql: what it prints makes the tables") {
  Place const p(false);
  auto const sql = p.rowlock({"migrate", "sql"});
  CHECK(sql.status == 0);
  CHECK(sql.out.find("CREATE TABLE") != std::string::npos);
  auto const down = p.rowlock({"migrate", "sql", "--from", "1", "--to", "0"});
  CHECK(down.out.find("DROP TABLE") != std::string::npos);
}
