// Rows of rowlock_locks that a later version, or somebody's hand, has made: none of them hides the others.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/place.hpp"

using namespace rowlock::test;
using nlohmann::json;

namespace {

std::string soon(place const& p) {
  if (p.dialect() == "sqlite") return "cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + 60000";
  return p.dialect() == "mysql" ? "utc_timestamp(6) + INTERVAL 60 SECOND"
                                : "clock_timestamp() + interval '1 minute'";
}

/// SQL for times that no program of ours writes.
words odd_times(place const& p) {
  if (p.dialect() == "sqlite") return {"9223372036854775807", "-9223372036854775807"};
  if (p.dialect() == "mysql") return {"'9999-12-31 23:59:59.999999'", "'0000-00-00'", "'0001-01-01'"};
  return {"'infinity'", "'-infinity'", "'294276-01-01'", "'4713-01-01 BC'"};
}

struct one_row {
  std::string name;
  std::string expires_at;
  std::string strategy = "lease";
  std::string takeover = "clock";
  std::string token = "1";
  std::string acquired_at = "NULL";
};

void put(place const& p, one_row const& r) {
  p.sql(fmt::format(
      "{}INSERT INTO rowlock_locks (name, strategy, term, token, owner_host, owner_pid, owner_process, "
      "owner_thread, ttl, takeover, acquired_at, expires_at) VALUES ('{}', '{}', 'term of {}', {}, 'h', "
      "1, 'p', 1, 60000, '{}', {}, {})",
      p.dialect() == "mysql" ? "SET sql_mode = ''; " : "", r.name, r.strategy, r.name, r.token, r.takeover,
      r.acquired_at, r.expires_at));
}

std::map<std::string, json> by_name(finished const& listed) {
  std::map<std::string, json> all;
  for (auto const& lock : json::parse(listed.out)) all[lock["name"]] = lock;
  return all;
}

/// What a program finds that keeps a table or numbers of locks, with `unknown` rows that can't be read.
void check_tables_and_metrics(place const& p, int unknown) {
  auto const table = p.rowlock({"list"});
  CHECK(table.status == 0);
  CHECK(table.out.find("good") != std::string::npos);
  CHECK(table.out.find("unknown") != std::string::npos);
  auto const metrics = p.rowlock({"list", "--metrics"});
  CHECK(metrics.status == 0);
  CHECK(metrics.says("warning"));
  CHECK(metric_in(metrics.out, "rowlock_locks{strategy=\"unknown\",state=\"unknown\"}") == unknown);
}

}  // namespace

CLI_CASE(
    "C24: list: a time that can't be reckoned with is one row that is unknown, and the others are listed") {
  Place const p;
  put(p, {"good", soon(p)});
  int unknown = 0;
  for (auto const& time : odd_times(p)) {
    put(p, {fmt::format("expiry {}", ++unknown), time});
    put(p, {fmt::format("start {}", unknown), soon(p), "lease", "clock", "1", time});
  }
  auto const listed = p.rowlock({"list", "--json"});
  REQUIRE(listed.status == 0);
  CHECK(listed.says("rowlock: warning: 'expiry 1' can't be read: its expires_at"));
  auto const found = by_name(listed);
  CHECK(found.size() == 1 + 2 * odd_times(p).size());
  CHECK(found.at("good").at("state") == "held");
  auto const odd = found.at("expiry 1");
  CHECK(odd.at("state") == "unknown");
  CHECK(odd.at("why").dump().find("expires_at") != std::string::npos);
  CHECK(odd.at("expires_in_ms").is_null());
  CHECK(odd.at("owner").is_null());
  for (int i = 1; i <= unknown; ++i) CHECK(found.at(fmt::format("expiry {}", i)).at("state") == "unknown");
  check_tables_and_metrics(p, p.dialect() == "mysql" ? 2 * unknown - 1 : 2 * unknown);
}

CLI_CASE("C24: run: a lock that never expires is busy, one that expired before all times can be had") {
  Place const p;
  put(p, {"for ever", odd_times(p)[0]});
  put(p, {"long ago", odd_times(p)[1]});
  CHECK(p.rowlock({"run", "--no-wait", "for ever", "--", "true"}).status == 75);
  CHECK(p.rowlock({"run", "--no-wait", "long ago", "--", "true"}).status == 0);
  CHECK(p.rowlock({"release", "for ever", "--force", "--now"}).status == 0);
  CHECK(p.rowlock({"run", "--no-wait", "for ever", "--", "true"}).status == 0);
}

CLI_CASE("C24: list: the highest token there is") {
  Place const p;
  put(p, {"n", soon(p), "lease", "clock", "9223372036854775807"});
  auto const listed = p.rowlock({"list", "--json"});
  REQUIRE(listed.status == 0);
  CHECK(by_name(listed).at("n").at("token") == 9223372036854775807LL);
  CHECK(p.rowlock({"list", "--metrics"}).status == 0);
}

CLI_CASE(
    "C25: list: a strategy, or a takeover, of a later version is one row that is unknown, with its name") {
  Place const p;
  put(p, {"good", soon(p)});
  put(p, {"later strategy", soon(p), "paxos"});
  put(p, {"later takeover", soon(p), "lease", "by vote"});
  for (auto const* all : {"--all", "--json"}) {
    auto const listed = p.rowlock({"list", "--json", all});
    REQUIRE(listed.status == 0);
    auto const found = by_name(listed);
    REQUIRE(found.size() == 3);
    CHECK(found.at("later strategy").at("state") == "unknown");
    CHECK(found.at("later strategy").at("why").dump().find("'paxos'") != std::string::npos);
    CHECK(found.at("later takeover").at("state") == "unknown");
    CHECK(listed.says("'paxos', which this version does not know"));
  }
  check_tables_and_metrics(p, 2);
  auto const refused = p.rowlock({"run", "--no-wait", "later takeover", "--", "true"});
  CHECK(refused.status == 78);
  CHECK(refused.says("'by vote'"));
}
